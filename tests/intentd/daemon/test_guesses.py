"""What is guessed, in which order, and what a guess yields to."""

import asyncio
from importlib.resources import files
from typing import Any

import pytest

from intentd import guesser, speculator
from intentd.messages import CommandFinished, CommandStarted, DaemonStatus, Pause
from intentd.workers import TookTooLong
from modelwire.messages import Cancel, Done, Error, Outcome, Reason, Turn, Usage
from tests.intentd.daemon.talk import House, ask, offers, prompt_of, turns, warm


async def test_a_guessed_turn_and_the_asked_turn_are_the_same_bytes(house: House) -> None:
    """S10"""
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, warm)
        text, done = await ask(house, door)
        (guess, *_), (question,) = turns(house, speculative=True), turns(house, speculative=False)
        assert (guess.session, guess.prefix, guess.suffix, guess.decode) == (
            question.session,
            question.prefix,
            question.suffix,
            question.decode,
        )
        assert text == "Hello, world"
        assert done.usage.outcome is Outcome.HIT
        status = await house.until(door, lambda status: status.reason == "every offer is warm")
        assert status.reason == "every offer is warm"
        assert status.figures == {
            **{"guesses_sent": 4, "guesses_finished": 4, "answers": 1, "answers_hit": 1},
            **{"commands_running": 0, "editors": 0},
        }
        assert status.triggers["test_failed"]["hits"] == 1


async def test_nothing_is_guessed_while_a_wrapped_command_runs(house: House) -> None:
    async with house.connect() as door:
        running = door.start(CommandStarted(run="long", argv=("make",), cwd=str(house.workspace)))
        await house.command(door, "plain")
        status = await house.until(door, lambda status: "command is running" in status.reason)
        assert status.figures["commands_running"] == 1
        assert not turns(house, speculative=True)
        await door.ask(CommandFinished(run="long", exit=0, signal=None, output=b"", total=0))
        assert (await running.done()).reason is Reason.END
        await house.until(door, warm)


async def test_a_wrapper_that_leaves_without_a_word_is_not_waited_for(house: House) -> None:
    async with house.connect() as door:
        async with house.connect() as other:
            stream = other.start(CommandStarted(run="killed", argv=("make",), cwd="/"))
            await anext(stream)
            other.detach(stream.id)  # no beats from here on
            await house.command(door, "plain")
            house.app.door._gone(next(iter(house.app.runs._runs.values())).client)
        await house.until(door, warm)


async def test_paused_means_no_guess_and_answers_all_the_same(house: House) -> None:
    async with house.connect() as door:
        assert (await door.ask(Pause(paused=True))).found
        assert not (await door.ask(Pause(paused=True))).found
        await house.command(door, "plain")
        assert (await house.until(door, lambda status: status.reason == "paused")).state == "paused"
        assert (await ask(house, door))[1].usage.outcome is Outcome.COLD
        assert not turns(house, speculative=True)
        await door.ask(Pause(paused=False))


async def test_a_newer_offer_replaces_the_guess_in_flight(house: House) -> None:
    house.modeld.script.held = True
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.modeld.wait_for(Turn, 1)
        await house.command(door, "collection")
        await house.modeld.wait_until(lambda: len(turns(house, speculative=True)) == 2)
        house.modeld.release()
        await house.until(door, warm)
        first, second, *_ = turns(house, speculative=True)  # what else there is to guess may have followed
        assert first.suffix != second.suffix


async def test_a_question_does_not_wait_for_the_guess(house: House) -> None:
    house.modeld.script.held = True
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.modeld.wait_for(Turn, 1)
        asking = asyncio.create_task(ask(house, door))
        await house.modeld.wait_until(lambda: len(turns(house, speculative=False)) == 1)
        house.modeld.release()
        assert (await asking)[0] == "Hello, world"


async def test_a_failed_guess_is_counted_and_never_shown(house: House) -> None:
    """S12"""
    answers = house.modeld.script.answers
    answers[Turn] = lambda turn: (
        [Error(code="engine_failed", message="no")] if turn.speculative else [Done(reason=Reason.END)]
    )
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, lambda status: "failed" in status.reason)
        assert (await ask(house, door))[1].reason is Reason.END
        status = await house.until(door, lambda status: status.state == "idle")
        sent = len(turns(house, speculative=True))
        assert sent == status.figures["guesses_failed"] == speculator.MAX_PREPARED + 1  # and the fix of the first


async def test_a_guess_in_which_intentd_fails_is_not_made_again_at_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(guesser.Guesser, "_done", fail)
    async with house.connect() as door:
        await house.command(door, "plain")
        status = await house.until(door, lambda status: status.state == "idle" and "failed" in status.reason)
        assert len(turns(house, speculative=True)) == status.figures["guesses_failed"] == speculator.MAX_PREPARED + 1


async def test_a_guess_that_may_work_later_is_tried_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guesser, "GUESS_AGAIN_S", 0.01)
    answers = house.modeld.script.answers

    def fail_once(turn: Turn) -> list[Error]:
        del answers[Turn]
        return [Error(code="overloaded", message="no", retry=True)]

    answers[Turn] = fail_once
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, lambda status: status.reason == "every offer is warm")


