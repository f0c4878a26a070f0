"""Owns a stop flag that lives in this process, for backends that no other process stops: in tests and benchmarks."""

import ctypes


class LocalFlag:
    """A `StopFlag`. With `after` n it is set once it has been read n times."""

    def __init__(self, after: int | None = None) -> None:
        self._bytes = ctypes.create_string_buffer(2)
        self.after = after

    @property
    def address(self) -> int:
        return ctypes.addressof(self._bytes)

    def is_set(self) -> bool:
        if self.after is not None:
            self.after -= 1
            if self.after < 0:
                self.set()
        return self._bytes.raw[0] != 0

    def set(self) -> None:
        self._bytes[0] = b"\x01"

    def clear(self) -> None:
        self.after = None
        self._bytes[0] = b"\x00"
