"""Requests that are nonsense, or come late, twice or in halves: they harm nobody, and what is whole is answered."""

import asyncio
import json
import random
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq
import zmq.asyncio

from bench.load import LOST_S, BareClient, Tally, answers_at_rest
from integration.served import Daemon
from integration.test_modeld_fake import until_state
from modelwire.client import Client
from modelwire.messages import DecodeConfig, Text, Turn
from modelwire.protocol import MODELD

PROMPTS = tuple(f"{number}. def area_{number}(width, height):\n    return " * (1 + number) for number in range(6))
DECODE = DecodeConfig(max_tokens=8)
FUZZED = 20_000


@pytest.fixture
async def directory() -> AsyncIterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="ga-"))
    yield path
    shutil.rmtree(path)


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


class BadWire:
    """Stands between clients and a daemon: it delays all, and sends requests twice, or half of one before."""

    def __init__(self, endpoint: str, daemon: str, chance: random.Random) -> None:
        self._endpoint, self._daemon, self._chance = endpoint, daemon, chance
        self._ways: dict[bytes, zmq.asyncio.Socket] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.broken = 0

    async def __aenter__(self) -> "BadWire":
        self._context = zmq.asyncio.Context()
        self._front = self._context.socket(zmq.ROUTER)
        self._front.bind(self._endpoint)
        self._tasks.append(asyncio.create_task(self._forth()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._context.destroy(linger=0)

    async def _forth(self) -> None:
        while True:
            identity, data = await self._front.recv_multipart()
            if identity not in self._ways:
                self._ways[identity] = way = self._context.socket(zmq.DEALER)
                way.connect(self._daemon)
                self._tasks.append(asyncio.create_task(self._back(identity, way)))
            await self._late()
            pieces = [data]
            if self._chance.random() < 0.5:
                self.broken += 1
                pieces = self._chance.choice([[data, data], [data[: self._chance.randrange(len(data))], data]])
            for piece in pieces:
                await self._ways[identity].send(piece)

    async def _back(self, identity: bytes, way: zmq.asyncio.Socket) -> None:
        while True:
            data = await way.recv()
            await self._late()
            await self._front.send_multipart([identity, data])

    async def _late(self) -> None:
        await asyncio.sleep(self._chance.uniform(0, 0.01))


async def test_requests_that_come_late_twice_and_in_halves_are_answered_once_and_right(directory: Path) -> None:
    """S8, S11."""
    daemon = await Daemon.start(directory, "--backend", "fake")
    bad = f"ipc://{directory}/bad.sock"
    try:
        right = await answers_at_rest(daemon.endpoint, PROMPTS, DECODE)
        async with BadWire(bad, daemon.endpoint, random.Random(5)) as wire:
            for _ in range(3):
                assert await answers_at_rest(bad, PROMPTS, DECODE) == right
            tally = Tally()
            async with BareClient(bad, tally, right) as client:
                for prompt in PROMPTS * 2:
                    await client.run(Turn(session="s", prefix=(Text(text=prompt),), decode=DECODE))
        assert wire.broken > 10
        assert (tally.lost, tally.slow, tally.wrong) == (0, 0, 0)
        assert tally.operations == len(PROMPTS) * 2
    finally:
        log = await daemon.stop()
    assert b"Traceback" not in log, log.decode()


@pytest.mark.timeout(900)
async def test_a_flood_of_nonsense_changes_no_byte_of_anothers_stream(directory: Path) -> None:
    """S11: 20,000 messages, malformed, truncated, duplicated or senseless."""
    daemon = await Daemon.start(directory, "--backend", "fake", "--fake", json.dumps({"step_ms": 2}))
    try:
        calm = await answers_at_rest(daemon.endpoint, PROMPTS[:1], DecodeConfig(max_tokens=400))
        before = daemon.rss_mb
        floods = [asyncio.create_task(flood(daemon.endpoint, FUZZED // 4, random.Random(seed))) for seed in range(4)]
        while not all(task.done() for task in floods):  # the first round begins with them
            assert await answers_at_rest(daemon.endpoint, PROMPTS[:1], DecodeConfig(max_tokens=400)) == calm
        answered = sum([await task for task in floods])
        assert answered > FUZZED / 10, "most of it should have been answered with an error"
        assert daemon.rss_mb < before + 64
        async with Client(daemon.endpoint, timeout=LOST_S) as client:
            await until_state(client, "idle")  # what the floods left under way is read first
    finally:
        log = await daemon.stop()
    assert b"Traceback" not in log, log.decode()
