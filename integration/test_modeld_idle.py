"""The test of exactness in idle times, on the packaged model, as a client sees it: a real daemon, a real socket."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.daemons import Daemon, daemon, model_is_ready, private_runtime, wait_until
from modeld.backends.llamacpp.quantiser import quantise
from modeld.models.packaged import packaged
from modeld.models.requantised import requantised
from modelwire import Client, WireError
from modelwire.messages import DecodeConfig, Exactness, Prompt, Text, Tokens

ANSWER = DecodeConfig(max_tokens=8)
SHORT: Prompt = (Text(text="A list of the planets of the solar system, from the inside:\n1. Mercury\n2."),)
PATIENCE_S = 400.0
"""The test of exactness takes 40 s where nothing else runs."""


@contextmanager
def served(folder: Path, model: Path, test_after: int) -> Iterator[Daemon]:
    command = [sys.executable, "-m", "modeld", "serve", "--model", str(model), "--context", "2048", "--threads", "1"]
    with private_runtime(), daemon("modeld", [*command, "--exactness-after", str(test_after)], folder) as server:
        wait_until(model_is_ready, server, "loading the model")
        yield server


@pytest.fixture
def model() -> Path:
    return requantised(packaged(), quantise)


async def exactness(client: Client) -> AsyncIterator[Exactness]:
    """What the daemon says of it, again and again for a bounded time."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            yield (await client.status()).exactness
            await asyncio.sleep(0.02)


@pytest.mark.timeout(900)
async def test_s2_the_test_yields_to_a_request_then_finds_its_verdict_which_the_next_daemon_knows(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2, S3, S4: and the request's answer is the one from before the test."""
    monkeypatch.setenv("GUESSAHEAD_CACHE_DIR", str(tmp_path / "cache"))
    with served(tmp_path / "first", model, test_after=1):
        async with Client(name="test", timeout=60) as client:
            expected = await client.turn(session="before", prefix=SHORT, decode=ANSWER).text()
            await client.close_session("before")
            async for found in exactness(client):
                if found.running:
                    break
            stream = client.turn(session="s", prefix=SHORT, decode=ANSWER)
            assert await stream.text() == expected
            assert (await stream.done()).usage.chunks_stopped == 0
            assert (await client.status()).exactness.verdict == "untested"
            async for found in exactness(client):
                if found.verdict != "untested":
                    break
            assert found == Exactness(verdict="exact", progress=1.0)
            assert (await client.describe()).exactness == found
            assert await client.turn(session="s", prefix=SHORT, decode=ANSWER).text() == expected
            figures = (await client.status()).figures
            assert (figures["operations_total"], figures["engine_restarts"]) == (3, 0)
    with served(tmp_path / "second", model, test_after=0) as server:
        async with Client(name="test", timeout=60) as client:
            assert (await client.describe()).exactness == found
            await a_daemon_that_stops_ends_what_the_model_is_at(client, server)


async def a_daemon_that_stops_ends_what_the_model_is_at(client: Client, server: Daemon) -> None:
    """S8."""
    running = client.turn(session="s", prefix=SHORT, decode=DecodeConfig(max_tokens=1500))
    waiting = client.turn(session="t", prefix=SHORT, speculative=True)
    async with asyncio.timeout(PATIENCE_S):
        await anext(reply async for reply in running if isinstance(reply, Tokens))
        server.process.send_signal(signal.SIGTERM)
        for stream in (waiting, running):
            with pytest.raises(WireError) as fault:
                await stream.done()
            assert (fault.value.code, fault.value.retry) == ("stopping", True)
        assert await asyncio.to_thread(server.process.wait, PATIENCE_S) == 0
