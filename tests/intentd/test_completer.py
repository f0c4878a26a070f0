"""Completions as the daemon makes them: ahead only where it may guess, each document alone, disturbed by no guess."""

import asyncio
import threading
from typing import Any

import pytest
from attrs import evolve

from intentd import planner
from intentd.app import App
from intentd.completer import INLINE
from intentd.messages import Complete, CompletionUsed, Pause
from intentd.plan import inline
from intentd.plan.ledger import WINDOW
from intentd.shown import View
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import Accepted, Cancel, Describe, Done, Progress, Reason, Text, Timings, Tokens, Turn, Usage
from modelwire.testing import PATIENCE_S

CODE = "def area(width, height):\n    return \n\nprint(area(2, 3))\n"
GAP = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")

House = Any


def complete(house: House, name: str = "area.py", *, ahead: bool = False) -> Complete:
    view = View(workspace=str(house.workspace), path=str(house.workspace / name), version=1, text=CODE)
    return Complete(view=view, line=1, character=11, ahead=ahead, deadline_ms=None if ahead else 600)


async def test_nothing_is_made_ahead_while_nothing_is_guessed(house: House) -> None:
    async with house.connect() as door:
        await door.ask(Pause(paused=True))
        with pytest.raises(WireError, match="paused") as refused:
            await door.start(complete(house, ahead=True)).done()
        assert (refused.value.code, refused.value.retry) == (ErrorCode.NOT_READY, True)
        await door.start(complete(house)).done()
    (turn,) = house.modeld.received(Turn)
    assert not turn.speculative


async def test_what_is_made_ahead_ends_at_once_for_a_pause(house: House) -> None:
    house.modeld.script.held = True
    async with house.connect() as door, asyncio.timeout(PATIENCE_S):
        await house.until(door, lambda status: status.modeld_reachable)
        ahead = door.start(complete(house, ahead=True))
        await house.modeld.wait_for(Turn)
        await door.ask(Pause(paused=True))
        await house.modeld.wait_for(Cancel)
        assert (await ahead.done()).reason is Reason.CANCELLED


