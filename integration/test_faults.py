"""Engines that die under load, and a socket that is flooded with nonsense: nothing is lost, nothing ends twice.

What became of the operations is counted twice: by clients that miss nothing, and from the daemon's own record.
"""

import asyncio
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq
import zmq.asyncio

from bench.load import LOST_S, Tally, answers_at_rest, keep_asking
from modeld.recording import read
from modeld.schedule.messages import Accept, End, Fail, OpKey
from modelwire.client import Client
from modelwire.errors import ErrorCode
from modelwire.messages import DecodeConfig, Text, Turn
from modelwire.protocol import MODELD

PROMPTS = tuple(f"{number}. def area_{number}(width, height):\n    return " * (1 + number) for number in range(6))
DECODE = DecodeConfig(max_tokens=8)
KILLS = (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV)
FUZZED = 20_000


class Daemon:
    """`modeld serve` in a directory of its own."""

    def __init__(self, directory: Path, process: asyncio.subprocess.Process) -> None:
        self.endpoint = f"ipc://{directory}/modeld.sock"
        self.process = process
        self.log = bytearray()
        self.reading: asyncio.Task[None]

    @classmethod
    async def start(cls, directory: Path, *arguments: str) -> "Daemon":
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "modeld", "serve", *arguments),
            env={**os.environ, "GUESSAHEAD_RUNTIME_DIR": str(directory), "XDG_CONFIG_HOME": str(directory)},
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr
        daemon = cls(directory, process)
        async with asyncio.timeout(LOST_S):
            while b"modeld: serving" not in (line := await process.stderr.readline()):
                assert line, daemon.log
                daemon.log += line
        daemon.reading = asyncio.create_task(daemon.read(process.stderr))
        return daemon

    async def read(self, stream: asyncio.StreamReader) -> None:
        """All the time: a daemon whose log nobody takes would wait for that."""
        while piece := await stream.read(65536):
            self.log += piece

    async def stop(self) -> bytes:
        """Everything that it logged."""
        if self.process.returncode is None:
            self.process.terminate()
        async with asyncio.timeout(LOST_S):
            await self.reading
            await self.process.wait()
        return bytes(self.log)

    @property
    def rss_mb(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/status").read_text("ascii").split("VmRSS:")[1].split()
        return int(fields[0]) / 1024


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
            os.kill(last, chance.choice(KILLS))


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


# --- nonsense ---------------------------------------------------------------------------------------------


def nonsense(chance: random.Random, valid: list[bytes]) -> list[bytes]:
    """The frames of one message that no client of ours would send."""
    data = bytearray(chance.choice(valid))
    match chance.randrange(6):
        case 0:
            return [chance.randbytes(chance.randrange(200))]
        case 1:
            return [bytes(data[: chance.randrange(len(data))])]
        case 2:
            for _ in range(chance.randint(1, 8)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            return [bytes(data)]
        case 3:
            return [bytes(data)] * chance.randint(2, 4)
        case 4:
            return [msgpack.packb({"v": chance.choice((0, 1, 2, "1")), "op": _junk(chance), "kind": _junk(chance)})]
    at = chance.randrange(len(data))
    return [bytes(data[:at] + chance.randbytes(chance.randrange(1, 20)) + data[at:])]


def _junk(chance: random.Random) -> Any:
    return chance.choice(
        ("", "turn", "hello", "x" * 65, "\0", "\ud7ff", 7, None, [], {"a": 1}, b"\xff", -(2**63), 1e308)
    )


async def flood(endpoint: str, count: int, chance: random.Random) -> int:
    """Sends nonsense and reads what is said to it; gives how many answers came."""
    turn = Turn(session="f", prefix=(Text(text="flood"),), decode=DecodeConfig(max_tokens=1), speculative=True)
    codec = MODELD.codec()
    kinds = [kind for kind in MODELD.requests if kind.__name__ in ("Hello", "Describe", "GetStatus", "Beat")]
    valid = [codec.encode("1", turn), *(codec.encode("2", kind()) for kind in kinds)]
    answered = 0
    with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.set(zmq.LINGER, 0)
        socket.connect(endpoint)
        for _ in range(count):
            async with asyncio.timeout(LOST_S):
                await socket.send_multipart(nonsense(chance, valid))
            while await socket.poll(0):
                await socket.recv_multipart()
                answered += 1
    return answered


async def test_a_flood_of_nonsense_changes_no_byte_of_anothers_stream(directory: Path) -> None:
    """S11: 20,000 messages, malformed, truncated, duplicated or senseless."""
    daemon = await Daemon.start(directory, "--backend", "fake", "--fake", json.dumps({"step_ms": 2}))
    try:
        calm = await answers_at_rest(daemon.endpoint, PROMPTS[:1], DecodeConfig(max_tokens=400))
        before = daemon.rss_mb
        floods = [asyncio.create_task(flood(daemon.endpoint, FUZZED // 4, random.Random(seed))) for seed in range(4)]
        rounds = 0
        while not all(task.done() for task in floods):
            assert await answers_at_rest(daemon.endpoint, PROMPTS[:1], DecodeConfig(max_tokens=400)) == calm
            rounds += 1
        answered = sum([await task for task in floods])
        assert rounds
        assert answered > FUZZED / 10, "most of it should have been answered with an error"
        assert daemon.rss_mb < before + 64
        async with Client(daemon.endpoint, timeout=LOST_S) as client:
            assert (await client.status()).state == "idle"
    finally:
        log = await daemon.stop()
    assert b"Traceback" not in log, log.decode()
