"""Tapes that had to go come back from host memory without prefill, and what spare tapes hold is bounded."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from modeld.backends.base import BackendError
from modeld.engine.messages import Save, Saved
from modeld.slot import SlotSettings
from modelwire.messages import DecodeConfig, Outcome, Reason

MakeBench = Callable[..., Any]
TEN = DecodeConfig(max_tokens=10)
ONE, TWO = "the first context " * 8, "and the second one " * 8
TIGHT = {"context": 200, "cells": 240, "token_ms": 1.0}


def test_s4_two_sessions_that_do_not_fit_together_take_turns_without_prefill(bench: MakeBench) -> None:
    here, roomy = bench(**TIGHT), bench()
    base_one, base_two = list[int](), list[int]()
    for turn in range(4):
        one = here.run(ONE if not turn else "x", base=base_one, session="one", decode=TEN)
        two = here.run(TWO if not turn else "y", base=base_two, session="two", decode=TEN)
        assert one.ids == roomy.run(ONE if not turn else "x", base=base_one, session="one", decode=TEN).ids
        assert two.ids == roomy.run(TWO if not turn else "y", base=base_two, session="two", decode=TEN).ids
        if turn:
            assert max(one.ended.usage.prefilled, two.ended.usage.prefilled) <= 2  # the one that was never fed, and "x"
            assert one.ended.usage.outcome is Outcome.WARM
        base_one, base_two = one.prompt_ids + one.ids, two.prompt_ids + two.ids
    figures = here.slot.figures()
    assert (figures.parked, figures.restored) == (1, 6)
    assert figures.parked_bytes > 0


def test_s6_the_saved_beginning_of_a_tape_has_no_logits_of_its_end(bench: MakeBench) -> None:
    here = bench(**TIGHT)
    ids = here.run(ONE).prompt_ids[:100]
    here.slot.save(Save(client="ann", place="snapshot", ids=np.array(ids, "<i4").tobytes()))
    here.run(closed=(("ann", "one"),))
    assert here.run(base=ids).begun.reused == 100
    assert here.slot.shelf.tapes[0].kept is None


def test_of_several_parked_tapes_the_one_that_saves_most_comes_back(bench: MakeBench) -> None:
    here = bench(**TIGHT)
    for number in (1, 2, 3, 4):
        here.run(f"{number}" * 130, session=f"s{number}")
    assert here.slot.figures().parked == 3
    again = here.run("2" * 130 + "!", session="s2", decode=TEN)
    assert (again.begun.reused, here.slot.figures().restored) == (130, 1)
    assert again.ids == bench().run("2" * 130 + "!", decode=TEN).ids


def test_s6_kept_logits_that_come_back_answer_no_longer_prompt(bench: MakeBench) -> None:
    here = bench(**TIGHT)
    said = here.run(ONE, session="one", decode=TEN)
    here.run(TWO, session="two")
    whole = said.prompt_ids + said.ids[:9]
    again = here.run(base=whole, session="one", decode=TEN)
    assert (here.slot.figures().restored, again.ended.usage.prefilled) == (1, 1)
    assert again.ids == bench().run(base=whole, decode=TEN).ids


def test_kept_logits_come_back_too(bench: MakeBench) -> None:
    here = bench(**TIGHT)
    here.run(ONE, session="one")
    here.run(TWO, session="two")
    again = here.run(ONE, session="one", decode=TEN)
    assert (again.ended.usage.forward_passes, again.ended.usage.outcome) == (0, Outcome.HIT)
    assert again.ids == bench().run(ONE, decode=TEN).ids


def test_s7_a_guess_brings_nothing_back_at_the_cost_of_a_real_tape(bench: MakeBench) -> None:
    here = bench(**TIGHT)
    here.run(ONE, session="one")
    here.run(TWO, session="two")
    here.run(ONE + "more", session="one", guess=True)
    assert [tape[:2] for tape in here.tapes()][-1] == ("real", "ann/two")
    assert here.slot.figures().restored == 0


def test_what_is_parked_is_bounded_and_goes_with_its_session(bench: MakeBench) -> None:
    """S11."""
    here = bench(**TIGHT, settings=SlotSettings(parking_bytes=10_000))
    for number in range(12):
        here.run(f"{number}" * 150, session=f"s{number}")
        assert here.slot.figures().parked_bytes <= 10_000
    assert 1 <= here.slot.figures().parked < 11
    here.run(closed=tuple(("ann", f"s{number}") for number in range(12)))
    assert here.slot.figures().parked == here.slot.figures().parked_bytes == 0


@pytest.mark.parametrize("why", ["no memory for it", "a backend that cannot export", "dearer than a prefill"])
def test_without_parking_a_session_is_prefilled_again(bench: MakeBench, why: str) -> None:
    settings = SlotSettings(parking_bytes=0 if why == "no memory for it" else 10**9)
    here = bench(**TIGHT, settings=settings, export=why != "a backend that cannot export")
    if why == "dearer than a prefill":
        here.slot.shelf._parking._loading.learn(1, 5.0)
    here.run(ONE, session="one")
    here.run(TWO, session="two")
    assert here.slot.figures().parked == 0
    assert here.run(ONE, session="one").ended.usage.outcome is Outcome.COLD


@pytest.mark.parametrize("what", ["save", "load"])
def test_a_state_that_is_refused_is_prefilled_again(
    bench: MakeBench, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = bench(**TIGHT)
    monkeypatch.setattr(here.backend, what, _refuse)
    here.run(ONE, session="one")
    here.run(TWO, session="two")
    assert here.slot.figures().parked == (what == "load")
    again = here.run(ONE, session="one", decode=TEN)
    assert (again.ended.usage.outcome, here.slot.figures().restored) == (Outcome.COLD, 0)
    assert again.ids == bench().run(ONE, decode=TEN).ids


@pytest.mark.parametrize("what", ["save", "load"])
def test_a_copy_that_is_refused_starts_cold(bench: MakeBench, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a backend that cannot fork."""
    here = bench(refuse_fork=True)
    monkeypatch.setattr(here.backend, what, _refuse)
    here.run(ONE)
    guess = here.run(ONE + "and more", guess=True)
    assert (guess.ended.reason, guess.begun.reused) == (Reason.PREFILLED, 0)
    assert here.run(ONE + "and more", decode=TEN).ids == bench().run(ONE + "and more", decode=TEN).ids


