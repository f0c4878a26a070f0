"""A parser or a template that loops or raises costs one offer; the daemon and the other offers go on."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from intentd import door as door_module
from intentd import planner, texts, upkeep
from intentd import workers as workers_module
from intentd.door import LIST_S, LOOK_S, SHOW_S, Door
from intentd.intake import Intake
from intentd.limits import Limits
from intentd.messages import Ask, CommandFinished, CommandStarted, Complete, DaemonStatus, GetOffers, GetPrompt, Shown
from intentd.plan.events import Changed
from intentd.plan.turns import TurnError, build
from intentd.planner import BUILD_S, HOLDS_S
from intentd.present.terminal import PROMPT_S
from intentd.shown import View
from intentd.sources.files import FileWatch
from intentd.sources.host import HostWatch
from intentd.sources.modeld import ModeldKeeper
from intentd.speculator import Speculator
from intentd.workers import LATE_S, MAX_LOST, MAX_LOST_AT, NoThread, TookTooLong, Workers
from modelwire.client import DEFAULT_TIMEOUT
from modelwire.errors import WireError
from modelwire.testing import PATIENCE_S
from tests.intentd.conftest import House

SOON_S = 1.0


def loop(*_: Any, **__: Any) -> Any:
    while True:
        pass


def workers_alive() -> int:
    return sum(thread.name == "intentd worker" for thread in threading.enumerate())


async def ends(workers: Workers) -> None:
    """Returns when nothing hangs there any more."""
    for piece in workers._pieces:
        if piece.thread.ident is not None:  # it has begun
            await asyncio.to_thread(piece.thread.join, PATIENCE_S)


def warm(status: DaemonStatus) -> bool:
    return any(offer.warm for offer in status.offers)


async def test_a_parser_that_loops_costs_its_commands_offers_alone(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    house.app.runs._workers._seconds = SOON_S
    async with house.connect() as door:
        with monkeypatch.context() as broken:
            broken.setattr(Intake, "failures", loop)
            await house.command(door, "plain")
            await house.command(door, "plain")
            await house.command(door, "plain")
        house.app.runs._workers._seconds = PATIENCE_S
        assert not (await house.status(door)).offers
        await house.command(door, "plain")
        await house.until(door, warm)
        await house.until(door, lambda _: workers_alive() == 0)
    assert "takes too long to read" in caplog.text


async def test_a_prompt_that_is_made_for_ever_costs_its_offer_alone(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        offering, context = house.app.offers.all()[0], 1234
        plan = house.app.planner
        plan._workers._seconds = plan._guess_workers._seconds = SOON_S  # it may be made for a guess meanwhile
        with monkeypatch.context() as broken:
            broken.setattr(planner, "build", loop)
            for _ in range(3):
                with pytest.raises(TurnError, match="too long"):
                    await house.app.planner.turn(offering, "explain", context)
        plan._workers._seconds = plan._guess_workers._seconds = PATIENCE_S
        assert (await house.app.planner.turn(offering, "explain", context)).messages
        await house.until(door, lambda _: workers_alive() == 0)


async def test_a_prompt_that_took_too_long_is_not_made_again_for_a_guess_until_its_files_change(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "SETTLED_NS", -(10**9))
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        await house.modeld.die()
        await house.until(door, lambda status: not status.modeld_reachable)  # no guess is planned beside those here
        plan, offering, tries = house.app.planner, house.app.offers.all()[0], 0

        async def late(work: Callable[[], Any], *, place: str) -> Any:
            nonlocal tries
            tries += 1
            work()
            raise TookTooLong

        async def attempt(*, speculative: bool) -> int:
            with pytest.raises(TurnError, match="too long"):
                await plan.turn(offering, "explain", 1234, speculative=speculative)
            return tries

        with monkeypatch.context() as slow:
            for workers in (plan._workers, plan._guess_workers):
                slow.setattr(workers, "do", late)
            assert [await attempt(speculative=True) for _ in range(3)] == [1, 1, 1]
            assert [await attempt(speculative=False) for _ in range(2)] == [2, 3]
            assert await attempt(speculative=True) == 3
            os.utime(offering.failure.path)
            assert await attempt(speculative=True) == 4
        assert (await plan.turn(offering, "explain", 1234)).messages


async def test_a_question_waits_for_no_prompt_that_is_made_ahead(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    made = build

    def slow(*values: Any, context: int, **options: Any) -> Any:
        if context != 1234:
            go_on.wait(PATIENCE_S)
        return made(*values, context=context, **options)

    async with house.connect() as door, asyncio.timeout(PATIENCE_S):
        await house.command(door, "plain")
        await house.until(door, warm)
        plan, offering = house.app.planner, house.app.offers.all()[0]
        monkeypatch.setattr(planner, "build", slow)
        monkeypatch.setattr(planner, "build_inline", lambda *_, **__: go_on.wait(PATIENCE_S))
        view = View(workspace=str(house.workspace), path=str(house.workspace / "a.py"), version=1, text="x = ")
        place = Complete(view=view, line=0, character=4, ahead=True)
        ahead: list[asyncio.Task[Any]] = [
            asyncio.create_task(plan.completion(place, (), context)) for context in (1, 2)
        ]
        ahead += [asyncio.create_task(plan.turn(offering, "explain", n, speculative=True)) for n in (1, 2)]
        await house.until(door, lambda _: workers_alive() >= 2)
        assert (await plan.turn(offering, "explain", 1234)).messages
        go_on.set()
        await asyncio.gather(*ahead, return_exceptions=True)


async def test_an_offer_that_no_template_can_name_has_the_name_of_its_test(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> Any:
        raise RuntimeError("words of a prompt")

    async with house.connect() as door:
        monkeypatch.setattr(house.app.templates, "get", fail)
        await house.command(door, "plain")
        status = await house.until(door, lambda status: bool(status.offers) and "template" in status.reason)
        assert all("::" in offer.title for offer in status.offers)


async def test_a_message_that_fails_is_answered_and_the_next_one_is_handled(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    contents = "words of a prompt"

    def fail(_: Door) -> Any:
        raise RuntimeError(contents)

    async with house.connect() as door:
        with monkeypatch.context() as broken:
            broken.setattr(Door, "_status", fail)
            with pytest.raises(WireError, match="its log says how"):
                await house.status(door)
        assert (await house.status(door)).instance
    assert "RuntimeError" in caplog.text
    assert contents not in caplog.text


async def test_more_questions_or_commands_than_the_limit_are_refused_by_its_name(house: House) -> None:
    house.modeld.script.held = True
    house.app.door.limits = Limits(questions=1, commands=1)
    async with house.connect() as door:
        await house.command(door, "plain")
        started = door.start(CommandStarted(run="a", argv=("sleep",), cwd=str(house.workspace)))
        await anext(started)
        with pytest.raises(WireError, match=r"1 commands are under way, the limit \(commands in intentd.toml\)"):
            await door.start(CommandStarted(run="b", argv=("sleep",), cwd=str(house.workspace))).done()
        question = door.start(Ask(cwd=str(house.workspace)))
        await anext(question)
        with pytest.raises(WireError, match=r"1 questions are under way, the limit \(questions in intentd.toml\)"):
            await door.start(Ask(cwd=str(house.workspace))).done()
        assert await question.cancel()


@pytest.mark.parametrize("part", [Speculator, FileWatch, HostWatch, ModeldKeeper])
async def test_a_part_that_fails_is_begun_again_and_the_log_says_it_once(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: Any
) -> None:
    monkeypatch.setattr(upkeep, "AGAIN_S", 0.01)
    begun, run, go_on = 0, part.run, asyncio.Event()

    async def fail(self: Any) -> None:
        nonlocal begun
        begun += 1
        if begun <= 3:
            raise RuntimeError("can't start new thread")
        go_on.set()
        await run(self)

    monkeypatch.setattr(part, "run", fail)
    await house.restart()
    async with asyncio.timeout(PATIENCE_S):
        await go_on.wait()
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
    assert caplog.text.count("a part failed") == 1


async def test_a_part_whose_clean_up_fails_ends_where_it_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one whose client closes where no thread is to be had."""
    monkeypatch.setattr(upkeep, "AGAIN_S", 0.01)
    begun, ended = asyncio.Semaphore(0), 0

    async def run() -> None:
        nonlocal ended
        begun.release()
        try:
            await asyncio.Event().wait()
        finally:
            ended += 1
            if ended == 1:
                raise RuntimeError("can't start new thread")

    serving = asyncio.create_task(upkeep.kept_up(run))
    async with asyncio.timeout(PATIENCE_S):
        await begun.acquire()
        serving.cancel()
        again = asyncio.create_task(begun.acquire())
        await asyncio.wait([serving, again], return_when=asyncio.FIRST_COMPLETED)
        again.cancel()
        assert serving.done()
        with pytest.raises(RuntimeError):
            await serving


