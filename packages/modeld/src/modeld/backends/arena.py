"""Owns where in a unified KV cache each position lies, so far as order goes. It touches no cache.

Attention adds up cells in the order in which they lie. A sum in another order has other last bits, so results are the
same bits only where the cells of every sequence lie in the order of its positions. A cache puts new cells into the
first free ones, holes included, which breaks that order. So cells are handed out upwards only: what is given up below
the top stays occupied, as garbage, until a compaction slides everything down.
"""

from collections.abc import Iterator

import numpy as np
from attrs import frozen
from numpy.typing import NDArray


@frozen
class Piece:
    """Positions `start` … `end` - 1 of the sequences `holders`, which share their cells."""

    holders: tuple[int, ...]
    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


class Arena:
    """The cells up to `top` are held by sequences or garbage; those from `top` on are free."""

    def __init__(self, cells: int, sequences: int) -> None:
        self._holds = np.zeros((sequences, cells), np.bool_)
        self._position = np.zeros(cells, np.int32)
        self._cells = cells
        self.top = 0

    def __repr__(self) -> str:
        return f"Arena({self.live} live, {self.garbage} garbage, {self.free} free)"

    @property
    def live(self) -> int:
        return int(np.count_nonzero(self._held()))

    @property
    def garbage(self) -> int:
        return self.top - self.live

    @property
    def free(self) -> int:
        return self._cells - self.top

    def write(self, sequence: int, start: int, count: int) -> None:
        """`count` positions from `start` on now lie at the top."""
        end = self.top + count
        self._holds[sequence, self.top : end] = True
        self._position[self.top : end] = np.arange(start, start + count)
        self.top = end

    def share(self, source: int, target: int, length: int) -> None:
        self._holds[target] |= self._holds[source] & (self._position < length)

    def release(self, sequence: int, length: int) -> int | None:
        """Give up the positions from `length` on. Those from the result on become garbage; none do for None.

        What nobody else holds is the end of a sequence, since sequences share beginnings only. If it lies at the top,
        the top comes down instead.
        """
        given = self._holds[sequence] & (self._position >= length)
        self._holds[sequence] &= ~given
        orphans = np.flatnonzero(given & ~self._held())
        if not len(orphans):
            return None
        if len(orphans) == self.top - orphans[0]:
            self.top = int(orphans[0])
            return None
        return int(self._position[orphans[0]])

    def garbage_at_top(self) -> bool:
        """Whether all garbage lies above everything that is held, so that it can go without a compaction."""
        return self.top > self.live == self._last()

    def lower(self) -> None:
        """The garbage above everything that is held is gone."""
        self.top = self._last()

    def pieces(self, longest: int) -> Iterator[Piece]:
        """What has to move in a compaction, in the order in which it lies: all that is held above the lowest hole."""
        held = self._held()
        holes = np.flatnonzero(~held[: self.top])
        if not len(holes):
            return
        cells = np.flatnonzero(held[: self.top])
        cells = cells[cells > holes[0]]
        holds, positions = self._holds[:, cells], self._position[cells]
        changes = (holds[:, 1:] != holds[:, :-1]).any(axis=0) | (np.diff(positions) != 1)
        for run in np.split(np.arange(len(cells)), np.flatnonzero(changes) + 1):
            for at in range(0, len(run), longest):
                part = run[at : at + longest]
                holders = tuple(np.flatnonzero(holds[:, part[0]]).tolist())
                yield Piece(holders, int(positions[part[0]]), int(positions[part[-1]]) + 1)

    def slide(self, piece: Piece) -> None:
        """The lowest piece that has to move now lies in the lowest cells; those where it lay are garbage."""
        between = (self._position >= piece.start) & (self._position < piece.end)
        self._holds[:, self._holds[piece.holders[0]] & between] = False
        free = np.flatnonzero(~self._held())[: piece.length]
        self._holds[np.array(piece.holders)[:, None], free] = True
        self._position[free] = np.arange(piece.start, piece.end)

    def check(self) -> None:
        """Asserts that every sequence holds the positions from 0 on, each once, in order."""
        assert not self._holds[:, self.top :].any(), "a sequence holds a free cell"
        for sequence in range(len(self._holds)):
            positions = self._position[self._holds[sequence]]
            assert np.array_equal(positions, np.arange(len(positions))), f"sequence {sequence} lies out of order"

    def _held(self) -> NDArray[np.bool_]:
        held: NDArray[np.bool_] = np.logical_or.reduce(self._holds, axis=0)
        return held

    def _last(self) -> int:
        """One more than the highest cell that is held."""
        held = np.flatnonzero(self._held())
        return int(held[-1]) + 1 if len(held) else 0
