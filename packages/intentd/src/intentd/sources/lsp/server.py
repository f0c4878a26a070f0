"""Owns the language server of one editor: makes news and questions of what it says, and shows it the answers."""

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.io_ import StdinAsyncReader, StdoutWriter, run_async
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from intentd.config import Config
from intentd.messages import Closed, Shown
from intentd.plan.document import Change, Encoding
from intentd.plan.rhythm import Rhythm
from intentd.shelf import TemplateShelf
from intentd.sources.lsp import notes
from intentd.sources.lsp.actions import ACTION, EXPLAIN, FIX, KINDS, STOP, code_actions
from intentd.sources.lsp.answers import Answers
from intentd.sources.lsp.asking import asked_by
from intentd.sources.lsp.buffers import Buffer, Buffers, diagnostics_of
from intentd.sources.lsp.edits import Fix, bring
from intentd.sources.lsp.inline import Completions
from intentd.sources.lsp.link import FAULTS, Link, Starter
from intentd.sources.lsp.listeners import Silent, Stream, WorkDone
from intentd.sources.lsp.protocol import IntentProtocol, Refused, converter
from intentd.upkeep import kept_up
from modelwire import logs

if TYPE_CHECKING:
    from pygls.io_ import AsyncReader

log = logging.getLogger(__name__)

_ENCODINGS: Mapping[types.PositionEncodingKind, Encoding] = {
    types.PositionEncodingKind.Utf8: "utf-8",
    types.PositionEncodingKind.Utf16: "utf-16",
    types.PositionEncodingKind.Utf32: "utf-32",
}


