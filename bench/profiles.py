"""Owns the measurement of the profiles: what `exact` costs beside `fast`, and what resident tapes cost a step.

Both profiles are loaded at once, in this process. Every chunk of a cold prefill and every decode step is done in the
one and then in the other, so that whatever else the machine does meets both. It is done on the packaged model and on
one of a size that people use, whose weights are random.
"""

import argparse
import inspect
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from importlib.metadata import version
from itertools import cycle, islice
from pathlib import Path
from typing import Literal

import numpy as np

from bench import plot
from bench.daemons import progress, show
from bench.options import parser, require
from bench.results import Result, machine, write
from modeld.backends.base import Ids
from modeld.backends.flag import LocalFlag
from modeld.backends.llamacpp import LlamaBackend, load
from modeld.backends.llamacpp.loading import LlamaSettings
from modeld.backends.llamacpp.quantiser import quantise
from modeld.models.packaged import packaged
from modeld.models.requantised import requantised

Profile = Literal["exact", "fast"]
PROFILES: tuple[Profile, ...] = ("exact", "fast")
DEPTH = 1024
OTHERS = (0, 2048, 4096, 6144)
"""Cells that other tapes hold."""
ENOUGH = 0.65
"""Of the fast prefill rate: `exact` is the default where it reaches this."""


def _random() -> Path:
    from bench.random_model import random_model  # it needs what `require` asks for

    return random_model()


MODELS: dict[str, Callable[[], Path]] = {
    "packaged": lambda: requantised(packaged(), quantise),
    "random": _random,
}