def _refuse(*_: object) -> None:
    raise BackendError("this state is refused")


def test_guesses_hold_no_more_cells_than_their_budget(bench: MakeBench) -> None:
    here = bench(settings=SlotSettings(spare_cells=100))
    here.run("s" * 50, session="real")
    for letter in "abcdef":
        here.run("s" * 50 + letter * 40, guess=True)
        assert here.slot.figures().cells_used <= 50 + 100
    assert here.slot.figures().guesses == 2
    long = here.run("z" * 150, guess=True).ended
    assert (long.reason, long.length <= 100) == (Reason.CONTEXT, True)
    assert here.slot.figures().cells_used <= 50 + 100


def test_tapes_that_become_ownerless_are_held_to_the_budget(bench: MakeBench) -> None:
    here = bench(settings=SlotSettings(spare_cells=100))
    for letter in "abcdef":
        here.run("s" * 20 + letter * 60, guess=True)
        here.run("s" * 20 + letter * 60 + "!")
    assert here.slot.figures().cells_used <= 81 + 100


def test_s4_a_snapshot_comes_back_as_often_as_wanted_with_its_bits_when_its_tape_is_gone(bench: MakeBench) -> None:
    here, roomy = bench(**TIGHT), bench()
    one = here.run(ONE, session="one", decode=TEN)
    ids = one.prompt_ids + one.ids
    expected = roomy.run(base=ids, decode=TEN).ids
    assert save(here, ids) > 0
    for time in range(3):
        here.run(closed=(("ann", "one"),))
        here.run(f"{time}" + TWO, session="two")
        here.run(base=ids, session="three")
        again = here.run(base=ids, session="three", decode=TEN)
        assert again.ids == expected
        assert again.ended.usage.prefilled <= 1  # the token that was generated last was never fed
        here.run(closed=(("ann", "three"),))
    assert here.slot.figures().restored == 3


def test_s4_a_snapshot_stays_when_a_longer_tape_is_parked(bench: MakeBench) -> None:
    """Its session goes on, has to go, and is closed."""
    here = bench(**TIGHT)
    ids = here.run(ONE, session="one").prompt_ids
    save(here, ids)
    here.run("and more", base=ids, session="one")
    here.run(TWO, session="two")
    assert here.slot.figures().parked == 2
    here.run(closed=(("ann", "one"), ("ann", "two")))
    again = here.run(base=ids, session="three", decode=TEN)
    assert (here.slot.figures().restored, again.ended.usage.forward_passes) == (1, 0)
    assert again.ids == bench().run(ONE, decode=TEN).ids