async def test_a_guess_for_which_modeld_had_no_room_is_not_warm_and_tried_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guesser, "GUESS_AGAIN_S", 0.01)
    full = [Done(reason=Reason.CONTEXT, usage=Usage(prompt=9))]
    house.modeld.script.answers[Turn] = lambda _: full
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.modeld.wait_for(Turn, 2 * (speculator.MAX_PREPARED + 1))
        status = await house.status(door)
        assert status.figures["guesses_failed"] > 0
        assert "guesses_finished" not in status.figures
        assert not warm(status)
        del house.modeld.script.answers[Turn]
        await house.until(door, warm)


async def test_the_others_follow_one_after_another(house: House) -> None:
    async with house.connect() as door:
        await house.command(door, "plain")
        status = await house.until(door, lambda status: status.reason == "every offer is warm")
        assert [offer.warm for offer in status.offers] == [True, True, True, False]
        first, second, third, fix = turns(house, speculative=True)
        assert "test_gross_adds_tax fails" in str(first.suffix)
        assert "odd - kind] fails" in str(second.suffix)
        assert "test_two_items fails" in str(third.suffix)
        assert prompt_of(fix).rpartition("\n")[0] == prompt_of(first).rpartition("\n")[0]


async def test_a_guess_for_what_passes_is_stopped(house: House) -> None:
    house.modeld.script.held = True
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.modeld.wait_for(Turn, 1)
        await house.printed(door, b"5 passed in 0.1s\n", exit=0)
        await house.modeld.wait_for(Cancel, 1)
        assert await offers(house, door) == ()


async def test_a_machine_that_lacks_something_is_left_alone(house: House) -> None:
    house.modeld.script.held = True
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.modeld.wait_for(Turn, 1)
        house.app.speculator.press("the battery is low: 9 %")
        await house.modeld.wait_for(Cancel, 1)
        status = await house.until(door, lambda status: status.state == "idle")
        assert status.reason == "the battery is low: 9 %"
        house.modeld.script.held = False
        assert (await ask(house, door))[1].reason is Reason.END
        house.app.speculator.press(None)
        await house.until(door, warm)


@pytest.mark.parametrize(("why", "reason"), [("pause", "paused"), ("command", "a wrapped command is running")])
async def test_a_guess_in_flight_yields_to_a_pause_and_to_a_command(house: House, why: str, reason: str) -> None:
    house.modeld.script.held = True
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.modeld.wait_for(Turn, 1)
        if why == "pause":
            await door.ask(Pause(paused=True))
        else:
            door.start(CommandStarted(run="long", argv=("make",), cwd=str(house.workspace)))
        await house.modeld.wait_for(Cancel, 1)
        status = await house.until(door, lambda status: status.reason == reason)
        assert status.state != "guessing"
        assert len(turns(house, speculative=True)) == 1
        house.modeld.script.held = False
        if why == "pause":
            await door.ask(Pause(paused=False))
        else:
            await door.ask(CommandFinished(run="long", exit=0, signal=None, output=b"", total=0))
        await house.until(door, warm)


async def test_status_says_which_offer_cannot_be_prepared_while_the_others_are(house: House) -> None:
    house.config.templates.mkdir()
    text = files("intentd").joinpath("templates", "diagnostic.toml").read_text()
    long = text.replace("You help a programmer", "Be very brief. " * 3000)
    (house.config.templates / "diagnostic.toml").write_text(long)
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.printed(door, b"shop/prices.py:1: error: Bad  [misc]\n", argv=("mypy", "."))
        says = "every offer is warm; offer 5: the model's context of "
        status = await house.until(door, lambda status: status.reason.startswith(says))
        assert status.reason.endswith("is too small for the template 'diagnostic'")


async def test_files_that_are_looked_at_all_the_time_keep_no_offer_from_being_prepared(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a slow drive: before the look at the first one's has ended it is time for the next."""
    planner = house.app.planner
    turn = planner.turn

    async def slow(*values: Any, **options: Any) -> Any:
        house.app.speculator.poke()
        return await turn(*values, **options)

    async with house.connect() as door:
        monkeypatch.setattr(planner, "turn", slow)
        await house.command(door, "plain")
        await house.until(door, lambda status: status.reason == "every offer is warm")


async def test_a_fault_of_the_moment_takes_nothing_from_what_is_prepared(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a drive that does not answer for a while: else its projects' guesses would be taken for useless."""

    async def late(*_: Any, **__: Any) -> Any:
        raise TookTooLong

    async def hiccup(door: Any) -> DaemonStatus:
        with monkeypatch.context() as away:
            away.setattr(house.app.planner._guess_lookers, "do", late)
            house.app.speculator.poke()
            status: DaemonStatus = await house.until(door, lambda status: "take too long" in status.reason)
            return status

    async with house.connect() as door:
        house.modeld.script.held = True
        await house.command(door, "plain")
        await house.modeld.wait_for(Turn)
        assert (await hiccup(door)).state == "guessing"
        house.modeld.script.held = False
        house.modeld.release()
        before = await house.until(door, lambda status: status.reason == "every offer is warm")
        status = await hiccup(door)
        assert status.offers == before.offers
        after = await house.until(door, lambda status: status.reason == "every offer is warm")
        for seen in (status, after):
            assert seen.figures["guesses_sent"] == before.figures["guesses_sent"] == 4
            assert not any(account["wasted"] for account in seen.triggers.values())
