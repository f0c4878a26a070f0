"""Owns what our commands print: it is written in full, or it is said why it could not be. It knows no command."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from modelwire.errors import why


class Unwritten(Exception):
    """Our output cannot be written."""


@contextmanager
def _writing() -> Iterator[None]:
    """Raises `Unwritten`, and BrokenPipeError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as fault:
        raise Unwritten(f"the output cannot be written: {why(fault)}; write it to another place") from None


def say(text: str = "", *, end: str = "\n", flush: bool = False) -> None:
    """Raises `Unwritten`, and BrokenPipeError where whoever read it has left."""
    with _writing():
        print(text, end=end, flush=flush)


def finish() -> None:
    """Writes what is still in the buffer. Raises as `say`."""
    if sys.stdout:  # else it is closed
        with _writing():
            sys.stdout.flush()


def give_up() -> None:
    """What is still to be written would be tried once more at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
