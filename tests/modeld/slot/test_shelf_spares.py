"""What nobody owns, guesses and tapes that a session has left, where there is room for only some of it."""

from collections.abc import Callable
from typing import Any

import pytest

from modeld.backends.fake_cells import FakeCells
from modeld.slot import SlotSettings
from modelwire.messages import DecodeConfig, Reason

MakeBench = Callable[..., Any]
TEN = DecodeConfig(max_tokens=10)


def leave_one(here: Any) -> None:
    """The session goes from a tape of 20 to an adopted guess of 20."""
    here.run("a" * 20)
    here.run("b" * 20, guess=True)
    here.run("b" * 20)
    assert [tape[0] for tape in here.tapes()] == ["ownerless", "real"]


def test_guesses_that_are_prepared_together_stay_and_what_a_session_left_goes(bench: MakeBench) -> None:
    here = bench(context=64, cells=200, sequences=4)
    leave_one(here)
    for letter in "cde":
        here.run(letter * 20, guess=True)
    assert [tape[0] for tape in here.tapes()] == ["guess", "guess", "guess", "real"]
    for letter in "cde":
        assert here.run(letter * 20).begun.reused == 20


def test_the_budget_is_shared_and_what_was_used_longest_ago_goes(bench: MakeBench) -> None:
    here = bench(context=50, cells=200, sequences=8)
    leave_one(here)
    here.run("c" * 20, guess=True)
    assert [tape[0] for tape in here.tapes()] == ["guess", "ownerless", "real"]
    here.run("d" * 20, guess=True)
    assert [tape[0] for tape in here.tapes()] == ["guess", "guess", "real"]
    here.run("e" * 20, guess=True)
    assert [here.run(letter * 20, guess=True).begun.reused for letter in "de"] == [20, 20]


def test_as_many_sessions_as_there_are_sequences_leave_one_to_a_guess(bench: MakeBench) -> None:
    """Their tapes go to host memory, the one used longest ago first, and come back."""
    here = bench(sequences=4, token_ms=1.0)
    for letter in "abcd":
        here.run(letter * 100, session=letter)
    assert here.run("a" * 90 + "x" * 20, session="a", guess=True).ended.reason is Reason.PREFILLED
    assert [tape[:2] for tape in here.tapes()][-3:] == [("real", f"ann/{letter}") for letter in "bcd"]
    assert here.run("d" * 100 + "y", session="d", guess=True).begun.reused == 100
    again = here.run("a" * 100, session="a", decode=TEN)
    assert (again.ended.usage.prefilled, again.ids) == (0, bench().run("a" * 100, decode=TEN).ids)


def test_s2_no_session_gives_up_its_tape_for_guesses_while_a_request_waits(bench: MakeBench) -> None:
    """To park a long one takes a while."""
    here = bench(context=64, cells=400, sequences=3)
    here.awaited = True
    for number in range(3):
        here.run(f"{number}" * 20, session=f"{number}")
    assert [tape[0] for tape in here.tapes()] == ["real"] * 3
    here.awaited = False
    here.run("2" * 21, session="2")
    assert [tape[0] for tape in here.tapes()] == ["real"] * 2


def test_what_sessions_hold_leaves_cells_to_a_guess(bench: MakeBench) -> None:
    here = bench(context=200, cells=400, token_ms=1.0)
    for letter in "abc":
        here.run(letter * 130, session=letter)
    assert [tape[:2] for tape in here.tapes()] == [("real", "ann/b"), ("real", "ann/c")]
    assert here.run("x" * 140, session="x", guess=True).ended.reason is Reason.PREFILLED


@pytest.mark.parametrize("why", ["short", "prefilled as quickly as it would come back"])
def test_a_tape_that_is_as_well_prefilled_again_goes_for_the_next_guess_without_being_parked(
    bench: MakeBench, why: str
) -> None:
    here = bench(sequences=2, token_ms=1.0)
    if why != "short":
        here.slot.shelf._parking._loading.learn(1, 5.0)
    for letter in "ab":
        here.run(letter * (20 if why == "short" else 100), session=letter)
    assert [tape[:2] for tape in here.tapes()] == [("real", "ann/b")]
    assert here.slot.figures().parked == 0
    assert here.run("guess", guess=True).ended.reason is Reason.PREFILLED


