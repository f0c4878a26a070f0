"""What is known of a tape stays right when it is cut, copied and used."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from modeld.slot.tape import Kept, Owner, Tape, TapeKind, common_length

OWNER = Owner("ann", "one")


def _tape(kind: TapeKind = TapeKind.REAL, length: int = 6, kept: int | None = None) -> Tape:
    tape = Tape(sequence=0, owner=OWNER, kind=kind)
    tape.append(np.arange(length, dtype=np.int32), np.arange(length, dtype=np.int32))
    if kept is not None:
        tape.kept = Kept(kept, np.zeros(2, np.float32))
    tape.check()
    return tape


@given(st.lists(st.integers(0, 1), max_size=9), st.lists(st.integers(0, 1), max_size=9))
def test_the_common_length_is_that_of_the_common_beginning(one: list[int], other: list[int]) -> None:
    expected = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    assert common_length(np.array(one, np.int32), np.array(other, np.int32)) == expected


def test_kept_logits_go_when_their_position_does_and_not_before() -> None:
    tape = _tape(kept=4)
    assert tape.kept_at(4) is not None
    assert tape.kept_at(5) is None
    tape.cut(4)
    assert tape.kept_at(4) is not None
    tape.cut(3)
    assert tape.kept is None


def test_a_copy_takes_kept_logits_only_where_it_reaches_them() -> None:
    source = _tape(kept=4)
    for length, expected in ((3, False), (4, True), (6, True)):
        copy = Tape(sequence=1, owner=OWNER, kind=TapeKind.GUESS)
        copy.copy_from(source, length)
        copy.check()
        assert (copy.kept is not None) is expected


def test_a_guesss_positions_are_counted_once_and_not_in_its_forks() -> None:
    tape = _tape(TapeKind.GUESS)
    fork = Tape(sequence=1, owner=OWNER, kind=TapeKind.REAL)
    fork.copy_from(tape, 5)
    assert fork.use_guessed(4) == 4
    assert fork.use_guessed(5) == 1
    assert tape.use_guessed(6) == 6
    assert _tape(TapeKind.REAL).use_guessed(6) == 0
