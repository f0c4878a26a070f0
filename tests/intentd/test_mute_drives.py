"""A drive that does not answer, or answers late, costs its own workspace alone."""

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from intentd import planner, texts
from intentd.messages import Ask, CommandFinished, CommandStarted, GetOffers, GetPrompt, Shown
from intentd.plan.events import Changed
from intentd.plan.turns import TurnError, build
from intentd.shown import View
from intentd.workers import TookTooLong, Workers
from modelwire.errors import WireError
from modelwire.testing import PATIENCE_S
from tests.intentd.conftest import House
from tests.intentd.hanging import SOON_S, ends, warm


async def test_a_file_system_that_is_mute_holds_up_neither_the_daemon_nor_a_question(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    plan = house.app.planner
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        offering = house.app.offers.all()[0]
        turn = await plan.turn(offering, "explain", 1234)

        def mute(_: object) -> bool:
            answers.wait(PATIENCE_S)
            return True

        with monkeypatch.context() as away:
            away.setattr(planner, "holds", mute)
            away.setattr(plan._guess_lookers, "_seconds", SOON_S)
            looking = asyncio.create_task(plan.turn(offering, "explain", 1234, speculative=True))
            await house.status(door)
            with pytest.raises(TurnError, match="too long"):
                await looking
        assert (await plan.turn(offering, "explain", 1234)).key == turn.key
        answers.set()


@pytest.mark.parametrize("speculative", [False, True])
async def test_one_late_look_at_its_files_costs_an_offer_nothing_that_was_built(
    house: House, monkeypatch: pytest.MonkeyPatch, *, speculative: bool
) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        plan, offering = house.app.planner, house.app.offers.all()[0]
        turn = await plan.turn(offering, "explain", 1234)

        async def late(*_: Any, **__: Any) -> Any:
            raise TookTooLong

        with monkeypatch.context() as away:
            for workers in (plan._lookers, plan._guess_lookers):
                away.setattr(workers, "do", late)
            with pytest.raises(TurnError, match="too long"):
                await plan.turn(offering, "explain", 1234, speculative=speculative)
        assert await plan.turn(offering, "explain", 1234, speculative=True) is turn


async def test_a_guess_whose_drive_is_mute_while_it_is_built_is_tried_again_after_a_while(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the files that it had seen by then are as they were."""
    now, back = 0.0, threading.Event()
    clock = SimpleNamespace(monotonic=lambda: now)
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        await house.modeld.die()
        await house.until(door, lambda status: not status.modeld_reachable)  # no guess is planned beside those here
        plan, offering = house.app.planner, house.app.offers.all()[0]
        monkeypatch.setattr(planner, "time", clock)
        with monkeypatch.context() as away:
            away.setattr(texts, "_read", lambda _: back.wait(PATIENCE_S))
            away.setattr(plan._guess_workers, "_seconds", SOON_S)
            with pytest.raises(TurnError, match="too long"):
                await plan.turn(offering, "explain", 1234, speculative=True)
            back.set()
            await ends(plan._guess_workers)
        with pytest.raises(TurnError, match="too long"):
            await plan.turn(offering, "explain", 1234, speculative=True)
        now = planner.BUILD_AGAIN_S
        assert (await plan.turn(offering, "explain", 1234, speculative=True)).messages


async def test_a_guess_whose_drive_answers_nothing_at_all_is_tried_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        plan, offering = house.app.planner, house.app.offers.all()[0]

        async def late(*_: Any, **__: Any) -> Any:
            raise TookTooLong

        with monkeypatch.context() as away:
            away.setattr(plan._guess_workers, "do", late)
            with pytest.raises(TurnError, match="too long"):
                await plan.turn(offering, "explain", 1234, speculative=True)
        assert (await plan.turn(offering, "explain", 1234, speculative=True)).messages


async def test_prompts_that_hang_hold_up_no_question_that_is_prepared_and_none_about_others(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, hanging = threading.Event(), threading.Semaphore(0)
    made = build

    def hang(*values: Any, context: int, **options: Any) -> Any:
        if context != 1234:
            hanging.release()
            go_on.wait(PATIENCE_S)
        return made(*values, context=context, **options)

    async with house.connect() as door, asyncio.timeout(PATIENCE_S):
        await house.command(door, "plain")
        await house.until(door, warm)
        plan, (one, other, *_) = house.app.planner, house.app.offers.all()
        turn = await plan.turn(one, "explain", 1234)
        monkeypatch.setattr(planner, "build", hang)
        hang_on = [asyncio.create_task(plan.turn(one, "explain", context)) for context in (1, 2)]
        for _ in hang_on:
            await asyncio.to_thread(hanging.acquire)
        assert await plan.turn(one, "explain", 1234) is turn
        assert not any(task.done() for task in hang_on)
        for piece in plan._workers._pieces:  # as where their time is over
            piece.expire()
        for task in hang_on:
            with pytest.raises(TurnError, match="too long"):
                await task
        with pytest.raises(TurnError, match="too long"):
            await plan.turn(one, "explain", 3)
        assert await plan.turn(one, "explain", 1234) is turn
        assert (await plan.turn(other, "explain", 1234)).messages
        go_on.set()


class Drive:
    """A folder whose file system does not answer until it is back: the time of what looks at it is over at once."""

    def __init__(self, folder: str, looks: Sequence[Workers]) -> None:
        self._folder = folder
        self._looks = looks
        self._loop = asyncio.get_running_loop()
        self.back = threading.Event()
        self.asked_by_loop = 0
        self._stat = Path.stat

    def stat(self, path: Path, **options: bool) -> os.stat_result:
        if str(path).startswith(self._folder):
            if threading.current_thread() is threading.main_thread():
                self.asked_by_loop += 1
            elif not self.back.is_set():
                for piece in [piece for workers in self._looks for piece in workers._pieces]:
                    if piece.thread is threading.current_thread():
                        self._loop.call_soon_threadsafe(piece.expire)
                self.back.wait(PATIENCE_S)
        return self._stat(path, **options)


@pytest.fixture
async def drive(house: House, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Drive]:
    plan = house.app.planner
    looks = (house.app.door._looks, house.app.runs._looks)
    builds = (plan._workers, plan._guess_workers, plan._lookers, plan._guess_lookers)
    drive = Drive(f"{house.workspace}/mute", (*looks, *builds))
    monkeypatch.setattr(Path, "stat", lambda path, **options: drive.stat(path, **options))
    yield drive
    drive.back.set()
    assert not drive.asked_by_loop


async def test_a_workspace_on_a_mute_drive_holds_up_no_other(house: House, drive: Drive) -> None:
    """Whatever is said of it or asked about it, by an editor, a wrapped command or a person."""
    mute = f"{house.workspace}/mute"
    view = View(workspace=mute, path=f"{mute}/a.py", version=1, text="x = ", selection=(0, 1))
    async with house.connect() as editor, house.connect() as door, asyncio.timeout(PATIENCE_S):
        for _ in range(20):
            for question in (Shown(view=view), GetOffers(cwd=mute), GetPrompt(cwd=mute, intent="explain", offer=None)):
                with pytest.raises(WireError, match="does not answer"):
                    await editor.ask(question)
            with pytest.raises(WireError, match="does not answer"):
                await editor.start(Ask(cwd=mute, intent="explain", view=view)).done()
        running = editor.start(CommandStarted(run="mute", argv=("pytest",), cwd=mute))
        await editor.ask(CommandFinished(run="mute", exit=1, signal=None, output=b"x", total=1))
        await running.done()
        await house.command(door, "plain")
        await house.until(door, warm)
        assert len((await door.ask(GetOffers(cwd=str(house.workspace)))).offers) == 4
        drive.back.set()
        while True:
            with contextlib.suppress(WireError):
                assert (await editor.ask(Shown(view=view))).found
                return


async def test_a_workspace_that_turns_mute_holds_up_no_other(
    house: House, drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has an offer; a question about another is answered, as is what there is."""
    (house.workspace / "mute2").mkdir()
    (house.workspace / "mute2" / "package.json").touch()
    plan, other = house.app.planner, str(house.workspace / "mute2")
    async with house.connect() as door, asyncio.timeout(PATIENCE_S):
        await house.command(door, "plain")
        await house.until(door, warm)
        offering = house.app.offers.all()[0]
        await plan.turn(offering, "explain", 1234)
        monkeypatch.setattr(drive, "_folder", str(house.workspace / "t"))  # where its files are
        for _ in range(20):
            with pytest.raises(TurnError, match="too long"):
                await plan.turn(offering, "explain", 1234)
        assert (await house.status(door)).instance
        assert not (await door.ask(GetOffers(cwd=other))).offers
        drive.back.set()


async def test_what_was_changed_has_a_bound_and_holds_nothing_up(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()

    def slow(_: str) -> tuple[Changed, ...]:
        answers.wait(PATIENCE_S)
        return ()

    monkeypatch.setattr("intentd.runs.changed", slow)
    monkeypatch.setattr(house.app.runs._looks, "_seconds", SOON_S)
    async with house.connect() as door, asyncio.timeout(PATIENCE_S):
        await house.command(door, "plain")
        await house.command(door, "plain")
        status = await house.until(door, lambda status: len(status.offers) == 4)
        assert "command" not in status.reason
        assert status.figures["commands_running"] == 0
    answers.set()
