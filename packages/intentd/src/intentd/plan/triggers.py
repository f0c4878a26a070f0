"""Owns what determines a turn, and finds it in events: a test that failed, a diagnostic, a crash. It reads no files."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

from attrs import evolve, frozen

from intentd.plan.events import CommandEnded
from intentd.plan.plain import plain, plain_lines
from intentd.plan.tools import Finding, Reader, file_and_test

Trigger = Literal["test_failed", "diagnostic", "crash", "selection"]
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)
"""In the order in which the failures of one command are offered."""
TEST_RUNNERS = frozenset({"pytest", "unittest", "jest", "vitest", "junit"})

_PYTEST_TITLE = re.compile(r"^_+ \S.*_+$")
_VITEST_PROJECT = re.compile(r"^\|[^|]+\| ")
_CAPTURED = re.compile(r"^-{3,} Captured .+ -{3,}$")
_FRAME = re.compile(r"^(?P<path>[^\s:\"][^:\"]*\.\w+):(?P<line>\d{1,9}):(?: |$)")
_NATIVE_FRAME = re.compile(r'^[\s|]*File "(?P<path>[^"]+)", line (?P<line>\d{1,9})')
_SCRIPT_FRAME = re.compile(
    r"^\s*(?:at (?:async )?(?:[^/(]* \()?|❯ (?>[^/]* )?)(?P<path>\S.*?\.[cm]?[jt]sx?):(?P<line>\d{1,9}):\d+\)?$"
)
_SPLIT_BY_JEST = re.compile(r"(?<=\))(?:\.\./)+")
"""jest takes what follows a parenthesis for an absolute path, and names it from where it runs."""
_FRAMES = (_FRAME, _NATIVE_FRAME, _SCRIPT_FRAME)
_LIBRARY = re.compile(r"site-packages|lib/python3|node_modules|^<")
_SUMMARY_LINES = 40
_PASSED = {
    "pytest": r"^(?:=+ )?\d+ passed(?:, \d+ (?!(?:subtests )?(?:failed|errors?)\b)[a-z ]+)* in [\d.]+s",
    "unittest": r"^Ran \d+ tests? in .+\n\nOK(?: \(.*\))?$",
    "mypy": r"^Success: no issues found",
    "ruff": r"^All checks passed!$",
    "jest": r"^Tests: +(?:\d+ (?:skipped|todo), )*\d+ passed",
    "vitest": r"^ +Tests +\d+ passed(?: \| \d+ (?:skipped|todo))* \(\d+\)",
    "tsc": r"^\S+(?: [AP]M)? - Found 0 errors\.",
}
"""A tool's summary that is printed only where everything was fine: what came from a pipe has no exit status."""
_ALL_PASSED = {tool: re.compile(summary, re.MULTILINE) for tool, summary in _PASSED.items()}


@frozen
class Location:
    """A line (from 1) of a file, by its absolute path."""

    path: str
    line: int


@frozen(kw_only=True)
class Failure:
    """One thing that went wrong. `name` is what its tool calls it, `path` its file (empty where none is known).

    `traceback` is what the tool says of it, `captured` what a test printed; `frames` are in the traceback's order: the
    last one raised.
    """

    trigger: Trigger = "test_failed"
    tool: str = "pytest"
    name: str
    path: str
    message: str
    traceback: tuple[str, ...] = ()
    captured: tuple[str, ...] = ()
    frames: tuple[Location, ...] = ()

    @property
    def function(self) -> str:
        """The name of a Python test's function; empty where the file or another thing failed."""
        if self.tool == "unittest" and not self.name.startswith("unittest."):
            return self.name.partition(" ")[0].rpartition(".")[2]
        file, test = file_and_test(self.name)
        return test.partition("[")[0].rpartition("::")[2] if file else ""


def find_failures(
    event: CommandEnded, reader: Reader, reported: Sequence[Finding] | None = None
) -> tuple[Failure, ...] | None:
    """What went wrong, in the order in which it is offered; None where the output says nothing at all.

    `reported` is what the command's own reports say: it counts instead of what test runners printed, and lends from
    that what it lacks.
    """
    lines = list(plain_lines(event.output))
    found = reader.read(lines)
    if reported is not None:
        found = [*reported, *(one for one in found if one.tool not in TEST_RUNNERS)]
    summaries = passed_by(event.output)
    if not found and reported is None and not summaries:
        return None
    told = sorted(_without_echoes(found, _crashes(event, found, reader)), key=_turn_of)
    return tuple(dict.fromkeys(_failure(one, event.cwd) for one in told))


