"""Which tape serves a request, and which goes for it."""

from collections.abc import Callable

import numpy as np
import pytest

from modeld.backends.fake import FakeBackend, FakeScript
from modeld.backends.flag import LocalFlag
from modeld.slot.claims import Claim, Wanted
from modeld.slot.shelf import Shelf
from modeld.slot.tape import Owner, Tape, TapeKind

ONE, TWO, OTHER = Owner("ann", "one"), Owner("ann", "two"), Owner("bob", "one")


class Stand:
    """A shelf whose tapes are written without a slot."""

    def __init__(self, **script: int) -> None:
        self.backend = FakeBackend(FakeScript(**script), LocalFlag())  # type: ignore[arg-type]
        self.shelf = Shelf(self.backend)

    def want(self, text: str, owner: Owner = ONE, guess: bool = False, logits: bool = False) -> Claim | None:
        ids = np.frombuffer(text.encode(), np.uint8).astype(np.int32)
        return self.shelf.claim(Wanted(ids=ids, owner=owner, guess=guess, logits=logits))

    def put(self, text: str, owner: Owner = ONE, guess: bool = False) -> Tape:
        claim = self.want(text, owner, guess)
        assert claim is not None
        ids = np.frombuffer(text.encode(), np.uint8).astype(np.int32)
        assert self.shelf.cut(claim.tape, claim.reused)
        if claim.reused < len(ids):
            assert self.shelf.make_room(claim.tape, len(ids) - claim.reused)
            self.backend.extend(claim.tape.sequence, ids, claim.reused, 1)
            self.shelf.appended(claim.tape, ids[claim.reused :])
            self.shelf.keep(claim.tape, self.backend.logits(0))
        self.shelf.check()
        return claim.tape

    def text(self, tape: Tape) -> str:
        return bytes(self.backend.resident(tape.sequence)).decode()


@pytest.fixture
def stand() -> Callable[..., Stand]:
    return Stand


def test_the_longest_match_wins_wherever_it_is(stand: Callable[..., Stand]) -> None:
    here = stand()
    here.put("abcd", ONE)
    here.put("abXY", TWO)
    claim = here.want("abcdef", TWO)
    assert claim is not None
    assert (claim.reused, here.text(claim.tape)) == (4, "abcd")
    assert sorted(t.kind for t in here.shelf.tapes) == [TapeKind.OWNERLESS, TapeKind.REAL, TapeKind.REAL]


def test_of_equal_matches_the_sessions_own_tape_wins(stand: Callable[..., Stand]) -> None:
    here = stand()
    own = here.put("abcd", ONE)
    here.put("abcd", OTHER)
    claim = here.want("abZ", ONE)
    assert claim is not None
    assert claim.tape is own


def test_a_match_with_kept_logits_is_better_than_the_own_tape_without(stand: Callable[..., Stand]) -> None:
    here = stand()
    own = here.put("abcdef", ONE)
    claim = here.want("abcd", guess=True, logits=True)
    assert claim is not None
    assert (claim.reused, claim.whole) == (3, True)
    guess = claim.tape
    here.backend.extend(guess.sequence, own.ids[:4], 3, 1)
    here.shelf.appended(guess, own.ids[3:4])
    here.shelf.keep(guess, here.backend.logits(0))
    real = here.want("abcd", logits=True)
    assert real is not None
    assert (real.reused, real.tape) == (4, guess)
    assert own.kind is TapeKind.OWNERLESS


def test_s4_a_guess_never_writes_to_the_tape_that_it_starts_from(stand: Callable[..., Stand]) -> None:
    here = stand()
    own = here.put("abcd", ONE)
    guess = here.put("abcdef", ONE, guess=True)
    assert guess is not own
    assert (here.text(own), here.text(guess)) == ("abcd", "abcdef")
    assert here.shelf.free_cells == here.backend.cells - 6  # the beginning is shared


