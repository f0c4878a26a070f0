"""Owns the last bytes of a command's output, in memory that a forked process sees too. It does not read the output."""

import mmap
import threading

TAIL_BYTES = 512 * 1024
_TOTAL_BYTES = 8


class Tail:
    """A ring of the last `limit` bytes, and how many ever went through it."""

    def __init__(self, limit: int = TAIL_BYTES) -> None:
        self._limit = limit
        self._ring = mmap.mmap(-1, limit)
        self._count = memoryview(mmap.mmap(-1, _TOTAL_BYTES)).cast("Q")
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """All bytes so far, those that are not kept any more too."""
        return self._count[0]

    def add(self, data: bytes, skipped: int = 0) -> None:
        """`skipped` came before `data` and is not kept; then `data` fills the ring."""
        with self._lock:
            kept = data[-self._limit :]
            total = self._count[0] + skipped + len(data)
            self._count[0] = total
            at = (total - len(kept)) % self._limit
            over = at + len(kept) - self._limit
            if over <= 0:
                self._ring[at : at + len(kept)] = kept
            else:
                self._ring[at:] = kept[:-over]
                self._ring[:over] = kept[-over:]

    def read(self, total: int) -> bytes:
        """The last bytes as they were at that `total`, if nothing was added since."""
        if total <= self._limit:
            return self._ring[:total]
        at = total % self._limit
        return self._ring[at:] + self._ring[:at]