async def test_a_door_that_cannot_be_closed_leaves_no_part_running(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = house.app.door.close

    async def fail() -> None:
        await close()
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(Door, "close", lambda _: fail())
        with pytest.raises(RuntimeError):
            await house.app.stop()
        assert all(task.done() for task in house.app._tasks)


async def test_work_gives_what_it_gives_and_raises_what_it_raises() -> None:
    workers = Workers(1, PATIENCE_S)
    assert await workers.do(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        await workers.do(lambda: 1 // 0)


async def test_work_that_loops_is_ended_and_makes_room() -> None:
    workers = Workers(1, SOON_S)
    for _ in range(3):
        with pytest.raises(TookTooLong):
            await workers.do(loop)
    assert await workers.do(lambda: 5) == 5


@pytest.mark.parametrize("there", ["at work", "just started"])
async def test_work_that_nobody_waits_for_any_more_leaves_its_place_and_its_room(
    monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    monkeypatch.setattr(workers_module, "LEFT_S", 0.0)
    workers, begun, over = Workers(2, 10 * PATIENCE_S), threading.Semaphore(0), threading.Event()

    def go_on() -> None:
        begun.release()
        while not over.is_set():
            pass

    try:
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(3):
                asked = [asyncio.create_task(workers.do(go_on, place="/a")) for _ in range(2)]
                await asyncio.sleep(0)
                for task in asked:
                    if there == "at work":
                        await asyncio.to_thread(begun.acquire)
                    assert not task.done()
                    task.cancel()
                assert await workers.do(lambda: 5, place="/a") == 5
            await ends(workers)
            await asyncio.gather(*[workers.do(lambda: 5) for _ in range(2)])
        assert workers._room._value == 2
    finally:
        over.set()


async def test_work_that_nobody_waits_for_and_that_hangs_makes_room_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "LEFT_S", 0.0)
    workers, begun, answers = Workers(1, PATIENCE_S), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        answers.wait(PATIENCE_S)

    asked = asyncio.create_task(workers.do(hang))
    await asyncio.sleep(0)
    await asyncio.to_thread(begun.wait)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert workers._room.locked()
    (piece,) = workers._pieces
    piece.expire()
    assert await workers.do(lambda: 5) == 5
    answers.set()
    await ends(workers)
    assert await workers.do(lambda: 5) == 5
    assert workers._room._value == 1


async def test_threads_that_hang_are_bounded_and_make_room_when_they_have_ended() -> None:
    workers, answers, begun = Workers(2, 0.01), threading.Event(), 0

    def hang() -> None:
        nonlocal begun
        begun += 1
        answers.wait(PATIENCE_S)

    for _ in range(2 + MAX_LOST):
        with pytest.raises(TookTooLong):
            await workers.do(hang)
    with pytest.raises(NoThread):
        await workers.do(hang)
    assert begun == 2 + MAX_LOST
    answers.set()
    await ends(workers)
    workers._seconds = PATIENCE_S
    assert await workers.do(lambda: 5) == 5


async def test_a_time_that_is_over_late_ends_nothing_but_its_own_work() -> None:
    """The new thread has the identity of the one that had ended; the loop is held over the first one's time."""
    short, other = Workers(1, 0.05), Workers(1, PATIENCE_S)

    def innocent() -> int:
        for _ in range(100):
            time.sleep(0.001)
        return 100

    for _ in range(3):
        over = threading.Event()
        first = asyncio.create_task(short.do(over.set))
        await asyncio.sleep(0)
        assert over.wait(PATIENCE_S)  # the loop is held, as by a native call that keeps the interpreter
        second = asyncio.create_task(other.do(innocent))
        time.sleep(0.1)  # noqa: ASYNC251
        await asyncio.gather(first, return_exceptions=True)  # it may have been noticed only behind its time
        assert await second == 100


@pytest.mark.parametrize("late", ["before its work", "behind its work"])
async def test_a_thread_is_interrupted_at_its_work_alone(monkeypatch: pytest.MonkeyPatch, late: str) -> None:
    """What is raised elsewhere in it would be told as a fault by `threading`."""
    workers, go_on, there = Workers(1, PATIENCE_S), threading.Event(), threading.Event()
    begin, end, done = workers_module._Piece._begin, workers_module._Piece._end, 0

    def held(step: Callable[[Any], Any], piece: Any) -> Any:
        there.set()
        assert go_on.wait(PATIENCE_S)
        return step(piece)

    def behind(piece: Any) -> None:
        end(piece)
        there.set()
        assert go_on.wait(PATIENCE_S)

    def work() -> None:
        nonlocal done
        done += 1

    before = late == "before its work"
    with monkeypatch.context() as slow:
        if before:
            slow.setattr(workers_module._Piece, "_begin", lambda piece: held(begin, piece))
        else:
            slow.setattr(workers_module._Piece, "_end", behind)
        asking = asyncio.create_task(workers.do(work))
        await asyncio.to_thread(there.wait, PATIENCE_S)
        (piece,) = workers._pieces
        piece.expire()
        go_on.set()
        with pytest.raises(TookTooLong):
            await asking
        await ends(workers)
    assert done == (0 if before else 1)
    assert await workers.do(lambda: 5) == 5


async def test_work_has_its_time_again_where_the_daemon_was_stopped_meanwhile() -> None:
    workers, go_on = Workers(1, SOON_S), threading.Event()
    working = asyncio.create_task(workers.do(lambda: go_on.wait(PATIENCE_S)))
    await asyncio.sleep(0)
    time.sleep(SOON_S + 2 * LATE_S)  # noqa: ASYNC251, as long as the daemon is stopped
    for _ in range(5):
        await asyncio.sleep(0)
    go_on.set()
    assert await working
    with pytest.raises(TookTooLong):
        await workers.do(loop)


async def test_nothing_that_ends_a_thread_goes_past_those_who_wait() -> None:
    def leave() -> None:
        raise SystemExit

    with pytest.raises(RuntimeError, match="SystemExit"):
        await Workers(1, PATIENCE_S).do(leave)


async def test_a_place_that_does_not_answer_takes_no_threads_from_others() -> None:
    workers, answers, begun = Workers(2, 0.01), threading.Event(), 0

    def hang() -> bool:
        nonlocal begun
        begun += 1
        return answers.wait(PATIENCE_S)

    for _ in range(3 + MAX_LOST):
        with pytest.raises(TookTooLong):
            await workers.do(hang, place="/mute")
    assert begun == MAX_LOST_AT
    workers._seconds = PATIENCE_S
    assert await workers.do(lambda: 5, place="/there") == 5
    answers.set()
    await ends(workers)
    assert await workers.do(hang, place="/mute")


async def test_places_that_are_mute_hold_up_no_other_however_many_look_at_once() -> None:
    workers, answers, begun = Workers(4, 0.01), threading.Event(), 0

    def hang() -> bool:
        nonlocal begun
        begun += 1
        return answers.wait(PATIENCE_S)

    async with asyncio.timeout(PATIENCE_S):
        asked = [workers.do(hang, place=place) for place in ("/a", "/b", "/c", "/d", "/e") for _ in range(6)]
        assert all(isinstance(one, TookTooLong) for one in await asyncio.gather(*asked, return_exceptions=True))
        assert begun == 5 * MAX_LOST_AT
        workers._seconds = PATIENCE_S
        assert await workers.do(lambda: 5, place="/there") == 5
        answers.set()
        await ends(workers)


async def test_many_at_one_place_that_answers_are_done_in_turn() -> None:
    workers = Workers(4, PATIENCE_S)
    async with asyncio.timeout(PATIENCE_S):
        assert await asyncio.gather(*(workers.do(lambda: 5, place="/a") for _ in range(20))) == [5] * 20


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


async def test_a_command_counts_as_ended_whatever_comes_of_its_output(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> bool:
        raise RuntimeError

    async with house.connect() as door:
        with monkeypatch.context() as broken:
            broken.setattr(house.app.runs, "_take_in", fail)
            with pytest.raises(WireError, match="its log says how"):
                await house.command(door, "plain")
        assert house.app.speculator.commands_running == 0


def test_a_question_is_answered_before_it_is_given_up() -> None:
    """For all that is done one after the other: the second look is at what holds still, or the files that do."""
    assert LOOK_S + LIST_S + LOOK_S < DEFAULT_TIMEOUT
    assert LOOK_S + SHOW_S + HOLDS_S + BUILD_S < PROMPT_S


async def test_who_waits_without_a_bound_is_answered_about_the_newest_output(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are told what is known before they give up."""
    waits = list[float]()

    async def taken_in(_: str, within: float) -> None:
        waits.append(within)

    async with house.connect() as door, asyncio.timeout(PATIENCE_S):
        await house.command(door, "plain")
        await house.until(door, warm)
        monkeypatch.setattr(house.app.runs, "taken_in", taken_in)
        for number, bound in enumerate(("READ_S", "SHOW_S", "LIST_S")):
            monkeypatch.setattr(door_module, bound, number)
        cwd = str(house.workspace)
        await door.start(Ask(cwd=cwd)).done()
        await door.ask(GetPrompt(cwd=cwd, intent="explain", offer=None))
        await door.ask(GetOffers(cwd=cwd))
    assert waits == [0, 1, 2]


async def test_without_a_thread_to_be_had_nothing_is_guessed_and_the_daemon_goes_on(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.connect() as door:
        await house.until(door, lambda status: status.modeld_reachable)
        await house.command(door, "plain")
        await house.until(door, warm)
        with monkeypatch.context() as full:

            def none(_: threading.Thread) -> None:
                raise RuntimeError("can't start new thread")

            full.setattr(threading.Thread, "start", none)
            house.app.speculator.poke()
            with pytest.raises(TurnError, match="no more threads"):
                await house.app.planner.turn(house.app.offers.all()[0], "explain", 1234)
        await house.until(door, warm)
