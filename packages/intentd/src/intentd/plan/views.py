"""Owns what an editor shows of a document, and what of it can be asked about. It reads no files and knows no editor.

Lines are counted from 0, as editors do. The text is a bounded part of the document: a huge file never comes whole.
"""

from collections.abc import Iterator, Sequence

from attrs import evolve, frozen

from intentd.plan.source import block_at

ERROR = 1
"""The severity of an error; warnings, information and hints are 2 to 4."""


@frozen(kw_only=True)
class Diagnostic:
    """What a checker says of the lines from `line` to `last`."""

    line: int
    last: int
    message: str
    severity: int = ERROR
    source: str = ""
    code: str = ""


@frozen(kw_only=True)
class View:
    """What an editor shows of the document `path`, in the workspace with the root `workspace` (absolute paths).

    `text` is the lines from `first` on; the `lead` first of them only help to judge what follows (I3). `selection` is
    the first line and the one behind the last. `cursor` is a line.
    """

    workspace: str
    path: str
    version: int
    text: str
    first: int = 0
    lead: int = 0
    cursor: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()
    selection: tuple[int, ...] = ()

    @property
    def start(self) -> int:
        """The first line that may be shown."""
        return self.first + self.lead

    def lines(self) -> list[str]:
        """Those that may be shown."""
        return self.text.split("\n")[self.lead :]

    def part(self, first: int, last: int) -> list[str]:
        """The lines of the document from `first` up to `last`."""
        return self.lines()[max(first - self.start, 0) : max(last - self.start, 0)]

    def holds(self, line: int) -> bool:
        return self.start <= line < self.start + len(self.lines())


@frozen(kw_only=True)
class Focus:
    """The lines (`first`, behind the `last`) of the document that an answer is about.

    `whole`: the model sees them as they are, so that what it says can replace them.
    """

    first: int
    last: int
    whole: bool


def likeliest(view: View) -> Iterator[Diagnostic]:
    """Those in the text: at the cursor, then errors before others, the nearest first."""
    shown = [one for one in view.diagnostics if view.holds(one.line)]
    yield from sorted(shown, key=lambda one: (not _at(one, view.cursor), one.severity, _distance(one, view.cursor)))


def only(view: View, diagnostic: Diagnostic | None, selection: Sequence[int] = ()) -> View:
    """The view of one thing to ask about."""
    return evolve(view, diagnostics=(diagnostic,) if diagnostic else (), selection=tuple(selection), version=0)


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
