"""What a guess may not do to others on a real model, and what stops, want of room and closings leave of it."""

from collections.abc import Callable
from itertools import count

import numpy as np
import pytest

from integration.slot_desk import SHARED, STEPS, Desk, Loaded, MakeDesk, both_in_long, cold, desk, loaded, other, prompt
from modeld.backends.base import Ids
from modeld.backends.llamacpp.backend import OWN_SEQUENCES
from modeld.engine.messages import Advanced, Begun, FromEngine, Generated, Save
from modeld.slot.shelf import Shelf
from modeld.slot.tape import TapeKind
from modelwire.messages import Outcome, Reason

__all__ = ["cold", "desk", "loaded", "other", "prompt"]
one_row_like_many = pytest.mark.parametrize("loaded", ["SmolLM2"], indirect=True)
"""For cases that compute a position again, alone: Gemma 3 as packaged has other last bits then."""


def stop_at(here: Desk, met: Callable[[FromEngine], bool]) -> None:
    """Sets the stop flag at the first message of which `met` is true."""

    def look(message: FromEngine) -> None:
        if met(message):
            here.flag.set()

    here.emitted = look


def go_on(here: Desk) -> None:
    here.flag.clear()
    here.emitted = lambda message: None


def real_tapes(here: Desk) -> list[tuple[str, list[int]]]:
    real = [tape for tape in here.slot.shelf.tapes if tape.kind is TapeKind.REAL]
    return sorted((tape.owner.session, tape.ids.tolist()) for tape in real)


@both_in_long
@pytest.mark.parametrize("when", ["forked", "between chunks", "finished"])
def test_s2_s4_s5_stopped_before_between_and_after_its_chunks(
    desk: MakeDesk, prompt: Ids, cold: list[bytes], when: str
) -> None:
    """Inside a chunk is `test_slot_real`'s case. What was finished stays, and nothing else does."""
    here = desk()
    here.run(prompt[:SHARED])
    first = SHARED + 128
    at: dict[str, Callable[[FromEngine], bool]] = {
        "forked": lambda message: isinstance(message, Begun),
        "between chunks": lambda message: isinstance(message, Advanced) and message.length == first,
        "finished": lambda message: isinstance(message, Advanced) and message.length == len(prompt),
    }
    stop_at(here, at[when])
    guess = here.run(prompt, guess=True)
    whole = when == "finished"
    length = {"forked": SHARED, "between chunks": first, "finished": len(prompt)}[when]
    assert (guess.reason, guess.length) == (Reason.PREFILLED if whole else Reason.PREEMPTED, length)
    assert guess.usage.chunks_stopped == 0, "the flag was read when the next chunk had begun"
    go_on(here)
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, ended.usage.forward_passes == 0, rows) == (length, whole, cold)


@both_in_long
@pytest.mark.parametrize("guess", [True, False], ids=["a guess that goes ahead", "an answer"])
def test_s2_s4_s9_stopped_while_it_generates(desk: MakeDesk, prompt: Ids, cold: list[bytes], guess: bool) -> None:
    """What was held back until then, as it might have begun a stop text, is never said."""
    here = desk()
    whole = [int(np.frombuffer(row, np.float32).argmax()) for row in cold]
    tokens = count(1)
    stop_at(here, lambda message: isinstance(message, Generated) and next(tokens) == 3)
    pieces = [here.backend.vocabulary.piece(token).decode() for token in whole[:4]]
    stopped = here.run(prompt, guess=guess, answer=True, stop=("".join(pieces[1:]),))
    assert (stopped.reason, here.said, here.text) == (Reason.PREEMPTED, whole[:3], pieces[0])
    go_on(here)
    rows, ended = here.rows(prompt)
    assert (ended.usage.outcome, here.said, rows) == (Outcome.HIT, whole, cold)


@one_row_like_many
def test_s6_the_logits_of_a_longer_tape_answer_no_shorter_prompt(
    desk: MakeDesk, loaded: Loaded, prompt: Ids, cold: list[bytes]
) -> None:
    """Neither on that tape nor on a fork of it."""
    here = desk()
    here.run(np.append(prompt, loaded.text[2000:2020]), guess=True)
    stop_at(here, lambda message: isinstance(message, Begun))
    fork = here.run(np.append(prompt, loaded.text[3000:3020]), guess=True)
    assert (fork.reason, fork.length) == (Reason.PREEMPTED, len(prompt))
    go_on(here)
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, ended.usage.prefilled, rows) == (len(prompt) - 1, 1, cold)


