"""Owns the byte by which the front stops the running operation: memory that both processes map. Who sets it when is
not its business.

It lies in memory alone: no disk can be too full for it, and there is nothing to clean up, however a process ends.
"""

import ctypes
import mmap
import os

_SIZE = 2  # the byte and the zero after it: `strlen` of it is 1 or 0


class SharedStopFlag:
    """Maps the memory behind `descriptor`, which it takes over."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._map = mmap.mmap(descriptor, _SIZE)
        self._view: ctypes.c_char | None = ctypes.c_char.from_buffer(self._map)

    @classmethod
    def create(cls) -> "SharedStopFlag":
        descriptor = os.memfd_create("stop flag")
        os.ftruncate(descriptor, _SIZE)
        return cls(descriptor)

    def __repr__(self) -> str:
        return "SharedStopFlag(closed)" if self._view is None else f"SharedStopFlag(set={self.is_set()})"

    @property
    def address(self) -> int:
        if self._view is None:
            raise ValueError("the stop flag is closed")
        return ctypes.addressof(self._view)

    def is_set(self) -> bool:
        return self._map[0] != 0

    def set(self) -> None:
        self._map[0] = 1

    def clear(self) -> None:
        self._map[0] = 0

    def close(self) -> None:
        if self._view is not None:
            self._view = None  # a map with a view on it cannot be closed
            self._map.close()
            os.close(self.descriptor)
