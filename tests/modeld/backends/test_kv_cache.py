"""The cells of every sequence lie in the order of its positions and hold its tokens, whatever happens; S4 rests on it.

The memory is the fake's, which chooses cells as the real library does.
"""

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from modeld.backends.base import OutOfCells, Stopped
from modeld.backends.fake_cells import FakeCells
from modeld.backends.flag import LocalFlag
from modeld.backends.kv_cache import KvCache

CELLS, SEQUENCES = 40, 4
sequences = st.integers(0, SEQUENCES - 1)
STOPS = st.sampled_from((None, None, 0, 1, 2, 3, 5))
"""After so many looks at the stop flag it is set."""


class Stand:
    """A cache and what its sequences should hold."""

    def __init__(self, in_order: bool = True, window: bool = False) -> None:
        self.cells = FakeCells(CELLS, SEQUENCES + 2)
        self.flag = LocalFlag()
        self.cache = KvCache(
            self.cells,
            cells=CELLS,
            sequences=SEQUENCES,
            piece=5,
            in_order=in_order,
            stop=self.flag.is_set,
            window=window,
        )
        self.tapes: list[list[int]] = [[] for _ in range(SEQUENCES)]
        self.next = 100

    def grow(self, sequence: int, count: int) -> None:
        self.cache.make_room(count)
        start, tokens = len(self.tapes[sequence]), list(range(self.next, self.next + count))
        self.next += count
        self.cells.write(sequence, start, np.array(tokens, np.int32))
        self.cache.wrote(sequence, start, count)
        self.tapes[sequence] += tokens

    def cut(self, sequence: int, length: int) -> None:
        assert self.cache.forget(sequence, length)
        del self.tapes[sequence][length:]

    def fork(self, source: int, target: int, length: int) -> None:
        self.cache.fork(source, target, length)
        self.tapes[target] = self.tapes[source][:length]

    @property
    def in_order(self) -> bool:
        lies = [self.cells.contents(sequence, as_it_lies=True)[:, 0] for sequence in range(SEQUENCES)]
        return all(np.array_equal(positions, np.arange(len(positions))) for positions in lies)

    def check(self) -> None:
        for sequence, tape in enumerate(self.tapes):
            assert self.cells.contents(sequence)[:, 1].tolist() == tape
        if self.cache.arena is not None:
            assert self.in_order
            self.cache.arena.check()
            assert self.cells.free == self.cache.arena.free


def _with_a_hole(in_order: bool) -> Stand:
    here = Stand(in_order)
    here.grow(1, 8)
    here.grow(0, 6)
    here.cut(1, 0)
    return here


def test_a_library_left_to_itself_puts_new_positions_into_holes_below() -> None:
    here = _with_a_hole(in_order=False)
    here.grow(0, 1)
    here.check()
    assert not here.in_order


def test_s4_holes_are_not_filled_out_of_order() -> None:
    here = _with_a_hole(in_order=True)
    here.grow(0, 1)
    here.check()


def test_all_cells_can_be_used_and_no_more() -> None:
    here = _with_a_hole(in_order=True)
    here.grow(0, CELLS - 6)
    here.check()
    assert here.cache.relocated == 6
    with pytest.raises(OutOfCells):
        here.grow(0, 1)
    here.check()


def test_sharers_still_share_after_a_compaction() -> None:
    here = _with_a_hole(in_order=True)
    here.fork(0, 2, 4)
    here.fork(0, 3, 6)
    here.grow(2, 3)
    here.cache.compact()
    here.check()
    assert here.cells.free == CELLS - 6 - 3


@pytest.mark.parametrize("length", [1, 4, 5, 6, 10, 11])
def test_what_was_saved_comes_back_whole_at_every_length(length: int) -> None:
    """Around the five positions of a piece."""
    here = Stand()
    here.grow(0, length + 1)
    state = here.cache.save(0, length)
    saved = here.tapes[0][:length]
    here.cut(0, 0)
    here.grow(1, 3)
    here.cache.load(2, state, length)
    here.tapes[2] = saved
    here.check()


def test_it_tidies_only_where_much_is_garbage() -> None:
    here = Stand()
    here.grow(1, 4)
    here.grow(0, 6)
    here.cut(1, 0)
    here.cache.tidy()
    assert here.cache.relocated == 0
    here.grow(1, 1)
    here.grow(2, 1)
    here.cut(1, 0)
    here.cache.tidy()
    assert here.cache.relocated == 7
    here.check()


