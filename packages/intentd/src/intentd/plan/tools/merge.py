"""Owns putting together what a tool says of one failure in several places: progress line, block, summary."""

import re
from collections import defaultdict

import re2
from attrs import evolve

from intentd.plan.tools.finding import Finding, file_and_test

_PLACE = re.compile(r"^([^\s:\"]+\.py):\d+:", re.MULTILINE)
_SUBTEST = re2.compile(r"(?P<test>[\w.]+(?:\[.*?\])?) (?P<subtest>\[.*\]|(?:\[.*\] )?\(.*\))")
CUT = "..."
"""What pytest ends a message with that it cut to the terminal's width."""


def merged(found: list[Finding]) -> list[Finding]:
    """Each failure once, at the place of its first mention, with what every mention knows."""
    kept: list[Finding] = []
    places: dict[object, list[int]] = defaultdict(list)
    for finding in map(_whole_test, found):
        alike = places[_key(finding)]
        at = next((at for at in alike if _same(kept[at], finding)), None)
        if at is None:
            alike.append(len(kept))
            kept.append(finding)
        else:
            kept[at] = _join(kept[at], finding)
    return [_with_id(finding) for finding in _lend_places(kept)]


def _whole_test(finding: Finding) -> Finding:
    """What pytest writes over the block of a subtest says which one; its id is the test's."""
    hit = _SUBTEST.fullmatch(finding.name or "") if finding.tool == "pytest" and not _has_id(finding) else None
    if hit is None:
        return finding
    return evolve(finding, name=hit["test"], message=f"{hit['subtest']}: {finding.message}")


def _has_id(finding: Finding) -> bool:
    return bool(finding.name and file_and_test(finding.name)[0])


def _key(finding: Finding) -> object:
    """What two mentions of one failure have in common."""
    if finding.name is None:
        return finding
    return finding.tool, finding.kind, _tail(finding.name)


def _same(one: Finding, other: Finding) -> bool:
    """Whether two with the same key are one; two tests of one name are not, when they are of different files.

    Nor are two places of one test, as where two of its subtests have failed.
    """
    if one.line and other.line and (one.line, one.file) != (other.line, other.file):
        return False
    if one.name == other.name:
        return True
    long, short = (one, other) if _has_id(one) else (other, one)
    return not _has_id(short) and _of_file(long, short)


def _tail(name: str) -> str:
    """What pytest writes over a test's block, from its id: `Class.test[value]`."""
    file, test = file_and_test(name)
    path, bracket, value = test.partition("[")
    return path.replace("::", ".") + bracket + value if file else name


def _of_file(named: Finding, block: Finding) -> bool:
    """Whether the block can be of the file that the id names."""
    file = file_and_test(named.name or "")[0]
    return not block.file or file in block.excerpt or block.file.endswith(file)


def _join(one: Finding, other: Finding) -> Finding:
    """Everything that either knows; the longer excerpt; the message that was not cut."""
    name = max(one, other, key=lambda finding: (_has_id(finding), len(finding.name or ""))).name
    block = one if len(one.excerpt) >= len(other.excerpt) else other
    placed = next((finding for finding in (block, one, other) if finding.line), block)
    return evolve(
        one,
        name=name,
        file=placed.file or one.file or other.file,
        line=placed.line,
        column=placed.column,
        message=_message(one, other),
        excerpt=block.excerpt,
    )


def _message(one: Finding, other: Finding) -> str:
    """Of two that differ the one that belongs to the place."""
    for short, long in ((one.message, other.message), (other.message, one.message)):
        if not short or (short.endswith(CUT) and long.startswith(short.removesuffix(CUT))):
            return long
    return max(one, other, key=lambda finding: (finding.line is not None, len(finding.message))).message


def _lend_places(found: list[Finding]) -> list[Finding]:
    """Findings without a name give their place to the named one of the same tool and message (`--tb=line`)."""
    named = [finding for finding in found if finding.name is not None]
    taken: set[int] = set()
    left = []
    for loose in found:
        if loose.name is not None:
            continue
        for at, finding in enumerate(named):
            if at not in taken and finding.line is None and finding.tool == loose.tool and _agree(finding, loose):
                taken.add(at)
                named[at] = _join(finding, loose)
                break
        else:
            left.append(loose)
    if not taken:
        return found
    return named + left


def _agree(named: Finding, loose: Finding) -> bool:
    message = named.message.removesuffix(CUT)
    return bool(message) and named.kind == loose.kind and loose.message.startswith(message)


def _with_id(finding: Finding) -> Finding:
    """A pytest test that was seen only as a block gets the id that pytest would take: file and path in it."""
    if finding.tool != "pytest" or not finding.name or _has_id(finding) or not finding.file:
        return finding
    if finding.name.endswith(".py"):
        return finding
    path, bracket, value = finding.name.partition("[")
    first = _PLACE.search(finding.excerpt)
    file = first[1] if first else finding.file
    return evolve(finding, name=f"{file}::{path.replace('.', '::')}{bracket}{value}")