def test_the_logits_of_a_snapshot_are_kept(bench: MakeBench) -> None:
    here = bench(**TIGHT)
    ids = here.run(ONE, session="one", guess=True).prompt_ids
    save(here, ids)
    here.run(TWO, session="two")
    here.run(base=ids, session="three")
    again = here.run(base=ids, session="three", decode=TEN)
    assert (again.ended.usage.forward_passes, again.ids) == (0, bench().run(ONE, decode=TEN).ids)


def test_a_snapshot_of_a_parked_session_shares_its_bytes_and_goes_when_it_is_closed(bench: MakeBench) -> None:
    here = bench(**TIGHT)
    ids = here.run(ONE, session="one").prompt_ids
    here.run(TWO, session="two")
    assert here.slot.figures().parked == 1
    assert save(here, ids) > 0
    here.run(closed=(("ann", "one"),))
    assert here.slot.figures().parked == 1
    assert save(here, ids, "other") > 0
    assert here.slot.figures().parked == 2
    save(here, [1], "third", closed=(("ann", "snapshot"),))
    assert here.slot.figures().parked == 1
    here.run(closed=(("ann", "other"),))
    assert here.slot.figures().parked == here.slot.figures().parked_bytes == 0


@pytest.mark.parametrize("why", ["no memory for it", "a backend that cannot export", "too short", "nothing is there"])
def test_without_bytes_a_snapshot_is_prefilled_and_says_the_same(bench: MakeBench, why: str) -> None:
    settings = SlotSettings(parking_bytes=0 if why == "no memory for it" else 10**9)
    here = bench(**TIGHT, settings=settings, export=why != "a backend that cannot export")
    prompt = "short" if why == "too short" else ONE
    ids = here.run(prompt, session="one").prompt_ids
    if why == "nothing is there":
        here.run(closed=(("ann", "one"),))
    assert save(here, ids) == 0
    here.run(TWO, session="two", closed=(("ann", "one"),))
    again = here.run(base=ids, session="three", decode=TEN)
    assert (again.ended.usage.reused, again.ids) == (0, bench().run(prompt, decode=TEN).ids)


def test_snapshots_are_within_the_memory_for_parked_tapes_the_oldest_goes(bench: MakeBench) -> None:
    here = bench(settings=SlotSettings(parking_bytes=10_000))
    for number in range(12):
        ids = here.run(f"{number}" * 150, session=f"s{number}").prompt_ids
        assert 0 < save(here, ids, f"{number}") <= here.slot.figures().parked_bytes <= 10_000
    assert 1 <= here.slot.figures().parked < 11


def save(here: Any, ids: list[int], place: str = "snapshot", closed: tuple[tuple[str, str], ...] = ()) -> int:
    saved = here.slot.save(Save(client="ann", place=place, ids=np.array(ids, "<i4").tobytes(), closed=closed))
    here.slot.check()
    assert isinstance(saved, Saved)
    return saved.bytes


def test_tapes_that_become_ownerless_without_any_guess_are_held_to_the_budget_too(bench: MakeBench) -> None:
    """A session that goes on from other sessions' tapes, one after the other, leaves its own."""
    here = bench(settings=SlotSettings(spare_cells=100))
    for number, letter in enumerate("abcdef", 1):
        here.run(letter * 20, session=letter)
        here.run(letter * 20 + "x" * 60, session="one")
        assert here.slot.figures().cells_used <= 20 * number + 60 + 100
    assert ("ownerless", "ann/one", 80) in here.tapes()


def test_the_logits_at_a_prompts_end_are_parked_with_the_answer_behind_it(bench: MakeBench) -> None:
    here = bench(**TIGHT)
    here.run(ONE, session="one", decode=TEN)
    here.run(TWO, session="two")
    again = here.run(ONE, session="one", decode=TEN)
    assert (here.slot.figures().restored, again.ended.usage.forward_passes) == (1, 0)


def test_s4_what_comes_back_may_have_to_leave_the_memory_for_what_goes(bench: MakeBench) -> None:
    """There is room for one parked tape: the other takes it just before."""
    here = bench(**TIGHT, settings=SlotSettings(parking_bytes=3000))
    for session, prompt in (("one", ONE), ("two", TWO), ("one", ONE), ("two", TWO)):
        said = here.run(prompt, session=session, decode=TEN)
        assert said.ids == bench().run(prompt, decode=TEN).ids
        assert here.slot.figures().parked_bytes <= 3000
    assert (here.slot.figures().restored, here.slot.figures().parked) == (2, 1)


