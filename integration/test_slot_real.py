"""S4 on the slot itself: however a session's tape came about, a real model gives the same logits, bit for bit.

The raw logits of the prompt's last position and of every decode step are compared as bytes with those of a slot that
has served nothing else. How deep a prompt must be for every kernel to be seen is `test_exactness`'s matter; here it is
longer than a window where the model has one.
"""

import threading

import numpy as np
import pytest

from integration.slot_desk import SHARED, Loaded, MakeDesk, both_in_long, cold, desk, loaded, other, prompt
from modeld.backends.base import BackendError, Extended, Ids
from modeld.slot.claims import Wanted
from modeld.slot.tape import Owner, TapeKind
from modelwire.messages import Outcome, Reason

__all__ = ["cold", "desk", "loaded", "other", "prompt"]


@both_in_long
@pytest.mark.parametrize("chunk", [64, 190])
def test_s4_in_other_chunks(
    desk: MakeDesk, loaded: Loaded, prompt: Ids, cold: list[bytes], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded.backend, "chunk", chunk)
    rows, ended = desk().rows(prompt)
    assert ended.usage.chunks_finished == -(-len(prompt) // chunk)
    assert rows == cold


@both_in_long
def test_s4_forked_from_another_session_that_goes_its_own_way_and_is_closed(
    desk: MakeDesk, prompt: Ids, other: Ids, cold: list[bytes]
) -> None:
    here = desk()
    here.run(other, "two")
    here.run(prompt[:200])
    here.run(np.append(other, other[:20]), "two")
    here.close("two")
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, rows) == (200, cold)


@both_in_long
def test_s4_adopted_whole_without_a_forward_pass_before_the_first_token(
    desk: MakeDesk, prompt: Ids, cold: list[bytes]
) -> None:
    here = desk()
    here.run(prompt[:SHARED])
    here.run(prompt, guess=True)
    rows, ended = here.rows(prompt)
    assert (ended.usage.outcome, ended.usage.forward_passes) == (Outcome.HIT, 0)
    assert rows == cold


def test_s4_partly_guessed(desk: MakeDesk, prompt: Ids, other: Ids, cold: list[bytes]) -> None:
    """The right part of a guess is forked behind a model's window, the wrong one stays on its own tape."""
    here = desk()
    here.run(other, guess=True)
    rows, ended = here.rows(prompt)
    assert (ended.usage.outcome, ended.usage.guessed, rows) == (Outcome.PARTIAL, SHARED, cold)


@both_in_long
def test_s4_after_a_guess_that_is_discarded(desk: MakeDesk, prompt: Ids, other: Ids, cold: list[bytes]) -> None:
    """It was written between the two parts of the session's tape; its cells are dropped."""
    here = desk(spare_cells=100)
    here.run(prompt[:SHARED])
    here.run(other, guess=True)
    here.run(np.append(prompt[:SHARED], here.loaded.text[3000:3060]), guess=True)
    assert here.slot.figures().evicted == 1
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, ended.usage.guessed, rows) == (SHARED, 0, cold)


def test_s4_after_a_cut_far_behind_the_end(desk: MakeDesk, prompt: Ids, other: Ids, cold: list[bytes]) -> None:
    """Behind the window of a model that has one."""
    here = desk()
    here.run(np.append(other, here.loaded.text[3000 : 3000 + len(prompt) - len(other)]))
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, len(here.slot.shelf.tapes), rows) == (SHARED, 1, cold)


def test_s4_after_parking_and_return(desk: MakeDesk, prompt: Ids, cold: list[bytes]) -> None:
    """Nothing is prefilled again, and the logits that were kept come back, too."""
    here = desk()
    here.run(prompt, answer=True)
    for number in range(here.backend.sequences):
        here.run(here.loaded.text[3000 + 20 * number :][:20], f"other {number}")
    assert here.slot.figures().parked == 1
    rows, ended = here.rows(prompt)
    assert (here.slot.figures().restored, ended.usage.prefilled) == (1, 0)
    assert rows == cold


