"""Owns the soak: both daemons under a mixed load for minutes, while engines are killed and clients vanish.

It counts what became of every operation, watches memory and descriptors of front, engine and intentd, and looks for
what the daemons leave behind when they stop: processes, sockets, shared memory.
"""

import asyncio
import itertools
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from attrs import define, field

from bench.daemons import BIN, daemon, private_runtime, show, wait_until
from bench.load import Tally, answers_at_rest, keep_asking
from bench.options import add_model, logs_of, model_of, modeld, parser
from bench.results import header, write
from bench.workshop import Workshop
from modelwire.client import Client
from modelwire.messages import DecodeConfig, Description

CLIENTS = 4
KILL_EVERY_S = (4.0, 12.0)
WATCH_EVERY_S = 5.0
PROMPTS = tuple(f"{number}. def area_{number}(width, height):\n    return " * (3 + 6 * number) for number in range(8))
DECODE = DecodeConfig(max_tokens=24)
KILLS = (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV)
PROMISES = {
    "S8": "every operation ended exactly once (lost, doubled)",
    "S9": "nothing came after a confirmed cancel (late)",
    "S4, S11, S13": "every answer was the one of the daemon at rest, also after engines died (wrong)",
}


@define
class Watch:
    """Resident memory (MiB) and open descriptors of the long-lived processes, over time."""

    front: int
    intentd: int
    samples: list[dict[str, float]] = field(factory=list)

    def look(self, engine: int, elapsed: float) -> None:
        row = {"at_s": round(elapsed, 1)}
        for name, pid in (("front", self.front), ("engine", engine), ("intentd", self.intentd)):
            try:
                row |= {f"{name}_rss_mb": rss_mb(pid), f"{name}_fds": len([*Path(f"/proc/{pid}/fd").iterdir()])}
            except OSError:  # an engine that was killed just now
                continue
        self.samples.append(row)

    def ends(self, kind: str) -> dict[str, dict[str, float]]:
        """Median of the first and of the last fifth of the samples, of front, engine and intentd."""
        found = {}
        for name in ("front", "engine", "intentd"):
            series = [sample[f"{name}_{kind}"] for sample in self.samples if f"{name}_{kind}" in sample]
            part = max(1, len(series) // 5)
            if series:
                found[name] = {"start": _middle(series[:part]), "end": _middle(series[-part:])}
        return found


def _middle(values: Sequence[float]) -> float:
    return round(sorted(values)[len(values) // 2], 1)


def rss_mb(pid: int) -> float:
    """Raises OSError for one that has ended, also where it is not yet reaped."""
    _, found, rest = Path(f"/proc/{pid}/status").read_text("ascii").partition("VmRSS:")
    if not found:
        raise ProcessLookupError(f"process {pid} has ended")
    return int(rest.split()[0]) / 1024


async def kill_engines(endpoint: str, chance: random.Random, over: asyncio.Event) -> int:
    """Now and then, by a signal drawn by chance. Gives how many."""
    killed = 0
    async with Client(endpoint, name="the killer", timeout=60) as client:
        while not await _over_within(over, chance.uniform(*KILL_EVERY_S)):
            status = await client.status()
            if status.engine_pid and status.state in ("idle", "busy", "guessing"):
                os.kill(status.engine_pid, chance.choice(KILLS))
                killed += 1
    return killed


async def watch(endpoint: str, watched: Watch, over: asyncio.Event) -> None:
    began = time.monotonic()
    async with Client(endpoint, name="the watch", timeout=60) as client:
        while not await _over_within(over, WATCH_EVERY_S):
            watched.look((await client.status()).engine_pid, time.monotonic() - began)
            show(f"{time.monotonic() - began:.0f} s, {len(watched.samples)} looks")


async def break_tests(folder: Path, over: asyncio.Event) -> int:
    """Failing and mended tests under `intentd run`, so that intentd has something to guess. Gives how many runs."""
    workshop = await asyncio.to_thread(Workshop.make, folder)
    for day in itertools.count(1):
        if over.is_set():
            return 2 * (day - 1)
        await asyncio.to_thread(workshop.break_it, day)
        await asyncio.to_thread(workshop.test)
        await asyncio.to_thread(workshop.mend, day)
        await asyncio.to_thread(workshop.test)
        await _over_within(over, 5.0)
    raise AssertionError


async def _over_within(over: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await over.wait()
    except TimeoutError:
        return False
    return True


async def soak(endpoint: str, seconds: float, watched: Watch, folder: Path, seed: int) -> tuple[Tally, int, int]:
    """What became of the operations, how many engines were killed, how many commands were run."""
    tally, over = Tally(), asyncio.Event()
    answers = await answers_at_rest(endpoint, PROMPTS, DECODE)
    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            chance = random.Random(seed * CLIENTS + number)
            group.create_task(keep_asking(endpoint, tally, answers, DECODE, chance, over))
        killing = group.create_task(kill_engines(endpoint, random.Random(seed), over))
        running = group.create_task(break_tests(folder, over))
        group.create_task(watch(endpoint, watched, over))
        await asyncio.sleep(seconds)
        over.set()
    return tally, killing.result(), running.result()


def leaked(before: set[str], runtime: Path) -> list[str]:
    """Processes and sockets of this run that are still there, and shared memory that was not there before."""
    left = [f"process {pid}" for pid in _processes(runtime)]
    left += [f"socket {path.name}" for path in runtime.rglob("*") if path.is_socket()]
    return left + [f"shared memory {name}" for name in _shared_memory() if name not in before]


def _processes(runtime: Path) -> Iterator[str]:
    """Those that were started with this run's directory of sockets."""
    mark = f"GUESSAHEAD_RUNTIME_DIR={runtime}".encode()
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and mark in (folder / "environ").read_bytes().split(b"\0"):
                yield folder.name


def _shared_memory() -> list[str]:
    folder = Path("/dev/shm")
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def main() -> int:
    made = parser("bench.soak", __doc__, "--seconds 60")
    add_model(made)
    made.add_argument("--seconds", type=float, default=600.0, help="how long the load lasts (600)")
    options = made.parse_args()
    with private_runtime() as runtime:
        before = set(_shared_memory())
        with ExitStack() as stack:
            front = stack.enter_context(modeld(options, model_of(options)))
            command = [str(BIN / "intentd"), "serve"]
            guesser = stack.enter_context(daemon("intentd", command, logs_of(options)))
            wait_until((runtime / "intentd.sock").is_socket, guesser, "starting intentd")
            watched = Watch(front.process.pid, guesser.process.pid)
            endpoint = f"ipc://{runtime}/modeld.sock"
            description = asyncio.run(_description(endpoint))
            tally, killed, commands = asyncio.run(
                soak(endpoint, options.seconds, watched, runtime / "workshop", options.seed)
            )
        left = leaked(before, runtime)
    faults = tally.faults()
    result = {
        **header("bench.soak", description, str(options.model or "packaged")),
        "seconds": options.seconds,
        **tally.as_json(),
        "preemptions": tally.preempted,
        "engines_killed": killed,
        "commands_run": commands,
        "errors": {name: count for name, count in tally.ends.items() if name not in ("end", "length", "stop")},
        "rss_mb": watched.ends("rss_mb"),
        "fds": watched.ends("fds"),
        "samples": watched.samples,
        "promises": PROMISES,
        "leaked": len(left),
        "left": left,
    }
    write(result, options.out)
    _report(tally, killed, watched, faults, left, options.out)
    return 1 if faults or left else 0


async def _description(endpoint: str) -> Description:
    async with Client(endpoint, name="soak", timeout=60) as client:
        return await client.describe()


def _report(tally: Tally, killed: int, watched: Watch, faults: dict[str, int], left: list[str], target: Path) -> None:
    print(f"{tally.operations:,} operations, {tally.preempted:,} preempted, {killed} engines killed")
    print("ends: " + ", ".join(f"{count} {name}" for name, count in sorted(tally.ends.items())))
    for kind in ("rss_mb", "fds"):
        for name, row in watched.ends(kind).items():
            print(f"{kind:<7} {name:<8} {row['start']:>8} → {row['end']:>8}")
    print(f"lost {tally.lost}, doubled {tally.doubled}, leaked {len(left)}")
    if faults or left:
        print(f"NOT WELL: {faults} {left}", file=sys.stderr)
    print(f"wrote {target}")


if __name__ == "__main__":
    sys.exit(main())
