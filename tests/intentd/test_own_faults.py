"""A parser or a template that loops or raises costs one offer; the daemon and the other offers go on."""

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from intentd import door as door_module
from intentd import planner, texts, upkeep
from intentd.door import LIST_S, LOOK_S, SHOW_S, Door
from intentd.intake import Intake
from intentd.limits import Limits
from intentd.messages import Ask, CommandStarted, Complete, GetOffers, GetPrompt
from intentd.plan.turns import TurnError, build
from intentd.planner import BUILD_S, HOLDS_S
from intentd.present.terminal import PROMPT_S
from intentd.shown import View
from intentd.sources.files import FileWatch
from intentd.sources.host import HostWatch
from intentd.sources.modeld import ModeldKeeper
from intentd.speculator import Speculator
from intentd.workers import TookTooLong
from modelwire.client import DEFAULT_TIMEOUT
from modelwire.errors import WireError
from modelwire.testing import PATIENCE_S
from tests.intentd.conftest import House
from tests.intentd.hanging import SOON_S, loop, warm, workers_alive


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