@pytest.mark.parametrize("why", ["no memory for it", "a backend that cannot export", "larger than all of that memory"])
def test_a_tape_that_cannot_be_parked_goes_for_no_guess_before_it_was_not_used_for_long(
    bench: MakeBench, why: str
) -> None:
    size = 100 if why.startswith("larger") else 0 if why.startswith("no") else 10**9
    here = bench(sequences=2, settings=SlotSettings(parking_bytes=size), export=not why.startswith("a backend"))
    here.run("a" * 100, session="a")
    for number in range(16):
        here.run("b" * (100 + number), session="b")
    assert [tape[:2] for tape in here.tapes()] == [("real", "ann/a"), ("real", "ann/b")]
    here.run("b" * 130, session="b")
    assert [tape[:2] for tape in here.tapes()] == [("real", "ann/b")]


def test_a_tape_too_large_to_be_parked_is_not_saved_again_after_each_operation(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = bench(sequences=2, settings=SlotSettings(parking_bytes=1500))
    save, saved = here.backend.save, list[int]()

    def counted(sequence: int, length: int, *how: Any) -> tuple[bytes, ...]:
        saved.append(length)
        state: tuple[bytes, ...] = save(sequence, length, *how)
        return state

    monkeypatch.setattr(here.backend, "save", counted)
    here.run("a" * 100, session="a")
    for number in range(8):
        here.run("b" * (100 + number), session="b")
    assert saved == [100]


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all that was copied out of the fake's cells."""
    save, sizes = FakeCells.save, list[int]()

    def counted(self: FakeCells, sequence: int) -> bytes:
        piece = save(self, sequence)
        sizes.append(len(piece))
        return piece

    monkeypatch.setattr(FakeCells, "save", counted)
    return sizes


@pytest.mark.parametrize("sign", ["a request waits", "the stop flag is set"])
def test_s2_a_copy_for_guesses_ends_with_its_piece_when_a_request_comes_and_its_tape_stays(
    bench: MakeBench, pieces: list[int], sign: str
) -> None:
    here = bench(context=200, sequences=3, piece=16)
    for letter in "ab":
        here.run(letter * 100, session=letter)

    if sign == "a request waits":
        here.slot._awaited = lambda: len(pieces) > 0
    else:
        here.backend._cache._stop = lambda: len(pieces) > 0
    here.run("c" * 100, session="c")
    assert len(pieces) == 1
    assert [tape[0] for tape in here.tapes()] == ["real"] * 3
    assert here.slot.figures().parked == 0


def test_a_guess_that_came_while_room_was_left_for_it_has_the_rest_of_it_left_first(
    bench: MakeBench, pieces: list[int]
) -> None:
    """Also in the next rounds, and S7: what goes for it is parked, and is there again at once."""
    here = bench(context=200, sequences=3, piece=16, token_ms=1.0)
    for session in "abcabc":
        pieces.clear()
        here.slot._awaited = lambda: len(pieces) > 0
        here.run(session * 100, session=session)
        assert here.run("x" * 40, session="x", guess=True).ended.reason is Reason.PREFILLED
    assert here.slot.figures().parked == 1
    for session in "abc":
        assert here.run(session * 100, session=session, decode=TEN).ended.usage.prefilled == 0


def test_s2_a_guess_that_has_room_left_for_it_ends_with_the_piece_when_it_is_stopped(
    bench: MakeBench, pieces: list[int]
) -> None:
    """And it has not lacked room: it is tried again."""
    here = bench(context=200, sequences=3, piece=16)
    here.awaited = True
    for session in "abc":
        here.run(session * 100, session=session)
    pieces.clear()
    here.backend._cache._stop = lambda: len(pieces) > 0
    assert here.run("x" * 40, session="x", guess=True).ended.reason is Reason.PREEMPTED
    assert len(pieces) == 1
    assert [tape[0] for tape in here.tapes()] == ["real"] * 3
    assert here.slot.figures().parked == 0

    here.backend._cache._stop = lambda: False
    here.run("c" * 110, session="c")
    assert len(pieces) == 1, "the real request copies nothing for guesses, neither before it nor while another waits"


def test_s7_no_tape_that_cannot_be_parked_goes_before_a_guess_however_many_come(bench: MakeBench) -> None:
    here = bench(context=200, sequences=2, export=False)
    for session in "ab":
        here.run(session * 100, session=session)
    for _ in range(20):
        assert here.run("b" * 100, session="b", guess=True).begun.reused
        assert here.run("x" * 40, session="x", guess=True).ended.reason is Reason.CONTEXT
    assert [tape[0] for tape in here.tapes()] == ["real"] * 2


def test_s7_no_guess_takes_the_place_of_what_is_parked(bench: MakeBench) -> None:
    here = bench(context=200, sequences=2, token_ms=1.0, settings=SlotSettings(parking_bytes=3300))
    for session in "ab":
        here.run(session * 100, session=session)
    here.awaited = True
    here.run("c" * 100, session="c")
    assert (here.slot.figures().parked, here.slot.figures().parked_bytes) == (1, 2244)
    assert here.run("x" * 40, session="x", guess=True).ended.reason is Reason.CONTEXT
    assert [tape[:2] for tape in here.tapes()] == [("real", "ann/b"), ("real", "ann/c")]
    for session in "ca":
        assert here.run(session * 100, session=session, decode=TEN).ended.usage.prefilled == 0


def test_s7_no_guess_takes_the_place_of_what_it_has_just_parked_itself(bench: MakeBench) -> None:
    """One tape is not enough to make the room, and two cannot be parked."""
    here = bench(context=200, cells=400, token_ms=1.0, settings=SlotSettings(parking_bytes=3000))
    here.awaited = True
    for session, length in (("a", 70), ("b", 120), ("c", 200)):
        here.run(session * length, session=session)
    assert here.run("x" * 40, session="x", guess=True).ended.reason is Reason.PREFILLED
    assert [tape[:2] for tape in here.tapes()][1:] == [("real", "ann/b"), ("real", "ann/c")]
    assert here.run("a" * 70, session="a", decode=TEN).ended.usage.prefilled == 0


@pytest.mark.parametrize("pays", [True, False])
def test_s7_the_tape_that_a_guess_starts_from_stays_where_others_make_room_for_it(bench: MakeBench, pays: bool) -> None:
    here = bench(context=200, cells=400, token_ms=1.0)
    here.awaited = True
    for session in "ab":
        here.run(session * 160, session=session)
    if not pays:
        here.slot.shelf._parking._loading.learn(1, 5.0)
    assert here.run("a" * 160 + "more", session="a", guess=True).begun.reused == 160
    assert ("real", "ann/a", 160) in here.tapes()
    assert (here.slot.figures().parked, here.slot.figures().restored) == (int(pays), 0)
    for session in "ab":
        assert here.run(session * 160, session=session, decode=TEN).ended.usage.prefilled == 0


def test_no_more_is_copied_than_may_be_parked_not_even_the_first_time(bench: MakeBench, pieces: list[int]) -> None:
    """And a piece: it tells how large a position is."""
    here = bench(sequences=2, piece=16, settings=SlotSettings(parking_bytes=1600))
    here.run("a" * 100, session="a")
    here.run("b" * 100, session="b")
    assert pieces == [16 * 8]
    assert len(here.tapes()) == 2


@pytest.mark.parametrize("fault", [MemoryError(), RuntimeError("the state of a sequence could not be saved")])
def test_a_copy_that_the_machine_or_the_library_refuses_costs_no_tape(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """Nobody has asked for it."""

    def refuse(self: FakeCells, sequence: int) -> bytes:
        raise fault

    monkeypatch.setattr(FakeCells, "save", refuse)
    here = bench(sequences=2, piece=16)
    for letter in "ab":
        here.run(letter * 100, session=letter)
    here.backend.check()
    assert [tape[:2] for tape in here.tapes()] == [("real", "ann/a"), ("real", "ann/b")]
    assert here.run("a" * 100 + "!", session="a", decode=TEN).begun.reused == 100


@pytest.mark.parametrize("lacks", ["a sequence", "cells"])
def test_s2_a_request_that_is_stopped_while_another_sessions_tape_is_copied_for_it_takes_nothing(
    bench: MakeBench, pieces: list[int], lacks: str
) -> None:
    here = bench(context=200, cells=1000 if lacks == "a sequence" else 250, sequences=2, piece=16)
    here.awaited = True
    for letter in "ab" if lacks == "a sequence" else "a":
        here.run(letter * 100, session=letter)
    before = here.tapes()
    right, here.backend._cache._stop = here.backend._cache._stop, lambda: len(pieces) > 1
    said = here.run("c" * 190, session="c", decode=TEN)
    assert (said.ended.reason, len(pieces)) == (Reason.PREEMPTED, 2)
    assert [tape for tape in here.tapes() if tape[1] != "ann/c"] == before
    here.backend._cache._stop = right
    assert here.run("c" * 190, session="c", decode=TEN).ids == bench().run("c" * 190, decode=TEN).ids
