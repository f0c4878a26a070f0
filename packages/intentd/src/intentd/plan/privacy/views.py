"""Owns the ways to look at a plain text in which a split secret is whole again, and the way back to the text.

A terminal breaks a long line anywhere; a diff, a quotation or a failed assertion puts marks before each line; code puts
two literals together; a coloured string is printed with its codes spelled out. A view is the text without such gaps.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from attrs import define, frozen

# What a secret is made of: only a gap between two such characters is closed.
_PART = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+/=.%~!$*&^@")
_WRAPPED = re.compile(r"\\?\n")
_NEXT_LINE = re.compile(r"\n[ \t]*(?:[+\->|│#*]|E(?=[ \t]))?[ \t]*(?:[fbrFBR]?[\"'`])?")
_LINE_END = re.compile(r"[\"'`]?[ \t]{0,8}[+.&\\]?[ \t]{0,8}\Z")
_TWO_LITERALS = re.compile(r"\"[ \t]{0,8}[+.&]?[ \t]{0,8}[fbrFBR]?\"|'[ \t]{0,8}[+.&]?[ \t]{0,8}[fbrFBR]?'")
_COLOUR = re.compile(r"(?:\\(?:x1[bB]|033|u001[bB]|e)\[[0-9;]{0,20}m)+")

_CODE = re.compile(r"([\"'`])[ \t]{0,8}[+.&\\]?[ \t]{0,8}\n[ \t]*+[+\->|]?+[ \t]*+[fbrFBR]?\1")
"""Between two literals that code puts together."""
MAX_WIDTH = 1_000
MIN_WIDTH = 30
"""Of a terminal, in columns: shorter lines end where they are meant to."""

Gap = tuple[int, int]


@frozen(order=True)
class Span:
    """Characters `start` to `end` of the plain text."""

    start: int
    end: int


@define
class View:
    """A text without gaps: `text` is made of pieces of the plain text; piece n begins at `starts[n]` there."""

    text: str
    offsets: list[int]
    starts: list[int]
    plain: str

    def at(self, index: int) -> int:
        """Where the character `index` of the view is in the plain text."""
        piece = bisect_right(self.offsets, index) - 1
        return self.starts[piece] + index - self.offsets[piece]

    def spans(self, start: int, end: int) -> Iterator[Span]:
        """The parts of the plain text that the view's `start` to `end` is made of."""
        while start < end:
            piece = bisect_right(self.offsets, start) - 1
            limit = self.offsets[piece + 1] if piece + 1 < len(self.offsets) else len(self.text)
            stop = min(end, limit)
            yield Span(self.at(start), self.at(stop - 1) + 1)
            start = stop

    def joins(self, start: int, end: int) -> list[int]:
        """Where gaps were closed inside the view's `start` to `end`."""
        return self.offsets[bisect_right(self.offsets, start) : bisect_right(self.offsets, end - 1)]

    def is_whole(self, start: int, end: int) -> bool:
        """Whether each gap inside the view's `start` to `end` is where code or a terminal cut a word in two."""
        gaps = ((self.at(join - 1) + 1, self.at(join)) for join in self.joins(start, end))
        return all(
            "\n" not in self.plain[begin:stop]
            or is_cut(self.plain, begin, stop)
            or _CODE.fullmatch(self.plain, begin, stop)
            for begin, stop in gaps
        )


def is_cut(text: str, end: int, begin: int) -> bool:
    """Whether the line that stops at `end` is a terminal's full row, which goes on at `begin`."""
    if text[end:begin] == "\\\n":
        return True
    if text[end:begin] != "\n":
        return False
    row = text[text.rfind("\n", 0, end) + 1 : end]
    below = text[begin : begin + 2 * len(row) + 1].partition("\n")[0]
    return _columns(row) >= MIN_WIDTH and _columns(below) <= _columns(row)


def _columns(row: str) -> int:
    """How wide it is on a terminal; no row of one is longer than MAX_WIDTH."""
    if row.isascii() or len(row) > MAX_WIDTH:
        return len(row)
    return len(row) + sum(unicodedata.east_asian_width(char) in "WF" for char in row)


def whole(text: str) -> View:
    """The text as it is."""
    return View(text, [0], [0], text)


def uncoloured(text: str) -> list[View]:
    """The text as it is, and without the codes of colours spelled out in it, as in a string that is printed as code."""
    view = _without(text, (hit.span() for hit in _COLOUR.finditer(text)))
    return [whole(text), view] if len(view.starts) > 1 else [view]


def joined(text: str) -> list[View]:
    """The text without line breaks, and without line breaks and the marks and quotes around them."""
    wrapped = [hit.span() for hit in _WRAPPED.finditer(text)]
    marked = sorted([*_between_lines(text), *(hit.span() for hit in _TWO_LITERALS.finditer(text))])
    views = (_without(text, gaps) for gaps in (_inside(text, wrapped), _inside(text, marked)))
    return [view for view in views if len(view.starts) > 1]


def _between_lines(text: str) -> Iterator[Gap]:
    for hit in _NEXT_LINE.finditer(text):
        if text[hit.end() : hit.end() + 1] not in _PART:  # an empty line, mostly: `_inside` would drop it
            continue
        end = _LINE_END.search(text[max(0, hit.start() - 20) : hit.start()])
        yield hit.start() - (len(end[0]) if end else 0), hit.end()


def _inside(text: str, gaps: Iterable[Gap]) -> Iterator[Gap]:
    """Those between two characters that a secret may be made of."""
    for start, end in gaps:
        if start > 0 and end < len(text) and text[start - 1] in _PART and text[end] in _PART:
            yield start, end


def _without(text: str, gaps: Iterable[Gap]) -> View:
    pieces, offsets, starts, begin, length = [], [], [], 0, 0
    for start, end in gaps:
        if not begin < start:
            continue
        pieces.append(text[begin:start])
        offsets.append(length)
        starts.append(begin)
        length += start - begin
        begin = end
    pieces.append(text[begin:])
    return View("".join(pieces), [*offsets, length], [*starts, begin], text)
