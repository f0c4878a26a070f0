"""Owns the fake's KV cache: cells that hold a position and a token and are shared by sequences. It computes nothing."""

import numpy as np
from numpy.typing import NDArray

from modeld.backends.base import BackendError, Ids, OutOfCells


class FakeCells:
    """Like a unified KV cache: a cell is free when no sequence has it.

    Nothing here trusts its caller: what a sequence holds is read from the cells alone.
    """

    def __init__(self, cells: int, sequences: int) -> None:
        self._tokens = np.zeros(cells, np.int32)
        self._positions = np.zeros(cells, np.int32)
        self._members: NDArray[np.bool_] = np.zeros((sequences, cells), np.bool_)

    @property
    def free(self) -> int:
        return int((~self._members.any(axis=0)).sum())

    def length(self, sequence: int) -> int:
        """One more than the highest position that the sequence holds."""
        held = self._positions[self._members[sequence]]
        return int(held.max()) + 1 if held.size else 0

    def contents(self, sequence: int) -> Ids:
        """Pairs of position and token, in order of position, shape (n, 2)."""
        held = np.flatnonzero(self._members[sequence])
        held = held[np.argsort(self._positions[held], kind="stable")]
        return np.stack([self._positions[held], self._tokens[held]], axis=1)

    def write(self, sequence: int, start: int, tokens: Ids) -> None:
        if start != self.length(sequence):
            raise BackendError(f"sequence {sequence} ends at {self.length(sequence)}, cannot write at {start}")
        free = np.flatnonzero(~self._members.any(axis=0))
        if len(free) < len(tokens):
            raise OutOfCells(f"{len(tokens)} cells needed, {len(free)} are free")
        into = free[: len(tokens)]
        self._tokens[into] = tokens
        self._positions[into] = np.arange(start, start + len(tokens))
        self._members[sequence, into] = True

    def share(self, source: int, target: int, length: int) -> None:
        if self._members[target].any():
            raise BackendError(f"sequence {target} is not empty: it cannot become a fork")
        self._members[target] = self._members[source] & (self._positions < length)

    def cut(self, sequence: int, length: int) -> None:
        self._members[sequence] &= self._positions < length

    def spoil(self, sequence: int) -> None:
        """What a failed library may do at worst: the last token of the sequence is another one now."""
        if length := self.length(sequence):
            self.cut(sequence, length - 1)
            self.write(sequence, length - 1, np.array([0], np.int32))
