"""Cells lie in the order of their positions, whatever happens to the sequences; S4 rests on it."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from modeld.backends.llamacpp.arena import Arena

CELLS, SEQUENCES = 40, 4
sequences = st.integers(0, SEQUENCES - 1)


def test_what_is_given_up_at_the_top_is_free_again() -> None:
    arena = Arena(10, 2)
    arena.write(0, 0, 6)
    assert arena.release(0, 4) is None
    assert (arena.top, arena.live) == (4, 4)


def test_what_is_given_up_below_the_top_is_garbage_until_a_compaction() -> None:
    arena = Arena(10, 2)
    arena.write(0, 0, 3)
    arena.write(1, 0, 2)
    assert arena.release(0, 0) == 0
    assert (arena.top, arena.live, arena.free) == (5, 2, 5)
    arena.compact()
    assert (arena.top, arena.live, arena.free) == (2, 2, 8)
    arena.check()


def test_shared_cells_are_given_up_by_the_last_that_holds_them() -> None:
    arena = Arena(10, 2)
    arena.write(0, 0, 4)
    arena.share(0, 1, 3)
    arena.write(1, 3, 2)
    assert arena.release(0, 0) == 3
    assert arena.live == 5
    assert arena.release(1, 3) is None
    assert arena.top == 4
    arena.check()


class Cells(RuleBasedStateMachine):
    """Sequences that grow, fork, shrink and go, in cells that are handed out as the library does: the first free."""

    def __init__(self) -> None:
        super().__init__()
        self.arena = Arena(CELLS, SEQUENCES)
        self.lengths = [0] * SEQUENCES
        self.garbage = False

    @rule(sequence=sequences, count=st.integers(1, 9))
    def grow(self, sequence: int, count: int) -> None:
        if self.arena.free < count and self.arena.live + count <= CELLS:
            self.arena.compact()
            self.garbage = False
        if self.arena.free >= count:
            self.arena.write(sequence, self.lengths[sequence], count)
            self.lengths[sequence] += count

    @rule(sequence=sequences, part=st.floats(0, 1))
    def shrink(self, sequence: int, part: float) -> None:
        self.lengths[sequence] = int(part * self.lengths[sequence])
        self.garbage |= self.arena.release(sequence, self.lengths[sequence]) is not None

    @rule(source=sequences, onto=sequences, part=st.floats(0, 1))
    def fork(self, source: int, onto: int, part: float) -> None:
        if not self.lengths[onto] and source != onto:
            self.lengths[onto] = int(part * self.lengths[source])
            self.arena.share(source, onto, self.lengths[onto])

    @precondition(lambda self: not self.garbage)
    @invariant()
    def nothing_is_garbage_unless_it_was_said(self) -> None:
        assert self.arena.live == self.arena.top

    @invariant()
    def all_lies_in_order(self) -> None:
        self.arena.check()
        assert self.arena.live <= sum(self.lengths)


TestCells = Cells.TestCase
