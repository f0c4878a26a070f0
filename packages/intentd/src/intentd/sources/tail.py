"""Owns the last bytes of a command's output, in memory that a forked process sees too. It does not read the output."""

import mmap
import struct
import threading

TAIL_BYTES = 512 * 1024


_TOTAL = struct.Struct("=Q")


class Tail:
    """A ring of the last `limit` bytes, and how many ever went through it."""

    def __init__(self, limit: int = TAIL_BYTES) -> None:
        self._limit = limit
        self._ring = mmap.mmap(-1, limit)
        self._count = mmap.mmap(-1, _TOTAL.size)
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """All bytes so far, those that are not kept any more too."""
        total: int = _TOTAL.unpack(self._count[: _TOTAL.size])[0]
        return total

    def add(self, data: bytes) -> None:
        with self._lock:
            kept = data[-self._limit :]
            total = self.total + len(data)
            self._count[: _TOTAL.size] = _TOTAL.pack(total)
            at = (total - len(kept)) % self._limit
            first = min(len(kept), self._limit - at)
            self._ring[at : at + first] = kept[:first]
            self._ring[: len(kept) - first] = kept[first:]

    def read(self, total: int) -> bytes:
        """The last bytes as they were at that `total`, if nothing was added since."""
        if total <= self._limit:
            return self._ring[:total]
        at = total % self._limit
        return self._ring[at:] + self._ring[:at]
