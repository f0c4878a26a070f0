"""A pair of terminals: whose keys are read, and who puts back what was set."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from intentd.sources import pty
from intentd.sources.pty import TerminalPair
from intentd.sources.signals import has_strangers
from tests.intentd.sources.wrapping import LIMIT_S, PYTHON, SH, WRAPPER, Open, started


@pytest.fixture
def outer() -> Iterator[int]:
    master, slave = os.openpty()
    yield slave
    os.close(master)
    os.close(slave)


@pytest.mark.parametrize("anew", [True, False])
def test_keys_that_another_reader_has_taken_are_not_waited_for(
    outer: int, monkeypatch: pytest.MonkeyPatch, *, anew: bool
) -> None:
    """I1: both were told of them. A wrapper that waits hears of no signal and of no end."""
    if not anew:  # after `su` the terminal is another one's
        monkeypatch.setattr(pty, "_opened_anew", lambda _: None)
    pair = TerminalPair(outer, shared=False)
    reader = threading.Thread(target=pair.take_keys, daemon=True)
    reader.start()
    reader.join(LIMIT_S)
    assert not reader.is_alive()
    assert not pair.hung_up
    os.close(pair.master)
    os.close(pair.slave)


BEHIND_A_STOPPED_ONE = """
import os, signal, subprocess, sys, termios, time
wrapper = sys.argv[1:]
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
as_found = termios.tcgetattr(0)

def job(*words):
    def begin():
        os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    return subprocess.Popen([*wrapper, *words], process_group=0, preexec_fn=begin)

def take():
    os.tcsetpgrp(0, os.getpgrp())

first = job("sleep", "60")
deadline = time.monotonic() + 60
while termios.tcgetattr(0)[3] & termios.ICANON:
    assert time.monotonic() < deadline
    time.sleep(0.01)
os.kill(first.pid, signal.SIGSTOP)
take()
termios.tcsetattr(0, termios.TCSANOW, as_found)
assert job("stty", "-ixany").wait() == 0
take()
print("as found", termios.tcgetattr(0) == as_found)
first.kill()
"""


def test_a_wrapper_behind_one_that_was_stopped_alone_puts_the_terminal_back(open_screen: Open) -> None:
    """I1: the other one still has its claim, and nobody else would."""
    screen = open_screen([PYTHON, "-c", BEHIND_A_STOPPED_ONE, *WRAPPER], wrapped=False)
    screen.until(b"as found True\r\n")
    assert screen.end()[1] == 0


def test_only_what_runs_as_another_user_is_strange_to_a_group() -> None:
    with started([SH, "-c", "exec sleep 60"], start_new_session=True) as child:
        me = Path(f"/proc/{child.pid}").stat().st_uid
        assert has_strangers(child.pid, me + 1)
        assert not has_strangers(child.pid, me)
        assert not has_strangers(child.pid, 0)
