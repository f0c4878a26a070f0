"""What guesses were good for, as the daemon counts it."""

import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from intentd import speculator
from intentd.messages import Ask, DaemonStatus, Pause
from intentd.plan.ledger import FIRST_RETRY_S
from modelwire.messages import Accepted, Done, Outcome, Progress, Reason, Started, Tokens, Turn, Usage
from tests.intentd.daemon.talk import House, ask, turns, warm


def all_is_wasted(account: Mapping[str, float]) -> bool:
    return account["wasted"] == account["prefilled"]


async def test_a_fix_of_the_first_is_prepared_too_and_has_an_account_of_its_own(house: House) -> None:
    """S10: and the guess to explain has served when only the fix was asked for."""
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, lambda status: status.reason == "every offer is warm")
        assert (await ask(house, door, intent="fix"))[1].usage.outcome is Outcome.HIT
        assert turns(house, speculative=True)[-1].suffix == turns(house, speculative=False)[0].suffix
        await house.printed(door, b"5 passed in 0.1s\n", exit=0)
        status = await house.until(door, lambda status: all_is_wasted(status.triggers["others"]))
        assert (status.offers, status.state) == ((), "idle")
        assert (status.triggers["fix"]["asks"], status.triggers["fix"]["hits"]) == (1, 1)
        assert status.triggers["test_failed"]["wasted"] == status.triggers["fix"]["wasted"] == 0


async def test_a_question_that_an_earlier_one_has_warmed_is_no_miss(house: House) -> None:
    """The ledger: what a question has left in modeld is not a guess's merit, and its absence not a guess's fault."""
    async with house.connect() as door:
        await door.ask(Pause(paused=True))
        await house.command(door, "plain")
        house.modeld.script.answers[Turn] = lambda _: (
            Accepted(),
            Done(reason=Reason.END, usage=Usage(prompt=9, reused=8, outcome=Outcome.WARM)),
        )
        await ask(house, door, intent="fix")
        account = (await house.status(door)).triggers["fix"]
        assert {name: account[name] for name in ("asks", "hits", "partials", "warm", "misses")} == {
            **{"asks": 1, "hits": 0, "partials": 0, "warm": 1, "misses": 0}
        }


async def test_a_guess_that_a_question_stops_is_kept_in_mind_and_lost_only_with_its_offer(house: House) -> None:
    """What a stopped guess has prefilled counts as wasted once nobody can ask for it."""
    house.modeld.script.answers[Turn] = lambda turn: (
        Accepted(),
        Started(queue_ms=0.0),
        Progress(reused=0, done=40, total=90),
        *([] if turn.speculative else [Done(reason=Reason.END)]),
    )
    async with house.connect() as door:
        await house.command(door, "plain")
        await house.modeld.wait_for(Turn, 1)
        await house.until(door, lambda status: status.figures.get("guess_done") == 40)
        await house.printed(door, b"5 passed in 0.1s\n", exit=0)
        status = await house.until(
            door, lambda status: status.state == "idle" and status.triggers.get("test_failed", {}).get("wasted")
        )
        assert status.triggers["test_failed"]["wasted"] == status.triggers["test_failed"]["prefilled"] == 40


BUSY = ("", "an offer is being prefilled")


async def nobody_asks(house: House, door: Any) -> DaemonStatus:
    """Tests fail and are mended until that is no reason to guess any more."""
    while True:
        await house.command(door, "plain")
        status: DaemonStatus = await house.until(door, lambda status: status.reason not in BUSY)
        if status.reason == "guesses for test_failed are switched off: too few are asked for":
            return status
        await house.printed(door, b"5 passed in 0.1s\n", exit=0)
        await house.until(door, lambda status: not status.offers)


async def test_guesses_that_nobody_asks_for_are_counted_and_end(house: House) -> None:
    async with house.connect() as door:
        status = await nobody_asks(house, door)
        account = status.triggers["test_failed"]
        assert account["off"] == status.triggers["others"]["off"] == 1
        assert account["wasted"] == account["prefilled"] > 0
        assert (await ask(house, door))[1].reason is Reason.END
        house.app.speculator.ledger.check()


async def test_what_was_switched_off_is_tried_again_after_a_while(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead)
    monkeypatch.setattr(speculator, "time", clock)
    async with house.connect() as door:
        status = await nobody_asks(house, door)
        assert 0 < status.triggers["test_failed"]["retry_s"] <= FIRST_RETRY_S
        ahead = FIRST_RETRY_S
        await house.until(door, warm)
        assert (await ask(house, door))[1].usage.outcome is Outcome.HIT
        account = (await house.status(door)).triggers["test_failed"]
        assert (account["off"], account["retry_s"], account["hits"]) == (0, 0, 1)


def begins_only(turn: Turn) -> list[object]:
    """Guesses are made; an answer says what it found and a word, and does not end."""
    if turn.speculative:
        usage = Usage(prompt=90, prefilled=90)
        return [Accepted(), Progress(reused=0, done=90, total=90), Done(reason=Reason.PREFILLED, usage=usage)]
    return [Accepted(), Progress(reused=90, done=90, total=90), Tokens(text="It fails")]


@pytest.mark.parametrize("first", ["whoever asked has read enough", "the tests pass"])
async def test_a_guess_that_was_used_counts_though_its_answer_does_not_end(house: House, first: str) -> None:
    """Ten times, so that nobody's questions switch off what they use."""
    house.modeld.script.answers[Turn] = begins_only
    async with house.connect() as door:
        for number in range(1, 11):
            await house.command(door, "plain")
            await house.until(door, warm)
            stream = door.start(Ask(cwd=str(house.workspace)))
            async for reply in stream:
                if isinstance(reply, Tokens):
                    break
            if first == "the tests pass":
                await house.printed(door, b"5 passed in 0.1s\n", exit=0)
                await house.until(door, lambda status: not status.offers)
            await stream.cancel()
            await house.printed(door, b"5 passed in 0.1s\n", exit=0)
            status = await house.until(
                door, lambda status, so_far=number: not status.offers and status.figures.get("answers_hit") == so_far
            )
        account = status.triggers["test_failed"]
        assert (account["asks"], account["hits"], account["wasted"], account["off"]) == (10, 10, 0, 0)
        house.app.speculator.ledger.check()