@both_in_long
def test_s4_s5_after_preemption_inside_a_chunk(
    desk: MakeDesk, prompt: Ids, cold: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunk that was finished stays, the stopped one is done again."""
    here = desk()
    timer, extend, starts = threading.Timer(0.005, here.flag.set), here.backend.extend, list[int]()

    def stopped_soon(sequence: int, tape: Ids, start: int, rows: int) -> Extended:
        starts.append(start)
        if start == 128:
            timer.start()
        return extend(sequence, tape, start, rows)

    with monkeypatch.context() as seam:
        seam.setattr(here.backend, "extend", stopped_soon)
        guess = here.run(prompt, guess=True)
    timer.join()
    assert (guess.reason, guess.length, guess.usage.chunks_stopped, starts) == (Reason.PREEMPTED, 128, 1, [0, 128])
    here.flag.clear()
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, rows) == (128, cold)


@both_in_long
def test_s4_after_a_compaction(desk: MakeDesk, prompt: Ids, cold: list[bytes]) -> None:
    """What lies above a session that was closed slides down."""
    here = desk()
    here.run(here.loaded.text[3000:3200], "two")
    here.run(prompt[:200])
    moved = here.backend.relocated
    here.close("two")
    assert here.backend.relocated == moved + 200
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, rows) == (200, cold)


def test_s4_what_cannot_fork_goes_on_from_a_copy_of_the_state(
    desk: MakeDesk, prompt: Ids, cold: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S6: the path of backends without shared cells, on a real one: the guess holds cells of its own."""
    here = desk()

    def refuse(source: int, target: int, length: int) -> None:
        raise BackendError("cells cannot be shared")

    monkeypatch.setattr(here.backend, "fork", refuse)
    here.run(prompt[:200])
    guess = here.run(prompt, guess=True)
    assert (guess.usage.reused, guess.usage.prefilled) == (200, len(prompt) - 200)
    assert here.slot.figures().cells_used == 200 + len(prompt)
    rows, ended = here.rows(prompt)
    assert (ended.usage.outcome, rows) == (Outcome.HIT, cold)


@both_in_long
def test_s4_a_refused_cut_is_prefilled_again(
    desk: MakeDesk, prompt: Ids, other: Ids, cold: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = desk()
    monkeypatch.setattr(here.backend, "trim", lambda sequence, length: False)
    here.run(other)
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, ended.usage.prefilled, rows) == (0, len(prompt), cold)


@pytest.mark.parametrize("loaded", ["Gemma 3"], indirect=True)
def test_s4_s6_what_a_window_has_forgotten_is_prefilled_again(
    desk: MakeDesk, prompt: Ids, other: Ids, cold: list[bytes]
) -> None:
    """The library may give the place of what has left the window to others, and tells nobody."""
    here = desk()
    here.run(other, guess=True)
    [tape] = here.slot.shelf.tapes
    assert here.backend._memory.remove(tape.sequence, 0, 40)
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, ended.usage.prefilled, rows) == (0, len(prompt), cold)


@both_in_long
def test_s4_after_thousands_of_forks_and_discards_all_cells_are_free_again(
    desk: MakeDesk, prompt: Ids, cold: list[bytes]
) -> None:
    """Every tenth fork grows by some tokens before it is dropped."""
    here = desk()
    here.run(prompt[:SHARED])
    shelf, free = here.slot.shelf, here.slot.shelf.free_cells
    for number in range(2400):
        ids = np.append(prompt[: number % SHARED], here.loaded.text[3000 : 3001 + number % 5])
        claim = shelf.claim(Wanted(ids=ids, owner=Owner("ann", "one"), guess=True, logits=False))
        assert claim is not None
        assert (claim.tape.kind, claim.reused) == (TapeKind.GUESS, number % SHARED)
        if number % 10 == 0:
            assert shelf.make_room(claim.tape, len(ids) - claim.reused)
            here.backend.extend(claim.tape.sequence, ids, claim.reused, 0)
            shelf.appended(claim.tape, ids[claim.reused :])
            here.backend.tidy()
        if number % 100 == 0:
            here.slot.check()
        shelf.drop(claim.tape)
    here.slot.check()
    assert shelf.free_cells == free == here.backend.cells - SHARED
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, rows) == (SHARED, cold)
    here.close("one")
    arena = here.backend._cache.arena
    assert arena is not None
    assert (arena.top, shelf.free_cells) == (0, here.backend.cells)
    assert [here.backend._memory.length(sequence) for sequence in range(6)] == [0] * 6
