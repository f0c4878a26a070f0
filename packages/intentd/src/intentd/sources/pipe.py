"""Owns `intentd pipe`: passing on what comes through a pipe, byte for byte, and the report of it. It starts no command.

What the command's exit status was nobody tells us; what it printed must say whether it failed.
"""

import os
import signal

from intentd.sources.pump import CHUNK_BYTES, complain, write_all
from intentd.sources.report import UNKNOWN_STATUS, DoorReporter
from intentd.sources.tail import Tail

_INPUT, _OUTPUT = 0, 1


def pipe(reporter: DoorReporter) -> int:
    """0 at the input's end, 1 where output was lost; ends by SIGPIPE, as `cat` does, where nobody reads on."""
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
        complain(fault)
    return 1 if fault else 0


def _copy(tail: Tail) -> bool:
    """Whether everything was passed on."""
    while data := os.read(_INPUT, CHUNK_BYTES):
        tail.add(data)
        if not write_all(_OUTPUT, data):
            return False
    return True