async def test_nothing_is_made_ahead_that_was_planned_before_a_pause(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = threading.Event()
    build = inline.build_inline

    def slow(*values: Any, **options: Any) -> Any:
        planned.wait(PATIENCE_S)
        return build(*values, **options)

    monkeypatch.setattr(planner, "build_inline", slow)
    async with house.connect() as door, asyncio.timeout(PATIENCE_S):
        await house.until(door, lambda status: status.modeld_reachable)
        ahead = door.start(complete(house, ahead=True))
        await door.ask(Pause(paused=True))
        planned.set()
        with pytest.raises(WireError, match="paused"):
            await ahead.done()
    assert not house.modeld.received(Turn)


async def test_each_document_has_its_own_session_and_lane(house: House) -> None:
    """One lane a document: a newer place ends what was made for the older one, and nothing else."""
    async with house.connect() as door:
        for name in ("area.py", "other.py", "area.py"):
            await door.start(complete(house, name)).done()
    first, other, again = house.modeld.received(Turn)
    assert (first.session, first.lane) == (again.session, again.lane)
    assert first.session != other.session
    assert first.lane != other.lane
    assert None not in (first.lane, other.lane)
    assert "area" not in first.lane + first.session  # a name of a file is the person's own


async def test_two_editors_of_one_document_do_not_end_each_others(house: House) -> None:
    async with house.connect() as door, house.connect() as other:
        for editor in (door, other):
            await editor.start(complete(house)).done()
    one, another = house.modeld.received(Turn)
    assert one.prefix == another.prefix
    assert one.lane != another.lane
    assert one.session != another.session


async def test_an_answer_that_begins_otherwise_than_the_line_is_made_no_further(house: House) -> None:
    """Its indentation stands there; what does not begin with it cannot follow, and costs no more of the slot."""
    begun = [Accepted(), Progress(reused=2, done=9, total=9), Tokens(text="x"), Tokens(text="    y")]
    house.modeld.script.answers[Turn] = lambda _: begun
    asked = evolve(complete(house, ahead=True), character=4)
    asked = evolve(asked, view=evolve(asked.view, text="def f():\n    \n"))
    async with house.connect() as door, asyncio.timeout(PATIENCE_S):
        await house.until(door, lambda status: status.modeld_reachable)
        stream = door.start(asked)
        assert await stream.text() == ""
        assert (await stream.done()).reason == Reason.END
        await house.modeld.wait_for(Cancel)
        row = (await house.status(door)).triggers[INLINE]
        assert (row["prefilled"], row["wasted"]) == (7, 7)


async def test_what_is_ended_on_the_way_has_cost_what_was_done_by_then(house: House) -> None:
    begun = [Accepted(), Progress(reused=2, done=9, total=9), Tokens(text="width")]
    house.modeld.script.answers[Turn] = lambda _: begun
    async with house.connect() as door, asyncio.timeout(PATIENCE_S):
        await house.until(door, lambda status: status.modeld_reachable)
        async with door.start(complete(house, ahead=True)) as stream:
            async for reply in stream:
                if isinstance(reply, Tokens):
                    break
        await house.modeld.wait_for(Cancel)
        row = (await house.status(door)).triggers[INLINE]
        assert (row["prefilled"], row["wasted"]) == (7, 7)


async def test_no_guess_ends_a_completion_that_is_being_made(house: House) -> None:
    house.modeld.script.held = True
    async with house.connect() as door:
        making = door.start(complete(house))
        await house.modeld.wait_for(Turn)
        await house.command(door, "plain")
        await house.until(door, lambda status: status.offers and status.reason == "a completion is being made")
        assert len(house.modeld.received(Turn)) == 1
        house.modeld.release()
        await making.done()
        await house.modeld.wait_for(Turn, 2)


async def test_a_model_with_tokens_for_a_gap_is_shown_both_sides(house: House) -> None:
    (description,) = house.modeld._question("test", Describe())
    model = evolve(description.model, fim=True, fim_tokens=GAP)
    house.modeld.script.answers[Describe] = lambda _: [evolve(description, model=model)]
    await house.app.stop()
    house.app = App(house.config)
    await house.app.start()
    async with house.connect() as door:
        await door.start(complete(house)).done()
    (turn,) = house.modeld.received(Turn)
    assert turn.prefix == (
        Text(text=GAP[0], special=True),
        Text(text="def area(width, height):\n    return "),
        Text(text=GAP[1], special=True),
        Text(text="\n\nprint(area(2, 3))\n"),
        Text(text=GAP[2], special=True),
    )


async def test_what_is_made_ahead_and_what_became_of_it_is_accounted_for(house: House) -> None:
    async with house.connect() as door:
        await house.until(door, lambda status: status.modeld_reachable)
        await door.start(complete(house, ahead=True)).done()
        row = (await house.status(door)).triggers[INLINE]
        assert (row["prefilled"] > 0, row["preemptions"]) == (True, 0)
        house.modeld.script.answers[Turn] = lambda _: [Done(reason=Reason.PREEMPTED)]
        await door.start(complete(house, ahead=True)).done()
        await door.ask(CompletionUsed(ahead=True, prefilled=7, seconds=0.5))
        row = (await house.status(door)).triggers[INLINE]
        assert (row["preemptions"], row["wasted"], row["wasted_s"]) == (1, 7, 0.5)


async def test_one_that_yielded_has_cost_what_was_done_and_says_nothing_of_its_trigger(house: House) -> None:
    yielded = Done(reason=Reason.PREEMPTED, usage=Usage(prompt=9, prefilled=7), timings=Timings(prefill=500.0))
    house.modeld.script.answers[Turn] = lambda _: [yielded]
    async with house.connect() as door:
        await house.until(door, lambda status: status.modeld_reachable)
        await door.start(complete(house, ahead=True)).done()
        row = (await house.status(door)).triggers[INLINE]
    assert (row["prefilled"], row["wasted"], row["wasted_s"]) == (7, 7, 0.5)
    assert not house.app.speculator.ledger._of(INLINE).settled


async def test_completions_that_were_not_there_do_not_speak_against_making_them_ahead(house: House) -> None:
    async with house.connect() as door:
        for ahead, off in ((False, 0), (True, 1)):
            for _ in range(WINDOW):
                await door.ask(CompletionUsed(outcome="miss", ahead=ahead))
            assert (await house.status(door)).triggers[INLINE]["off"] == off
