"""The whole front on a watched event loop, with a real engine process that loads, works, dies and is exchanged."""

import asyncio
import gc
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.served import hit
from modeld.app import App
from modeld.config import Settings
from modeld.testing import unblocked
from modelwire.client import Client
from modelwire.errors import WireError
from modelwire.messages import DecodeConfig, Progress, Text, Tokens

PATIENCE_S = 60.0
LONG = (Text(text="a long story. " * 70),)
HELD_S = 2.0
"""Far more than a busy machine takes from the front at a stretch."""
# Above that bound: who waits for the engine on the loop is found.
SCRIPT = {"load_ms": 3000, "token_ms": 1, "step_ms": 5, "chunk": 64}


@pytest.fixture
def directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="ga-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(autouse=True)
def _what_is_there_is_not_looked_through() -> Iterator[None]:
    """A collection of all that a long run of tests has left would be found."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


async def use(client: Client, bad: str) -> None:
    guess = client.turn(session="s", prefix=LONG, speculative=True)
    async for reply in guess:
        if isinstance(reply, Progress) and reply.done:
            break
    turn = client.turn(session="s", prefix=LONG, decode=DecodeConfig(max_tokens=10))
    assert (await turn.done()).usage.generated == 10
    running = client.turn(session="s", prefix=LONG, decode=DecodeConfig(max_tokens=10_000))
    async for reply in running:
        if isinstance(reply, Tokens):
            break
    hit((await client.status()).engine_pid)
    with pytest.raises(WireError):
        await running.done()
    assert await client.unload()
    await client.tokenize(LONG)
    with pytest.raises(WireError):
        await client.load(bad)
    assert (await client.story())[-1].endswith("error: not_ready")


async def test_nothing_that_the_daemon_does_holds_its_event_loop(directory: Path) -> None:
    (directory / "bad").write_text(json.dumps({"load_error": "no"}))
    settings = Settings(
        socket=f"ipc://{directory}/modeld.sock",
        backend="fake",
        fake=json.dumps(SCRIPT),
        record=str(directory / "events"),
    )
    loaded = asyncio.Event()
    with unblocked(HELD_S):
        app = App(settings, announce=lambda _: loaded.set())
        served = asyncio.create_task(app.run())
        async with asyncio.timeout(PATIENCE_S):
            await loaded.wait()
            async with Client(settings.endpoint()) as client:
                await use(client, str(directory / "bad"))
            assert not served.done(), served  # nobody would take the signal, and it ends whoever runs the tests
            os.kill(os.getpid(), signal.SIGTERM)
            assert await served == 0
