"""What no editor should say and some do: the server neither fails nor shows what is for another text."""

import asyncio
import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from intentd.config import Config
from intentd.plan.document import Document
from intentd.sources.lsp.server import IntentServer
from modelwire.messages import Turn
from modelwire.testing import PATIENCE_S

CODE = "def area(width, height):\n    return \n"
HEIGHT = "width * height"
FAR = 2**31 - 1

House = Any
Editors = Any


@pytest.fixture
def server(tmp_path: Path, runtime: Path) -> IntentServer:
    """Without an editor and without a daemon."""
    config = Config(socket=f"ipc://{runtime}/i.sock", modeld=f"ipc://{runtime}/m.sock", templates=tmp_path / "none")
    return IntentServer(config, autostart=False)


def uri_of(path: Path, name: str = "area.py") -> str:
    return (path / name).as_uri()


def opening(uri: str, text: str = CODE) -> types.DidOpenTextDocumentParams:
    return types.DidOpenTextDocumentParams(types.TextDocumentItem(uri=uri, language_id="python", version=1, text=text))


def changing(uri: str, version: int, text: str, *place: int) -> types.DidChangeTextDocumentParams:
    span = types.Range(types.Position(*place[:2]), types.Position(*place[2:]))
    return types.DidChangeTextDocumentParams(
        text_document=types.VersionedTextDocumentIdentifier(uri=uri, version=version),
        content_changes=[types.TextDocumentContentChangePartial(range=span, text=text)],
    )


def completing(uri: str, line: int, column: int) -> types.InlineCompletionParams:
    return types.InlineCompletionParams(
        text_document=types.TextDocumentIdentifier(uri=uri),
        position=types.Position(line, column),
        context=types.InlineCompletionContext(trigger_kind=types.InlineCompletionTriggerKind.Automatic),
    )


def raw(editor: Any, method: str, **params: Any) -> None:
    """What no client's library would send. A NUL in it goes as a byte that is no UTF-8."""
    _send(editor, {"method": method, "params": params})


async def raw_request(editor: Any, method: str, **params: Any) -> Any:
    """Its result."""
    protocol = editor.client.protocol
    answered: Future[Any] = Future()
    protocol._request_futures["raw"] = answered
    _send(editor, {"id": "raw", "method": method, "params": params})
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.wrap_future(answered)


def _send(editor: Any, message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode().replace(b"\\u0000", b"\xff")
    editor.client.protocol.writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))


def acting(uri: str, line: int, *said: types.Diagnostic) -> types.CodeActionParams:
    place = types.Position(line, 4)
    return types.CodeActionParams(
        text_document=types.TextDocumentIdentifier(uri=uri),
        range=types.Range(place, place),
        context=types.CodeActionContext(diagnostics=list(said)),
    )


def wrong(line: int, message: str) -> types.Diagnostic:
    return types.Diagnostic(range=types.Range(types.Position(line, 4), types.Position(line, 8)), message=message)


async def test_who_speaks_before_it_is_initialised_gets_nothing_and_harms_nothing(
    server: IntentServer, tmp_path: Path
) -> None:
    uri = uri_of(tmp_path)
    server.edited(changing(uri, 2, "x", 0, 0, 0, 0))
    server.closed(uri)
    assert await server.complete(completing(uri, 0, 0)) is None
    server.opened(opening(uri))
    assert await server.complete(completing(uri, 1, 11)) is None
    assert server.actions(acting(uri, 1)) == []
    with pytest.raises(JsonRpcException, match="no intentd answers"):
        await server.execute(types.ExecuteCommandParams(command="intent.explain", arguments=[{"uri": uri}]))
    server.closed(uri)
    assert not server._timers


async def test_an_edit_of_a_document_that_was_never_opened_is_none(server: IntentServer, tmp_path: Path) -> None:
    server.edited(changing(uri_of(tmp_path), 2, "x", 0, 0, 0, 0))
    assert (len(server.buffers), len(server.completions), server._timers, server._here) == (0, 0, {}, "")


