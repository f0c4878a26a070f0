"""Owns the last bytes of a command's output, in memory that a forked process sees too. It does not read the output."""

import mmap
import threading

TAIL_BYTES = 512 * 1024


class Tail:
    """A ring of the last `limit` bytes. `total` says how many bytes ever went through it."""

    def __init__(self, limit: int = TAIL_BYTES) -> None:
        self._limit = limit
        self._ring = mmap.mmap(-1, limit)
        self._lock = threading.Lock()
        self.total = 0

    def add(self, data: bytes) -> None:
        with self._lock:
            kept = data[-self._limit :]
            self.total += len(data)
            at = (self.total - len(kept)) % self._limit
            first = min(len(kept), self._limit - at)
            self._ring[at : at + first] = kept[:first]
            self._ring[: len(kept) - first] = kept[first:]

    def read(self, total: int) -> bytes:
        """The last bytes, where `total` is the writer's count: a forked reader has only the count of its birth."""
        if total <= self._limit:
            return self._ring[:total]
        at = total % self._limit
        return self._ring[at:] + self._ring[:at]
