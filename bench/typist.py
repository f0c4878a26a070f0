"""Owns an editor without a screen: a person's files, keystrokes and questions over the real `intentd lsp`. It times."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from intentd.plan.document import Document, Place

START_S = 60.0
ANSWER_S = 120.0


@frozen
class Completed:
    """What came for a completion. `text` is None for nothing; `late`: the text had changed before it came."""

    text: str | None
    ms: float
    late: bool


@define(eq=False)
class Typist:
    """Its documents by name; `answers` are the pieces of answers with the time when they came."""

    client: LanguageClient
    folder: Path
    documents: dict[str, Document] = field(factory=dict)
    pieces: list[tuple[float, str, str]] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.client.feature("intent/answer")(lambda said: self._heard(said))

    def _heard(self, said: Any) -> None:
        self.pieces.append((time.perf_counter(), said.answer, said.kind))

    async def begin(self) -> None:
        inline = types.InlineCompletionClientCapabilities()
        await self.client.initialize_async(
            types.InitializeParams(
                capabilities=types.ClientCapabilities(
                    text_document=types.TextDocumentClientCapabilities(inline_completion=inline)
                ),
                workspace_folders=[types.WorkspaceFolder(uri=self.folder.as_uri(), name="bench")],
                initialization_options={"answers": True},
            )
        )
        self.client.initialized(types.InitializedParams())

    # --- files and keys ---------------------------------------------------------------------------------------

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str) -> Document:
        if name in self.documents:
            self.close(name)
        document = self.documents[name] = Document.of(text, 1)
        item = types.TextDocumentItem(uri=self.uri(name), language_id="python", version=1, text=text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
        return document

    def close(self, name: str) -> None:
        del self.documents[name]
        identifier = types.TextDocumentIdentifier(uri=self.uri(name))
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(text_document=identifier))

    def put(self, name: str, line: int, character: int, text: str) -> tuple[int, int]:
        """Types `text` there; where the cursor is then."""
        document = self.documents[name]
        place = document.place(line, character)
        change = document.replace(place, place, text)
        document.version += 1
        span = types.Range(types.Position(place.line, place.column), types.Position(place.line, place.column))
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                text_document=types.VersionedTextDocumentIdentifier(uri=self.uri(name), version=document.version),
                content_changes=[types.TextDocumentContentChangePartial(range=span, text=text)],
            )
        )
        self.cursor(name, *change.end, insert=True)
        return change.end

    def cursor(self, name: str, line: int, character: int = 0, *, insert: bool = False) -> None:
        self._note("intent/cursor", name, position=self._position(name, line, character), insert=insert)

    def select(self, name: str, first: int, last: int) -> None:
        self._note("intent/selection", name, range=self._range(first, last))

    def diagnose(self, name: str, line: int, message: str) -> None:
        said = {"range": self._range(line, line + 1), "message": message, "severity": 1, "source": "pyflakes"}
        self._note("intent/diagnostics", name, diagnostics=[said])

    def _note(self, kind: str, name: str, **what: Any) -> None:
        document = {"uri": self.uri(name), "version": self.documents[name].version}
        self.client.protocol.notify(kind, {"textDocument": document, **what})

    def _position(self, name: str, line: int, character: int) -> dict[str, int]:
        place: Place = self.documents[name].place(line, character)
        return {"line": place.line, "character": place.column}

    @staticmethod
    def _range(first: int, last: int) -> dict[str, Any]:
        return {"start": {"line": first, "character": 0}, "end": {"line": last, "character": 0}}

    # --- questions --------------------------------------------------------------------------------------------

    async def explain(self, name: str, line: int) -> tuple[dict[str, Any], float]:
        """The result, and milliseconds to the first piece that was shown."""
        return await self._command("intent.explain", uri=self.uri(name), position=self._position(name, line, 0))

    async def act(self, name: str, action: str, first: int, last: int) -> tuple[dict[str, Any], float]:
        return await self._command("intent.action", name=action, uri=self.uri(name), range=self._range(first, last))

    async def _command(self, command: str, **asked: Any) -> tuple[dict[str, Any], float]:
        self.pieces.clear()
        sent = time.perf_counter()
        async with asyncio.timeout(ANSWER_S):
            told = await self.client.workspace_execute_command_async(
                types.ExecuteCommandParams(command=command, arguments=[asked])
            )
        first = next((when for when, _, kind in self.pieces if kind == "text"), time.perf_counter())
        assert isinstance(told, dict)
        return told, (first - sent) * 1000

    async def complete(self, name: str, line: int, character: int) -> Completed:
        version, sent = self.documents[name].version, time.perf_counter()
        async with asyncio.timeout(ANSWER_S):
            found = await self.client.text_document_inline_completion_async(
                types.InlineCompletionParams(
                    text_document=types.TextDocumentIdentifier(uri=self.uri(name)),
                    position=types.Position(**self._position(name, line, character)),
                    context=types.InlineCompletionContext(trigger_kind=types.InlineCompletionTriggerKind.Automatic),
                )
            )
        items = found.items if isinstance(found, types.InlineCompletionList) else found
        text = str(items[0].insert_text) if items else None
        late = name not in self.documents or self.documents[name].version != version
        return Completed(text, (time.perf_counter() - sent) * 1000, late)


@asynccontextmanager
async def typist(folder: Path) -> AsyncIterator[Typist]:
    """An editor on the daemon of this environment; it leaves in good order."""
    client = LanguageClient("bench", "0")
    await client.start_io(sys.executable, "-m", "intentd", "lsp", "--no-autostart")
    try:
        async with asyncio.timeout(START_S):
            made = Typist(client, folder)
            await made.begin()
        yield made
    finally:
        async with asyncio.timeout(START_S):
            await client.shutdown_async(None)
            client.exit(None)
            await client.stop()  # type: ignore[no-untyped-call]
