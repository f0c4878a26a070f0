"""Owns reading what pytest prints for people: verdicts, and the blocks that tell of failures. It reads no traceback.

Text that a test printed can look like pytest's own; so verdicts count only in the last summary, and sections only by
the names that pytest gives them.
"""

import re
from collections.abc import Iterator, Sequence

from attrs import frozen

_SECTION = re.compile(
    r"^={2,} (?P<name>FAILURES|ERRORS|X?PASSES|XFAILURES|warnings summary|short test summary info)(?: \(.*\))? ={2,}$"
)
_SUMMARY = "short test summary info"
_TOLD = {"FAILURES", "ERRORS"}
_TITLE = re.compile(r"^_+ (?P<title>(?!_ ).*[^_ ].*) _+$")
_VERDICT = re.compile(r"^(?:\[gw\d+\] \[ *\d+%\] )?(?P<kind>FAILED|ERROR) (?P<rest>\S.*)$")
_END = re.compile(r"^(?:=+ )?(?:\d+ [a-z]+|no tests ran)(?:, \d+ [a-z]+)* in [\d.]+s(?: \([\d:, day]+\))?(?: =+)?$")
_LINE_STYLE = re.compile(r"^/?[^\s:][^:]*:\d+: (?P<words>.*)$")
_TROUBLE = re.compile(r"^ERROR (?:at (?:setup|teardown) of |collecting )(?P<name>.+)$")


@frozen
class Verdict:
    """A line of the summary: FAILED or ERROR, the node id, and pytest's words about it."""

    kind: str
    test: str
    words: str


@frozen
class Block:
    """What pytest tells of one failure, under its title."""

    title: str
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        """The title without what pytest says of the kind of trouble."""
        trouble = _TROUBLE.match(self.title)
        return trouble["name"] if trouble else self.title

    def is_of(self, verdict: Verdict) -> bool:
        file, _, name = verdict.test.partition("::")
        trouble = self.name != self.title
        names = {_dotted(name), file} if trouble else {_dotted(name)}
        return trouble == (verdict.kind == "ERROR") and self.name in names


@frozen
class Report:
    """One run of pytest."""

    verdicts: tuple[Verdict, ...]
    blocks: tuple[Block, ...]


def read_report(lines: Sequence[str]) -> Report | None:
    """The last run in `lines`; None where there is none."""
    summary = max((index for index, line in enumerate(lines) if _section(line) == _SUMMARY), default=None)
    if summary is None and not any(_END.match(line) for line in lines[-40:]):
        return None
    verdicts = tuple(dict.fromkeys(_verdicts(lines[summary:] if summary is not None else ())))
    told = lines if summary is None else lines[:summary]
    blocks = tuple(_blocks(told))
    return Report(verdicts, (*blocks, *_line_style(told, [v for v in verdicts if not any(b.is_of(v) for b in blocks)])))


def _section(line: str) -> str | None:
    found = _SECTION.match(line)
    return found["name"] if found else None


def _verdicts(lines: Sequence[str]) -> Iterator[Verdict]:
    for line in lines:
        if _END.match(line):
            return
        if found := _VERDICT.match(line):
            test, words = _split(found["rest"])
            yield Verdict(found["kind"], test, words)


def _split(rest: str) -> tuple[str, str]:
    """A parameter may hold ` - ` as well: where the id has a bracket, it ends with one."""
    end = rest.find("]", rest.index("[")) if "[" in rest.partition(" - ")[0] else 0
    while end > 0 and rest[end + 1 : end + 4] not in (" - ", ""):
        end = rest.find("]", end + 1)
    if end > 0:
        return rest[: end + 1], rest[end + 4 :]
    test, _, words = rest.partition(" - ")
    return test, words


def _blocks(lines: Sequence[str]) -> Iterator[Block]:
    """Every titled block in the sections that tell of failures."""
    told, title, block = False, "", list[str]()
    for line in [*lines, "== PASSES =="]:
        section = _section(line)
        found = _TITLE.match(line) if told and not section else None
        if section or found or _END.match(line):
            if title:
                yield Block(title, _trimmed(block))
            title, block = (found["title"] if found else ""), []
            told = told if section is None and found else section in _TOLD
        else:
            block.append(line)


def _line_style(lines: Sequence[str], verdicts: Sequence[Verdict]) -> Iterator[Block]:
    """With `--tb=line` there is no title: a line for each failure, in the order of the verdicts, some left out."""
    start = max((index for index, line in enumerate(lines) if _section(line) == "FAILURES"), default=len(lines))
    told = [found for line in lines[start:] if (found := _LINE_STYLE.match(line))]
    for verdict in verdicts:
        if verdict.kind == "FAILED" and told and told[0]["words"].startswith(verdict.words.removesuffix("...")):
            yield Block(_dotted(verdict.test.partition("::")[2]), (told.pop(0).string,))


def _dotted(name: str) -> str:
    """How a title spells the part of a node id behind the file."""
    before, bracket, parameters = name.partition("[")
    return before.replace("::", ".") + bracket + parameters


def _trimmed(lines: Sequence[str]) -> tuple[str, ...]:
    kept = [line.rstrip() for line in lines]
    while kept and not kept[-1]:
        kept.pop()
    while kept and not kept[0]:
        kept.pop(0)
    return tuple(kept)
