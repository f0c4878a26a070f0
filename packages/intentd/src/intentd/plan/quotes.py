"""Owns what a tool's output quotes of files: the lines of one that may not be read are left out (I3).

A quote stands under the name of its place, as in Python's tracebacks and compilers' messages, or above it, as in
pytest's long form and jest's code frames. Where that cannot be told, both are taken for quotes. Compilers may print
more words before a quote or within it; else it goes no further than the first line that does not look like one.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from intentd.plan.source import GAP

Hides = Callable[[str], bool]
"""Whether a file, by the name that the tool prints, may not be quoted."""
_Row = tuple[str, re.Match[str] | None]
"""A line, and the place that it is."""

_PLACE = re.compile(
    r'E\s+File "(?P<broken>[^"]+)", line \d|[\s|+]*File "(?P<file>[^"]+)", line \d'
    r"|\s*--> (?P<arrow>.+?):\d+:\d+$|\s*❯ (?:.* )?(?P<bold>\S+?):\d+:\d+$"
    r"|\s+(?P<indented>[^\s:()]+):\d+(?::\d+)?$"
    r"|\s*at (?!.*node_modules)(?:.*\()?(?:file://)?(?P<at>[^\s()]+?):\d+:\d+\)?$"
    r'|(?P<plain>[^\s:"(][^:"(]*\.\w+):\d+(?::\d|: in |: [a-z ]+: )'
    r'|(?P<last>[^\s:"(][^:"(]*\.\w+):\d+(?::(?: \w*)?)?$'
    r'|(?P<said>[^\s:"(][^:"(]*\.\w+):\d+:'
)
"""`last` is how pytest ends a frame, `said` how Python prints a warning."""
_SOURCE = re.compile(r"[ \t>|]|\d|(?:Failed example|Expected):$|$")
"""With the words between what doctest quotes."""
_BROKEN = re.compile(rf"E {{4}}|{_SOURCE.pattern}")
"""Source that does not parse is marked as the error is."""
_CODE_FRAME = re.compile(r"[ >]*(?:\d+ *)?\|")
_UNDER = {"broken": _BROKEN} | dict.fromkeys(("file", "arrow", "bold", "indented", "plain", "last", "said"), _SOURCE)
_ABOVE = {"at": _CODE_FRAME, "last": _SOURCE}
_UNBROKEN = frozenset(("file", "last", "said"))
"""Under these, a quote is in one piece."""
_FRAME_ENDS = re.compile(r"(?:_ ){3}")
_LEFT_OUT = re.compile(r"\[\d+ lines left out\]$")


def without_quotes(lines: Sequence[str], hides: Hides) -> tuple[str, ...]:
    """The lines but those of files that are hidden. What is said of them stays: places, errors, values."""
    rows = [(line, _PLACE.match(line)) for line in lines]
    hidden = {name for name in {_name(place) for _, place in rows if place} if hides(name)}
    if not hidden:
        return tuple(lines)
    if not lines[0].startswith("E "):  # a report's text has lost its first indentation
        rows[0] = f" {lines[0]}", rows[0][1]
    under = list(_quoted(rows, hidden, _UNDER, _UNBROKEN))
    above = list(_quoted(rows[::-1], hidden, _ABOVE))[::-1]
    return tuple(_with_gaps(lines, map(max, under, above)))


def _name(place: re.Match[str]) -> str:
    return place[place.lastgroup or 0]


def _quoted(
    rows: Sequence[_Row],
    hidden: set[str],
    looks: Mapping[str, re.Pattern[str]],
    unbroken: frozenset[str] = frozenset(),
) -> Iterator[bool]:
    """Which lines look as a hidden file's do behind its place, by the kind of that. What was left out may be one."""
    look, ends = None, False
    for line, place in rows:
        if place:
            ends = place.lastgroup in unbroken
            look = looks.get(place.lastgroup or "") if _name(place) in hidden else None
        elif _LEFT_OUT.match(line):
            look, ends = _SOURCE, False
        elif _FRAME_ENDS.match(line) or (ends and look and not look.match(line)):
            look = None
        yield bool(look and not place and look.match(line))


def _with_gaps(lines: Sequence[str], dropped: Iterable[bool]) -> Iterator[str]:
    in_gap = False
    for line, drop in zip(lines, dropped, strict=True):
        if not drop:
            yield line
        elif line.strip() and not in_gap:
            yield GAP
        in_gap = drop and (in_gap or bool(line.strip()))
