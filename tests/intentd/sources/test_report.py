"""What is told of a wrapped command, to a daemon that may be another one by then; its end waits only for one there."""

import asyncio
import socket
import time
from typing import Any, cast

import pytest
from attrs import evolve

from intentd.app import App
from intentd.messages import Ask, CommandFinished, CommandStarted
from intentd.sources import report
from intentd.sources.report import DELIVERY_MS, LETTING_GO_MS, DoorReporter
from intentd.sources.tail import Tail
from modelwire.messages import Beat, GetStatus, Hello
from modelwire.testing import PATIENCE_S
from tests.intentd.conftest import RECORDED, House


@pytest.mark.parametrize(("said", "waits"), [(b"-", [LETTING_GO_MS, 0]), (b"-!", [LETTING_GO_MS, 0, DELIVERY_MS])])
def test_only_where_a_daemon_was_found_the_command_waits_for_its_report(
    said: bytes, waits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(report, "is_ready", lambda fd, event, timeout_ms: asked.append(timeout_ms))
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    reporter = DoorReporter(None)
    reporter._channel = ours
    theirs.send(said)
    reporter.finished(256, 9)
    assert len(theirs.recv(64)) == report._END.size
    assert asked == waits
    ours.close()
    theirs.close()


def test_a_reporter_that_is_gone_holds_nothing_up() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    reporter = DoorReporter(None)
    reporter._channel = ours
    reporter.finished(0, 0)
    ours.close()


async def until_offers(house: House) -> None:
    async with house.connect() as door:
        await house.until(door, lambda status: len(status.offers) == 4)


async def until_running(house: House) -> None:
    async with house.connect() as door:
        await house.until(door, lambda status: status.figures["commands_running"] == 1)


@pytest.mark.parametrize("argv", [("ptw",), ("pytest",)])
async def test_a_command_that_outlives_its_daemon_is_known_to_the_next_one(
    house: House, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    """By the next cycle of one that watches files, by its end of any other."""
    monkeypatch.setattr(report, "QUIET_S", 0.01)
    monkeypatch.chdir(house.workspace)
    tail, failing = Tail(), (RECORDED / "plain.txt").read_bytes()
    ours, theirs = socket.socketpair()
    telling = asyncio.create_task(report._report(house.config.socket, argv, tail, theirs))
    await until_running(house)
    if argv == ("ptw",):
        tail.add(failing)
        await until_offers(house)
    await house.restart()
    tail.add(failing)
    if argv == ("ptw",):
        await until_offers(house)
    ours.send(report._END.pack(256, tail.total))
    await telling
    await until_offers(house)
    assert not len(house.app.runs)
    ours.close()


async def test_the_end_that_comes_while_a_cycle_is_due_is_read() -> None:
    """The loop is held over the time of the cycle, as on a busy machine."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    story = report._Story(cast(Any, None), cast(Any, None), Tail())
    ending = asyncio.create_task(story.end(theirs, 0.05))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    time.sleep(0.1)  # noqa: ASYNC251
    ours.send(report._END.pack(0, 17))
    ours.close()
    assert await ending == report._END.pack(0, 17)
    theirs.close()


async def test_a_command_that_waits_for_changes_keeps_the_daemon(house: House) -> None:
    house.app.runs.start("c", "op", CommandStarted(run="w", argv=("ptw",), cwd=str(house.workspace)))
    house.app.runs._runs["c", "w"].waits = True
    leaving = asyncio.create_task(house.app.door.left_alone(0.01))
    assert not (await asyncio.wait([leaving], timeout=0.1))[0]
    house.app.runs.forget("c")
    async with asyncio.timeout(PATIENCE_S):
        await leaving


async def test_a_daemon_that_was_told_to_pause_does_not_leave(house: House) -> None:
    """The next one would not know of it."""
    house.app.speculator.paused = True
    leaving = asyncio.create_task(house.app.door.left_alone(0.01))
    assert not (await asyncio.wait([leaving], timeout=0.1))[0]
    house.app.speculator.paused = False
    async with asyncio.timeout(PATIENCE_S):
        await leaving


class Clock:
    """Stands still but for `now`; knows when it is looked at."""

    def __init__(self) -> None:
        self.now, self._look = 0.0, asyncio.Event()

    def monotonic(self) -> float:
        self._look.set()
        return self.now

    async def looked_at(self, times: int) -> None:
        for _ in range(times):
            self._look.clear()
            await self._look.wait()


COMMAND = (
    CommandStarted(run="r", argv=("ruff",), cwd="/"),
    CommandFinished(run="r", exit=0, signal=None, output=b"", total=0),
)


@pytest.mark.parametrize(
    ("messages", "stays"),
    [(COMMAND, True), ((Ask(cwd="/"),), True), ((GetStatus(),), True), ((Hello(), Beat()), False)],
    ids=["command", "question", "chore", "beat"],
)
async def test_what_is_asked_for_keeps_the_daemon_however_short_it_is(
    house: House, monkeypatch: pytest.MonkeyPatch, messages: tuple[object, ...], stays: bool
) -> None:
    """Each time that `left_alone` looks, nobody is there any more."""
    door, clock = house.app.door, Clock()
    monkeypatch.setattr("intentd.door.time", clock)
    leaving = asyncio.create_task(door.left_alone(0.04))
    async with asyncio.timeout(PATIENCE_S):
        await clock.looked_at(1)
        for step in range(2):
            clock.now += 0.03
            for message in messages:
                door._take("client", f"{step}-{type(message).__name__}", message)
            await asyncio.gather(*door._chores, *door._answers.values())
            clock.now += 0.02
            if stays:
                await clock.looked_at(3)
                assert not leaving.done()
        clock.now += 0.05 if stays else 0
        await leaving


async def test_a_daemon_that_pauses_by_its_settings_leaves(house: House) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await App(evolve(house.config, guess=False)).door.left_alone(0.01)
