"""Owns the measurement of much output on a terminal: alone, under `script -q`, and under `intentd run`.

It imports little: a process's peak of memory counts what it was forked from.
"""

import argparse
import os
import pty
import resource
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Sequence
from itertools import cycle, permutations
from pathlib import Path

from attrs import frozen

from bench.results import Result, machine, write

BYTES = 100_000_000
ROUNDS = 18
COMMAND = f"yes 'tests/test_day.py::test_the_total_of_the_day PASSED' | head -c {BYTES}"
CHUNK = 1 << 16
OUT = Path(__file__).parents[1] / "build" / "bench" / "passing.json"
RUN = (sys.executable, "-m", "intentd", "run", "--")


@frozen
class Passed:
    """How long it took until the last byte was read, and the largest process's peak of memory."""

    seconds: float
    peak_kib: int
    total: int


def passing(rounds: int = ROUNDS) -> Result:
    """Seconds for 100 MB (the median of some rounds) and the peak of memory; `script` where there is one.

    The rounds take all orders in turns: who comes behind whom makes a difference.
    """
    ways: dict[str, tuple[str, ...]] = {"alone": ("sh", "-c", COMMAND), "run": (*RUN, "sh", "-c", COMMAND)}
    if shutil.which("script"):
        ways["script"] = ("script", "-qec", COMMAND, "/dev/null")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    taken: dict[str, list[Passed]] = {name: [] for name in ways}
    for number, order in zip(range(rounds), cycle(permutations(ways)), strict=False):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for name in order:
            taken[name].append(on_a_terminal(ways[name]))
    return {
        "bytes": BYTES,
        "seconds": {name: round(statistics.median(one.seconds for one in seen), 3) for name, seen in taken.items()},
        **_to_script(taken["run"], taken.get("script", [])),
        "peak_mib": {name: round(max(one.peak_kib for one in seen) / 1024, 1) for name, seen in taken.items()},
        "read_bytes": sorted({one.total for seen in taken.values() for one in seen}),
    }


def _to_script(these: Sequence[Passed], those: Sequence[Passed]) -> Result:
    """Of the ratios in each round (the machine's own speed changes between them) the quartiles, the median apart."""
    ratios = [this.seconds / that.seconds for this, that in zip(these, those, strict=False)]
    if len(ratios) < 2:
        return {"to_script": round(ratios[0], 3) if ratios else None}
    low, median, high = (round(ratio, 3) for ratio in statistics.quantiles(ratios, method="inclusive"))
    return {"to_script": median, "to_script_half_between": [low, high]}


def on_a_terminal(words: tuple[str, ...]) -> Passed:
    """Runs it on a fresh terminal and reads all that it prints."""
    report, told = os.pipe()
    child = os.fork()
    if child == 0:  # a process of its own, so that its children's peak is theirs alone
        try:
            os.write(told, repr(_watched(words)).encode())
        finally:
            os._exit(0)
    os.close(told)
    with os.fdopen(report, "rb") as stream:
        seconds, peak, total = stream.read().decode().strip("()").split(",")
    os.waitpid(child, 0)
    return Passed(float(seconds), int(peak), int(total))


def _watched(words: tuple[str, ...]) -> tuple[float, int, int]:
    begun = time.perf_counter()
    pid, master = pty.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `yes` ends by it, as in a shell
            os.execvp(words[0], words)
        finally:
            os._exit(127)
    total = 0
    while data := _read(master):
        total += len(data)
    seconds = time.perf_counter() - begun
    os.waitpid(pid, 0)
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, total


def _read(master: int) -> bytes:
    try:
        return os.read(master, CHUNK)
    except OSError:  # how a terminal says that its other side is closed
        return b""


def main() -> None:
    name = "python -m bench.passing"
    made = argparse.ArgumentParser(prog=name, description=__doc__, epilog=f"example: {name} --rounds 7")
    made.add_argument("--rounds", type=int, default=ROUNDS, help="how often each is measured")
    made.add_argument("--out", type=Path, default=OUT, help="where the result goes")
    options = made.parse_args()
    result: Result = {"machine": machine(), **passing(options.rounds)}
    write(result, options.out)
    print(result)


if __name__ == "__main__":
    main()
