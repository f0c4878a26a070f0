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
    with contextlib.suppress(OSError, termios.error), _without(terminal, _ECHOES) as fd:
        give()
        is_ready(fd, select.POLLIN, 0)  # Linux takes keys in later, but before it answers this


def take_unread(terminal: str) -> bytes:
    """What was typed and never read, with a line that has no end yet."""
    with contextlib.suppress(OSError, termios.error), _without(terminal, termios.ICANON) as fd:
        return os.read(fd, KEYS_LIMIT)
    return b""


def put_back(fd: int, keys: bytes) -> None:
    """As if typed now, which Linux from 6.2 on mostly refuses. The terminal is to be raw: it shows nothing."""
    with contextlib.suppress(OSError):
        for key in keys:
            fcntl.ioctl(fd, termios.TIOCSTI, bytes([key]))


@contextlib.contextmanager
def _without(terminal: str, flags: int) -> Iterator[int]:
    """The terminal while it lacks these local flags."""
    fd = os.open(terminal, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        settings: list[Any] = termios.tcgetattr(fd)
        changed = [*settings[:_LFLAG], settings[_LFLAG] & ~flags, *settings[_LFLAG + 1 :]]
        termios.tcsetattr(fd, termios.TCSANOW, changed)
        try:
            yield fd
        finally:
            termios.tcsetattr(fd, termios.TCSANOW, settings)
    finally:
        os.close(fd)
