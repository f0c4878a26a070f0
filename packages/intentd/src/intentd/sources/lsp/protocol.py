"""Owns what we need of JSON-RPC beyond pygls: notes of our own, commands that can be cancelled, our own documents."""

import contextlib
import json
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from cattrs import Converter
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.protocol import LanguageServerProtocol, default_converter, lsp_method

from intentd.sources.lsp.notes import CURSOR, DIAGNOSTICS, SELECTION, Note

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
    return made


class IntentProtocol(LanguageServerProtocol):
    """pygls keeps documents of its own, whose lines end where Python's do; ours are `plan.document`'s."""

    _server: "IntentServer"

    @lru_cache  # noqa: B019 - there is one of it
    def get_message_type(self, method: str) -> Any:
        return Note if method in _NOTES else super().get_message_type(method)

    def structure_message(self, data: dict[str, Any]) -> Any:
        try:
            return super().structure_message(data)
        except JsonRpcException:
            self._lost(data)
            raise

    def unread(self, error: Exception, source: Any) -> None:
        """A message could not be read. One byte that is no UTF-8 does not hide what it was about."""
        self._server.report_server_error(error, source)
        if isinstance(error, UnicodeDecodeError):
            with contextlib.suppress(ValueError):
                self._lost(json.loads(error.object.decode(errors="replace")))

    def _lost(self, message: Any) -> None:
        """Nothing more is said of a document whose text is no longer known, until it is opened again."""
        match message:
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
