"""Owns `intentd pipe`: passing on what comes through a pipe, byte for byte, and the report of it. It starts no command.

What the command's exit status was nobody tells us; what it printed must say whether it failed.
"""

import contextlib
import os
import signal
from collections.abc import Iterator

from intentd.sources.pump import CHUNK_BYTES, write_all
from intentd.sources.report import UNKNOWN_STATUS, DoorReporter
from intentd.sources.tail import Tail

_INPUT, _OUTPUT = 0, 1


def pipe(reporter: DoorReporter) -> int:
    """0 at the input's end, 1 where any of it was lost; ends by SIGPIPE, as `cat` does, where nobody reads on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the command's: what it still prints must come through
    tail = Tail()
    reporter.started((), tail)
    fault = None
    try:
        whole = _copy(tail)
    except OSError as lost:
        whole, fault = True, lost
    reporter.finished(UNKNOWN_STATUS, tail.total)
    if not whole:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    if fault:
        with contextlib.suppress(OSError):
            os.write(2, f"intentd: {fault}\n".encode())
    return 1 if fault else 0


def _copy(tail: Tail) -> bool:
    """Whether everything was passed on. An OSError says what could not be done."""
    while True:
        with _named("read the input"):
            data = os.read(_INPUT, CHUNK_BYTES)
        if not data:
            return True
        tail.add(data)
        with _named("write the output"):
            if not write_all(_OUTPUT, data):
                return False


@contextlib.contextmanager
def _named(step: str) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise OSError(f"cannot {step}: {fault.strerror}") from None