async def test_places_beyond_the_end_are_the_end(house: House, editors: Editors) -> None:
    house.modeld.script.tokens = (HEIGHT,)
    async with editors() as editor:
        uri = editor.open("area.py", CODE.rstrip("\n"))
        assert await editor.complete(uri, FAR, FAR) == HEIGHT
        (turn,) = house.modeld.received(Turn)
        assert turn.prefix[0].text == CODE.rstrip("\n")
        editor.diagnose(uri, (FAR, "nowhere"))
        editor.cursor(uri, FAR, FAR)
        editor.select(uri, FAR - 1, FAR)
        assert await editor.actions(uri, (FAR, 0), (FAR, 0)) == []
        for line in (-1, 2**32, "x", None):
            span = {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 0}}
            raw(editor, "intent/cursor", textDocument={"uri": uri}, position={"line": line, "character": 0})
        with pytest.raises(JsonRpcException):
            await editor.command("intent.explain", uri=uri, position={"line": -1, "character": "x"}, offer=[])
        span = {"start": {"line": FAR, "character": 9}, "end": {"line": 0, "character": 0}}
        assert (await editor.command("intent.action", name="explain", uri=uri, range=span))["text"] == HEIGHT
        editor.type(uri, FAR, FAR, "!")
        assert await editor.complete(uri, 1, 12) == HEIGHT
        *_, turn = (turn for turn in house.modeld.received(Turn) if turn.lane)  # the selection may be guessed besides
        assert turn.prefix[0].text == CODE.rstrip("\n") + "!"


@pytest.mark.parametrize("line", [-1, 2**32, "x", None, 1])
async def test_nothing_is_said_of_a_document_once_an_edit_of_it_was_lost(
    house: House, editors: Editors, line: Any
) -> None:
    """Its text is another one from then on; so is that of an edit in which there is a byte that is no UTF-8."""
    house.modeld.script.tokens = (HEIGHT,)
    async with editors() as editor:
        other, uri = editor.open("other.py", CODE), editor.open("area.py", CODE)
        span = {"start": {"line": line, "character": 0}, "end": {"line": 1, "character": 0}}
        changes = [{"range": span, "text": "\0" if line == 1 else "!"}]
        raw(editor, "textDocument/didChange", textDocument={"uri": uri, "version": 2}, contentChanges=changes)
        editor.type(uri, 1, 11, " ")
        assert await editor.complete(uri, 1, 12) is None
        assert await editor.actions(uri, (0, 0), (2, 0)) == []
        assert await editor.complete(other, 1, 11) == HEIGHT
        editor.open("area.py", CODE)
        assert await editor.complete(uri, 1, 11) == HEIGHT


async def test_nothing_is_said_of_a_document_whose_lines_the_editor_may_count_otherwise(
    house: House, editors: Editors
) -> None:
    """LSP ends a line at a CR; Neovim does not, and a fix would land on another function."""
    async with editors() as editor:
        uri = editor.open("area.py", "bar = 'a\rb'\n" + CODE)
        assert await editor.complete(uri, 2, 11) is None
        editor.open("area.py", CODE)
        editor.type(uri, 0, 0, "bar = 'a\rb'\n")
        assert await editor.complete(uri, 2, 11) is None
        editor.open("area.py", CODE)
        assert await editor.complete(uri, 1, 11) == "Hello, world"


async def test_what_was_lost_and_is_no_edit_closes_nothing(house: House, editors: Editors) -> None:
    house.modeld.script.tokens = (HEIGHT,)
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        here = {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 0}}
        raw(editor, "intent/cursor", **here, what="\0")
        raw(editor, "textDocument/codeAction", **here)
        raw(editor, "textDocument/didChange", what="\0")
        assert await editor.complete(uri, 1, 11) == HEIGHT


