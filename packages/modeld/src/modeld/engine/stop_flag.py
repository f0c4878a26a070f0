"""Owns the byte by which the front stops the running operation: memory that both processes map. Who sets it when is
not its business.

It lies in memory alone: no disk can be too full for it, and there is nothing to clean up, however a process ends.
"""

import ctypes
import errno
import mmap
import os

_SIZE = 2  # the byte and the zero after it: `strlen` of it is 1 or 0
_NOEXEC_SEAL = 0x0008  # MFD_NOEXEC_SEAL, for which `os` has no name


class SharedStopFlag:
    """Maps the memory behind `descriptor`, which it takes over."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._map = mmap.mmap(descriptor, _SIZE)
        self._view: ctypes.c_char | None = ctypes.c_char.from_buffer(self._map)

    @classmethod
    def create(cls) -> "SharedStopFlag":
        descriptor = _memory()
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


def _memory() -> int:
    """Linux 6.3 to 6.5 refuses any that may be executed where `vm.memfd_noexec` is 2. Older ones know no other."""
    try:
        return os.memfd_create("stop flag", os.MFD_CLOEXEC | _NOEXEC_SEAL)
    except OSError as fault:
        if fault.errno != errno.EINVAL:
            raise
    return os.memfd_create("stop flag", os.MFD_CLOEXEC)
