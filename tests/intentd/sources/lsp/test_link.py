"""The language server's way to the daemon: found, started where that is wanted, asked once it is there."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from intentd import upkeep
from intentd.app import App
from intentd.messages import Closed, CompletionUsed, Shown
from intentd.shown import View
from intentd.sources.lsp import link
from intentd.sources.lsp.link import MAX_NEWS, Link, Starter
from intentd.upkeep import kept_up
from modelwire.client import Connection
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import GetStatus
from modelwire.testing import PATIENCE_S

House = Any
WAITS = (sys.executable, "-c", "import signal; signal.pause()")


@pytest.fixture
def starter() -> Iterator[Starter]:
    made = Starter("ipc:///nowhere/intentd.sock", WAITS)
    yield made
    end(made)


def end(starter: Starter) -> None:
    for child in starter._children:
        child.kill()
        child.wait(PATIENCE_S)


def test_one_is_started_at_a_time(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "START_EVERY_S", 0.0)
    starter()
    starter()
    (first,) = starter._children
    end(starter)
    starter()
    (second,) = starter._children
    assert second.pid != first.pid


def test_one_that_ends_at_once_is_not_started_again_and_again(starter: Starter) -> None:
    starter()
    end(starter)
    starter()
    assert not starter._children


def test_one_that_cannot_be_started_is_logged_and_tried_again_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(link, "START_EVERY_S", 0.0)
    starter = Starter("ipc:///nowhere/intentd.sock", ("/nowhere/intentd",))
    for _ in range(2):
        starter()
    assert caplog.text.count("intentd could not be started: No such file or directory") == 2


async def status(door: Link) -> Any:
    """As the daemon says it that the link has, or finds."""
    return await (await door._reach()).ask(GetStatus())


async def test_a_question_waits_for_a_daemon_that_is_being_started(house: House) -> None:
    await house.app.stop()
    wanted = asyncio.Event()
    door = Link(house.config.socket, start=wanted.set, met=lambda: None)
    running = asyncio.create_task(door.run())
    asking = asyncio.create_task(status(door))
    async with asyncio.timeout(PATIENCE_S):
        await wanted.wait()
        house.app = App(house.config)
        await house.app.start()
        assert (await asking).figures["editors"] == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_nobody_finds_a_connection_that_closes(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: asyncio.Queue[bool] = asyncio.Queue()

    class Watched(Connection):
        async def close(self) -> None:
            seen.put_nowait(door.connected)
            await super().close()

    monkeypatch.setattr(link, "Connection", Watched)
    door = Link(house.config.socket, start=None, met=lambda: None)
    running = asyncio.create_task(door.run())
    async with asyncio.timeout(PATIENCE_S):
        await door.found()
        await house.app.stop()
        assert await seen.get() is False
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_one_daemon_was_not_told_any_more_is_no_news_for_the_next(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document may have been closed meanwhile, and nobody would ever take it back."""
    asked, gone = asyncio.Event(), asyncio.Event()

    class Deaf(Connection):
        async def ask(self, message: object, *, within: float | None = None) -> Any:
            asked.set()
            await asyncio.Event().wait()

        async def close(self) -> None:
            gone.set()
            await super().close()

    view = View(workspace="/w", path="/w/a.py", version=1, text="x = 1", selection=(0, 1))
    door = Link(house.config.socket, start=None, met=lambda: None)
    with monkeypatch.context() as patched:
        patched.setattr(link, "Connection", Deaf)
        running = asyncio.create_task(door.run())
        async with asyncio.timeout(PATIENCE_S):
            await door.found()
            door.tell("other", 0)
            await asked.wait()
            door.tell("a document", Shown(view=view))
            await house.app.stop()
            await gone.wait()
    house.app = App(house.config)
    await house.app.start()
    async with asyncio.timeout(PATIENCE_S):
        await door.found()
        for _ in range(3):
            await status(door)
    assert not house.app.desks.offers()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_fault_in_what_is_told_ends_neither_that_nor_the_link(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upkeep, "AGAIN_S", 0.01)
    faults = [OSError(24, "Too many open files"), OSError(24, "Too many open files")]
    there = asyncio.Event()

    def fails_at_first() -> None:
        if faults:
            assert door.connected
            raise faults.pop()
        there.set()

    door = Link(house.config.socket, start=None, met=fails_at_first)
    running = asyncio.create_task(kept_up(door.run))
    async with asyncio.timeout(PATIENCE_S):
        await there.wait()
        assert (await status(door)).figures["editors"] == 1
        view = View(workspace=str(house.workspace), path="/w/a.py", version=1, text="x = 1", selection=(0, 1))
        door.tell("no message", object())
        for _ in range(3):  # it is tried
            await asyncio.sleep(0)
        while not house.app.desks.offers():
            door.tell("a document", Shown(view=view))
            await status(door)
    assert caplog.text.count("a part failed") == 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_is_refused_for_the_moment_is_told_again_unless_something_newer_is_known(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a drive needs some seconds to answer."""
    monkeypatch.setattr(link, "TELL_AGAIN_S", 0.01)
    looked = list[str]()
    refused = asyncio.Event()

    async def slow(workspace: str) -> bool:
        looked.append(workspace)
        if len(looked) <= 2:
            refused.set()
            raise WireError(ErrorCode.NOT_READY, "its drive does not answer", retry=True)
        return False

    monkeypatch.setattr(house.app.door._editors, "opted_out", slow)
    door = Link(house.config.socket, start=None, met=lambda: None)
    running = asyncio.create_task(door.run())
    async with asyncio.timeout(PATIENCE_S):
        await door.found()
        for path in ("/w/a.py", "/w/b.py"):
            view = View(workspace=str(house.workspace), path=path, version=1, text="x = 1", selection=(0, 1))
            door.tell(path, Shown(view=view))
        await refused.wait()
        door.tell("/w/b.py", Closed(path="/w/b.py"))
        while not house.app.desks.offers():
            await status(door)
        for _ in range(3):
            await status(door)
    assert {one.view.path for one in house.app.desks.offers()} == {"/w/a.py"}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_where_none_is_to_be_started_a_question_ends_at_once_with_words(runtime: Path) -> None:
    door = Link(f"ipc://{runtime}/i.sock", start=None, met=lambda: None)
    with pytest.raises(WireError, match=r"no intentd answers at .*: start it with 'intentd serve"):
        await status(door)


async def test_what_is_not_told_yet_is_bounded_and_the_newest_of_its_kind(house: House) -> None:
    door = Link(house.config.socket, start=None, met=lambda: None)
    door.tell("nobody is there", 0)
    assert not door._news
    async with house.connect() as connection:
        door._door = connection
        for number in range(MAX_NEWS + 9):
            door.tell("a document", number)
            door.say(CompletionUsed(accepted=number))
    assert len(door._news) == MAX_NEWS
    assert door._news["a document"] == MAX_NEWS + 8
