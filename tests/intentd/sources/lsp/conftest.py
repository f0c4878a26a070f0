"""Owns the editors of the tests: a real `intentd lsp` process each, in front of a daemon in this process."""

import asyncio
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Union

import pytest
from lsprotocol import types
from pygls.io_ import run_async
from pygls.protocol import default_converter
from pytest_lsp import LanguageClient, make_test_lsp_client

from intentd.config import Config
from intentd.sources.lsp import inline
from intentd.sources.lsp.server import IntentServer
from modelwire.testing import PATIENCE_S

UTF_16 = types.PositionEncodingKind.Utf16


def _action(value: Any, _: Any) -> types.CodeAction:
    return default_converter().structure(value, types.CodeAction)  # type: ignore[no-any-return,no-untyped-call]


class Editor:
    """What an editor does, over a client of the server in a process of its own."""

    def __init__(self, client: LanguageClient, workspace: Path) -> None:
        self.client = client
        self.workspace = workspace
        self.server: IntentServer | None = None
        self.answers: list[dict[str, Any]] = []
        self.edits: list[types.WorkspaceEdit] = []
        self.takes_edits = True
        self._changed = asyncio.Event()
        self._texts: dict[str, str] = {}
        self._versions: dict[str, int] = {}
        converter = client.protocol._converter  # its own hook takes every code action for a command
        converter.register_structure_hook(types.Command | types.CodeAction, _action)
        converter.register_structure_hook(Union[types.Command, types.CodeAction], _action)  # noqa: UP007
        client.feature("intent/answer")(lambda params: self._heard(params))
        client.feature(types.WORKSPACE_APPLY_EDIT)(lambda params: self._applied(params))

    def _heard(self, params: Any) -> None:
        self.answers.append({name: getattr(params, name) for name in params._fields})
        self._changed.set()

    def _applied(self, params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        self.edits.append(params.edit)
        self._changed.set()
        return types.ApplyWorkspaceEditResult(applied=self.takes_edits)

    async def start(
        self,
        *,
        answers: bool = True,
        encoding: types.PositionEncodingKind | None = None,
        apply_edit: bool = True,
        inline: bool = True,
    ) -> types.InitializeResult:
        general = types.GeneralClientCapabilities(position_encodings=[encoding]) if encoding else None
        return await self.client.initialize_session(
            types.InitializeParams(
                capabilities=types.ClientCapabilities(
                    general=general,
                    workspace=types.WorkspaceClientCapabilities(apply_edit=apply_edit),
                    text_document=types.TextDocumentClientCapabilities(
                        inline_completion=types.InlineCompletionClientCapabilities() if inline else None
                    ),
                ),
                workspace_folders=[types.WorkspaceFolder(uri=self.workspace.as_uri(), name="project")],
                initialization_options={"answers": answers},
            )
        )

    def uri(self, name: str) -> str:
        return (self.workspace / name).as_uri()

    def open(self, name: str, text: str) -> str:
        uri = self.uri(name)
        self._texts[uri], self._versions[uri] = text, 1
        item = types.TextDocumentItem(uri=uri, language_id="python", version=1, text=text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
        return uri

    def close(self, uri: str) -> None:
        identifier = types.TextDocumentIdentifier(uri=uri)
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(text_document=identifier))

    def type(self, uri: str, line: int, column: int, text: str, *, erase: int = 0) -> int:
        """Puts `text` there, in place of `erase` units behind it."""
        self._versions[uri] += 1
        span = types.Range(types.Position(line, column), types.Position(line, column + erase))
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                text_document=types.VersionedTextDocumentIdentifier(uri=uri, version=self._versions[uri]),
                content_changes=[types.TextDocumentContentChangePartial(range=span, text=text)],
            )
        )
        return self._versions[uri]

    def diagnose(self, uri: str, *said: tuple[int, str], severity: int = 1) -> None:
        """Forwards diagnostics as (line, message)."""
        self._note(
            "intent/diagnostics",
            uri,
            diagnostics=[
                {
                    "range": {"start": {"line": line, "character": 4}, "end": {"line": line, "character": 8}},
                    "message": message,
                    "severity": severity,
                    "source": "checker",
                    "code": "E1",
                }
                for line, message in said
            ],
        )

    def cursor(self, uri: str, line: int, column: int = 0, *, insert: bool = False) -> None:
        self._note("intent/cursor", uri, position={"line": line, "character": column}, insert=insert)

    async def complete(self, uri: str, line: int, column: int) -> str | None:
        """The text of the only item."""
        async with asyncio.timeout(PATIENCE_S):
            found = await self.client.text_document_inline_completion_async(
                types.InlineCompletionParams(
                    text_document=types.TextDocumentIdentifier(uri=uri),
                    position=types.Position(line, column),
                    context=types.InlineCompletionContext(trigger_kind=types.InlineCompletionTriggerKind.Automatic),
                )
            )
        if found is None:
            return None
        (item,) = found.items if isinstance(found, types.InlineCompletionList) else found
        assert item.range == types.Range(types.Position(line, column), types.Position(line, column))
        assert isinstance(item.insert_text, str)
        return item.insert_text

    async def actions(
        self, uri: str, start: tuple[int, int], end: tuple[int, int], *said: types.Diagnostic, only: Any = None
    ) -> list[Any]:
        async with asyncio.timeout(PATIENCE_S):
            found = await self.client.text_document_code_action_async(
                types.CodeActionParams(
                    text_document=types.TextDocumentIdentifier(uri=uri),
                    range=types.Range(types.Position(*start), types.Position(*end)),
                    context=types.CodeActionContext(diagnostics=list(said), only=only),
                )
            )
        return list(found or ())

    def select(self, uri: str, first: int, last: int) -> None:
        span = {"start": {"line": first, "character": 0}, "end": {"line": last, "character": 0}}
        self._note("intent/selection", uri, range=span)

    def _note(self, kind: str, uri: str, **what: Any) -> None:
        self.client.protocol.notify(kind, {"textDocument": {"uri": uri, "version": self._versions[uri]}, **what})

    async def command(self, command: str, /, token: str | None = None, **asked: Any) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await self.client.workspace_execute_command_async(
                types.ExecuteCommandParams(command=command, arguments=[asked], work_done_token=token)
            )

    async def until(self, met: Callable[[], Any], what: str = "the condition") -> None:
        """Looked at whenever the server says something."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not met():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{what} did not come; answers {self.answers}, edits {self.edits}") from None


@pytest.fixture
def editors(house: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes editors on the house's daemon: `async with editors() as editor`. With `real`, the server is a process.

    A completion may take as long as a crowded machine needs.
    """
    monkeypatch.setattr(inline, "DEADLINE_MS", int(1000 * PATIENCE_S))

    @asynccontextmanager
    async def make(
        *words: str, real: bool = False, workspace: Path | None = None, **options: Any
    ) -> AsyncIterator[Editor]:
        client = make_test_lsp_client()
        editor = Editor(client, workspace or house.workspace)
        connect = _there(client, house.config, words) if real else _here(client, house.config)
        async with connect as server, asyncio.timeout(4 * PATIENCE_S):
            await editor.start(**options)
            editor.server = server
            if server is not None:
                await server.link.found()
            yield editor
            await client.shutdown_async(None)

    return make


