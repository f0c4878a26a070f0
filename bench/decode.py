"""Owns the measurement of decoding with drafts: on the real model beside the peers, and on recorded edits.

On the real model every task is answered in pairs, without and with drafts, and by llama-cpp-python's prompt lookup and
a llama-server with n-gram drafts, in both profiles. What real edits would give is modelled from the measured cost of
batches (`bench.decode_recorded`): the packaged model is too small to make any.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from bench import batch_costs, decode_openvino, decode_recorded, plot
from bench.corpus.tasks import Task, tasks
from bench.daemons import private_runtime, progress, show
from bench.decode_pairs import Generator, Played, Players
from bench.decode_rows import Row, row, rows
from bench.lookup import LookupSettings, lookup
from bench.options import add_model, logs_of, model_of, modeld, parser, require
from bench.peer import PeerSettings, peer
from bench.recordings import Tokeniser, edits, novel
from bench.results import Result, header, write
from modeld.slot.draft import Costs
from modelwire import Client

PROFILES = ("exact", "fast")
LOOKUP: dict[str, Any] = {"drafted": 2}
SERVER: dict[str, Any] = {"drafts": "ngram_simple", "match": 12, "drafted": 48}
"""What is best for each of the peers here, as `python -m bench.peer_drafts` finds it."""
PYTHON = "llama-cpp-python"
Peers = tuple[Mapping[str, Generator], Mapping[str, Generator]]


@frozen(kw_only=True)
class Plan:
    """How much is measured. `every`: of the recordings, one in so many."""

    tasks: Sequence[Task]
    tokens: int
    sampled_tokens: int
    reps: int
    cost_reps: int
    every: int

    @classmethod
    def of(cls, options: argparse.Namespace) -> "Plan":
        found = [task for task in tasks() if task.group.startswith(options.groups)]
        if options.quick:
            firsts = {task.group: task for task in reversed(found)}
            chosen = [task for task in found if firsts[task.group] is task]
            return cls(tasks=chosen, tokens=min(100, options.tokens), sampled_tokens=40, reps=1, cost_reps=5, every=8)
        return cls(
            tasks=found,
            tokens=options.tokens,
            sampled_tokens=options.tokens // 2,
            reps=options.reps,
            cost_reps=15,
            every=1,
        )


@contextmanager
def peers_of(options: argparse.Namespace, model: Path) -> Iterator[Peers]:
    """With drafts, and without. llama-cpp-python is measured both ways, in one process."""
    shared: dict[str, Any] = {"threads": options.threads, "context": 4096}
    logs = logs_of(options)
    with (
        lookup(model, LookupSettings(**shared, **LOOKUP), logs / "lookup.log") as python,
        peer(model, PeerSettings(**shared, **SERVER), logs / "peer-decode.log") as server,
    ):
        yield {PYTHON: python, "llama-server": server}, {PYTHON: evolve(python, drafting=False)}


async def play(plan: Plan, profile: str, file: str, peers: Peers) -> tuple[Result, list[Played]]:
    begun, played = time.monotonic(), list[Played]()
    async with Client(name="bench", timeout=120) as client:
        description = await client.describe()
        origin = header("bench.decode", description, file, ("llama-cpp-python", "xllamacpp"))
        drafting, alone = peers
        players = Players(client, drafting, alone, plan.tokens, plan.sampled_tokens, plan.reps)
        for number, task in enumerate(plan.tasks):
            elapsed = time.monotonic() - begun
            show(f"{profile} {elapsed:4.0f} s  {number + 1} of {len(plan.tasks)}: {task.group} {task.name}")
            played.append(await players.play(task))
    return origin, played


def on_the_model(options: argparse.Namespace, plan: Plan, profile: str) -> tuple[Result, list[Played]]:
    model = model_of(options)
    with (
        private_runtime(),
        modeld(options, model, f"modeld-{profile}", profile=profile),
        peers_of(options, model) as peers,
    ):
        return asyncio.run(play(plan, profile, model.name, peers))


def on_recordings(plan: Plan, curves: dict[str, dict[int, float]]) -> Result:
    """The recorded part, with this machine's curves: to 32 rows as the GPU-like one, and with what a tile costs."""
    curves = {name: {rows: ms for rows, ms in curve.items() if rows <= 32} for name, curve in curves.items()} | {
        "tiles": curves["fast"]
    }
    tokeniser = Tokeniser()
    recorded, fresh = edits(tokeniser)[:: plan.every], novel(tokeniser)[:: plan.every]
    return {
        "recorded": decode_recorded.rows(decode_recorded.replay_all(recorded, curves), curves, all_groups=True),
        "recorded_novel": decode_recorded.rows(decode_recorded.replay_all(fresh, curves), curves, all_groups=False),
        "tuned_on": decode_recorded.TUNED_ON,
        "drafting": decode_recorded.drafting_time(recorded, curves["tiles"]),
    }


