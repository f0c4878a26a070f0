"""Owns the recorded part of the decode bench: real edits replayed as the target text, so that drafting is judged apart
from any model's taste. It runs no model; time is modelled with the measured cost of batches.

Every target is drafted from its own prompt and the output so far, by a drafter that has seen nothing else. The lengths'
starting values were tuned on the projects in `TUNED_ON`; `held-out` is all the others together.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypedDict

import numpy as np
from attrs import frozen
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

from bench.recordings import Recording, Tokeniser, edits, novel
from bench.results import write
from modeld.slot.draft import Costs, Drafter, Lengths
from modeld.slot.draft.automaton import Automaton

Ids = np.typing.NDArray[np.int32]
Step = tuple[int, int]
"""Rows of a batch, and the tokens that it gave."""

TUNED_ON = ("httpx", "rich", "werkzeug")
CURVES = {
    # Milliseconds by rows: SmolLM2-135M Q4_0 on two CPU cores in both profiles, and what a GPU is like.
    "fast": {1: 12.4, 2: 19.2, 4: 27.0, 8: 38.0, 16: 83.0, 32: 132.0},
    "exact": {1: 14.1, 2: 22.7, 4: 38.1, 8: 65.2, 16: 122.6, 32: 250.1},
    "gpu": {1: 13.0, 2: 14.0, 4: 16.0, 8: 18.0, 16: 24.0, 32: 40.0},
}


class Row(TypedDict):
    """One group under one curve; speedups against one row a token, the last two of ours against another's."""

    targets: int
    tokens: int
    tokens_per_pass: dict[str, float]
    modelled_speedup: dict[str, float]
    of_oracle: float
    of_llama_cpp_python: float


@frozen
class Replay:
    """All steps of the four drafters on one recording and curve."""

    recording: Recording
    steps: dict[str, list[Step]]


def play(recording: Recording, draft: Callable[[Ids], Sequence[int]], observe: Callable[[Step], object]) -> list[Step]:
    """Generate the target as the decode loop does. The first token comes with the prefill."""
    target, start = recording.target, len(recording.prompt)
    tape = np.array([*recording.prompt, *target], np.int32)
    said, steps = 1, []
    while said < len(target):
        drafted = draft(tape[: start + said])
        agreed = 0
        while agreed < min(len(drafted), len(target) - said - 1) and drafted[agreed] == target[said + agreed]:
            agreed += 1
        steps.append((1 + len(drafted), 1 + agreed))
        observe(steps[-1])
        said += 1 + agreed
    return steps


def ours(recording: Recording, curve: dict[int, float]) -> list[Step]:
    drafter = new_drafter(curve)
    costs = list(drafter.lengths.costs.table)
    drafter.follow(np.array(recording.prompt, np.int32))
    drafter.begin()
    return play(
        recording,
        lambda tape: drafter.propose(tape, len(tape)),
        lambda step: drafter.observe(step[1] - 1, costs[step[0]]),
    )


def new_drafter(curve: dict[int, float]) -> Drafter:
    return Drafter(Lengths(Costs.measured({rows: ms / 1e3 for rows, ms in curve.items()})))


def llama_cpp_python(recording: Recording) -> list[Step]:
    """llama-cpp-python's own class with its defaults."""
    lookup = LlamaPromptLookupDecoding()
    return play(recording, lambda tape: lookup(tape).tolist(), lambda step: None)


def latest_3gram(recording: Recording) -> list[Step]:
    """Ten tokens after the most recent earlier occurrence of the last three."""
    latest: dict[bytes, int] = {}
    indexed = 3

    def draft(tape: Ids) -> Sequence[int]:
        nonlocal indexed
        for end in range(indexed, len(tape)):
            latest[tape[end - 3 : end].tobytes()] = end
        indexed = max(indexed, len(tape))
        found = latest.get(tape[-3:].tobytes())
        return [] if found is None else tape[found : found + 10].tolist()

    return play(recording, draft, lambda step: None)


def oracle(recording: Recording, longest: int) -> list[Step]:
    """Always the longest span of the context that agrees with the target, at most `longest`, and not a row more."""
    context, target = Automaton(), list(recording.target)
    for token in [*recording.prompt, target[0]]:
        context.append(token)
    said, steps = 1, []
    while said < len(target):
        agreed = min(context.reach(target[said : said + longest]), len(target) - said - 1)
        steps.append((1 + agreed, 1 + agreed))
        for token in target[said : said + 1 + agreed]:
            context.append(token)
        said += 1 + agreed
    return steps


def replay_all(recordings: Sequence[Recording], curves: dict[str, dict[int, float]]) -> dict[str, list[Replay]]:
    """The replays by curve: our drafts depend on it, and how long any may be."""
    longest = {name: Costs.measured(curve).longest for name, curve in curves.items()}
    found: dict[str, list[Replay]] = {name: [] for name in curves}
    for one in recordings:
        fixed = {"llama_cpp_python": llama_cpp_python(one), "latest_3gram": latest_3gram(one)}
        oracles = {limit: oracle(one, limit) for limit in set(longest.values())}
        for name, curve in curves.items():
            found[name].append(Replay(one, {"ours": ours(one, curve), **fixed, "oracle": oracles[longest[name]]}))
    return found