def test_s7_a_guess_takes_no_sequence_from_a_real_tape(stand: Callable[..., Stand]) -> None:
    here = stand(sequences=2)
    here.put("a", ONE)
    here.put("b", TWO)
    assert here.want("c", guess=True) is None
    assert here.want("ab", guess=True) is None


def test_a_guess_takes_the_place_of_the_oldest_guess_or_of_an_ownerless_tape(stand: Callable[..., Stand]) -> None:
    here = stand(sequences=3)
    here.put("a", ONE)
    here.put("x", guess=True)
    here.put("y", guess=True)
    here.put("z", guess=True)
    assert sorted(map(here.text, here.shelf.tapes)) == ["a", "y", "z"]
    assert here.shelf.figures().evicted == 1


def test_where_only_the_source_could_make_room_it_is_taken_over(stand: Callable[..., Stand]) -> None:
    here = stand(sequences=2)
    here.put("q", ONE)
    here.put("abcdef", guess=True)
    tape = here.put("abcXY", guess=True)
    assert here.text(tape) == "abcXY"
    here = stand(sequences=1)
    here.put("abcdef", ONE)
    tape = here.put("abcXY", TWO)
    assert (here.text(tape), tape.owner, len(here.shelf.tapes)) == ("abcXY", TWO, 1)


def test_the_own_tape_goes_where_the_new_one_has_all_of_it(stand: Callable[..., Stand]) -> None:
    here = stand()
    here.put("ab", ONE)
    here.put("abcd", OTHER)
    here.put("abcde", ONE)
    assert sorted((t.owner.client, here.text(t)) for t in here.shelf.tapes) == [("ann", "abcde"), ("bob", "abcd")]


def test_room_is_made_in_order_and_never_from_the_own_tape(stand: Callable[..., Stand]) -> None:
    here = stand(cells=12, context=12)
    here.put("aaaa", TWO)
    here.put("bbb", OTHER)
    here.put("cc", ONE, guess=True)
    own = here.put("ddd", ONE)
    assert here.shelf.make_room(own, 2)
    assert sorted(map(here.text, here.shelf.tapes)) == ["aaaa", "bbb", "ddd"]
    assert here.shelf.make_room(own, 5)
    assert sorted(map(here.text, here.shelf.tapes)) == ["bbb", "ddd"]
    assert not here.shelf.make_room(own, 10)
    assert list(map(here.text, here.shelf.tapes)) == ["ddd"]


def test_guesses_go_before_ownerless_tapes_and_those_before_sessions_however_old(stand: Callable[..., Stand]) -> None:
    here = stand(cells=12, context=12)
    here.put("abcd", ONE)
    here.put("abX", ONE, guess=True)
    here.put("abXY", ONE)  # adopted: the session's former tape holds more and is nobody's now
    here.put("zzz", TWO, guess=True)
    own = here.put("q", OTHER)
    assert here.shelf.make_room(own, 4)
    assert sorted(map(here.text, here.shelf.tapes)) == ["abXY", "abcd", "q"]
    assert here.shelf.make_room(own, 6)
    assert sorted(map(here.text, here.shelf.tapes)) == ["abXY", "q"]


def test_a_tape_that_was_just_used_is_not_the_next_to_go(stand: Callable[..., Stand]) -> None:
    here = stand(sequences=2)
    here.put("a", ONE)
    here.put("b", TWO)
    here.put("aa", ONE)
    here.put("c", OTHER)
    assert sorted(map(here.text, here.shelf.tapes)) == ["aa", "c"]


def test_closing_a_session_frees_all_that_came_from_it(stand: Callable[..., Stand]) -> None:
    here = stand()
    here.put("abcd", ONE)
    here.put("abXY", ONE, guess=True)
    here.put("keep", TWO)
    here.shelf.close(ONE)
    assert list(map(here.text, here.shelf.tapes)) == ["keep"]
    assert here.shelf.free_cells == here.backend.free_cells == here.backend.cells - 4