def run(options: argparse.Namespace) -> Result:
    plan, model = Plan.of(options), model_of(options)
    curves, origin = dict(decode_recorded.CURVES), Result()
    parts, single = dict[str, object](), dict[str, dict[str, Row]]()
    for profile in options.profiles:
        show(f"the cost of batches, {profile}")
        curves[profile] = batch_costs.measured(model, profile, options.threads, plan.cost_reps)
        costs = Costs.measured({width: ms / 1000 for width, ms in curves[profile].items()})
        origin, played = on_the_model(options, plan, profile)
        parts[profile] = rows(played, costs)
        single[profile] = {
            f"{one.task.group} {one.task.name}": {**row([one], costs), "answer": one.answer.text} for one in played
        }
    show("recorded edits")
    return {
        **{name: value for name, value in origin.items() if name != "profile"},
        "threads": options.threads,
        "context": options.context,
        "quick": options.quick,
        "repetitions": plan.reps,
        "tokens": plan.tokens,
        "curves_ms": curves,
        "peers": {"llama-cpp-python": LOOKUP, "llama-server": SERVER},
        **parts,
        **on_recordings(plan, curves),
        "tasks": single,
    }


COLUMNS = ("speedup", "peer_speedup", "cap", "of_cap", "tokens_per_pass", "identical", "differing_tokens")


OPENVINO_COLUMNS = ("speedup", "least_speedup", "tokens_per_pass", "identical", "differing_tokens", "sampled_identical")


def markdown(part: Mapping[str, Row], columns: Sequence[str] = COLUMNS) -> str:
    lines = [" | ".join(["group", *columns]), " | ".join(["---", *("---:" for _ in columns)])]
    lines += [" | ".join([group, *(f"{one[name]:g}" for name in columns)]) for group, one in part.items()]
    return "\n".join(f"| {line} |" for line in lines)


def main() -> int:
    made = parser("bench.decode", __doc__, "--quick --groups copy-rename,novel")
    made.add_argument("--reps", type=int, default=2, help="pairs for every task")
    made.add_argument("--tokens", type=int, default=100, help="of an answer")
    made.add_argument("--quick", action="store_true", help="one task of each group, short answers, few recordings")
    made.add_argument("--groups", type=_words, default=("",), help="beginnings of group names, with commas")
    made.add_argument("--profiles", type=_words, default=PROFILES, help="exact, fast or both, with a comma")
    add_model(made)
    options = made.parse_args()
    if options.backend == "openvino":
        return of_openvino(options)
    require("xllamacpp", "matplotlib")
    result = run(options)
    progress("")
    write(result, options.out)
    picture = plot.draw_decode(result, options.out.with_suffix(".png"))
    for profile in options.profiles:
        print(f"\n{profile}\n\n{markdown(result[profile])}")  # type: ignore[arg-type]
    for key, line in result["recorded"].items():  # type: ignore[attr-defined]
        print(f"{key:18} {decode_recorded.shown(line)}")
    print(f"drafting: {result['drafting']}\nwrote {options.out} and {picture}")
    return 0


def of_openvino(options: argparse.Namespace) -> int:
    plan = Plan.of(options)
    result = decode_openvino.run(evolved(options, plan), plan.tasks)
    progress("")
    write(result, options.out)
    for profile in options.profiles:
        part: Mapping[str, Row] = result[profile]  # type: ignore[assignment]
        print(f"\n{profile}\n\n{markdown(part, OPENVINO_COLUMNS)}")
    print(f"wrote {options.out}")
    return 0


def evolved(options: argparse.Namespace, plan: Plan) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(options), "tokens": plan.tokens, "reps": plan.reps})


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


if __name__ == "__main__":
    sys.exit(main())
