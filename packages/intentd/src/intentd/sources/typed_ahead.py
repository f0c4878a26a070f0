"""Owns what was typed before anybody reads it, and is the terminal's next reader's: a command's, or the shell's."""

import contextlib
import fcntl
import os
import select
import termios
from collections.abc import Callable, Iterator
from typing import Any

from intentd.sources.descriptors import is_ready

KEYS_LIMIT = 4096
_LFLAG = 3
_ECHOES = termios.ECHO | termios.ECHONL


def give_quietly(terminal: str, give: Callable[[], object]) -> None:
    """Keys that another terminal has shown already."""
    with contextlib.suppress(OSError, termios.error), _opened(terminal) as fd, _without(fd, _ECHOES):
        give()
        is_ready(fd, select.POLLIN, 0)  # Linux takes keys in later, but before it answers this


def take_unread(terminal: str) -> bytes:
    """What was typed and never read, with a line that has no end yet."""
    taken: list[bytes] = []
    with contextlib.suppress(OSError, termios.error), _opened(terminal) as fd:
        taken += _read_all(fd)  # as lines first: what Linux has yet to take in is to be edited, too
        with _without(fd, termios.ICANON):
            taken += _read_all(fd)
    return b"".join(taken)


def _read_all(fd: int) -> Iterator[bytes]:
    """An end of input (Ctrl-D) among it is passed over."""
    with contextlib.suppress(BlockingIOError):
        for _ in range(KEYS_LIMIT):
            yield os.read(fd, KEYS_LIMIT)


def put_back(fd: int, keys: bytes) -> None:
    """As if typed now, which Linux from 6.2 on mostly refuses. The terminal is to be raw: it shows nothing."""
    with contextlib.suppress(OSError):
        for key in keys:
            fcntl.ioctl(fd, termios.TIOCSTI, bytes([key]))


@contextlib.contextmanager
def _opened(terminal: str) -> Iterator[int]:
    fd = os.open(terminal, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _without(fd: int, flags: int) -> Iterator[None]:
    """The terminal lacks these local flags meanwhile."""
    settings: list[Any] = termios.tcgetattr(fd)
    changed = [*settings[:_LFLAG], settings[_LFLAG] & ~flags, *settings[_LFLAG + 1 :]]
    termios.tcsetattr(fd, termios.TCSANOW, changed)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, settings)
