"""Owns the count of KV cells: which are free, how many tapes hold each. The data is the backend's; this mirrors it."""

import numpy as np
from numpy.typing import NDArray

Cells = NDArray[np.int32]
"""Cell numbers of a tape, index = position."""


class CellPool:
    """Reference counts per cell; a cell that several tapes share counts once."""

    def __init__(self, size: int) -> None:
        self._holders = np.zeros(size, np.int32)
        self._free = np.arange(size - 1, -1, -1, dtype=np.int32)
        self._free_count = size

    @property
    def size(self) -> int:
        return len(self._holders)

    @property
    def free(self) -> int:
        return self._free_count

    @property
    def used(self) -> int:
        return self.size - self.free

    def take(self, count: int) -> Cells:
        """Raises ValueError where fewer are free: asking first is the caller's part."""
        if count > self.free:
            raise ValueError(f"{count} cells wanted, {self.free} are free")
        self._free_count -= count
        taken = self._free[self._free_count : self._free_count + count].copy()
        self._holders[taken] += 1
        return taken

    def share(self, cells: Cells) -> None:
        self._holders[cells] += 1

    def release(self, cells: Cells) -> None:
        self._holders[cells] -= 1
        freed = cells[self._holders[cells] == 0]
        self._free[self._free_count : self._free_count + len(freed)] = freed
        self._free_count += len(freed)

    def check(self, held: list[Cells]) -> None:
        """Asserts that the counts are those of the tapes' cells `held`."""
        counts = np.zeros(self.size, np.int32)
        for cells in held:
            assert len(np.unique(cells)) == len(cells), "a tape holds a cell twice"
            counts[cells] += 1
        assert (counts == self._holders).all(), "reference counts differ from what the tapes hold"
        assert set(self._free[: self._free_count].tolist()) == set(np.flatnonzero(counts == 0).tolist())
