"""Owns which of several wrappers in one process group has their terminal in front. It changes no terminal."""

import contextlib
import fcntl
import os

from intentd.sources.descriptors import ANY_TERMINAL


class Claim:
    """One wrapper's. It is a lock on the terminal, and so ends with the process that holds it."""

    def __init__(self, terminal: int) -> None:
        self.alone = True
        """Whether no other wrapper had it when it was last tried."""
        self._fd = _opened_anew(terminal)

    def take(self) -> bool:
        """Whether no other wrapper has it. None gets it then until it is given up."""
        self.alone = True
        if self._fd is not None:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.alone = False
            except OSError:
                pass
        return self.alone

    def give_up(self) -> None:
        if self._fd is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)


def _opened_anew(terminal: int) -> int | None:
    """A lock would be shared with who gave us the descriptor. None for /dev/tty, which all terminals have in common."""
    with contextlib.suppress(OSError):
        if os.fstat(terminal).st_rdev != ANY_TERMINAL:
            return os.open(f"/proc/self/fd/{terminal}", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    return None
