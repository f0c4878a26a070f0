"""Owns what an editor shows of a document, as data. It knows no editor, and chooses nothing of it.

Lines are counted from 0, as editors do. The text is a bounded part of the document: a huge file never comes whole.
"""

import posixpath

from attrs import frozen

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

    def touches(self, first: int, last: int) -> bool:
        """Whether it says something of the lines from `first` up to `last`."""
        return self.line < last and first <= self.last


@frozen(kw_only=True)
class View:
    """What an editor shows of the document `path`, in the workspace with the root `workspace` (absolute paths).

    `text` is the lines from `first` on; the `lead` first and the `tail` last of them only help to judge what is between
    (I3). `selection` is the first line and the one behind the last. `cursor` is a line.
    """

    workspace: str
    path: str
    version: int
    text: str
    first: int = 0
    lead: int = 0
    tail: int = 0
    cursor: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()
    selection: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The path from the root; of a file that a link leads to, or that lies elsewhere, its last part alone."""
        inside = posixpath.relpath(self.path, self.workspace)
        return posixpath.basename(inside) if inside.startswith("../") else inside

    @property
    def start(self) -> int:
        """The first line that may be shown."""
        return self.first + self.lead

    def lines(self) -> list[str]:
        """Those that may be shown."""
        lines = self.text.split("\n")
        return lines[self.lead : len(lines) - self.tail]

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