def test_s2_a_compaction_stops_between_two_pieces_and_goes_on_later() -> None:
    here = Stand()
    here.grow(1, 4)
    here.grow(0, 24)
    here.cut(1, 0)
    for moved in (10, 20):
        here.flag.after = 3  # before it and before each of two pieces
        with pytest.raises(Stopped):
            here.grow(2, 14)
        here.flag.clear()
        here.check()
        assert here.cache.relocated == moved
        here.grow(0, 1)  # what is written now lies above what was held already
        here.check()
        here.cut(0, 24)
    here.grow(2, 14)
    here.check()
    assert here.cache.relocated == 24


def test_s2_a_stop_that_comes_near_the_end_of_a_compaction_lets_it_end() -> None:
    """To fill the hole again would take longer."""
    here = Stand()
    here.grow(1, 20)
    here.grow(0, 6)
    here.cut(1, 0)
    here.flag.after = 1
    here.grow(2, 30)
    here.check()
    assert here.cache.relocated == 6


def test_s2_tidying_ends_between_two_pieces_where_a_request_has_come() -> None:
    here = Stand()
    here.grow(1, 5)
    here.grow(0, 30)
    here.cut(1, 0)
    here.cache.tidy(lambda: here.cache.relocated >= 10)
    assert here.cache.relocated == 10
    here.check()
    here.cache.tidy()
    assert here.cache.relocated == 30
    here.check()
    assert here.cells.free == CELLS - 30


def test_with_a_sliding_window_a_compaction_that_has_begun_ends() -> None:
    here = Stand(window=True)
    here.grow(1, 5)
    here.grow(0, 30)
    here.cut(1, 0)
    here.cache.tidy(lambda: here.cache.relocated > 0)
    assert here.cache.relocated == 30
    here.check()


def test_s2_a_return_from_host_memory_stops_between_two_pieces_and_leaves_nothing() -> None:
    here = Stand()
    here.grow(0, 14)
    state = here.cache.save(0, 14)
    here.flag.after = 2
    with pytest.raises(Stopped):
        here.cache.load(1, state, 14)
    here.check()
    assert here.cells.free == CELLS - 14


class Caches(RuleBasedStateMachine):
    """Sequences that grow, fork, shrink, go, are saved and come back."""

    def __init__(self) -> None:
        super().__init__()
        self.here = Stand()
        self.saved: list[tuple[tuple[bytes, ...], list[int]]] = []

    @rule(sequence=sequences, count=st.integers(1, 9), stop_after=STOPS)
    def grow(self, sequence: int, count: int, stop_after: int | None) -> None:
        self.here.flag.after = stop_after
        try:
            self.here.grow(sequence, count)
        except Stopped:
            assert stop_after is not None
        except OutOfCells:
            assert self.here.cache.arena is not None
            assert self.here.cache.arena.live + count > CELLS

    @rule(sequence=sequences, part=st.floats(0, 1))
    def shrink(self, sequence: int, part: float) -> None:
        self.here.cut(sequence, int(part * len(self.here.tapes[sequence])))

    @rule(source=sequences, onto=sequences, part=st.floats(0, 1))
    def fork(self, source: int, onto: int, part: float) -> None:
        if not self.here.tapes[onto] and source != onto:
            self.here.fork(source, onto, int(part * len(self.here.tapes[source])))

    @rule(sequence=sequences, part=st.floats(0, 1))
    def save(self, sequence: int, part: float) -> None:
        tape = self.here.tapes[sequence]
        length = int(part * len(tape))
        self.saved.append((self.here.cache.save(sequence, length), tape[:length]))

    @precondition(lambda self: self.saved)
    @rule(onto=sequences, which=st.integers(0, 99), stop_after=STOPS)
    def load(self, onto: int, which: int, stop_after: int | None) -> None:
        state, tape = self.saved[which % len(self.saved)]
        if self.here.tapes[onto]:
            return
        self.here.flag.after = stop_after
        try:
            self.here.cache.load(onto, state, len(tape))
        except (OutOfCells, Stopped):
            return
        # What came back is a copy: it shares nothing, but holds the same tokens.
        self.here.tapes[onto] = list(tape)

    @rule(stop_after=STOPS)
    def tidy(self, stop_after: int | None) -> None:
        self.here.flag.after = stop_after
        self.here.cache.tidy()

    @invariant()
    def all_is_where_it_should_be(self) -> None:
        self.here.flag.clear()
        self.here.check()

    def teardown(self) -> None:
        for sequence in range(SEQUENCES):
            self.here.cut(sequence, 0)
        self.here.check()
        assert self.here.cells.free == CELLS


TestCaches = Caches.TestCase
