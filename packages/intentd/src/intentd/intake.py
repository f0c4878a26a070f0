"""Owns taking in what a command printed and reported: scrubbed whole (I3), then read. For a worker thread."""

import os
from collections.abc import Iterator
from pathlib import Path

from attrs import evolve

from intentd.plan.commands import Command
from intentd.plan.events import CommandEnded
from intentd.plan.privacy import scrub_long
from intentd.plan.tools import Catalogue, Finding, Reader, ReportError, read_junit, read_reportlog
from intentd.plan.triggers import TEST_RUNNERS, Failure, find_failures

MAX_REPORT_BYTES = 2 * 1024 * 1024
CLOCKS_NS = 2_000_000_000
"""File systems keep time more coarsely than we do, and commands may be announced late."""


class Intake:
    """Reads with the tools of a catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._reader = Reader(catalogue.tools)

    def failures(self, event: CommandEnded, *, cut: bool, started_ns: int) -> tuple[Failure, ...] | None:
        """What `find_failures` says of the scrubbed output and of the reports written since `started_ns`.

        `cut`: the beginning of the output was not kept.
        """
        fit = evolve(event, output=scrub_long(event.output, cut=cut).text)
        reports = list(_reports(Command(event.argv, event.cwd), started_ns))
        reported = [finding for report in reports for finding in report]
        return find_failures(fit, self._reader, reported if reports else None)


def _reports(command: Command, started_ns: int) -> Iterator[list[Finding]]:
    for kind, path in command.reports():
        data = _read(Path(path), started_ns)
        read = read_junit if kind == "junit" else read_reportlog
        try:
            if data is not None:
                yield [_named(finding, command) for finding in read(data, _clean)]
        except ReportError:
            continue  # what was printed will do


def _named(finding: Finding, command: Command) -> Finding:
    """JUnit XML does not say whose it is; the command does."""
    tool = command.tool
    return evolve(finding, tool=tool) if tool and finding.tool == "junit" and tool in TEST_RUNNERS else finding


def _clean(text: str) -> str:
    return scrub_long(text).text


def _read(path: Path, started_ns: int) -> bytes | None:
    """A report that this command has written; None for an old, missing or huge one, or no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        if not path.is_file() or os.fstat(descriptor).st_mtime_ns < started_ns - CLOCKS_NS:
            return None
        data = stream.read(MAX_REPORT_BYTES + 1)
    return None if len(data) > MAX_REPORT_BYTES else data