def passed_by(output: str) -> frozenset[str]:
    """The tools that say at the end of the output that all was fine."""
    end = _end(output)
    return frozenset(tool for tool, summary in _ALL_PASSED.items() if summary.search(end))


def _end(output: str) -> str:
    return plain("\n".join(output.split("\n")[-_SUMMARY_LINES:]))


def _turn_of(found: Finding) -> tuple[int, bool]:
    """A test that failed stands before one that could not run; sorting keeps the output's order otherwise."""
    return TRIGGERS.index(_trigger(found)), found.kind != "test_failed"


def _without_echoes(found: Iterable[Finding], crashes: Sequence[Finding]) -> Iterator[Finding]:
    """What is told twice counts once: a test runner's own traceback is no crash of a program."""
    told = list(found)
    tests = [one for one in told if one.tool in TEST_RUNNERS]
    for one in told:
        if one.kind == "crash":
            echoed = any(one.message and one.message in test.excerpt for test in tests)
            if echoed or one not in crashes:
                continue
        yield one


def _crashes(event: CommandEnded, found: Sequence[Finding], reader: Reader) -> Sequence[Finding]:
    """Those that nobody has caught. In a command that passed somebody has, but for one that ended a thread.

    Without an exit status only a test runner's summary tells that, and only of what stands before it: what comes behind
    may be another program's. A checker's tells nothing, for it runs nobody's code.
    """
    if event.exit is not None:
        uncaught = () if event.exit == 0 else found
    else:
        end = _end(event.output)
        said = [hit.end() for tool in TEST_RUNNERS & _ALL_PASSED.keys() for hit in _ALL_PASSED[tool].finditer(end)]
        uncaught = reader.read(end[max(said) :].split("\n")) if said else found
    crashes = [one for one in found if one.kind == "crash"]
    return [one for one in crashes if one in uncaught or one.excerpt.startswith("Exception in thread")]


def _failure(found: Finding, cwd: str) -> Failure:
    lines = found.excerpt.split("\n") if found.excerpt else []
    if lines and _PYTEST_TITLE.match(lines[0]):
        lines = lines[1:]
    split = next((index for index, line in enumerate(lines) if _CAPTURED.match(line)), len(lines))
    told, captured = _trimmed(lines[:split]), _trimmed(lines[split:])
    frames = tuple(_frames(told, cwd)) or _place(found, cwd)
    if found.tool in ("jest", "vitest"):  # they name the innermost frame first
        frames = frames[::-1]
    failure = Failure(
        trigger=_trigger(found),
        tool=found.tool,
        name=found.name or _title(found),
        path=_path(found, frames, cwd),
        message=found.message,
        traceback=told,
        captured=captured,
        frames=frames,
    )
    return failure if failure.traceback or not found.message else evolve(failure, traceback=(found.message,))


def _trigger(found: Finding) -> Trigger:
    if found.tool in TEST_RUNNERS:
        return "test_failed"
    return "crash" if found.kind == "crash" else "diagnostic"


def _title(found: Finding) -> str:
    """For what has no name: where it is, and which rule it breaks. The line stays out: it moves with every edit."""
    where = found.file or found.tool
    return f"{where}: {found.code or found.message[:80]}"


def _path(found: Finding, frames: Sequence[Location], cwd: str) -> str:
    """The test's file where its id names it, else the first of the person's own that the traceback names."""
    if found.tool == "pytest" and found.name and (file := file_and_test(found.name)[0]):
        return _absolute(file, cwd)
    if found.tool == "vitest" and found.name:
        return _absolute(_VITEST_PROJECT.sub("", found.name).partition(" > ")[0], cwd)
    if found.tool in TEST_RUNNERS and frames:
        return frames[0].path
    return _absolute(found.file, cwd) if found.file else ""


def _place(found: Finding, cwd: str) -> tuple[Location, ...]:
    return (Location(_absolute(found.file, cwd), found.line),) if found.file and found.line else ()


def _frames(lines: Sequence[str], cwd: str) -> Iterator[Location]:
    """The person's own; a library's only where there are no others."""
    hits = [hit for line in lines for pattern in _FRAMES if (hit := pattern.match(line))]
    own = [hit for hit in hits if not _LIBRARY.search(hit["path"])]
    for hit in own or hits:
        yield Location(_absolute(hit["path"], cwd), int(hit["line"]))


def _trimmed(lines: Sequence[str]) -> tuple[str, ...]:
    kept = [line.rstrip() for line in lines]
    while kept and not kept[-1]:
        kept.pop()
    while kept and not kept[0]:
        kept.pop(0)
    return tuple(kept)


def _absolute(path: str, cwd: str) -> str:
    return posixpath.normpath(posixpath.join(cwd, _SPLIT_BY_JEST.sub("/", path)))