class Pair:
    """One model in both profiles, which take turns."""

    def __init__(self, backends: Mapping[Profile, LlamaBackend]) -> None:
        self._backends = backends
        self._turns: Iterator[Sequence[Profile]] = cycle((PROFILES, PROFILES[::-1]))
        some = backends["exact"]
        self.text: Ids = np.array(some.vocabulary.tokenise(inspect.getsource(argparse)), np.int32)
        self.model = some.model

    def prefill(self, tokens: int) -> dict[Profile, list[float]]:
        """Seconds from nothing to the end of each chunk, on the first sequence, which is left filled."""
        spent: dict[Profile, list[float]] = {profile: [0.0] for profile in PROFILES}
        self.drop(0)
        for start in range(0, tokens, self._backends["exact"].chunk):
            for profile in next(self._turns):
                took = self._extend(profile, min(start + self._backends[profile].chunk, tokens), start)
                spent[profile].append(spent[profile][-1] + took)
        return {profile: ends[1:] for profile, ends in spent.items()}

    def steps(self, count: int) -> dict[Profile, list[float]]:
        """Seconds of the step after `DEPTH` positions of the first sequence, done again and again."""
        took: dict[Profile, list[float]] = {profile: [] for profile in PROFILES}
        for turn in islice(self._turns, count):
            for profile in turn:
                self._backends[profile].trim(0, DEPTH)
                took[profile].append(self._extend(profile, DEPTH + 1, DEPTH))
        return took

    def surround(self, others: int, below: bool) -> None:
        """Beside the first sequence, cut to `DEPTH`, others of that length, which lie below or above it."""
        for backend in self._backends.values():
            state = backend.save(0, DEPTH)
            for sequence in range(backend.sequences):
                backend.drop(sequence)
            around = range(1, 1 + others // DEPTH)
            for sequence in (*around, 0) if below else (0, *around):
                backend.load(sequence, state, DEPTH)

    def drop(self, sequence: int) -> None:
        for backend in self._backends.values():
            backend.drop(sequence)

    def _extend(self, profile: Profile, end: int, start: int) -> float:
        began = time.perf_counter()
        self._backends[profile].extend(0, self.text[:end], start, 1)
        return time.perf_counter() - began


def measure(path: Path, options: argparse.Namespace) -> Result:
    with ExitStack() as open_ones:
        pair = Pair(
            {profile: open_ones.enter_context(closing(_loaded(path, profile, options))) for profile in PROFILES}
        )
        pair.prefill(32)  # the first touch of the weights
        runs = []
        for number in range(options.pairs):
            show(f"{path.name}: prefill {number + 1} of {options.pairs}")
            runs.append(pair.prefill(options.tokens))
        residents = list(_residents(pair, path, options))
        pair.drop(0)
    chunk = LlamaSettings().chunk
    lengths = [min(end, options.tokens) for end in range(chunk, options.tokens + chunk, chunk)]
    return {
        "file": path.name,
        "parameters": pair.model.parameters,
        "quantisation": pair.model.quantisation,
        "prefill": [_rates(runs, at, tokens) for at, tokens in enumerate(lengths)],
        "step": {"depth": DEPTH, **{f"{profile}_ms": residents[0][f"{profile}_ms"] for profile in PROFILES}},
        "residents": residents,
    }


def _loaded(path: Path, profile: Profile, options: argparse.Namespace) -> LlamaBackend:
    settings = LlamaSettings(
        profile=profile, context=options.tokens + 64, extra_cells=max(OTHERS), sequences=8, threads=options.threads
    )
    return load(path, settings, LocalFlag())


def _rates(runs: Sequence[Mapping[Profile, Sequence[float]]], at: int, tokens: int) -> Result:
    """The ratio is the median of those of the pairs."""
    ratios = [run["fast"][at] / run["exact"][at] for run in runs]
    return {
        "tokens": tokens,
        **{f"{profile}_per_s": round(tokens / min(run[profile][at] for run in runs), 1) for profile in PROFILES},
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }


def _residents(pair: Pair, path: Path, options: argparse.Namespace) -> Iterator[dict[str, object]]:
    for others in OTHERS:
        for where in ("below", "above") if others else ("nowhere",):
            show(f"{path.name}: a step beside {others} other cells, {where}")
            pair.surround(others, where == "below")
            steps = pair.steps(options.steps)
            told = {f"{profile}_ms": round(1000 * statistics.median(steps[profile]), 2) for profile in PROFILES}
            yield {"other_cells": others, "where": where, **told}


def table(result: Mapping[str, object]) -> str:
    """What of it a reader wants to see."""
    lines = []
    models = result["models"]
    assert isinstance(models, list)
    for model in models:
        lines += ["", f"{model['file']}, {model['parameters'] / 1e6:.0f} million parameters"]
        lines += ["| cold prefill, tokens | `exact`, tok/s | `fast`, tok/s | ratio |", "|---|---|---|---|"]
        lines += [
            f"| {row['tokens']:,} | {row['exact_per_s']} | {row['fast_per_s']} | {row['ratio']:.2f} |"
            for row in model["prefill"]
        ]
        lines += ["| other cells | where | `exact`, ms a step | `fast`, ms a step |", "|---|---|---|---|"]
        lines += [
            f"| {row['other_cells']:,} | {row['where']} | {row['exact_ms']} | {row['fast_ms']} |"
            for row in model["residents"]
        ]
    return "\n".join(lines)


def run(options: argparse.Namespace) -> Result:
    """Written after each model, since the last one takes minutes."""
    names = ("modeld", "llama-cpp-python", "gguf")
    models: list[Result] = []
    result: Result = {
        "machine": machine(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in names}},
        "command": " ".join(["python -m bench.profiles", *sys.argv[1:]]),
        "threads": options.threads,
        "enough": ENOUGH,
        "models": models,
    }
    for path in _chosen(options):
        models.append(measure(path, options))
        write(result, options.out)
    return result


def _chosen(options: argparse.Namespace) -> Iterator[Path]:
    if options.model:
        yield options.model
    else:
        yield from (MODELS[name]() for name in ([options.only] if options.only else MODELS))


def main() -> int:
    made = parser("bench.profiles", __doc__, "--only packaged --pairs 1")
    made.add_argument("--model", type=Path, help="a GGUF file; without it the packaged model and one of random weights")
    made.add_argument("--only", choices=MODELS, help="one of the two")
    made.add_argument("--pairs", type=int, default=3, help="cold prefills in each profile")
    made.add_argument("--tokens", type=int, default=2048, help="of each prefill")
    made.add_argument("--steps", type=int, default=20, help="decode steps for each figure")
    made.add_argument("--threads", type=int, default=LlamaSettings().threads)
    options = made.parse_args()
    require("gguf", "matplotlib")
    if options.tokens < DEPTH:
        made.error(f"--tokens must be at least {DEPTH}: steps are measured at that depth")
    result = run(options)
    progress("")
    picture = plot.draw_profiles(result, options.out.with_suffix(".png"))
    print(f"{table(result)}\n\nwrote {options.out} and {picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
