"""Cells lie in the order of their positions, whatever happens to the sequences; S4 rests on it."""

from modeld.backends.arena import Arena, Piece


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
    arena.slide(Piece((1,), 0, 2))
    arena.lower()
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


def test_only_what_lies_above_the_lowest_hole_has_to_move_and_sharers_move_together() -> None:
    arena = Arena(30, 3)
    arena.write(0, 0, 4)
    arena.write(1, 0, 3)
    arena.write(0, 4, 5)
    arena.share(0, 2, 6)
    arena.release(1, 0)
    assert list(arena.pieces(2)) == [Piece((0, 2), 4, 6), Piece((0,), 6, 8), Piece((0,), 8, 9)]
    assert list(arena.pieces(50)) == [Piece((0, 2), 4, 6), Piece((0,), 6, 9)]


def test_without_a_hole_nothing_has_to_move() -> None:
    arena = Arena(30, 2)
    arena.write(0, 0, 4)
    assert list(arena.pieces(2)) == []


def test_garbage_above_all_that_is_held_can_go_at_once() -> None:
    arena = Arena(30, 3)
    arena.write(0, 0, 4)
    arena.write(1, 0, 3)
    arena.write(2, 0, 3)
    arena.release(1, 0)
    assert not arena.garbage_at_top()
    arena.release(2, 0)
    assert arena.garbage_at_top()
    arena.lower()
    assert (arena.top, arena.garbage) == (4, 0)
