"""Owns what determines a turn, and finds it in events. So far: a test that failed, read from pytest's output."""

import posixpath
import re
from collections.abc import Iterator, Sequence

from attrs import evolve, frozen

from intentd.plan.events import CommandEnded
from intentd.plan.plain import plain_lines
from intentd.plan.pytest_output import Block, Report, Verdict, read_report

_FRAME = re.compile(r"^(?P<path>[^\s:][^:]*\.\w+):(?P<line>\d+):(?: |$)")
_NATIVE_FRAME = re.compile(r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+)')
_CAPTURED = re.compile(r"^-{3,} Captured .+ -{3,}$")
MAX_FAILURES = 20


@frozen
class Location:
    """A line (from 1) of a file, by its absolute path."""

    path: str
    line: int


@frozen(kw_only=True)
class FailedTest:
    """A test that failed, or could not run. `test` is its node id, `path` its file.

    `traceback` is what pytest says of it, `captured` what it printed; `frames` are in the traceback's order: the last
    one raised.
    """

    test: str
    path: str
    message: str
    traceback: tuple[str, ...] = ()
    captured: tuple[str, ...] = ()
    frames: tuple[Location, ...] = ()

    @property
    def function(self) -> str:
        """The name of the test's function, empty for a file that could not be collected."""
        return self.test.partition("[")[0].rpartition("::")[2] if "::" in self.test else ""


def failed_tests(event: CommandEnded) -> tuple[FailedTest, ...] | None:
    """The failures in their order; None where the output says nothing of tests."""
    report = read_report(list(plain_lines(event.output)))
    if report is None:
        return None
    return tuple(_failed_tests(report, event.cwd))[:MAX_FAILURES]


def _failed_tests(report: Report, cwd: str) -> Iterator[FailedTest]:
    blocks = list(report.blocks)
    for verdict in report.verdicts:
        block = _take_block(blocks, verdict)
        failure = FailedTest(
            test=verdict.test, path=_absolute(verdict.test.partition("::")[0], cwd), message=verdict.words
        )
        yield _with_block(failure, block.lines, cwd) if block else failure
    if not report.verdicts:
        yield from (_from_block(block, cwd) for block in blocks)


def _take_block(blocks: list[Block], verdict: Verdict) -> Block | None:
    """Removes the block of a verdict. Tests of the same name in two files come in the order of the verdicts."""
    for block in blocks:
        if block.is_of(verdict):
            blocks.remove(block)
            return block
    return None


def _from_block(block: Block, cwd: str) -> FailedTest:
    """Without a summary the file is the first that the traceback names."""
    frames = tuple(_frames(block.lines, cwd))
    path = frames[0].path if frames else ""
    name = posixpath.relpath(path, cwd) if path else ""
    test = block.name if block.name == name or not name else f"{name}::{block.name.replace('.', '::')}"
    return _with_block(FailedTest(test=test, path=path, message=""), block.lines, cwd)


def _with_block(failure: FailedTest, lines: Sequence[str], cwd: str) -> FailedTest:
    split = next((index for index, line in enumerate(lines) if _CAPTURED.match(line)), len(lines))
    told, captured = tuple(lines[:split]), tuple(lines[split:])
    return evolve(failure, traceback=told, captured=captured, frames=tuple(_frames(told, cwd)))


def _frames(lines: Sequence[str], cwd: str) -> Iterator[Location]:
    for line in lines:
        if _CAPTURED.match(line):
            return
        if found := _FRAME.match(line) or _NATIVE_FRAME.match(line):
            yield Location(_absolute(found["path"], cwd), int(found["line"]))


def _absolute(path: str, cwd: str) -> str:
    return posixpath.normpath(posixpath.join(cwd, path))
