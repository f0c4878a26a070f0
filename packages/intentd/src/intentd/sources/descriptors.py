"""Owns the descriptors of `run`'s processes: what the standard ones are, and how a process lets go of the others'.

Whoever reads what a command prints waits until nobody holds the other end any more. Each process of ours that outlives
the command's own use of an end must have let go of it.
"""

import contextlib
import fcntl
import os
import select
import socket
import stat
from collections.abc import Iterable
from typing import NamedTuple

ANY_TERMINAL = os.makedev(5, 0)
_MOST_FDS = 1 << 20


class Outlets(NamedTuple):
    """Our standard descriptors by what they are."""

    closed: frozenset[int]
    terminals: tuple[int, ...]
    """Those on the same terminal as the first of them."""
    others: tuple[int, ...]
    """Another terminal, a device, a datagram socket: the command gets it as it is, and nobody reads along."""
    files: tuple[int, ...]
    """Output descriptors that are regular files: as they are, too. A pipe would hide the file, and that it is full."""
    pipes: tuple[int, ...]
    """Output descriptors that are a stream, for which a pipe can stand; only the first where both are the same one."""
    shared: bool
    inherited: tuple[int, ...]
    """What we were given beside the standard ones."""

    @property
    def interactive(self) -> bool:
        """Else others in the pipeline may want the keys: they are the command's only once it asks for them."""
        return {0, 1} <= set(self.terminals)

    @property
    def only_given(self) -> set[int]:
        """The standard ones that we neither read nor write ourselves."""
        return {0, 1, 2}.difference(self.terminals, self.pipes)

    @property
    def as_they_are(self) -> dict[int, int | None]:
        return {fd: None if fd in self.closed else fd for fd in (0, 1, 2)}

    @classmethod
    def take(cls) -> "Outlets":
        inherited = _inherited()
        closed = frozenset(fd for fd in (0, 1, 2) if not _is_open(fd))
        for _ in closed:  # so that no descriptor of ours gets such a number
            os.open(os.devnull, os.O_RDWR)
        terminals = tuple(fd for fd in (0, 1, 2) if fd not in closed and os.isatty(fd))
        elsewhere = tuple(fd for fd in terminals if not _same_terminal(fd, terminals[0]))
        outputs = tuple(fd for fd in (1, 2) if fd not in closed and fd not in terminals)
        files = tuple(filter(is_file, outputs))
        pipes = tuple(fd for fd in outputs if _is_stream(fd))
        others = (*elsewhere, *(fd for fd in outputs if fd not in files and fd not in pipes))
        terminals = tuple(fd for fd in terminals if fd not in elsewhere)
        shared = len(pipes) == 2 and os.path.samestat(os.fstat(1), os.fstat(2))
        return cls(closed, terminals, others, files, pipes[:1] if shared else pipes, shared, inherited)


def is_ready(fd: int, event: int, timeout_ms: float | None = None) -> bool:
    """Waits for it. (`select` refuses numbers from 1024 on.)"""
    watch = select.poll()
    watch.register(fd, event)
    return bool(watch.poll(timeout_ms))


def is_file(fd: int) -> bool:
    return stat.S_ISREG(os.fstat(fd).st_mode)


def of_locked_files(fds: Iterable[int]) -> set[int]:
    """Those on files of which this process holds a lock of its own (fcntl(2)), as far as anybody can say.

    It may have been taken through any descriptor of the file, and goes with the first one that is closed.
    """
    files = {fd: _file(fd) for fd in fds}
    locked = {None, *(file for fd, file in files.items() if _holds_lock(fd))}
    return {fd for fd, file in files.items() if file in locked}


def access(fd: int) -> int:
    """O_RDONLY, O_WRONLY or O_RDWR."""
    return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE


def has_name(fd: int) -> bool:
    """Whether it is a FIFO, to which a reader may come when the last one has left, as far as anybody can say."""
    name = ""
    with contextlib.suppress(OSError):
        name = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - pathlib is slow to import
    return stat.S_ISFIFO(os.fstat(fd).st_mode) and not name.startswith("pipe:")


def cover(*fds: int) -> None:
    """Puts /dev/null in their places: we do not hold any more what was there, and nothing else gets their numbers."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in fds:
        os.dup2(null, fd)
    os.close(null)


def keep_only(fds: Iterable[int]) -> dict[int, int]:
    """Closes all but these and covers the standard ones. Says where each is now."""
    kept = {fd: fd if fd > 2 else os.dup(fd) for fd in fds}
    first = 3
    for fd in sorted(kept.values()):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, min(os.sysconf("SC_OPEN_MAX"), _MOST_FDS))
    cover(0, 1, 2)
    return kept


def _inherited() -> tuple[int, ...]:
    with contextlib.suppress(OSError):
        names = os.listdir("/proc/self/fd")  # noqa: PTH208 - as in `has_name`
        return tuple(fd for name in names if (fd := int(name)) > 2 and _is_open(fd))
    return ()


def _file(fd: int) -> tuple[int, int] | None:
    """Which one it is; None where its file system does not say."""
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _holds_lock(fd: int) -> bool:
    """Whether the lock was taken through what was opened as this."""
    try:
        with open(f"/proc/self/fdinfo/{fd}", "rb") as stream:  # noqa: PTH123 - as in `has_name`
            return b" POSIX " in stream.read()
    except OSError:
        return is_file(fd)


def _is_stream(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    if not stat.S_ISSOCK(mode):
        return stat.S_ISFIFO(mode)
    known = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fd)  # said, so that it looks for neither itself
    try:
        return known.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
    finally:
        known.detach()


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _same_terminal(one: int, other: int) -> bool:
    """/dev/tty is another device, and any terminal: ours, as far as it matters."""
    one_device, other_device = os.fstat(one).st_rdev, os.fstat(other).st_rdev
    return one_device == other_device or ANY_TERMINAL in (one_device, other_device)
