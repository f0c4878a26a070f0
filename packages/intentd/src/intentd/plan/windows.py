"""Owns cutting the bounded part of a document that leaves the editor. It begins at multiples of so many lines.

So a part stays the same while the cursor moves in it, and a huge file is never taken whole.
"""

from collections.abc import Sequence

from intentd.plan.document import Document
from intentd.plan.plain import MAX_LINE
from intentd.plan.privacy import OVERLAP
from intentd.shown import Diagnostic, View

STEP = 32
AROUND_LINES = 6 * STEP
AROUND_CHARACTERS = 12 * 1024
"""Before the line that it is about, and from it on; where lines are long, it begins and ends at any of them."""


def view_of(
    document: Document,
    *,
    workspace: str,
    path: str,
    cursor: int,
    about: int | None = None,
    diagnostics: Sequence[Diagnostic] = (),
    selection: tuple[int, ...] = (),
) -> View:
    """What is around the line `about` (the cursor, if None)."""
    line = min(max(cursor if about is None else about, 0), document.count - 1)
    start = _start(document, line)
    end = _end(document, line)
    first, last = _lead(document, start), _tail(document, end)
    lines = document.lines(first, last)
    return View(
        workspace=workspace,
        path=path,
        version=document.version,
        text="\n".join(_bounded(one) for one in lines),
        first=first,
        lead=start - first,
        tail=last - end,
        cursor=cursor,
        diagnostics=tuple(diagnostics),
        selection=selection,
    )


def _bounded(line: str) -> str:
    return line[: MAX_LINE + 1]


def _size(lines: Sequence[str]) -> int:
    return sum(min(len(line), MAX_LINE) + 1 for line in lines)


def _start(document: Document, line: int) -> int:
    step = line // STEP * STEP
    start = max(step - AROUND_LINES, 0)
    while start < step and _size(document.lines(start, line)) > AROUND_CHARACTERS:
        start += STEP
    while start < line and _size(document.lines(start, line)) > AROUND_CHARACTERS:
        start += 1
    return start


def _end(document: Document, line: int) -> int:
    step = (line // STEP + 1) * STEP
    end = step + AROUND_LINES
    while end > step and _size(document.lines(line, end)) > AROUND_CHARACTERS:
        end -= STEP
    while end > line + 1 and _size(document.lines(line, end)) > AROUND_CHARACTERS:
        end -= 1
    return min(end, document.count)


def _lead(document: Document, start: int) -> int:
    """The first of the lines before `start` that serve to judge what follows: longer than any secret together."""
    room = OVERLAP
    while start > 0 and room > 0:
        start -= 1
        room -= min(len(document.line(start)), MAX_LINE) + 1
    return start


def _tail(document: Document, end: int) -> int:
    """Behind the last of the lines from `end` on that serve to judge what is before them."""
    room = OVERLAP
    while end < document.count and room > 0:
        room -= min(len(document.line(end)), MAX_LINE) + 1
        end += 1
    return end
