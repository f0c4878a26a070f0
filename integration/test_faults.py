"""Engines that die under load: nothing is lost, nothing ends twice.

What became of the operations is counted twice: by clients that miss nothing, and from the daemon's own record.
"""

import asyncio
import json
import random
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.load import LOST_S, Tally, answers_at_rest, keep_asking
from integration.served import Daemon, hit
from modeld.recording import read
from modeld.schedule.messages import Accept, End, Fail, OpKey
from modelwire.client import Client
from modelwire.errors import ErrorCode
from modelwire.messages import DecodeConfig

PROMPTS = tuple(f"{number}. def area_{number}(width, height):\n    return " * (1 + number) for number in range(6))
DECODE = DecodeConfig(max_tokens=8)
KILLS = (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV)


@pytest.fixture
async def directory() -> AsyncIterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="ga-"))
    yield path
    shutil.rmtree(path)


async def kill_engines(endpoint: str, tally: Tally, times: int, chance: random.Random) -> None:
    """Each engine at a random moment: while it loads, when it is ready, or while it works: prefills, forks, generates.

    One that ends no operation makes the next one wait longer; so most are let end some.
    """
    last = 0
    async with Client(endpoint, name="the killer", timeout=LOST_S) as client:
        for _ in range(times):
            moment = chance.choice(("loading", "ready", "working", "working", "working"))
            last = await engine_after(client, last, loading=moment == "loading")
            if moment == "working":
                await another_end(tally)
            await asyncio.sleep(chance.uniform(0, 0.2))
            hit(last, chance.choice(KILLS))


async def engine_after(client: Client, last: int, *, loading: bool) -> int:
    """The process id of the next engine, once it works, or as soon as it loads."""
    async with asyncio.timeout(LOST_S):
        while True:
            status = await client.status()
            if status.engine_pid not in (0, last) and (loading or status.state in ("idle", "busy", "guessing")):
                return status.engine_pid
            await asyncio.sleep(0.02)


async def another_end(tally: Tally) -> None:
    before = tally.ends.total()
    async with asyncio.timeout(LOST_S):
        while True:
            if tally.ends.total() > before:
                return
            await asyncio.sleep(0.02)


def never_ended(record: Path) -> set[OpKey]:
    """By the daemon's own record. Raises AssertionError for an operation that ended twice."""
    live: set[OpKey] = set()
    for segment in read(record):
        for command in (command for entry in segment.entries for command in entry.commands or ()):
            if isinstance(command, Accept):
                assert command.key not in live
                live.add(command.key)
            elif isinstance(command, End) or (isinstance(command, Fail) and command.code not in _REFUSALS):
                assert command.key in live
                live.remove(command.key)
    return live


_REFUSALS = {ErrorCode.DUPLICATE_OP, ErrorCode.OVERLOADED}


@pytest.mark.timeout(900)  # a hundred engines have to start
@pytest.mark.parametrize(
    ("arguments", "kills"),
    [
        (("--backend", "fake", "--fake", json.dumps({"token_ms": 0.2, "step_ms": 4, "chunk": 64})), 70),
        (("--context", "512", "--extra-cells", "512", "--chunk", "64", "--threads", "1", "--draft", "off"), 30),
    ],
    ids=["fake", "llamacpp"],
)
async def test_engines_killed_under_load_lose_no_operation_and_end_none_twice(
    directory: Path, arguments: tuple[str, ...], kills: int
) -> None:
    """S8, S9, S13: and every answer is the one that the daemon gives at rest."""
    record = directory / "events.jsonl"
    daemon = await Daemon.start(directory, *arguments, "--record", str(record), "--log-level", "DEBUG")
    tally, over, chance = Tally(), asyncio.Event(), random.Random(kills)
    try:
        answers = await answers_at_rest(daemon.endpoint, PROMPTS, DECODE)
        load = [
            asyncio.create_task(keep_asking(daemon.endpoint, tally, answers, DECODE, random.Random(seed), over))
            for seed in range(4)
        ]
        await kill_engines(daemon.endpoint, tally, kills, chance)
        over.set()
        await asyncio.gather(*load)
        assert await answers_at_rest(daemon.endpoint, PROMPTS[:2], DECODE) == {p: answers[p] for p in PROMPTS[:2]}
    finally:
        over.set()
        log = await daemon.stop()
        print(log.decode()[-5000:], tally)
    assert tally.faults() == {}, tally
    assert tally.operations > kills
    assert set(tally.ends) & {"end", "length"}, "nothing was ever answered"
    assert not never_ended(record)
    assert b"area_" not in log + record.read_bytes(), "a prompt is in the log or the record"
