"""Owns secrets that show by what stands around them on other lines: a Kubernetes Secret, the column of a table."""

import re
from collections.abc import Iterator
from itertools import accumulate, pairwise

from intentd.plan.privacy.looks import has_both, is_no_word
from intentd.plan.privacy.views import Span

_DOCUMENT = re.compile(r"^[+ -]?---", re.MULTILINE)
_KIND = re.compile(r"^[+ -]?[ \t]*[\"']?kind[\"']?:[ \t]*[\"']?Secret[\"']?,?[ \t]*$", re.MULTILINE)
_DATA = re.compile(
    r"^[+ -]?+([ \t]*+)[\"']?(?:data|stringData)[\"']?:[ \t]{0,8}\{?[ \t]{0,8}\n((?:[+ -]\1[ \t][^\n]*(?:\n|\Z))*)",
    re.MULTILINE,
)
_ENTRY = re.compile(
    r"^[+ -]?[ \t]*+(?:[\"']?[\w.-]+[\"']?:[ \t]++)?+[\"']?+"
    r"(?![|>][+-]?$|\{\{|\$[{(]|<|\}|[\w.-]+:$)([^\s\"'][^\n\"']*)",
    re.MULTILINE,
)
_RULE = re.compile(r"(?=[ \t:|+]*-)[ \t:|+-]*")
_COLUMN = re.compile(
    r"(?i)(?:[\w -]*[_ -])?(?:(passw(?:or)?d|passphrase|pwd|pw)|secret|token|(?:api|access|secret)[_ -]?key)"
)


def laid_out(text: str) -> Iterator[Span]:
    """Where they are in a plain text."""
    starts = [0, *(hit.start() for hit in _DOCUMENT.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        if _KIND.search(text, start, end):
            yield from _entries(text, start, end)
    yield from _cells(text.split("\n"))


def _entries(text: str, start: int, end: int) -> Iterator[Span]:
    for data in _DATA.finditer(text, start, end):
        yield from (Span(*entry.span(1)) for entry in _ENTRY.finditer(text, *data.span(2)))


def _cells(lines: list[str]) -> Iterator[Span]:
    """Those below a rule and a column's name, as Markdown and databases write them."""
    columns = dict[int, re.Match[str] | None]()
    above = ""
    for line, start in zip(lines, accumulate((len(line) + 1 for line in lines), initial=0), strict=False):
        if "|" not in line and not _RULE.fullmatch(line):
            columns = {}
        elif "|" in above and _RULE.fullmatch(line):
            columns = {at: _COLUMN.fullmatch(name.strip(" *_`+-")) for at, name in enumerate(above.split("|"))}
        elif any(columns.values()):
            yield from _secret(line, start, columns)
        above = line


def _secret(line: str, start: int, columns: dict[int, re.Match[str] | None]) -> Iterator[Span]:
    for at, cell in enumerate(line.split("|")):
        column, text = columns.get(at), cell.strip(" \t`")
        odd = any(not char.isalnum() and char not in "_-" for char in text)
        if (
            column
            and " " not in text
            and (is_no_word(text) or (column[1] and (odd or has_both(text))))
            and len(text) > 3
        ):
            yield Span(start + cell.index(text), start + cell.index(text) + len(text))
        start += len(cell) + 1