async def test_a_document_of_which_an_edit_failed_is_closed(
    server: IntentServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    uri = uri_of(tmp_path)
    server.opened(opening(uri))
    monkeypatch.setattr(Document, "replace", fails)
    with pytest.raises(ZeroDivisionError):
        server.edited(changing(uri, 2, "x", 0, 0, 0, 0))
    assert server.buffers.get(uri) is None
    assert not server._timers


async def test_a_document_that_is_opened_again_shows_nothing_of_the_text_before(house: House, editors: Editors) -> None:
    """I2"""
    house.modeld.script.tokens = (HEIGHT,)
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        assert await editor.complete(uri, 1, 11) == HEIGHT
        house.modeld.script.tokens = ("2 * radius",)
        editor.open("area.py", "def round(radius):\n    return \n")
        assert await editor.complete(uri, 1, 11) == "2 * radius"


async def test_a_document_that_is_closed_while_it_is_completed_gets_nothing(house: House, editors: Editors) -> None:
    """I2"""
    house.modeld.script.held = True
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        asking = asyncio.create_task(editor.complete(uri, 1, 11))
        await house.modeld.wait_for(Turn)
        editor.close(uri)
        editor.open("area.py", "x = 1\n    return \n")
        assert await asking is None
        assert len(editor.server.completions) == 0


async def test_a_file_that_is_renamed_while_it_is_mended_is_not_changed(house: House, editors: Editors) -> None:
    house.modeld.script.tokens = ("```\ndef area(width, height):\n    return width * height\n```",)
    house.modeld.script.held = True
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        said = {"range": {"start": {"line": 1, "character": 4}, "end": {"line": 1, "character": 8}}, "message": "none"}
        asking = asyncio.create_task(editor.command("intent.fix", uri=uri, diagnostic=said))
        await house.modeld.wait_for(Turn)
        editor.close(uri)
        editor.open("renamed.py", CODE)
        await editor.actions(editor.uri("renamed.py"), (0, 0), (0, 0))  # by now the server has heard of it
        house.modeld.release()
        assert (await asking)["edit"] is None
        await editor.until(lambda: editor.client.messages, "a message")
        assert not editor.edits


async def test_what_is_being_made_ends_with_the_editor(house: House, editors: Editors) -> None:
    house.modeld.script.held = True
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        editor.cursor(uri, 1, 11, insert=True)
        await house.modeld.wait_for(Turn)
        server = editor.server
        (made,) = server.completions._made.values()
    await asyncio.wait([made.task], timeout=PATIENCE_S)
    assert made.task.cancelled()
    assert len(server.completions) == 0


async def test_two_editors_with_one_file_open_are_both_answered(house: House, editors: Editors) -> None:
    """One lane a document, of each editor."""
    house.modeld.script.tokens = (HEIGHT,)
    house.modeld.script.held = True
    async with editors() as one, editors() as other:
        asking = [asyncio.create_task(each.complete(each.open("area.py", CODE), 1, 11)) for each in (one, other)]
        mine, theirs = await house.modeld.wait_for(Turn, 2)
        assert mine.lane != theirs.lane
        house.modeld.release()
        assert await asyncio.gather(*asking) == [HEIGHT, HEIGHT]


async def test_one_bad_diagnostic_does_not_hide_the_others(house: House, editors: Editors) -> None:
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        good = {"range": {"start": {"line": 1, "character": 4}, "end": {"line": 1, "character": 8}}, "message": "good"}
        bad = [{**good, "severity": 9}, {"message": "nowhere"}, "no diagnostic", {**good, "range": None}]
        editor._note("intent/diagnostics", uri, diagnostics=[*bad, good])
        await editor.actions(uri, (0, 0), (0, 0))
        assert [one.message for one in editor.server.buffers.get(uri).diagnostics] == ["good"]


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("textDocument/inlineCompletion", {}),
        ("textDocument/codeAction", {"range": None}),
        ("workspace/executeCommand", {"command": "intent.explain", "arguments": ["\0"]}),
    ],
)
async def test_a_request_that_cannot_be_read_is_refused_at_once(
    house: House, editors: Editors, method: str, said: dict[str, Any]
) -> None:
    """An editor shows no code actions of anybody until all have answered."""
    async with editors() as editor:
        with pytest.raises(JsonRpcException, match="Invalid Params"):
            await raw_request(editor, method, textDocument={"uri": editor.uri("area.py")}, **said)


async def test_a_diagnostic_to_the_end_of_a_line_gets_its_actions_beside_one_that_cannot_be_read(
    house: House, editors: Editors
) -> None:
    """Some servers say 2**32 - 1 for that end, which is more than the protocol has."""
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        span = {"start": {"line": 1, "character": 4}, "end": {"line": 1, "character": 2**32 - 1}}
        said = [{"message": "nowhere"}, {"range": span, "message": "nothing is returned"}]
        here = {"start": span["start"], "end": span["start"]}
        params = {"textDocument": {"uri": uri}, "range": here, "context": {"diagnostics": said}}
        found = await raw_request(editor, "textDocument/codeAction", **params)
        assert [one["title"].partition(":")[0] for one in found] == ["Explain", "Fix"]
        editor._note("intent/diagnostics", uri, diagnostics=said)
        await editor.actions(uri, (0, 0), (0, 0))
        assert [one.message for one in editor.server.buffers.get(uri).diagnostics] == ["nothing is returned"]


