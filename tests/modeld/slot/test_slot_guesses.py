"""What the slot does with a guess: adopted, stopped, discarded, without room."""

from collections.abc import Callable
from typing import Any

import pytest

from modeld.slot import SlotSettings
from modelwire.messages import DecodeConfig, Outcome, Reason

MakeBench = Callable[..., Any]
TEN = DecodeConfig(max_tokens=10)
LONG = "the quick brown fox jumps over the lazy dog " * 20


def test_a_guess_that_is_asked_for_gives_its_first_token_without_a_forward_pass(bench: MakeBench) -> None:
    here = bench()
    guess = here.run(LONG, guess=True, session="anything")
    assert (guess.ended.reason, guess.ids, guess.ended.usage.outcome) == (Reason.PREFILLED, [], Outcome.NONE)
    real = here.run(LONG, decode=TEN)
    usage = real.ended.usage
    assert usage.outcome is Outcome.HIT
    assert usage.reused == usage.guessed == usage.prompt == len(real.prompt_ids)
    assert usage.forward_passes == usage.prefilled == 0
    assert real.ids == bench().run(LONG, decode=TEN).ids
    assert here.tapes() == [("real", "ann/one", real.ended.length)]


def test_a_guess_that_goes_ahead_says_what_would_be_said(bench: MakeBench) -> None:
    """S10: a buffer that was filled ahead is the answer, byte for byte."""
    here = bench()
    ahead = here.run(LONG, guess=True, session="anything", decode=TEN)
    assert (ahead.ended.reason, ahead.ended.usage.outcome) == (Reason.LENGTH, Outcome.NONE)
    assert ahead.ids == bench().run(LONG, decode=TEN).ids
    real = here.run(LONG, decode=TEN)
    assert real.ids == ahead.ids
    assert real.ended.usage.guessed >= len(real.prompt_ids) - 1


def test_s4_a_guess_that_goes_ahead_writes_nothing_behind_a_real_tape_that_it_matches(bench: MakeBench) -> None:
    here = bench()
    real = here.run(LONG, session="one")
    ahead = here.run(LONG, guess=True, session="one", decode=TEN)
    assert ("real", "ann/one", len(real.prompt_ids)) in here.tapes()
    assert ahead.ids == bench().run(LONG, decode=TEN).ids


def test_s7_a_guess_that_goes_ahead_evicts_no_real_tape(bench: MakeBench) -> None:
    here = bench(cells=48)
    here.run("a" * 20, decode=TEN)
    ahead = here.run("b" * 18, guess=True, decode=TEN)
    assert ahead.ended.reason in (Reason.CONTEXT, Reason.LENGTH)
    assert [kind for kind, _, _ in here.tapes()].count("real") == 1


def test_s6_a_guess_that_is_partly_right_saves_its_right_part(bench: MakeBench) -> None:
    here = bench()
    here.run(LONG + "and then?", guess=True)
    real = here.run(LONG + "and now!", decode=TEN)
    assert real.ended.usage.outcome is Outcome.PARTIAL
    assert real.ended.usage.guessed == real.begun.reused == len(LONG + "and ") - LONG.count("th")
    assert real.ids == bench().run(LONG + "and now!", decode=TEN).ids


def test_s4_a_discarded_guess_leaves_the_session_as_it_was(bench: MakeBench) -> None:
    here, alone = bench(), bench()
    first = here.run(LONG, decode=TEN)
    alone.run(LONG, decode=TEN)
    here.run(LONG + "something else", guess=True)
    going_on = first.prompt_ids + first.ids
    one, other = here.run("and on", base=going_on, decode=TEN), alone.run("and on", base=going_on, decode=TEN)
    assert (one.ids, one.ended.reason, one.begun) == (other.ids, other.ended.reason, other.begun)


def test_s5_a_stopped_guess_keeps_its_finished_chunks(bench: MakeBench) -> None:
    here = bench(chunk=64, poll_tokens=16, settings=SlotSettings(chunk_floor=32))
    here.flag.after = 12  # checked before each chunk of 32 and twice in it
    guess = here.run(LONG, guess=True)
    assert guess.ended.reason is Reason.PREEMPTED
    assert guess.ended.length == 128
    assert (guess.ended.usage.chunks_finished, guess.ended.usage.chunks_stopped) == (4, 0)
    here.flag.clear()
    assert here.run(LONG, guess=True).begun.reused == 128
    assert here.run(LONG, decode=TEN).ids == bench().run(LONG, decode=TEN).ids