@one_row_like_many
def test_s6_logits_do_not_outlive_the_cut_of_their_position(
    desk: MakeDesk, loaded: Loaded, prompt: Ids, other: Ids, cold: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tape grows beyond their place again, with other tokens, and is stopped before it has new ones."""
    monkeypatch.setattr(loaded.backend, "chunk", 64)
    here = desk()
    here.run(np.append(other, loaded.text[3000:])[: len(prompt)])
    stop_at(here, lambda message: isinstance(message, Advanced) and message.length >= len(prompt))
    stopped = here.run(np.append(prompt, loaded.text[2000:2100]))
    assert (stopped.reason, stopped.usage.reused) == (Reason.PREEMPTED, SHARED)
    go_on(here)
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, rows) == (len(prompt) - 1, cold)


@both_in_long
@pytest.mark.parametrize("lacks", ["cells", "sequences", "cells to come back to", "a sequence to come back on"])
def test_s7_a_guess_without_room_leaves_the_real_tapes(
    desk: MakeDesk, loaded: Loaded, prompt: Ids, cold: list[bytes], lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacks.startswith("cells"):
        monkeypatch.setattr(loaded.backend, "cells", len(prompt) + STEPS.max_tokens + 80)
    else:
        monkeypatch.setattr(loaded.backend, "sequences", 2)
    monkeypatch.setattr(Shelf, "leave_room", lambda *_, **how: None)  # as where no real operation could leave any
    here = desk(parking_least=16)
    here.run(prompt, answer=True)
    here.run(loaded.text[3000 : 3100 if lacks == "cells to come back to" else 3040], "two")
    if lacks == "a sequence to come back on":
        here.run(loaded.text[3100:3140], "three")
    assert here.slot.figures().parked == ("come back" in lacks)
    before = real_tapes(here)
    guess = here.run(np.append(prompt[:-20], loaded.text[2000:2090]), guess=True)
    assert guess.reason is Reason.CONTEXT
    assert real_tapes(here) == before
    rows, ended = here.rows(prompt)
    assert (ended.usage.prefilled, rows) == (0, cold)


@both_in_long
def test_s11_anothers_guess_is_not_adopted_and_what_is_closed_leaves_no_cell(
    desk: MakeDesk, loaded: Loaded, prompt: Ids, cold: list[bytes]
) -> None:
    here = desk()
    here.run(prompt, guess=True)
    rows, ended = here.rows(prompt, client="bob")
    assert (ended.usage.outcome, rows) == (Outcome.HIT, cold)
    here.run(loaded.text[:0], closed=(("bob", "one"),))
    assert [(tape.owner.client, tape.kind) for tape in here.slot.shelf.tapes] == [("ann", TapeKind.GUESS)]
    rows, ended = here.rows(prompt)
    assert (ended.usage.guessed, rows) == (len(prompt), cold)
    for number in range(here.backend.sequences):
        here.run(loaded.text[3000 + 20 * number :][:20], f"{number}")
    assert here.slot.figures().parked == 1
    here.close("1")
    here.run(np.append(loaded.text[3000:3010], loaded.text[2000:2010]), "0", guess=True)
    assert here.slot.figures().guesses == 1
    here.close("one", *(f"{number}" for number in range(here.backend.sequences)))
    figures = here.slot.figures()
    assert (figures.tapes, figures.cells_used, figures.parked_bytes) == (0, 0, 0)
    everything = range(here.backend.sequences + OWN_SEQUENCES)
    assert [here.backend._memory.length(sequence) for sequence in everything] == [0] * 9


@both_in_long
def test_s4_a_snapshot_stays_when_a_longer_tape_is_parked(
    desk: MakeDesk, loaded: Loaded, prompt: Ids, cold: list[bytes]
) -> None:
    here = desk()
    here.run(prompt, answer=True)
    saved = here.slot.save(Save(client="ann", place="snapshot", ids=prompt.astype("<i4").tobytes()))
    assert saved.bytes > 0
    here.run(np.append(prompt, loaded.text[2000:2030]))
    for number in range(here.backend.sequences):
        here.run(loaded.text[3000 + 20 * number :][:20], f"{number}")
    assert here.slot.figures().parked == 2
    here.close("one")
    for session in ("again", "and again"):
        rows, ended = here.rows(prompt, session)
        assert (ended.usage.prefilled, rows) == (0, cold)
        here.close(session)
