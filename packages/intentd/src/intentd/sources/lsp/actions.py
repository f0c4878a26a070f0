"""Owns the code actions of a place: explain and fix for diagnostics, canned ones for a selection. It answers none."""

import contextlib
from collections.abc import Sequence
from typing import Any

from lsprotocol import types

from intentd.plan.templates import TemplateError
from intentd.shelf import TemplateShelf
from intentd.sources.lsp.notes import CONVERTER

EXPLAIN, FIX, ACTION, STOP = "intent.explain", "intent.fix", "intent.action", "intent.stop"
SELECTION = "selection_"
MOST = 5
"""So many diagnostics of a place get actions."""
KINDS = (types.CodeActionKind.QuickFix, types.CodeActionKind.RefactorRewrite)


def code_actions(
    params: types.CodeActionParams, diagnostics: Sequence[types.Diagnostic], shelf: TemplateShelf
) -> list[types.CodeAction]:
    """`diagnostics` are those at the range, by whoever has told of them."""
    uri, only = params.text_document.uri, params.context.only
    made: list[types.CodeAction] = []
    if _wanted(types.CodeActionKind.QuickFix, only):
        for one in diagnostics[:MOST]:
            made += _of_diagnostic(uri, one)
    if params.range.start != params.range.end and _wanted(types.CodeActionKind.RefactorRewrite, only):
        for name in shelf.names(SELECTION):
            with contextlib.suppress(TemplateError):  # of the user's own: the shelf has logged it
                made.append(_of_selection(uri, params.range, name, shelf))
    return made


def _of_diagnostic(uri: str, one: types.Diagnostic) -> list[types.CodeAction]:
    asked = {"uri": uri, "position": _plain(one.range.start), "diagnostic": _plain(one)}
    short = one.message.split("\n")[0][:60]
    return [
        types.CodeAction(
            title=f"{verb}: {short}",
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[one],
            command=types.Command(title=verb, command=command, arguments=[asked]),
        )
        for verb, command in (("Explain", EXPLAIN), ("Fix", FIX))
    ]


def _of_selection(uri: str, span: types.Range, name: str, shelf: TemplateShelf) -> types.CodeAction:
    action = name.removeprefix(SELECTION)
    title = shelf.get(name).fill_title(test="the selection", tool="the editor")
    asked = {"name": action, "uri": uri, "range": _plain(span)}
    return types.CodeAction(
        title=title[:1].upper() + title[1:],
        kind=types.CodeActionKind.RefactorRewrite,
        command=types.Command(title=title, command=ACTION, arguments=[asked]),
    )


def _wanted(kind: str, only: Sequence[str] | None) -> bool:
    """A wanted kind stands for all below it."""
    return not only or any(kind == one or kind.startswith(f"{one}.") or one == "" for one in map(str, only))


def _plain(value: Any) -> Any:
    return CONVERTER.unstructure(value)
