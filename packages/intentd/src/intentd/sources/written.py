"""Owns reading back what a command wrote to a regular file that it was given itself. It changes nothing of the file."""

import fcntl
import os


class Written:
    """What comes into the file at `fd` from now on. OSError where it may not be read."""

    def __init__(self, fd: int) -> None:
        self._file = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
        appends = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND
        size = os.fstat(fd).st_size
        self._at = size if appends else os.lseek(fd, 0, os.SEEK_CUR)
        self._writer = os.dup(fd) if self._at < size else None  # what stands there is not the command's

    def read(self, limit: int) -> tuple[bytes, int]:
        """What has come since the last time, its last `limit` bytes at most, and how many bytes stood before those."""
        size = os.fstat(self._file).st_size
        if self._writer is not None:
            size = min(size, os.lseek(self._writer, 0, os.SEEK_CUR))
        begin = max(self._at, size - limit)
        data = os.pread(self._file, max(size - begin, 0), begin)
        skipped = begin - self._at
        self._at = min(begin + len(data), size)  # it may have been cut
        return data, skipped
