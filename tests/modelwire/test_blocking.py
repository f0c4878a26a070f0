"""The blocking client against a scripted daemon that runs in a thread of its own."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from modelwire.blocking import BlockingClient
from modelwire.errors import DaemonUnreachable, WireError
from modelwire.messages import Accepted, Done, Error, Prompt, Reason, Text, Turn
from modelwire.testing import PATIENCE_S, ScriptedDaemon

PROMPT: Prompt = (Text(text="abc"),)


@pytest.fixture
def served() -> Iterator[ScriptedDaemon]:
    ready, stop = threading.Event(), asyncio.Event()
    made: list[tuple[ScriptedDaemon, asyncio.AbstractEventLoop]] = []

    async def serve() -> None:
        async with ScriptedDaemon() as daemon:
            made.append((daemon, asyncio.get_running_loop()))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(PATIENCE_S)
    daemon, loop = made[0]
    yield daemon
    loop.call_soon_threadsafe(stop.set)
    thread.join(PATIENCE_S)


def test_it_does_what_the_other_client_does(served: ScriptedDaemon) -> None:
    with BlockingClient(served.endpoint, name="script") as client:
        assert client.welcome.server == "modeld"
        assert client.describe().backend == "scripted"
        assert client.status().state == "idle"
        assert client.tokenize(PROMPT) == (97, 98, 99)
        assert client.ensure_prefix(session="s", prompt=PROMPT).done().reason == Reason.PREFILLED
        assert client.prefill_suffix(session="s", prompt=PROMPT).done().head == 3
        assert client.decode(session="s").text() == "Hello, world"
        handle = client.snapshot("s").handle
        assert client.restore(handle, session="t").done().reason == Reason.PREFILLED
        assert client.close_session("s")


def test_a_plain_loop_gives_the_replies(served: ScriptedDaemon) -> None:
    with BlockingClient(served.endpoint) as client:
        replies = list(client.turn(session="s", prefix=PROMPT))
    assert isinstance(replies[0], Accepted)
    assert isinstance(replies[-1], Done)


def test_leaving_a_block_cancels(served: ScriptedDaemon) -> None:
    served.script.held = True
    with BlockingClient(served.endpoint) as client, client.turn(session="s", prefix=PROMPT) as stream:
        assert isinstance(next(stream), Accepted)
        assert stream.cancel()
        assert stream.done().reason == Reason.CANCELLED
        assert stream.id in repr(stream)


def test_errors_are_the_same(served: ScriptedDaemon, endpoint: str) -> None:
    served.script.answers = {Turn: lambda _: [Error(code="bad_request", message="no")]}
    with BlockingClient(served.endpoint) as client, pytest.raises(WireError, match="no"):
        client.turn(session="s", prefix=PROMPT).done()
    with pytest.raises(DaemonUnreachable, match="modeld serve"):
        BlockingClient(endpoint).__enter__()
    with pytest.raises(RuntimeError, match="inside 'with'"):
        BlockingClient(endpoint).status()


def test_no_thread_is_left_behind(served: ScriptedDaemon) -> None:
    before = set(threading.enumerate())
    with BlockingClient(served.endpoint):
        assert set(threading.enumerate()) - before
    assert not set(threading.enumerate()) - before
