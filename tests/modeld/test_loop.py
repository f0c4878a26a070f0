"""Nothing on the way of a request through the front holds its event loop."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from modeld.about import About
from modeld.driver import Driver
from modeld.server import Server
from modeld.testing import EngineTwin, unblocked
from modelwire.client import Client
from modelwire.messages import Text
from modelwire.protocol import MODELD
from modelwire.router import Router
from modelwire.testing import PATIENCE_S


@pytest.fixture
def directory() -> Iterator[Path]:
    """Its path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="ga-") as directory:
        yield Path(directory)


async def test_what_blocks_the_loop_is_found() -> None:
    async def block() -> None:
        with unblocked(0.01):
            asyncio.get_running_loop().call_soon(time.sleep, 0.02)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    with pytest.raises(AssertionError, match="was blocked"):
        await block()


async def test_a_long_prompt_does_not_hold_the_loop(directory: Path) -> None:
    """A megabyte of prompt comes in by the socket, and every token that is sent belongs to a tape as long."""
    endpoint = f"ipc://{directory}/s.sock"
    with unblocked():
        async with Router(endpoint, MODELD.codec(), MODELD) as router:
            engine = EngineTwin()
            driver = Driver(engine, router.send)
            about = About(message_bytes=1000, sessions=64, queue=8, started=0.0)
            server = Server(router, driver, about, clock=time.monotonic, engine_pid=lambda: 0)
            driver.engine_said(engine.ready(), 0.0)
            tasks = [asyncio.create_task(server.serve()), asyncio.create_task(server.keep_time())]
            async with Client(endpoint) as client:
                turn = client.turn(session="s", prefix=(Text(text="x" * 100_000),) * 10)
                await anext(turn)
                begun = await asyncio.to_thread(engine.begin)  # the twin's own work is not the front's
                driver.engine_said(begun, 1.0)
                driver.engine_said(engine.advance(), 1.0)
                for _ in range(200):
                    driver.engine_said(engine.generate("y"), 1.0)
                    await asyncio.sleep(0)
                driver.engine_said(engine.end(), 1.0)
                assert len(await asyncio.wait_for(turn.text(), PATIENCE_S)) == 200
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
