"""Engines that die under load, and a socket that is flooded with nonsense: nothing is lost, nothing ends twice."""

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
from modelwire.client import Client
from modelwire.messages import DecodeConfig, Text, Turn
from modelwire.protocol import MODELD

PROMPTS = tuple(f"{number}. def area_{number}(width, height):\n    return " * (3 + 4 * number) for number in range(6))
DECODE = DecodeConfig(max_tokens=12)
KILLS = (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV)
FUZZED = 20_000


class Daemon:
    """`modeld serve` in a directory of its own."""

    def __init__(self, directory: Path, process: asyncio.subprocess.Process) -> None:
        self.endpoint = f"ipc://{directory}/modeld.sock"
        self.process = process

    @classmethod
    async def start(cls, directory: Path, *arguments: str) -> "Daemon":
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "modeld", "serve", *arguments),
            env={**os.environ, "GUESSAHEAD_RUNTIME_DIR": str(directory), "XDG_CONFIG_HOME": str(directory)},
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr
        async with asyncio.timeout(LOST_S):
            line = await process.stderr.readline()
        assert b"serving" in line, line
        return cls(directory, process)

    async def stop(self) -> bytes:
        """Everything that it logged since it served."""
        if self.process.returncode is None:
            self.process.terminate()
        async with asyncio.timeout(LOST_S):
            return (await self.process.communicate())[1]

    @property
    def rss_mb(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/status").read_text("ascii").split("VmRSS:")[1].split()
        return int(fields[0]) / 1024


@pytest.fixture
async def directory() -> AsyncIterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="ga-"))
    yield path
    shutil.rmtree(path)


async def kill_engines(endpoint: str, times: int, chance: random.Random, signals: tuple[int, ...]) -> None:
    """Each engine at a random moment after it was ready."""
    last = 0
    async with Client(endpoint, name="the killer", timeout=LOST_S) as client:
        for _ in range(times):
            last = await engine_after(client, last)
            await asyncio.sleep(chance.uniform(0, 0.5))
            os.kill(last, chance.choice(signals))


async def engine_after(client: Client, last: int) -> int:
    """The process id of the next engine, once it works."""
    async with asyncio.timeout(LOST_S):
        while True:
            status = await client.status()
            if status.engine_pid not in (0, last) and status.state in ("idle", "busy", "guessing"):
                return status.engine_pid
            await asyncio.sleep(0.02)


@pytest.mark.timeout(900)  # a hundred engines have to start
@pytest.mark.parametrize(
    ("arguments", "kills"),
    [
        (("--backend", "fake", "--fake", json.dumps({"token_ms": 0.2, "step_ms": 4, "chunk": 64})), 70),
        pytest.param(("--context", "1024", "--chunk", "64", "--threads", "1"), 30, marks=pytest.mark.long),
    ],
    ids=["fake", "llamacpp"],
)
async def test_engines_killed_under_load_lose_no_operation_and_end_none_twice(
    directory: Path, arguments: tuple[str, ...], kills: int
) -> None:
    """S8, S9, S13: and every answer is the one that the daemon gives at rest."""
    daemon = await Daemon.start(directory, *arguments)
    tally, over, chance = Tally(), asyncio.Event(), random.Random(kills)
    try:
        answers = await answers_at_rest(daemon.endpoint, PROMPTS, DECODE)
        load = [
            asyncio.create_task(keep_asking(daemon.endpoint, tally, answers, DECODE, random.Random(seed), over))
            for seed in range(4)
        ]
        await kill_engines(daemon.endpoint, kills, chance, KILLS)
        over.set()
        await asyncio.gather(*load)
        assert await answers_at_rest(daemon.endpoint, PROMPTS[:2], DECODE) == {p: answers[p] for p in PROMPTS[:2]}
    finally:
        over.set()
        print((await daemon.stop()).decode()[-5000:])
    assert tally.faults() == {}, tally
    assert tally.operations > kills
    assert set(tally.ends) & {"end", "length"}, "nothing was ever answered"


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
