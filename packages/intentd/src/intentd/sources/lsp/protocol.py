"""Owns what we need of JSON-RPC beyond pygls: notes of our own, commands that can be cancelled, our own documents."""

import contextlib
import json
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from cattrs import Converter
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.protocol import LanguageServerProtocol, default_converter, lsp_method

from intentd.sources.lsp.notes import CURSOR, DIAGNOSTICS, SELECTION, Note, diagnostics_in

if TYPE_CHECKING:
    from intentd.sources.lsp.server import IntentServer

REQUEST_FAILED = -32803
_TEXTS = (types.TEXT_DOCUMENT_DID_OPEN, types.TEXT_DOCUMENT_DID_CHANGE, types.TEXT_DOCUMENT_DID_CLOSE)
_NOTES = (DIAGNOSTICS, CURSOR, SELECTION)


class Refused(JsonRpcException):
    """A request that cannot be served; the message is for the person."""

    CODE = REQUEST_FAILED


def converter() -> Converter:
    made = cast(Callable[[], Converter], default_converter)()
    made.register_structure_hook(Note, lambda value, _: Note(value["method"], value.get("params")))
    made.register_structure_hook(types.CodeActionContext, _context)
    made.register_structure_hook(types.InlineCompletionContext, _automatic)
    return made


def _context(value: Any, _: Any) -> types.CodeActionContext:
    """A tool's diagnostic that cannot be read costs the others nothing."""
    return types.CodeActionContext(diagnostics_in(value), only=value.get("only"))


def _automatic(*_: Any) -> types.InlineCompletionContext:
    """Nobody looks at it, and editors number its kinds from 0 or from 1."""
    return types.InlineCompletionContext(trigger_kind=types.InlineCompletionTriggerKind.Automatic)


class IntentProtocol(LanguageServerProtocol):
    """pygls keeps documents of its own, whose lines end where Python's do; ours are `plan.document`'s."""

    _server: "IntentServer"

    @lru_cache  # noqa: B019 - there is one of it
    def get_message_type(self, method: str) -> Any:
        return Note if method in _NOTES else super().get_message_type(method)

    def structure_message(self, data: dict[str, Any]) -> Any:
        try:
            return super().structure_message(data)
        except JsonRpcException as fault:
            self._lost(data, fault)
            raise

    def unread(self, error: Exception, source: Any) -> None:
        """A message could not be read. One byte that is no UTF-8 does not hide what it was about."""
        self._server.report_server_error(error, source)
        if isinstance(error, UnicodeDecodeError):
            with contextlib.suppress(ValueError):
                self._lost(json.loads(error.object.decode(errors="replace")), JsonRpcInvalidParams())

    def _lost(self, message: Any, fault: JsonRpcException) -> None:
        """Nothing more is said of a document whose text is no longer known, until it is opened again. Who has asked
        waits for an answer."""
        match message:
            case {"id": int() | str() as id, "method": str()}:
                self._send_response(id, error=fault.to_response_error())
            case {"method": str(method), "params": {"textDocument": {"uri": str(uri)}}} if method in _TEXTS:
                self._server.closed(uri)

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        self._server.opened(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        self._server.edited(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self._server.closed(params.text_document.uri)

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(  # type: ignore[override]  # pygls' own cannot be cancelled
        self, params: types.ExecuteCommandParams
    ) -> Any:
        return await self._server.execute(params)