def test_a_snapshot_that_had_to_leave_for_another_tape_stays_gone(bench: MakeBench) -> None:
    here = bench(**TIGHT, settings=SlotSettings(parking_bytes=3000))
    ids = here.run(ONE, session="one").prompt_ids
    save(here, ids)
    here.run(closed=(("ann", "one"),))
    here.run(TWO, session="two")
    here.run(base=ids, session="one")
    assert (here.slot.figures().restored, here.slot.figures().parked) == (1, 1)
    assert here.slot.figures().parked_bytes <= 3000


def test_s4_what_a_session_holds_now_goes_for_its_snapshot_and_nobody_elses(bench: MakeBench) -> None:
    here = bench(**TIGHT)
    ids = here.run("x" * 150, session="one").prompt_ids
    save(here, ids)
    here.run("y" * 130, session="one")
    here.run("other", session="two")
    again = here.run(base=ids, session="one", decode=TEN)
    assert (here.slot.figures().restored, again.ended.usage.forward_passes) == (1, 0)
    assert again.ids == bench().run("x" * 150, decode=TEN).ids
    assert [tape[:2] for tape in here.tapes()] == [("real", "ann/one"), ("real", "ann/two")]


def test_a_tape_beyond_the_guesses_budget_does_not_come_back_for_one(bench: MakeBench) -> None:
    """And no other guess goes for it in vain."""
    here = bench(**TIGHT, settings=SlotSettings(spare_cells=100))
    here.run("x" * 130, session="one")
    here.run(TWO, session="two")
    here.run("g" * 30, guess=True, closed=(("ann", "two"),))
    here.run("x" * 66, session="one", guess=True)
    assert (here.slot.figures().restored, here.slot.figures().guesses) == (0, 2)


def test_a_tape_larger_than_the_memory_for_parked_ones_takes_nothing_out_of_it(bench: MakeBench) -> None:
    here = bench(**TIGHT, settings=SlotSettings(parking_bytes=3000))
    small = here.run("s" * 70, session="small").prompt_ids
    assert save(here, small) > 0
    here.run("b" * 200, session="big", closed=(("ann", "small"),))
    assert save(here, [ord("b")] * 200, "too large") == 0
    here.run("c" * 100, session="other")
    assert here.slot.figures().parked == 1
    here.run(base=small, session="small")
    assert here.slot.figures().restored == 1


def test_s4_a_guess_takes_no_parked_tape_from_its_session(bench: MakeBench) -> None:
    here = bench(**TIGHT)
    here.run(ONE, session="one")
    here.run(TWO, session="two")
    here.run(ONE + "more", session="one", guess=True, closed=(("ann", "two"),))
    assert (here.slot.figures().restored, here.slot.figures().parked) == (1, 1)
    here.run("z" * 190, session="three")
    again = here.run(ONE + "!", session="one", decode=TEN)
    assert again.ended.usage.outcome is Outcome.WARM
    assert again.ids == bench().run(ONE + "!", decode=TEN).ids


def test_s6_a_state_that_is_refused_after_the_next_best_tape_went_for_it_starts_cold(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = bench(**TIGHT)
    here.run(ONE, session="one")
    here.run(ONE[:30] + "t" * 150, session="two")
    monkeypatch.setattr(here.backend, "load", _refuse)
    again = here.run(ONE, session="one", decode=TEN)
    here.backend.check()
    assert (again.begun.reused, here.slot.figures().evicted) == (0, 2)
    assert again.ids == bench().run(ONE, decode=TEN).ids


def test_s2_a_stop_reaches_a_tape_that_comes_back_for_a_guess_and_it_stays_parked(bench: MakeBench) -> None:
    here = bench(**TIGHT, piece=16)
    here.run(ONE, session="one")
    here.run(TWO, session="two")
    here.flag.after = 3
    guess = here.run(ONE + "more", session="one", guess=True, closed=(("ann", "two"),))
    assert (guess.ended.reason, guess.ended.length) == (Reason.PREEMPTED, 0)
    assert (here.slot.figures().restored, here.slot.figures().parked, here.tapes()) == (0, 1, [])
    here.flag.clear()
    again = here.run(ONE, session="one", decode=TEN)
    assert (here.slot.figures().restored, again.ended.usage.forward_passes) == (1, 0)
    assert again.ids == bench().run(ONE, decode=TEN).ids


def test_a_cancel_while_its_tape_comes_back_loses_nothing(bench: MakeBench) -> None:
    here = bench(**TIGHT, piece=16)
    here.run(ONE, session="one")
    here.run(TWO, session="two")
    here.flag.after = 3
    assert here.run(ONE, session="one").ended.reason is Reason.PREEMPTED
    here.flag.clear()
    assert here.run(ONE, session="one", decode=TEN).ended.usage.forward_passes == 0
