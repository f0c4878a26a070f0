"""The end of a wrapped command: told, and waited for only where a daemon was found."""

import select
import socket

import pytest

from intentd.sources import report
from intentd.sources.report import DELIVERY_MS, DoorReporter


@pytest.mark.parametrize(("said", "waits"), [(b"", 0), (b"!", 1)])
def test_only_where_a_daemon_was_found_the_command_waits_for_its_report(
    said: bytes, waits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    monkeypatch.setattr(select, "select", lambda reads, writes, odd, seconds: asked.append(seconds))
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    reporter = DoorReporter(None)
    reporter._channel = ours
    if said:
        theirs.send(said)
    reporter.finished(256, 9)
    assert len(theirs.recv(64)) == report._END.size
    assert asked == [DELIVERY_MS / 1000] * waits
    ours.close()
    theirs.close()


def test_a_reporter_that_is_gone_holds_nothing_up() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    reporter = DoorReporter(None)
    reporter._channel = ours
    reporter.finished(0, 0)
    ours.close()
