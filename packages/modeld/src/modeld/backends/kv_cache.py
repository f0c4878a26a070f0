"""Owns the sequences of a unified KV cache: forks, cuts, state in and out, and the order of cells. It computes nothing.

Where order matters (`in_order`), an `Arena` says what becomes garbage and when everything has to slide down.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from modeld.backends.arena import Arena, Piece
from modeld.backends.base import BackendError, OutOfCells, Stopped

END = -1
"""As an end: all positions that there are."""


class Memory(Protocol):
    """What a library's unified cache can do; the fake's twin is `fake_cells`. Cells are its own affair.

    A cell that no sequence holds is free. New positions go into the first free cells after the ones written last.
    """

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        """Let `target` hold the cells of positions `start` … `end` - 1 of `source`, too."""

    def remove(self, sequence: int, start: int, end: int) -> bool:
        """False where it is refused; then nothing has changed."""

    def save(self, sequence: int) -> bytes:
        """The positions of a sequence and what is in their cells. Raises RuntimeError or MemoryError."""

    def load(self, sequence: int, state: bytes) -> None:
        """Into an empty sequence. Raises RuntimeError; then what is resident is not known."""


class KvCache:
    """Sequences from 0 to `sequences` - 1. The memory needs two more, for garbage and as scratch.

    `piece`: the most positions that are saved at once. `stop` says that whoever wants room, or what was saved, does not
    any more. `window`: the library may give away cells that have left a sliding window.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        cells: int,
        sequences: int,
        piece: int,
        in_order: bool,
        stop: Callable[[], bool] = lambda: False,
        window: bool = False,
    ) -> None:
        self._memory = memory
        self._cells = cells
        self._piece = piece
        self._stop = stop
        self._window = window
        self._garbage, self._scratch = sequences, sequences + 1
        self.arena = Arena(cells, sequences) if in_order else None
        self.relocated = 0

    def __repr__(self) -> str:
        return f"KvCache({self.arena or f'{self._cells} cells in any order'})"

    def make_room(self, count: int) -> None:
        """Compact if the cells above the top are too few but all free ones together are enough.

        Raises `OutOfCells` with nothing changed, `Stopped` with nothing lost.
        """
        if self.arena is None or count <= self.arena.free:
            return
        if self.arena.live + count > self._cells:
            raise OutOfCells(f"no room for {count} tokens in a KV cache of {self._cells}")
        if not self.compact(self._stop):
            raise Stopped("the stop flag ended a compaction")

    def wrote(self, sequence: int, start: int, count: int) -> None:
        """The library has put new positions into the first free cells."""
        if self.arena is not None and count:
            self.arena.write(sequence, start, count)

    def fork(self, source: int, target: int, length: int) -> None:
        self._memory.copy(source, target, 0, length)
        if self.arena is not None:
            self.arena.share(source, target, length)

    def forget(self, sequence: int, length: int) -> bool:
        """Positions from `length` on; False where the library refuses."""
        if self.arena is None:
            return self._memory.remove(sequence, length, END)
        garbage = self.arena.release(sequence, length)
        if garbage is not None:
            self._memory.copy(sequence, self._garbage, garbage, END)
        removed = self._memory.remove(sequence, length, END)
        if self.arena.garbage_at_top():
            for own in (self._garbage, self._scratch):  # a compaction that failed may have left a piece there
                self._memory.remove(own, 0, END)
            self.arena.lower()
        return removed

    def tidy(self, wanted: Callable[[], bool] = lambda: False) -> None:
        """Compact while nobody waits for it, if an eighth of the cells are garbage."""
        if self.arena is not None and self.arena.garbage >= self._cells // 8:
            self.compact(lambda: self._stop() or wanted())

    def compact(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Slide what is held above the lowest hole down into it, lowest first. False where `stop` ended it.

        Below a piece that moves, everything is in place already. So the first free cells are those right above that,
        as many as the piece needs at least. It stops between two pieces, unless to go on is the shorter way out: a cell
        is filled in a third of the time in which it is moved. With a window it does not: to fill holes above what lies
        next to the first one, the library would look through cells that are held, and take some.
        """
        if self.arena is None:
            return True
        if stop():
            return False
        pieces = list(self.arena.pieces(self._piece))
        left = sum(piece.length for piece in pieces)
        self._memory.remove(self._garbage, 0, END)
        for piece in pieces:
            if not self._window and 3 * left > self.arena.garbage and stop():
                self._fill(self.arena.garbage, max(pieces, key=lambda piece: piece.length))
                return False
            self._slide(piece)
            self.arena.slide(piece)
            left -= piece.length
        self.arena.lower()
        return True

    def _slide(self, piece: Piece) -> None:
        state = self._saved(piece.holders[0], piece.start, piece.end)
        for sequence in piece.holders:
            self._memory.remove(sequence, piece.start, piece.end)
        self._put(state, piece.holders, piece.start, piece.end)
        self.relocated += piece.length

    def _fill(self, cells: int, piece: Piece) -> None:
        """Makes the lowest free cells garbage again, which takes copies of something: nothing may be written there."""
        whole, rest = divmod(cells, piece.length)
        for times, length in ((whole, piece.length), (1, rest)):
            if not times or not length:
                continue
            end = piece.start + length
            state = self._saved(piece.holders[0], piece.start, end)
            for _ in range(times):
                self._put(state, (self._garbage,), piece.start, end)

    # --- state in and out ---------------------------------------------------------------------------------

    def save(
        self, sequence: int, length: int, enough: Callable[[int, int], bool] = lambda positions, size: False
    ) -> tuple[bytes, ...]:
        """The first `length` positions, in pieces: of a longer one a sliding window would leave the beginning out.

        As `ExportingBackend.save`.
        """
        state = list[bytes]()
        for start in self._starts(length):
            end = min(start + self._piece, length)
            if self._stop():
                raise Stopped("the stop flag ended a copy to host memory")
            try:
                state.append(self._saved(sequence, start, end))
            except RuntimeError as fault:
                raise BackendError(str(fault)) from None
            if enough(end, sum(map(len, state))):
                raise Stopped("a copy to host memory was not wanted any more")
        return tuple(state)

    def load(self, sequence: int, state: Sequence[bytes], length: int) -> None:
        """What `save` gave, into an empty sequence. Raises `OutOfCells` with nothing changed.

        Raises `Stopped` with the sequence empty again.
        """
        self.make_room(length)
        for start, piece in zip(self._starts(length), state, strict=True):
            if self._stop():
                self.forget(sequence, 0)
                raise Stopped("the stop flag ended a return from host memory")
            end = min(start + self._piece, length)
            self._put(piece, (sequence,), start, end)
            self.wrote(sequence, start, end - start)

    def _starts(self, length: int) -> range:
        return range(0, length, self._piece)

    def _saved(self, sequence: int, start: int, end: int) -> bytes:
        self._memory.copy(sequence, self._scratch, start, end)
        try:
            return self._memory.save(self._scratch)
        finally:
            self._memory.remove(self._scratch, start, end)

    def _put(self, state: bytes, holders: Sequence[int], start: int, end: int) -> None:
        self._memory.load(self._scratch, state)
        for sequence in holders:
            self._memory.copy(self._scratch, sequence, start, end)
        self._memory.remove(self._scratch, start, end)
