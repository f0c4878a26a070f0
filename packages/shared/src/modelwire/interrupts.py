"""Owns what Ctrl-C does while a command still loads its modules: it ends at once, without a word, by the signal."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

INTERRUPTED = 130
"""The exit status of a command that Ctrl-C has ended, as shells give it."""


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Inside, Ctrl-C meets nothing that is worth closing, and an import that it breaks off would show a traceback."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored (nohup), or it is seen to already
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> NoReturn:
    """By the signal, or a shell that got it too would go on with its loop. Process 1 of a container cannot."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)
    os._exit(INTERRUPTED)
