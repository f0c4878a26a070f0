"""Owns what a command asks: the question to the daemon, its title, and the buffer that it is about. It asks nobody."""

from typing import Any

from attrs import frozen

from intentd.messages import Ask
from intentd.plan.views import likelier, only
from intentd.shown import Diagnostic
from intentd.sources.lsp import notes
from intentd.sources.lsp.actions import ACTION, FIX
from intentd.sources.lsp.buffers import Buffer, Buffers, diagnostics_of
from intentd.sources.lsp.protocol import Refused


@frozen
class Asked:
    """`version` is that of the buffer when it was asked."""

    question: Ask
    title: str
    buffer: Buffer | None = None
    version: int = 0


def asked_by(command: str, argument: dict[str, Any], buffers: Buffers, here: str) -> Asked:
    """`here` is the uri of the document used last. Raises `Refused` with words for the person."""
    buffer = buffers.get(str(argument.get("uri", "")))
    if command == ACTION:
        return _about_selection(argument, buffer)
    intent = "fix" if command == FIX else "explain"
    diagnostic = _diagnostic(argument, buffer) if buffer else None
    if buffer is not None and diagnostic is not None:
        view = only(buffer.view(about=diagnostic.line), diagnostic)
        title = f"{intent} {diagnostic.message.partition(chr(10))[0][:80]}".strip()
        return Asked(Ask(cwd=buffer.workspace, intent=intent, view=view), title, buffer, buffer.document.version)
    offer = argument.get("offer")
    workspace = _workspace(buffers, buffer or buffers.get(here))
    return Asked(Ask(cwd=workspace, intent=intent, offer=None if offer is None else str(offer)), intent)


def _about_selection(argument: dict[str, Any], buffer: Buffer | None) -> Asked:
    span = notes.range_of(argument.get("range"))
    if buffer is None or span is None:
        raise Refused("an action needs the 'uri' of an open document and a 'range'")
    name = str(argument.get("name", "explain"))
    first, last = buffer.lines_of(span)
    view = only(buffer.view(about=first), None, (first, last))
    return Asked(Ask(cwd=buffer.workspace, intent=name, view=view), f"{name} the selection", buffer)


def _diagnostic(argument: dict[str, Any], buffer: Buffer) -> Diagnostic | None:
    """The one that was named, else the likeliest at the position."""
    if (named := notes.diagnostic(argument.get("diagnostic"))) is not None:
        return diagnostics_of([named])[0]
    position = notes.position(argument.get("position"))
    line = position.line if position else buffer.cursor
    there = (one for one in buffer.diagnostics if one.line < buffer.document.count)
    return next(iter(likelier(there, line)), None)


def _workspace(buffers: Buffers, here: Buffer | None) -> str:
    if here is not None:
        return here.workspace
    if not buffers.folders:
        raise Refused("no workspace is open: open a file of it")
    return buffers.folders[0]  # the daemon looks for its root