def row(replays: Sequence[Replay], curve: dict[int, float]) -> Row:
    """One row of the result: all replays of a group under one curve."""
    costs = Costs.measured(curve).table
    single = sum(costs[1] * (len(replay.recording.target) - 1) for replay in replays)
    passes: dict[str, float] = {}
    speedup: dict[str, float] = {}
    for name in ("ours", "llama_cpp_python", "latest_3gram", "oracle"):
        steps = [step for replay in replays for step in replay.steps[name]]
        passes[name] = round(sum(gave for _, gave in steps) / len(steps), 3)
        speedup[name] = single / sum(costs[rows] for rows, _ in steps)
    return {
        "targets": len(replays),
        "tokens": sum(len(replay.recording.target) for replay in replays),
        "tokens_per_pass": passes,
        "modelled_speedup": {name: round(value, 3) for name, value in speedup.items()},
        "of_oracle": round(speedup["ours"] / speedup["oracle"], 3),
        "of_llama_cpp_python": round(speedup["ours"] / speedup["llama_cpp_python"], 3),
    }


def rows(replays: dict[str, list[Replay]], curves: dict[str, dict[int, float]], all_groups: bool) -> dict[str, Row]:
    """Rows keyed `group/curve`; with `all_groups` also those of the held-out and of all groups."""
    result: dict[str, Row] = {}
    for name, found in replays.items():
        groups = {group: [one for one in found if one.recording.group == group] for group in group_names(found)}
        if all_groups:
            groups["held-out"] = [one for one in found if one.recording.group not in TUNED_ON]
            groups["all"] = found
        result |= {f"{group}/{name}": row(members, curves[name]) for group, members in groups.items()}
    return result


def group_names(replays: Sequence[Replay]) -> list[str]:
    return sorted({replay.recording.group for replay in replays})


def drafting_time(recordings: Sequence[Recording], curve: dict[int, float]) -> dict[str, float]:
    """Microseconds of CPU a token that drafting adds, at a tape of 8k tokens: in prefill and in generation."""
    recording = max(recordings, key=lambda one: len(one.target))
    others = [token for one in recordings for token in one.prompt][: 8_192 - len(recording.prompt)]
    tape = np.array([*others, *recording.prompt], np.int32)
    drafter, spent = new_drafter(curve), 0.0
    costs = list(drafter.lengths.costs.table)

    def timed(call: Callable[[], Sequence[int] | None]) -> Sequence[int]:
        nonlocal spent
        begun = time.thread_time()
        drafted = call()
        spent += time.thread_time() - begun
        return drafted or ()

    for end in range(512, len(tape) + 512, 512):
        timed(partial(drafter.follow, tape[:end]))
    prefill, spent = spent, 0.0
    drafter.begin()
    play(
        Recording(recording.group, tape.tolist(), recording.target),
        lambda history: timed(lambda: drafter.propose(history, len(history))),
        lambda step: timed(lambda: drafter.observe(step[1] - 1, costs[step[0]])),
    )
    return {
        "tape_tokens": len(tape),
        "prefill_us_per_token": round(prefill / len(tape) * 1e6, 2),
        "generation_us_per_token": round(spent / len(recording.target) * 1e6, 2),
    }


def curves_from(path: Path | None) -> dict[str, dict[int, float]]:
    """The curves above, those in the file instead where it has them: {"fast": {"1": milliseconds, …}, …}."""
    if path is None:
        return CURVES
    measured = {name: {int(n): ms for n, ms in curve.items()} for name, curve in json.loads(path.read_text()).items()}
    return {name: measured.get(name, curve) for name, curve in CURVES.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Replay recorded edits with modelled batch costs.")
    parser.add_argument("--costs", type=Path, help="JSON of measured curves, in milliseconds by rows")
    parser.add_argument("--output", type=Path, default=Path("build/bench/decode_recorded.json"))
    arguments = parser.parse_args()
    curves = curves_from(arguments.costs)
    tokeniser = Tokeniser()
    recorded, fresh = edits(tokeniser), novel(tokeniser)
    parts = {
        "recorded": rows(replay_all(recorded, curves), curves, all_groups=True),
        "novel": rows(replay_all(fresh, curves), curves, all_groups=False),
    }
    drafting = drafting_time(recorded, curves["fast"])
    result = {**parts, "tuned_on": TUNED_ON, "curves_ms": curves, "drafting": drafting}
    write(result, arguments.output)
    for part, found in parts.items():
        for key, line in found.items():
            print(f"{part:8} {key:18} {shown(line)}")
    print(f"drafting: {drafting}")


def shown(line: Row) -> str:
    """A row in words."""
    return (
        f"{line['tokens_per_pass']['ours']:6.2f} tokens a pass, speedup {line['modelled_speedup']['ours']:5.2f},"
        f" of the oracle's {line['of_oracle']:.3f}, of llama-cpp-python's {line['of_llama_cpp_python']:.2f}"
    )


if __name__ == "__main__":
    main()
