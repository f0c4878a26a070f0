"""Owns which of several wrappers in one process group has their terminal in front. It changes no terminal."""

import contextlib
import fcntl
import os

from intentd.sources.descriptors import ANY_TERMINAL


class Claim:
    """One wrapper's. It is a lock on the terminal, and so ends with the process that holds it."""

    def __init__(self, terminal: int | None) -> None:
        """`terminal` was opened by us: who gave it to us would share the lock. None has no lock, and is always had."""
        self.alone = True
        """Whether no other wrapper had it when it was last tried."""
        # /dev/tty is one file, whichever terminal it leads to.
        self._fd = terminal if terminal is not None and os.fstat(terminal).st_rdev != ANY_TERMINAL else None

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
