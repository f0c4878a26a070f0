"""Owns the fake's KV cache: cells that hold a position and a token and are shared by sequences. It computes nothing.

It chooses cells as llama.cpp's `llama_kv_cache::find_slot` does: from its head on the free ones, one by one, and around
at the end. The head is behind the cells written last, or at the lowest cell freed since; it is 0 when that leaves more
cells before it than are used and twice what is written.
"""

import numpy as np
from numpy.typing import NDArray

from modeld.backends.base import BackendError, Ids, OutOfCells


class FakeCells:
    """A `Memory`: a cell is free when no sequence has it.

    Nothing here trusts its caller: what a sequence holds is read from the cells alone.
    """

    def __init__(self, cells: int, sequences: int) -> None:
        self._tokens = np.zeros(cells, np.int32)
        self._positions = np.zeros(cells, np.int32)
        self._members: NDArray[np.bool_] = np.zeros((sequences, cells), np.bool_)
        self._head = 0

    @property
    def free(self) -> int:
        return int((~self._used()).sum())

    def length(self, sequence: int) -> int:
        """One more than the highest position that the sequence holds."""
        held = self._positions[self._members[sequence]]
        return int(held.max()) + 1 if held.size else 0

    def contents(self, sequence: int, *, as_it_lies: bool = False) -> Ids:
        """Pairs of position and token, in order of position or in that of the cells, shape (n, 2)."""
        held = np.flatnonzero(self._members[sequence])
        if not as_it_lies:
            held = held[np.argsort(self._positions[held], kind="stable")]
        return np.stack([self._positions[held], self._tokens[held]], axis=1)

    def write(self, sequence: int, start: int, tokens: Ids) -> None:
        if start != self.length(sequence):
            raise BackendError(f"sequence {sequence} ends at {self.length(sequence)}, cannot write at {start}")
        self._put(sequence, np.arange(start, start + len(tokens), dtype=np.int32), tokens)

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        self._members[target] |= self._members[source] & self._between(start, end)

    def remove(self, sequence: int, start: int, end: int) -> bool:
        gone = self._members[sequence] & self._between(start, end)
        self._members[sequence] &= ~gone
        freed = np.flatnonzero(gone & ~self._used())
        if len(freed):
            self._head = min(self._head, int(freed[0]))
        return True

    def save(self, sequence: int) -> bytes:
        return self.contents(sequence, as_it_lies=True).astype("<i4").tobytes()

    def load(self, sequence: int, state: bytes) -> None:
        if self._members[sequence].any():
            raise RuntimeError(f"sequence {sequence} is not empty")
        pairs = np.frombuffer(state, "<i4").reshape(-1, 2)
        self._put(sequence, pairs[:, 0], pairs[:, 1])

    def _used(self) -> NDArray[np.bool_]:
        used: NDArray[np.bool_] = np.logical_or.reduce(self._members, axis=0)
        return used

    def _between(self, start: int, end: int) -> NDArray[np.bool_]:
        between: NDArray[np.bool_] = self._positions >= start
        return between if end < 0 else between & (self._positions < end)

    def _put(self, sequence: int, positions: Ids, tokens: Ids) -> None:
        into = self._find(len(tokens))
        self._positions[into] = positions
        self._tokens[into] = tokens
        self._members[sequence, into] = True

    def _find(self, count: int) -> Ids:
        used = self._used()
        head = 0 if self._head > int(used.sum()) + 2 * count else self._head
        free = np.flatnonzero(~used).astype(np.int32)
        if len(free) < count:
            raise OutOfCells(f"{count} cells needed, {len(free)} are free")
        from_head = np.concatenate([free[free >= head], free[free < head]])[:count]
        if count:
            self._head = int(from_head[-1]) + 1
        return from_head
