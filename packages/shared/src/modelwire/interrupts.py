"""Owns what Ctrl-C does while a command still loads its modules: it ends at once, without a word."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""The exit status of a command that Ctrl-C has ended, as shells give it."""


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Inside, Ctrl-C meets nothing that is worth closing, and an import that it breaks off would show a traceback."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored (nohup), or it is seen to already
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
