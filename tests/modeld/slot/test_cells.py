"""Cells are counted exactly, shared ones once."""

import numpy as np
import pytest

from modeld.slot.cells import CellPool


def test_shared_cells_count_once_and_are_free_when_the_last_holder_goes() -> None:
    pool = CellPool(10)
    stem = pool.take(4)
    pool.share(stem[:3])
    assert (pool.used, pool.free) == (4, 6)
    pool.release(stem)
    assert pool.used == 3
    pool.check([stem[:3]])
    pool.release(stem[:3])
    assert pool.free == 10
    pool.check([])


def test_more_than_there_is_cannot_be_taken() -> None:
    pool = CellPool(3)
    pool.take(2)
    with pytest.raises(ValueError, match="2 cells wanted, 1 are free"):
        pool.take(2)
    assert pool.free == 1


def test_check_notices_a_wrong_count() -> None:
    pool = CellPool(3)
    cells = pool.take(2)
    with pytest.raises(AssertionError):
        pool.check([])
    with pytest.raises(AssertionError):
        pool.check([np.concatenate([cells, cells[:1]])])