@asynccontextmanager
async def process(client: LanguageClient, words: Sequence[str], environment: dict[str, str]) -> AsyncIterator[None]:
    """`intentd lsp WORDS`, which ends when it is told to; where a test fails, it is killed."""
    await client.start_io(sys.executable, "-m", "intentd", "lsp", *words, env=environment)
    server = client._server
    assert server
    try:
        yield
        client.exit(None)
        async with asyncio.timeout(PATIENCE_S):
            await server.wait()
    finally:
        if server.returncode is None:
            server.kill()
        await client.stop()  # type: ignore[no-untyped-call]


@asynccontextmanager
async def _there(client: LanguageClient, config: Config, words: Sequence[str]) -> AsyncIterator[None]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GUESSAHEAD")}
    async with process(client, ("--socket", config.socket, *(words or ("--no-autostart",))), environment):
        yield


@asynccontextmanager
async def _here(client: LanguageClient, config: Config) -> AsyncIterator[IntentServer]:
    """The server in this process, over a pair of sockets: it starts at once."""
    ours, theirs = socket.socketpair()
    server = IntentServer(config, autostart=False)
    tasks, writers = [], []
    for side, end, talk in ((client, ours, None), (server, theirs, server.talk)):
        reader, writer = await asyncio.open_connection(sock=end)
        side.protocol.set_writer(_Writer(writer))
        writers.append(writer)
        talking = talk(reader) if talk else run_async(threading.Event(), reader, side.protocol)
        tasks.append(asyncio.create_task(talking))
    try:
        yield server
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


class _Writer:
    """A stream as pygls wants one."""

    def __init__(self, stream: asyncio.StreamWriter) -> None:
        self._stream = stream

    def write(self, data: bytes) -> None:
        self._stream.write(data)

    def close(self) -> None:
        self._stream.close()