class IntentServer(LanguageServer):
    """`autostart`: the daemon is started where none answers."""

    protocol: IntentProtocol

    def __init__(self, config: Config, *, autostart: bool) -> None:
        super().__init__(
            "intentd", version("intentd"), protocol_cls=IntentProtocol, converter_factory=converter, max_workers=2
        )
        self.buffers = Buffers()
        self.rhythm = Rhythm()
        self.shelf = TemplateShelf(config.templates)
        self.link = Link(config.socket, start=Starter(config.socket) if autostart else None, met=self._met)
        self.answers = Answers(self.link)
        self.completions = Completions(self.link)
        self.streams = False
        self.completes = False
        self._tasks: list[asyncio.Task[None]] = []
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._here = ""
        self._cursors = False
        _register(self)

    # --- its life ---------------------------------------------------------------------------------------------

    def initialize(self, params: types.InitializeParams) -> None:
        options = params.initialization_options
        self.streams = isinstance(options, dict) and options.get("answers") is True
        document = params.capabilities.text_document
        self.completes = document is not None and document.inline_completion is not None
        self.buffers.encoding = _ENCODINGS[types.PositionEncodingKind(self.workspace.position_encoding)]
        roots = [folder.uri for folder in params.workspace_folders or ()] or [params.root_uri or ""]
        self._folders(added=roots, removed=())

    def initialized(self) -> None:
        if self._tasks:
            return
        self._tasks.append(asyncio.get_running_loop().create_task(kept_up(self.link.run)))

    async def talk(self, reader: "AsyncReader") -> None:
        """Until the editor says `exit` or is gone."""
        try:
            await run_async(threading.Event(), reader, self.protocol, log, self.protocol.unread)
        finally:
            for timer in self._timers.values():
                timer.cancel()
            for buffer in self.buffers:
                self.completions.closed(buffer.uri)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def change_folders(self, params: types.DidChangeWorkspaceFoldersParams) -> None:
        event = params.event
        self._folders(added=[one.uri for one in event.added], removed=[one.uri for one in event.removed])

    def _folders(self, *, added: Sequence[str], removed: Sequence[str]) -> None:
        paths = [path for uri in added if uri.startswith("file:") and (path := to_fs_path(uri))]
        gone = {to_fs_path(uri) for uri in removed}
        self.buffers.rehome(tuple(one for one in (*self.buffers.folders, *paths) if one not in gone))

    # --- documents --------------------------------------------------------------------------------------------

    def opened(self, params: types.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        if self.buffers.get(item.uri) is not None:  # nothing that was made for another text may be shown in this one
            self.closed(item.uri)
        self.buffers.open(item.uri, item.text, item.version)

    def edited(self, params: types.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        if self._types(self.buffers.get(uri)):
            self.rhythm.press(time.monotonic())
            self._used(uri)
        try:
            self.buffers.edit(uri, params.text_document.version, params.content_changes, self._moved)
        except Exception:
            self.closed(uri)  # nobody knows how much of it is done
            raise
        self._news(uri)

    def closed(self, uri: str) -> None:
        buffer = self.buffers.close(uri)
        if timer := self._timers.pop(uri, None):
            timer.cancel()
        self.completions.closed(uri)
        if buffer is not None:
            self.link.tell(uri, Closed(path=buffer.path))

    def _moved(self, buffer: Buffer, change: Change) -> None:
        if self._types(buffer):
            buffer.cursor, buffer.character = change.end
            buffer.inserting = True
        else:
            buffer.cursor = change.moved(buffer.cursor)
        self.completions.edited(buffer, change)

    def _types(self, buffer: Buffer | None) -> bool:
        """Whether an edit is the person's own. Where an editor tells of the cursor, there may be others."""
        return not self._cursors or (buffer is not None and buffer.inserting and buffer.uri == self._here)

    def _used(self, uri: str) -> None:
        if buffer := self.buffers.get(uri):
            self._here, buffer.used = uri, time.monotonic()

    # --- what lies before the person --------------------------------------------------------------------------

    def noted(self, note: Any, kind: str) -> None:
        """One of our own notifications."""
        said = notes.read(note)
        buffer = self.buffers.get(said.uri) if said else None
        if said is None or buffer is None:
            return
        if kind != notes.DIAGNOSTICS or not self._cursors:
            self._used(said.uri)
        if kind == notes.DIAGNOSTICS:
            buffer.forward(said.diagnostics)
        elif kind == notes.CURSOR and said.position is not None:
            self._cursors = True
            buffer.cursor, buffer.character = buffer.document.index(buffer.place(said.position))
            buffer.inserting, buffer.selection = said.insert, ()
        elif kind == notes.SELECTION and said.range is not None:
            empty = said.range.start == said.range.end
            buffer.selection = () if empty else buffer.lines_of(said.range)
        if kind != notes.DIAGNOSTICS or said.uri not in self._timers:  # a tool that tells all the time delays nothing
            self._news(said.uri)

    def _news(self, uri: str) -> None:
        """The daemon is told once the person rests."""
        if timer := self._timers.pop(uri, None):
            timer.cancel()
        if self.buffers.get(uri) is not None:
            loop = asyncio.get_running_loop()
            self._timers[uri] = loop.call_later(self.rhythm.rest_s, self._show, uri)

    def _show(self, uri: str) -> None:
        self._timers.pop(uri, None)
        buffer = self.buffers.get(uri)
        if buffer is None:
            return
        if buffer.inserting and self._types(buffer) and self.completes:
            self.completions.prepare(buffer, buffer.cursor, buffer.character)
        if buffer.diagnostics or buffer.selection or buffer.told:
            buffer.told = bool(buffer.diagnostics or buffer.selection)
            self._tell(buffer)

    def _met(self) -> None:
        """A daemon that has just come knows nothing."""
        for buffer in self.buffers:
            if buffer.diagnostics or buffer.selection:
                buffer.told = True
                self._tell(buffer)

    def _tell(self, buffer: Buffer) -> None:
        self.link.tell(buffer.uri, Shown(view=buffer.view(), used=buffer.used))

    # --- what is asked ----------------------------------------------------------------------------------------

    def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """The editor may know diagnostics that nobody forwards: it says which there are at the place."""
        buffer = self.buffers.get(params.text_document.uri)
        if buffer is None:
            return []
        self._used(buffer.uri)
        said = list(params.context.diagnostics)
        if buffer.handed(params.range, diagnostics_of(said, params.range.start.line)):
            self._news(buffer.uri)
        first, last = buffer.lines_of(params.range)
        known = [buffer.as_lsp(one) for one in buffer.diagnostics if one.touches(first, last)]
        return code_actions(params, said or known, self.shelf)

    async def complete(self, params: types.InlineCompletionParams) -> types.InlineCompletionList | None:
        """The range is always told: editors differ in what they take for it."""
        buffer = self.buffers.get(params.text_document.uri)
        if buffer is None:
            return None
        self._used(buffer.uri)
        line, character = buffer.document.index(buffer.place(params.position))
        buffer.cursor, buffer.character, buffer.inserting = line, character, True
        text = await self.completions.ask(buffer, line, character)
        if text is None:
            return None
        span = types.Range(params.position, params.position)
        words = text.replace("\n", buffer.document.ending)
        return types.InlineCompletionList(items=[types.InlineCompletionItem(insert_text=words, range=span)])

    async def execute(self, params: types.ExecuteCommandParams) -> Any:
        """A command. Raises `Refused` with words for the person."""
        arguments = params.arguments or []
        asked = arguments[0] if arguments and isinstance(arguments[0], dict) else {}
        if params.command == STOP:
            return await self.answers.stop(asked.get("answer"))
        if params.command not in (EXPLAIN, FIX, ACTION):
            raise Refused(f"there is no command {params.command!r}")
        try:
            return await self._answer(params.command, asked, params.work_done_token)
        except FAULTS as fault:
            raise Refused(str(fault)) from None

    async def _answer(self, command: str, argument: dict[str, Any], token: Any) -> dict[str, Any]:
        asked = asked_by(command, argument, self.buffers, self._here)
        listener = self._listener(token, asked.buffer.uri if asked.buffer else None)
        answer = await self.answers.run(asked.question, asked.title, listener)
        told = answer.told()
        if command == FIX and asked.buffer is not None:
            told |= {"version": asked.version, "edit": bring(self, Fix(asked.buffer, asked.version), answer)}
        return told

    def _listener(self, token: Any, uri: str | None) -> Any:
        if self.streams:
            return Stream(self.protocol, uri)
        task = asyncio.current_task()
        assert task is not None
        return Silent() if token is None else WorkDone(self.work_done_progress, token, task)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """A quiet server: its faults are for the log."""
        log.error("%s: %s", getattr(source, "__name__", source), type(error).__name__)


def _register(server: IntentServer) -> None:
    """What the server can, by LSP's names."""
    server.feature(types.INITIALIZE)(lambda params: server.initialize(params))
    server.feature(types.INITIALIZED)(lambda _: server.initialized())
    server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)(lambda params: server.change_folders(params))
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=list(KINDS)))(
        lambda params: server.actions(params)
    )
    server.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION, types.InlineCompletionOptions())(_completing(server))
    for kind in (notes.DIAGNOSTICS, notes.CURSOR, notes.SELECTION):
        server.feature(kind)(_noted(server, kind))
    for command in (EXPLAIN, FIX, ACTION, STOP):
        server.command(command)(lambda: None)


def _completing(server: IntentServer) -> Callable[[types.InlineCompletionParams], Awaitable[Any]]:
    async def complete(params: types.InlineCompletionParams) -> Any:
        return await server.complete(params)

    return complete


def _noted(server: IntentServer, kind: str) -> Callable[[Any], None]:
    return lambda params: server.noted(params, kind)


def serve(config: Config, *, autostart: bool) -> int:
    """Runs the language server on standard input and output until the editor ends it."""
    logs.set_up("intentd lsp", level=config.log_level, form=config.log_format)
    logging.getLogger("pygls").setLevel(logging.CRITICAL)  # it logs whole messages, and those hold texts
    for problem in config.problems():
        log.warning("%s", problem)
    server = IntentServer(config, autostart=autostart)
    server.protocol.set_writer(StdoutWriter(sys.stdout.buffer))
    try:
        asyncio.run(server.talk(StdinAsyncReader(sys.stdin.buffer, server.thread_pool)))
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(0)  # a thread still reads, and Python would wait for it until the editor says something
    return 0