async def test_however_an_editor_numbers_what_triggers_a_completion_it_gets_one(house: House, editors: Editors) -> None:
    """The library of VS Code counts from 0, the protocol from 1."""
    async with editors() as editor:
        uri = editor.open("area.py", CODE)
        where = {"textDocument": {"uri": uri}, "position": {"line": 1, "character": 11}}
        for kind in (0, 1):
            found = await raw_request(editor, "textDocument/inlineCompletion", **where, context={"triggerKind": kind})
            assert [one.insertText for one in found.items] == ["Hello, world"]


async def test_without_anybody_who_forwards_what_a_request_holds_is_what_there_is(
    server: IntentServer, tmp_path: Path
) -> None:
    uri = uri_of(tmp_path)
    server.opened(opening(uri))
    buffer = server.buffers.get(uri)
    assert buffer is not None
    server.actions(acting(uri, 0, wrong(0, "no docstring")))
    server.actions(acting(uri, 1, wrong(1, "nothing is returned")))
    server.actions(acting(uri, 1))  # the cursor is on the line, and beside it
    assert [one.message for one in buffer.diagnostics] == ["nothing is returned", "no docstring"]
    server.actions(acting(uri, 1, wrong(1, "a name is missing")))
    assert [one.message for one in buffer.diagnostics] == ["a name is missing", "no docstring"]
    server.edited(changing(uri, 2, "width", 1, 11, 1, 11))
    assert [one.message for one in buffer.diagnostics] == ["no docstring"]
    server.closed(uri)


async def test_an_editor_without_a_plugin_asks_in_the_folder_where_it_last_typed(
    server: IntentServer, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        server.opened(opening(uri_of(tmp_path / name)))
    server.buffers.rehome((str(tmp_path / "one"), str(tmp_path / "two")))
    uri = uri_of(tmp_path / "two")
    server.edited(changing(uri, 2, "x", 0, 0, 0, 0))
    assert server._here == uri
    server.actions(acting(uri_of(tmp_path / "one"), 0))
    assert server._here == uri_of(tmp_path / "one")
    for name in ("one", "two"):
        server.closed(uri_of(tmp_path / name))


async def test_documents_that_are_open_belong_to_a_folder_that_comes(server: IntentServer, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    uri = uri_of(tmp_path / "deep")
    server.opened(opening(uri))
    buffer = server.buffers.get(uri)
    assert buffer is not None
    assert buffer.workspace == str(tmp_path / "deep")
    folder = types.WorkspaceFolder(uri=tmp_path.as_uri(), name="all")
    event = types.WorkspaceFoldersChangeEvent(added=[folder], removed=[])
    server.change_folders(types.DidChangeWorkspaceFoldersParams(event=event))
    assert buffer.workspace == str(tmp_path)


async def test_an_editor_that_says_twice_that_it_is_initialised_is_one_editor(house: House, editors: Editors) -> None:
    async with editors() as editor, house.connect() as door:
        editor.client.initialized(types.InitializedParams())
        uri = editor.open("area.py", CODE)
        await editor.actions(uri, (0, 0), (0, 0))
        assert len(editor.server._tasks) == 1
        assert (await house.status(door)).figures["editors"] == 1


async def test_text_that_is_no_unicode_is_not_sent_and_stops_nothing(house: House, editors: Editors) -> None:
    house.modeld.script.tokens = (HEIGHT,)
    async with editors() as editor:
        half = editor.open("half.py", 'x = "\ud83d"\ny = ')
        assert await editor.complete(half, 1, 4) is None
        editor.diagnose(half, (0, "half a character"))
        uri = editor.open("area.py", CODE)
        assert await editor.complete(uri, 1, 11) == HEIGHT
        editor.diagnose(uri, (1, "nothing is returned"))
        await house.modeld.wait_until(lambda: any(turn.suffix for turn in house.modeld.received(Turn)), "the guess")


async def test_a_file_that_is_one_huge_line_is_edited_and_nothing_of_it_is_sent(house: House, editors: Editors) -> None:
    async with editors() as editor:
        uri = editor.open("one.json", '["' + "é😋" * 200_000 + '"]')
        editor.type(uri, 0, 2 + 3 * 100_000, "!")
        assert await editor.complete(uri, 0, 3 + 3 * 100_000) is None
        document = editor.server.buffers.get(uri).document
        assert document.line(0)[2 + 2 * 100_000] == "!"
        assert not house.modeld.received(Turn)