def test_s5_a_guess_without_room_for_all_of_it_keeps_what_has_room(bench: MakeBench) -> None:
    here = bench(context=64, cells=100)
    here.run("a" * 50)
    guess = here.run("b" * 60, guess=True)
    assert (guess.ended.reason, guess.ended.length) == (Reason.CONTEXT, 48)
    assert here.run("b" * 60, session="two").begun.reused == 48


def test_a_guess_that_is_stopped_at_once_leaves_no_empty_tape(bench: MakeBench) -> None:
    here = bench()
    here.flag.set()
    assert here.run(LONG, guess=True).ended.length == 0
    assert here.tapes() == []


def test_s7_a_guess_without_room_ends_and_evicts_no_real_tape(bench: MakeBench) -> None:
    here = bench(context=100, cells=160, sequences=4, settings=SlotSettings(parking_bytes=0))
    here.run("a" * 80, session="one")
    here.run("b" * 70, session="two")
    guess = here.run("c" * 30, guess=True)
    assert guess.ended.reason is Reason.CONTEXT
    assert [tape for tape in here.tapes() if tape[0] == "real"] == [("real", "ann/one", 80), ("real", "ann/two", 70)]


def test_an_adopted_guess_leaves_what_the_session_had_more_as_ownerless(bench: MakeBench) -> None:
    here = bench()
    here.run("abcdefgh")
    here.run("abcXYZ", guess=True)
    here.run("abcXYZ!")
    assert here.tapes() == [("ownerless", "ann/one", 8), ("real", "ann/one", 7)]


def test_a_guess_that_is_only_partly_matched_stays_a_guess(bench: MakeBench) -> None:
    here = bench()
    here.run("abcdefgh", guess=True)
    here.run("abcd!")
    assert here.tapes() == [("guess", "ann/one", 8), ("real", "ann/one", 5)]


def test_a_guess_is_not_adopted_by_another_client(bench: MakeBench) -> None:
    here = bench()
    here.run("abcdefgh", guess=True, client="ann")
    assert here.run("abcdefgh", client="bob", decode=TEN).begun.reused == 8
    assert [tape[:2] for tape in here.tapes()] == [("guess", "ann/one"), ("real", "bob/one")]


def test_the_same_guess_again_does_nothing_and_a_longer_one_goes_on_in_place(bench: MakeBench) -> None:
    here = bench()
    here.run("abcdefgh", guess=True)
    assert here.run("abcdefgh", guess=True).ended.usage.forward_passes == 0
    longer = here.run("abcdefghij", guess=True)
    assert longer.begun.reused == 8
    assert here.tapes() == [("guess", "ann/one", 10)]


def test_s4_what_cannot_fork_guesses_on_a_copy_of_the_state(bench: MakeBench) -> None:
    here = bench(refuse_fork=True, settings=SlotSettings(parking_least=4))
    here.run("abcdefgh" * 20)
    guess = here.run("abcdefgh" * 20 + "XYZ", guess=True)
    assert (guess.begun.reused, guess.ended.usage.prefilled) == (160, 3)
    assert here.tapes() == [("guess", "ann/one", 163), ("real", "ann/one", 160)]
    assert here.slot.figures().cells_used == 160 + 163
    real = here.run("abcdefgh" * 20 + "XYZ", decode=TEN)
    assert real.ended.usage.outcome is Outcome.HIT
    assert real.ids == bench().run("abcdefgh" * 20 + "XYZ", decode=TEN).ids


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [300, pytest.param(30_000, marks=pytest.mark.long)])
def test_after_many_forks_and_discards_all_cells_are_free_again(bench: MakeBench, count: int) -> None:
    here = bench(context=200, cells=300, sequences=5, chunk=64)
    here.run("a" * 60)
    for number in range(count):
        here.run("a" * (number % 60) + "bcdefgh"[: number % 7 + 1] * (1 + number % 9), guess=True)
        if number % 7 == 0:
            here.run("a" * 60 + f"{number % 5}", session="two")
    here.backend.check()
    here.run(closed=(("ann", "one"), ("ann", "two")))
    assert here.tapes() == []
    assert here.backend.free_cells == here.slot.shelf.free_cells == 300
