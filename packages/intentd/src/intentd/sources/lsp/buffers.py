"""Owns the open buffers of an editor: the text, what is said of it, cursor and selection. It tells nobody."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from attrs import define, evolve, field
from lsprotocol import types
from pygls.uris import to_fs_path

from intentd.plan.document import Change, Document, Encoding, Place, can_be_kept
from intentd.plan.plain import shortened
from intentd.plan.views import likelier
from intentd.plan.windows import view_of
from intentd.shown import Diagnostic, View
from intentd.workspace import marked_root

MAX_DIAGNOSTICS = 200
MAX_MESSAGE = 2000


@define(eq=False)
class Buffer:
    """`forwarded`: somebody tells of its diagnostics. `selection` is the first line and the one behind the last;
    `inserting`: the person types; `used`: when they did something here last, by `time.monotonic`; `told`: the daemon
    knows of something to ask about here."""

    uri: str
    path: str
    workspace: str
    document: Document
    diagnostics: tuple[Diagnostic, ...] = ()
    forwarded: bool = False
    cursor: int = 0
    character: int = 0
    inserting: bool = False
    selection: tuple[int, ...] = ()
    used: float = 0.0
    told: bool = False
    _stand: dict[tuple[Diagnostic, str], Diagnostic] = field(factory=dict)

    def view(self, about: int | None = None) -> View:
        """What it shows around a line."""
        return view_of(
            self.document,
            workspace=self.workspace,
            path=self.path,
            cursor=self.cursor,
            about=about,
            diagnostics=self.diagnostics,
            selection=self.selection,
        )

    def bare_view(self, about: int) -> View:
        """The text around a line, and nothing of what is said of it."""
        return view_of(self.document, workspace=self.workspace, path=self.path, cursor=about)

    def as_lsp(self, one: Diagnostic) -> types.Diagnostic:
        """A diagnostic as editors know them, over the whole line."""
        line = self.document.line(one.line)
        start = self.document.place(one.line, len(line) - len(line.lstrip()))
        end = self.document.place(one.line, len(line))
        return types.Diagnostic(
            range=types.Range(types.Position(start.line, start.column), types.Position(end.line, end.column)),
            message=one.message,
            severity=types.DiagnosticSeverity(one.severity) if 1 <= one.severity <= 4 else None,
            source=one.source or None,
            code=one.code or None,
        )

    def place(self, position: types.Position) -> Place:
        return Place(position.line, position.character)

    def lines_of(self, span: types.Range) -> tuple[int, int]:
        """(first, behind the last) line that a range touches; a range that ends before a line's first character leaves
        that line out."""
        first, last = self.document.index(self.place(span.start)), self.document.index(self.place(span.end))
        return first[0], max(last[0] + (last[1] > 0), first[0] + 1)

    def handed(self, span: types.Range, said: tuple[Diagnostic, ...]) -> bool:
        """An editor that forwards none says which diagnostics there are at a place, or that there are none at this
        very character. Whether that is news."""
        first, last = self.lines_of(span)
        known = {one for one in self.diagnostics if one.touches(first, last)}
        if self.forwarded or not said or known == set(said):
            return False
        others = [one for one in self.diagnostics if one not in known]
        self.diagnostics, self.cursor = (*said, *others)[:MAX_DIAGNOSTICS], first
        return True

    def forward(self, said: Iterable[types.Diagnostic]) -> None:
        """Somebody tells of all that there are, also of what no tool has looked at again since the last time: what is
        told as it was then stays where edits have moved it. `data` tells apart what was found again in that place."""
        keys: dict[Diagnostic, tuple[Diagnostic, str]] = {}
        for one in said:
            made = _known(one)
            key = evolve(made, last=0), repr(one.data)
            keys.setdefault(self._stand.get(key, made), key)
        self.diagnostics, self.forwarded = tuple(likelier(keys, self.cursor)[:MAX_DIAGNOSTICS]), True
        self._stand = {keys[one]: one for one in self.diagnostics}

    def moved(self, change: Change) -> None:
        """What is said of lines stays with them until it is said anew, or until they change where nobody would."""
        kept = (one for one in self.diagnostics if self.forwarded or not one.touches(change.first, change.last + 1))
        self.diagnostics = tuple(evolve(one, line=change.moved(one.line), last=change.moved(one.last)) for one in kept)
        self._stand = dict(zip(self._stand, self.diagnostics, strict=False))
        self.selection = ()


@define(eq=False)
class Buffers:
    """By their uris. Those without a path of their own (`untitled:`) are not kept: no rule could speak of them. Nor are
    those whose text is no document."""

    encoding: Encoding = "utf-16"
    folders: tuple[str, ...] = ()
    _open: dict[str, Buffer] = field(factory=dict)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self._open.values())

    def get(self, uri: str) -> Buffer | None:
        return self._open.get(uri)

    def open(self, uri: str, text: str, version: int) -> Buffer | None:
        path = to_fs_path(uri) if uri.startswith("file:") else None
        if path is None or not can_be_kept(text):
            return None
        document = Document.of(text, version, self.encoding)
        buffer = self._open[uri] = Buffer(uri, path, self._workspace(path), document)
        return buffer

    def close(self, uri: str) -> Buffer | None:
        return self._open.pop(uri, None)

    def edit(self, uri: str, version: int, changes: Iterable[Any], moved: Callable[[Buffer, Change], None]) -> None:
        """Applies LSP's content changes in their order; `moved` is told of each. Raises `ValueError` where the text can
        be kept no longer."""
        buffer = self._open.get(uri)
        if buffer is None:
            return
        for change in changes:
            if not can_be_kept(change.text):
                raise ValueError("this is no document")
            span = getattr(change, "range", None)
            if span is None:
                done = buffer.document.become(change.text)
            else:
                done = buffer.document.replace(buffer.place(span.start), buffer.place(span.end), change.text)
            buffer.moved(done)
            moved(buffer, done)
        buffer.document.version = version

    def rehome(self, folders: tuple[str, ...]) -> None:
        """The editor has other folders now."""
        self.folders = folders
        for buffer in self:
            buffer.workspace = self._workspace(buffer.path)

    def _workspace(self, path: str) -> str:
        """As the terminal sees it; where nothing marks a root, the editor's folder around the file."""
        folder = str(Path(path).parent)
        around = [one for one in self.folders if Path(path).is_relative_to(one)]
        return marked_root(folder) or str(Path(max(around, key=len, default=folder)).resolve())


def diagnostics_of(said: Iterable[types.Diagnostic], line: int = 0) -> tuple[Diagnostic, ...]:
    """As the plan knows them; a bounded number of bounded length, the likeliest at a line first."""
    return tuple(likelier(map(_known, said), line)[:MAX_DIAGNOSTICS])


def _known(one: types.Diagnostic) -> Diagnostic:
    return Diagnostic(
        line=one.range.start.line,
        last=max(one.range.end.line - (one.range.end.character == 0), one.range.start.line),
        message=shortened(str(one.message), MAX_MESSAGE),
        severity=int(one.severity or types.DiagnosticSeverity.Error),
        source=(one.source or "")[:100],
        code=str(one.code if one.code is not None else "")[:100],
    )
