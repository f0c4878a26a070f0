"""I1: what was typed and not read is the next reader's, and nobody's twice."""

import errno
import fcntl
import os
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from intentd.sources.typed_ahead import put_back, take_unread
from tests.intentd.sources.wrapping import PYTHON, SH, WRAPPER, Open


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    """(where keys are typed, the terminal's name)"""
    master, slave = os.openpty()
    yield master, os.ttyname(slave)
    os.close(slave)
    os.close(master)


def test_what_nobody_has_read_is_taken_whole_and_once(terminal: tuple[int, str]) -> None:
    """Lines, and the one that has no end yet."""
    master, name = terminal
    before = termios.tcgetattr(master)
    os.write(master, b"one\rtwx\x7fo\rthr")
    assert take_unread(name) == b"one\ntwo\nthr"
    assert take_unread(name) == b""
    assert termios.tcgetattr(master) == before


def test_of_a_terminal_that_is_gone_nothing_is_taken() -> None:
    assert take_unread("/nowhere") == b""


@pytest.mark.parametrize("refused_from", [9, 2, 0])
def test_keys_are_put_back_in_order_as_far_as_the_kernel_allows_it(
    monkeypatch: pytest.MonkeyPatch, refused_from: int
) -> None:
    taken: list[bytes] = []

    def ioctl(fd: int, request: int, key: bytes) -> None:
        assert (fd, request) == (5, termios.TIOCSTI)
        if len(taken) >= refused_from:
            raise OSError(errno.EIO, "as Linux from 6.2 on")
        taken.append(key)

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    put_back(5, b"a\nb")
    assert taken == [b"a", b"\n", b"b"][:refused_from]


PLAYED = """
import fcntl, sys, termios
from intentd.cli import main

real, place = fcntl.ioctl, sys.argv[1]

def ioctl(fd, request, *rest):
    if request != termios.TIOCSTI:
        return real(fd, request, *rest)
    with open(place, "ab") as stream:
        stream.write(*rest)

fcntl.ioctl = ioctl
main(["run", "--", *sys.argv[2:]])
"""
READS_ONE = "echo ready; read one; read two; echo got $one"


def test_what_the_command_has_not_read_is_put_back_at_its_end(open_screen: Open, tmp_path: Path) -> None:
    """I1"""
    place = tmp_path / "put back"
    screen = open_screen([PYTHON, "-c", PLAYED, str(place), SH, "-c", READS_ONE], wrapped=False)
    screen.until(b"ready\r\n")
    screen.type(b"one\rtwo\rthree\rfo")
    screen.end()
    assert place.read_bytes() == b"three\nfo"


ALLOWED = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b'p')"


def test_what_was_typed_ahead_reaches_what_reads_next_where_the_kernel_allows_it(open_screen: Open) -> None:
    """I1: shown once, as it was typed."""
    allowed = open_screen([PYTHON, "-c", ALLOWED], wrapped=False).end()[1] == 0
    ends = []
    for wrapper in ("", " ".join(WRAPPER)):
        script = f"{wrapper} {SH} -c '{READS_ONE}'; echo behind; read x; echo next $x"
        screen = open_screen([SH, "-c", script], wrapped=False)
        screen.until(b"ready\r\n")
        screen.type(b"one\rtwo\rthree\r")
        screen.until(b"behind\r\n")
        if wrapper and not allowed:
            screen.type(b"three\r")
        ends.append(screen.end()[0])
    assert b"next three\r\n" in ends[1]
    assert ends[1] == ends[0] or not allowed
