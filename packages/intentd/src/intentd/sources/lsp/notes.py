"""Owns what editors say beyond the protocol's own notifications: diagnostics, cursor, selection. It acts on none."""

from collections.abc import Callable
from typing import Any, cast

from attrs import frozen
from cattrs import Converter
from lsprotocol import types
from pygls.protocol import default_converter

DIAGNOSTICS = "intent/diagnostics"
CURSOR = "intent/cursor"
SELECTION = "intent/selection"
ANSWER = "intent/answer"


@frozen
class Note:
    """A notification whose parameters stay as they came."""

    method: str
    params: Any
    jsonrpc: str = "2.0"


@frozen
class Reading:
    """The parameters of a note: `uri`, and what else its kind has."""

    uri: str
    diagnostics: tuple[types.Diagnostic, ...] = ()
    position: types.Position | None = None
    range: types.Range | None = None
    insert: bool = False


CONVERTER: Converter = cast(Callable[[], Converter], default_converter)()
_FAR = 2**31 - 1
"""The protocol's largest number. Some servers say 2**32 - 1 for the end of a line."""


def _position(value: Any, _: Any) -> types.Position:
    return types.Position(min(value["line"], _FAR), min(value["character"], _FAR))


CONVERTER.register_structure_hook(types.Position, _position)


def read(params: Any) -> Reading | None:
    """None for what is no such note: an editor's plugin may be of another version, and nobody wants to hear of that."""
    try:
        document = params["textDocument"]
        return Reading(
            uri=str(document["uri"]),
            diagnostics=diagnostics_in(params),
            position=_one(params.get("position"), types.Position),
            range=_one(params.get("range"), types.Range),
            insert=bool(params.get("insert")),
        )
    except Exception:  # cattrs raises whatever the value's own methods do
        return None


def _one(value: Any, cls: Any) -> Any:
    return None if value is None else CONVERTER.structure(value, cls)


def diagnostics_in(params: Any) -> tuple[types.Diagnostic, ...]:
    return tuple(filter(None, map(diagnostic, params.get("diagnostics") or ())))


def position(value: Any) -> types.Position | None:
    try:
        return _one(value, types.Position)  # type: ignore[no-any-return]
    except Exception:
        return None


def range_of(value: Any) -> types.Range | None:
    try:
        return _one(value, types.Range)  # type: ignore[no-any-return]
    except Exception:
        return None


def diagnostic(value: Any) -> types.Diagnostic | None:
    try:
        return _one(value, types.Diagnostic)  # type: ignore[no-any-return]
    except Exception:
        return None
