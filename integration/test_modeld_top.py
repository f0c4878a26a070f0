"""`modeld top` beside a real daemon that comes and goes, on the fake backend."""

import asyncio
import json
import signal
from typing import Any

from integration.test_modeld_fake import Daemons, bounded, daemons, text
from modelwire.client import Client
from modelwire.messages import DecodeConfig

__all__ = ["daemons"]


async def looked(top: asyncio.subprocess.Process) -> dict[str, Any]:
    assert top.stdout
    seen: dict[str, Any] = json.loads(await bounded(top.stdout.readline()))
    return seen


async def test_it_shows_what_came_since_the_last_look_and_waits_for_a_daemon_that_went(daemons: Daemons) -> None:
    first = await daemons.serve()
    top = await daemons.run("top", "--json", "--interval", "0.1")
    assert (await looked(top))["a_second"] == {}
    assert (await looked(top))["a_second"]["tokens_generated"] == 0.0
    async with Client(daemons.endpoint) as client:
        await bounded(client.turn(session="s", prefix=text("hello"), decode=DecodeConfig(max_tokens=8)).done())
    while not (seen := await looked(top))["a_second"]["tokens_generated"]:
        pass
    assert seen["figures"]["tokens_generated"] == 8.0
    first.send_signal(signal.SIGTERM)
    await bounded(first.wait())
    while "instance" in (seen := await looked(top)):
        pass
    assert "modeld" in seen["problem"]
    await daemons.serve()
    while "instance" not in (seen := await looked(top)):
        pass
    assert seen["figures"]["tokens_generated"] == 0.0
    assert "tokens_generated" not in seen["a_second"]
    top.send_signal(signal.SIGINT)
    assert await bounded(top.wait()) == 130


async def test_a_daemon_that_hangs_is_said_to(daemons: Daemons) -> None:
    server = await daemons.serve()
    top = await daemons.run("top", "--json", "--interval", "0.1", "--count", "10")
    await looked(top)
    server.send_signal(signal.SIGSTOP)
    while "instance" in (seen := await looked(top)):
        pass
    assert seen == {"problem": "modeld does not answer"}
    assert await bounded(top.wait()) == 1


async def test_it_ends_after_as_many_looks_as_were_asked_for(daemons: Daemons) -> None:
    await daemons.serve()
    status, output, errors = await daemons.result("top", "--count", "2", "--interval", "0.1")
    assert (status, errors) == (0, [])
    assert output.count("exactness: untested") == 2
    assert "\033" not in output


async def test_without_a_daemon_it_ends_at_once(daemons: Daemons) -> None:
    status, output, [line] = await daemons.result("top")
    assert (status, output) == (1, "")
    assert "modeld serve" in line
