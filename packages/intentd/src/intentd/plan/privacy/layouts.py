"""Owns secrets that show by what stands around them on other lines: a Kubernetes Secret, the column of a table."""

import re
from collections.abc import Iterator
from itertools import accumulate

from attrs import define, field

from intentd.plan.privacy.looks import has_both, is_code, is_no_word
from intentd.plan.privacy.views import Span

_KEY = re.compile(
    r"(?:\+|-(?! \S))?[ \t]*(?P<begin>(?:- +)*)(?P<rest>(?:[\"']?(?P<key>[\w.-]+)[\"']?:(?=\s|$))?[ \t]*(?P<value>.*))"
)
"""A line of YAML or JSON behind a diff's mark."""
_NO_LINE = re.compile(r"[+ -]?[ \t]*(?:$|\{\{|@@)")
_COMMENT = re.compile(r"#.*|[|>][+-]?\d?[ \t]*(?:#.*)?")
_SECRET = re.compile(r"[\"']?Secret[\"']?,?[ \t]*(?:#.*)?")
_ENTRY = re.compile(r"(?!\[redacted|\{\{|\$[{(]|<|\}|\{\}?,?$|[\"']{2}[,\s]*$)(?:([\"'])(.+)\1|(.*[^,\s]))[,\s]*")
_SECRET_IN_LINE = re.compile(r"\\?\"kind\\?\":\s?\\?\"Secret\\?\"")
_DATA_IN_LINE = re.compile(
    r"\"(?:data|stringData)\":\s?\{(?!\[redacted)((?:\"(?:[^\"\\]|\\.)*+\"|[^\"}])++)"
    r"|\\\"(?:data|stringData)\\\":\{(?!\[redacted)([^{}]+)"
)
_RULE = re.compile(r"(?=[ \t:|+]*-)[ \t:|+-]*")
_BOX = str.maketrans("│┃║─━═┼┿╇╋╪╬├┝┞┡┢┣╞╠┤┥┨┩┪┫╡╣", "|||---++++++" + "|" * 16)
_COLUMN = re.compile(
    r"(?i)(?:[\w -]*[_ -])?(?:(passw(?:or)?d|passphrase|pwd|pw)|secret|token|(?:api|access|secret)[_ -]?key)"
)


@define
class _Object:
    """What stands in a column, with the places of its data. `entries`: the column of these, while in them."""

    column: int
    secret: bool = False
    entries: int | None = None
    data: list[Span] = field(factory=list)


def laid_out(text: str) -> Iterator[Span]:
    """Where they are in a plain text."""
    lines = text.split("\n")
    starts = [*accumulate((len(line) + 1 for line in lines), initial=0)]
    if "Secret" in text:
        yield from _data(lines, starts)
    yield from _cells(lines, starts)


def _data(lines: list[str], starts: list[int]) -> Iterator[Span]:
    """What a Secret holds of Kubernetes."""
    objects = [_Object(-1)]
    for line, start in zip([*lines, "---"], starts, strict=True):
        for hit in _DATA_IN_LINE.finditer(line) if _SECRET_IN_LINE.search(line) else ():
            yield Span(start + hit.start(hit.lastindex or 0), start + hit.end(hit.lastindex or 0))
        found = _KEY.match(line)
        if found is None or _NO_LINE.match(line):
            continue
        column, inside = found.start("rest"), objects[-1].entries
        if found["rest"].startswith("#") and not (inside and column > inside):
            continue
        while objects[-1].column > (-1 if "---" in line[:4] else found.start("begin")):
            closed = objects.pop()
            yield from closed.data if closed.secret else ()
        top = objects[-1]
        if top.entries is not None and column > top.column:
            top.entries = top.entries or column
            top.data += _entry(found, start, text=column > top.entries)
            continue
        top.entries = None
        if column > top.column:
            objects.append(top := _Object(column))
        if found["key"] == "kind" and _SECRET.fullmatch(found["value"]):
            top.secret = True
        elif found["key"] in ("data", "stringData"):
            top.entries = 0
            top.data += _entry(found, start, text=False)


def _entry(found: re.Match[str], start: int, *, text: bool) -> Iterator[Span]:
    """The value of a line, or the whole of it where it is in a block of `text`."""
    part = "rest" if text else "value"
    entry = _ENTRY.fullmatch(found[part])
    if entry and not (part == "value" and _COMMENT.fullmatch(entry[0])):
        begin, end = entry.span(entry.lastindex or 0)
        yield Span(start + found.start(part) + begin, start + found.start(part) + end)


def _cells(lines: list[str], starts: list[int]) -> Iterator[Span]:
    """Those below a rule and a column's name, as Markdown and databases write them."""
    columns = dict[int, re.Match[str] | None]()
    above = ""
    for line, start in zip((line.translate(_BOX) for line in lines), starts, strict=False):
        if "|" not in line and not _RULE.fullmatch(line):
            columns = {}
        elif "|" in above and _RULE.fullmatch(line):
            columns = {at: _COLUMN.fullmatch(name.strip(" *_`+-")) for at, name in enumerate(above.split("|"))}
        elif columns:
            yield from _secret(line, start, columns)
        above = line


def _secret(line: str, start: int, columns: dict[int, re.Match[str] | None]) -> Iterator[Span]:
    beside: re.Match[str] | None = None
    for at, cell in enumerate(line.split("|")):
        column, text = columns.get(at), cell.strip(" \t`")
        odd = any(not char.isalnum() and char not in "_-" for char in text)
        below = column and (is_no_word(text) or (column[1] and (odd or has_both(text))))
        aside = beside and (is_no_word(text) or (beside[1] and odd and has_both(text) and not is_code(text)))
        if (below or aside) and " " not in text and len(text) > 3:
            yield Span(start + cell.index(text), start + cell.index(text) + len(text))
        start, beside = start + len(cell) + 1, _COLUMN.fullmatch(text)
