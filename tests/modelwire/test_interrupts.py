"""What Ctrl-C does before a command has begun, and while it reads."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from modelwire.interrupts import ends_at_once

STOPPED_IN = """
import builtins, importlib, os, signal, sys
plain = builtins.__import__
def stops(name, *rest):
    if name == {module!r}:
        builtins.__import__ = plain
        os.kill(os.getpid(), signal.SIGINT)
    return plain(name, *rest)
builtins.__import__ = stops
sys.argv = [{command!r}, *{words!r}.split()]
sys.exit(importlib.import_module({command!r} + ".__main__").main())
"""


@pytest.mark.parametrize(
    ("command", "words", "module"),
    [
        ("intentd", "explain", "signal"),
        ("intentd", "explain", "modelwire.interrupts"),
        ("intentd", "explain", "zmq"),
        ("intentd", "run -- true", "intentd.sources.run"),
        ("modeld", "status", "signal"),
        ("modeld", "status", "modelwire.interrupts"),
        ("modeld", "status", "modelwire.client"),
    ],
)
def test_a_command_that_is_stopped_while_it_loads_ends_without_a_word(command: str, words: str, module: str) -> None:
    """By the signal: a shell's loop goes on where a command ends with a status."""
    program = STOPPED_IN.format(command=command, words=words, module=module)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, b"", b"")


@pytest.mark.parametrize("command", ["replay", "trace"])
def test_the_first_interrupt_ends_a_command_that_reads(command: str, tmp_path: Path) -> None:
    os.mkfifo(record := tmp_path / "record")
    reader = subprocess.Popen([sys.executable, "-m", "modeld", command, record], stderr=subprocess.PIPE)
    with record.open("w"):  # it has been opened at the other end
        reader.send_signal(signal.SIGINT)
        assert (reader.communicate(timeout=60)[1], reader.returncode) == (b"", -signal.SIGINT)


def test_an_ignored_interrupt_stays_ignored_and_afterwards_all_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with ends_at_once():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ends_at_once():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
