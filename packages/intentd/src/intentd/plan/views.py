"""Owns the choice of what can be asked about what an editor shows. It reads no files and knows no editor."""

from collections.abc import Iterable, Iterator, Sequence

from attrs import evolve

from intentd.plan.source import block_at
from intentd.shown import Diagnostic, View


def likeliest(view: View) -> Iterator[Diagnostic]:
    """Those in the text, the likeliest first."""
    yield from likelier((one for one in view.diagnostics if view.holds(one.line)), view.cursor)


def likelier(diagnostics: Iterable[Diagnostic], line: int) -> list[Diagnostic]:
    """Those at a line, then errors before others, the nearest first."""
    return sorted(diagnostics, key=lambda one: (not _at(one, line), one.severity, _distance(one, line)))


def only(view: View, diagnostic: Diagnostic | None, selection: Sequence[int] = ()) -> View:
    """The view of one thing to ask about."""
    said = (diagnostic,) if diagnostic else ()
    return evolve(view, diagnostics=said, selection=tuple(selection), cursor=0, version=0)


def focus(view: View, limit: int) -> tuple[int, int]:
    """The lines (first, behind the last) of the document that a question is about: the block around its place."""
    if view.selection:
        first, last = view.selection
        return max(first, view.start), max(first, min(last, view.start + len(view.lines())))
    line = view.diagnostics[0].line if view.diagnostics else view.cursor
    first, last = block_at(view.lines(), line - view.start, limit)
    return view.start + first, view.start + last


def _at(one: Diagnostic, line: int) -> bool:
    return one.line <= line <= max(one.last, one.line)


def _distance(one: Diagnostic, line: int) -> int:
    return 0 if _at(one, line) else min(abs(one.line - line), abs(one.last - line))
