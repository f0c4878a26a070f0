"""The end of the copying: all that the command printed, and no waiting for what it leaves behind."""

import os
import pty
import select
import subprocess
import threading
import time
import tty

import pytest

from intentd.sources.descriptors import is_ready
from intentd.sources.pump import Pump, write_all
from tests.intentd.sources.wrapping import LIMIT_S

OWN = b"o" * 1_000_000


class Shown:
    """Reads what a pump has copied."""

    def __init__(self) -> None:
        self._count = 0
        self._read, self.target = os.pipe()
        self._thread = threading.Thread(target=self._take)
        self._thread.start()

    def _take(self) -> None:
        while data := os.read(self._read, 4096):
            self._count += data.count(b"o")

    def end(self) -> int:
        """How much of the command's own output was shown."""
        os.close(self.target)
        self._thread.join(LIMIT_S)
        os.close(self._read)
        return self._count


def line(terminal: bool) -> tuple[int, int]:
    """Where a pump reads, and where the command writes."""
    if not terminal:
        return os.pipe()
    source, end = pty.openpty()
    tty.setraw(end)
    os.set_blocking(source, False)
    return source, end


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("chatter", [None, "yes", "while echo x; do sleep 0.02; done"])
def test_all_that_came_before_the_end_is_copied_and_what_goes_on_is_left(
    terminal: bool, chatter: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1"""
    for bound in ("QUIET_MS", "PATIENCE_MS"):  # on a crowded machine a terminal takes longer
        monkeypatch.setattr(f"intentd.sources.pump.{bound}", 1000)
    (source, end), shown = line(terminal), Shown()
    pump = Pump(source, shown.target, lambda _: None, terminal=terminal)
    pump.start()
    write_all(end, OWN)
    child = subprocess.Popen(["/bin/sh", "-c", chatter], stdout=end, stderr=end) if chatter else None
    finishing = threading.Thread(target=pump.finish, daemon=True)
    finishing.start()
    finishing.join(LIMIT_S)
    assert not finishing.is_alive()
    assert pump.left_open
    if child:
        child.kill()
        child.wait(LIMIT_S)
    os.close(end)
    os.close(source)
    assert shown.end() == len(OWN)


@pytest.mark.parametrize("terminal", [False, True])
def test_what_nobody_holds_open_is_copied_to_its_end(terminal: bool) -> None:
    """I1: nothing is left, and no process is needed for it."""
    (source, end), shown = line(terminal), Shown()
    pump = Pump(source, shown.target, lambda _: None, terminal=terminal)

    def write() -> None:
        write_all(end, OWN)
        os.close(end)

    writing = threading.Thread(target=write)
    writing.start()
    pump.start()
    writing.join(LIMIT_S)
    pump.finish()
    assert not pump.left_open
    assert shown.end() == len(OWN)


def test_who_takes_nothing_is_waited_for_once_while_the_command_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-Z before `less` at a full page: its shell waits for us."""
    (source, end), (unread, target) = os.pipe(), os.pipe()
    pump = Pump(source, target, lambda _: None, terminal=False)
    pump.start()
    writer = threading.Thread(target=write_all, args=(end, OWN))
    writer.start()
    deadline = time.monotonic() + LIMIT_S
    while is_ready(target, select.POLLOUT, 0) or not is_ready(source, select.POLLIN, 0):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    monkeypatch.setattr("intentd.sources.pump._SETTLE_S", 0.05)
    pump.settle()
    monkeypatch.setattr("intentd.sources.pump._SETTLE_S", 3600)
    stopped = threading.Event()

    def stop() -> None:
        with pump.held():
            stopped.set()

    threading.Thread(target=stop, daemon=True).start()
    assert stopped.wait(LIMIT_S)
    os.close(unread)
    writer.join(LIMIT_S)
    pump.finish()
    os.close(end)
    os.close(target)
