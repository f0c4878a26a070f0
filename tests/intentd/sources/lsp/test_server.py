"""The language server as editors see it: a real process, over a daemon with a scripted modeld behind it."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from intentd.app import App
from modelwire.messages import Accepted, Cancel, ChatMessage, Done, Reason, Tokens, Turn
from modelwire.testing import PATIENCE_S

CODE = """import os


def total(items):
    amount = 0
    for item in items:
        amount += itme
    return amount
"""
UNDEFINED = "undefined name 'itme'"

House = Any
Editors = Any


def turns(house: House, *, speculative: bool) -> list[Turn]:
    return [turn for turn in house.modeld.received(Turn) if turn.speculative is speculative]


async def warm(house: House, count: int) -> None:
    """So many guesses have ended, and nothing more is to be guessed."""
    async with house.connect() as door:
        await house.until(
            door,
            lambda status: status.figures.get("guesses_finished", 0) >= count and "warm" in status.reason,
        )


def diagnostic(line: int) -> dict[str, Any]:
    span = {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 4}}
    return {"range": span, "message": UNDEFINED, "severity": 1, "source": "checker", "code": "E1"}


def text_of(turn: Turn) -> str:
    return "\n".join(part.content for part in turn.suffix if isinstance(part, ChatMessage))


async def test_the_diagnostic_at_the_cursor_is_guessed_and_its_explanation_streams(
    house: House, editors: Editors
) -> None:
    """S10"""
    async with editors() as editor:
        uri = editor.open("stock.py", CODE)
        editor.diagnose(uri, (6, UNDEFINED))
        editor.cursor(uri, 6)
        await house.modeld.wait_for(Turn)
        async with house.connect() as door:
            await house.until(door, lambda status: "warm" in status.reason)
        told = await editor.command("intent.explain", uri=uri, position={"line": 6, "character": 4})
        (guess, *_), (question,) = turns(house, speculative=True), turns(house, speculative=False)
        assert (guess.session, guess.prefix, guess.suffix) == (question.session, question.prefix, question.suffix)
        assert f"error: {UNDEFINED} [E1]" in text_of(question)
        assert "def total(items):" in text_of(question)
        assert told["text"] == "Hello, world"
        assert (told["outcome"], told["reason"]) == ("hit", "end")
        assert [one["kind"] for one in editor.answers][0::4] == ["begin", "end"]
        assert "".join(one["text"] for one in editor.answers if one["kind"] == "text") == "Hello, world"
        assert {one["answer"] for one in editor.answers} == {told["answer"]}
        assert editor.answers[0]["uri"] == uri


async def test_errors_at_the_cursor_are_guessed_first_and_a_moved_one_is_still_warm(
    house: House, editors: Editors
) -> None:
    """S10: an edit above moves the diagnostic; what was guessed is still what is asked."""
    async with editors() as editor:
        uri = editor.open("stock.py", CODE)
        editor.diagnose(uri, (0, "unused import"), (6, UNDEFINED))
        editor.cursor(uri, 5)
        await warm(house, 2)
        assert UNDEFINED in text_of(turns(house, speculative=True)[0])
        editor.type(uri, 1, 0, "\n")
        told = await editor.command("intent.explain", uri=uri, position={"line": 7, "character": 0})
        assert told["outcome"] == "hit"


async def test_a_selection_is_guessed_and_canned_actions_differ_in_their_last_sentence(
    house: House, editors: Editors
) -> None:
    async with editors() as editor:
        uri = editor.open("stock.py", CODE)
        editor.select(uri, 4, 6)
        await warm(house, 1)
        span = {"start": {"line": 4, "character": 0}, "end": {"line": 6, "character": 0}}
        told = await editor.command("intent.action", name="explain", uri=uri, range=span)
        assert told["outcome"] == "hit"
        assert (await editor.command("intent.action", name="document", uri=uri, range=span))["text"]
        one, other = map(text_of, turns(house, speculative=False))
        assert one != other
        assert one.rpartition("\n")[0] == other.rpartition("\n")[0]
        with pytest.raises(JsonRpcException, match="there is no such template"):
            await editor.command("intent.action", name="sing", uri=uri, range=span)
        with pytest.raises(JsonRpcException, match="nobody can"):
            await editor.command("intent.action", name="../x", uri=uri, range=span)


async def test_the_nearest_diagnostic_is_explained_however_far_it_is(house: House, editors: Editors) -> None:
    async with editors() as editor:
        uri = editor.open("long.py", "x = 1\n" * 900 + CODE)
        editor.diagnose(uri, (906, UNDEFINED))
        told = await editor.command("intent.explain", uri=uri, position={"line": 10, "character": 0})
        assert told["text"] == "Hello, world"
        assert f"error: {UNDEFINED} [E1]" in text_of(turns(house, speculative=False)[0])


async def test_code_actions_explain_fix_and_change_a_selection(house: House, editors: Editors) -> None:
    async with editors() as editor:
        uri = editor.open("stock.py", CODE)
        editor.diagnose(uri, (6, UNDEFINED))
        actions = await editor.actions(uri, (6, 4), (6, 4))
        assert [one.title for one in actions] == [f"Explain: {UNDEFINED}", f"Fix: {UNDEFINED}"]
        command = actions[0].command
        told = await editor.client.workspace_execute_command_async(
            types.ExecuteCommandParams(command=command.command, arguments=command.arguments)
        )
        assert told["text"] == "Hello, world"
        assert f"error: {UNDEFINED} [E1]" in text_of(turns(house, speculative=False)[0])
        selected = await editor.actions(uri, (4, 0), (6, 0))
        assert {one.command.command for one in selected} == {"intent.action"}
        assert "Simplify the selection" in [one.title for one in selected]
        only = await editor.actions(uri, (4, 0), (7, 0), only=["quickfix"])
        assert {one.command.command for one in only} == {"intent.explain", "intent.fix"}
        assert await editor.actions("file:///nowhere.py", (0, 0), (0, 0)) == []


async def test_a_bad_template_of_the_users_own_takes_no_other_action_away(house: House, editors: Editors) -> None:
    house.config.templates.mkdir()
    (house.config.templates / "selection_mine.toml").write_text("title =")
    async with editors() as editor:
        uri = editor.open("stock.py", CODE)
        titles = [one.title for one in await editor.actions(uri, (4, 0), (6, 0))]
        assert "Simplify the selection" in titles
        assert len(titles) == 4


async def test_diagnostics_that_an_editor_knows_by_itself_are_enough(house: House, editors: Editors) -> None:
    """Some editors hand every server's diagnostics to whoever is asked for code actions."""
    async with editors() as editor:
        uri = editor.open("stock.py", CODE)
        said = types.Diagnostic(
            range=types.Range(types.Position(6, 18), types.Position(6, 22)), message=UNDEFINED, source="other"
        )
        actions = await editor.actions(uri, (6, 0), (6, 0), said)
        assert len(actions) == 2
        await warm(house, 1)
        told = await editor.command("intent.explain", **actions[0].command.arguments[0])
        assert told["outcome"] == "hit"


FIXED = """```python
def total(items):
    amount = 0
    for item in items:
        amount += item
    return amount
```"""


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
async def test_a_fix_comes_as_an_edit_of_the_version_that_was_asked_about(
    house: House, editors: Editors, ending: str
) -> None:
    house.modeld.script.tokens = (FIXED,)
    async with editors() as editor:
        uri = editor.open("stock.py", CODE.replace("\n", ending))
        editor.diagnose(uri, (6, UNDEFINED))
        told = await editor.command("intent.fix", uri=uri, position={"line": 6, "character": 0})
        await editor.until(lambda: editor.edits, "the edit")
        (change,) = editor.edits[0].document_changes
        assert (change.text_document.uri, change.text_document.version) == (uri, 1)
        (edit,) = change.edits
        assert edit.range == types.Range(types.Position(6, 0), types.Position(7, 0))
        assert edit.new_text == f"        amount += item{ending}"
        assert told["version"] == 1
        assert told["edit"]["documentChanges"][0]["edits"][0]["newText"] == edit.new_text


async def test_a_fix_for_a_text_that_has_changed_is_no_edit(house: House, editors: Editors) -> None:
    """Never silently: the person is told."""
    house.modeld.script.tokens = (FIXED,)
    house.modeld.script.held = True
    async with editors() as editor:
        uri = editor.open("stock.py", CODE)
        asking = asyncio.create_task(editor.command("intent.fix", diagnostic=diagnostic(6), uri=uri))
        await house.modeld.wait_until(lambda: bool(turns(house, speculative=False)))
        editor.type(uri, 0, 0, "#")
        await editor.command("intent.stop", answer="another")
        house.modeld.release()
        told = await asking
        assert told["edit"] is None
        assert not editor.edits
        await editor.until(lambda: editor.client.messages, "a message")
        assert "has changed" in editor.client.messages[0].message


async def test_a_fix_that_was_stopped_changes_nothing_and_says_nothing(house: House, editors: Editors) -> None:
    house.modeld.script.held = True
    async with editors() as editor:
        uri = editor.open("stock.py", CODE)
        asking = asyncio.create_task(editor.command("intent.fix", uri=uri, diagnostic=diagnostic(6)))
        await house.modeld.wait_for(Turn)
        assert await editor.command("intent.stop") is True
        told = await asking
        assert (told["reason"], told["edit"]) == ("cancelled", None)
        stopped = [Accepted(), Tokens(text=FIXED), Done(reason=Reason.CANCELLED)]
        house.modeld.script.answers[Turn] = lambda _: stopped
        told = await editor.command("intent.fix", uri=uri, diagnostic=diagnostic(6))
        assert (told["text"], told["edit"]) == (FIXED, None)
        assert not editor.edits
        assert not editor.client.messages


async def test_a_fix_that_the_editor_does_not_take_is_said(house: House, editors: Editors) -> None:
    """It may have been typed in meanwhile."""
    house.modeld.script.tokens = (FIXED,)
    async with editors() as editor:
        editor.takes_edits = False
        uri = editor.open("stock.py", CODE)
        await editor.command("intent.fix", uri=uri, diagnostic=diagnostic(6))
        await editor.until(lambda: editor.edits, "the edit")
        await editor.actions(uri, (0, 0), (0, 0))  # by now the server has heard of it
        assert [one.message for one in editor.client.messages] == ["the editor did not take the fix: ask again"]


async def test_without_code_in_the_answer_or_with_a_secret_in_the_text_there_is_no_edit(
    house: House, editors: Editors
) -> None:
    async with editors() as editor:
        uri = editor.open("stock.py", CODE)
        assert (await editor.command("intent.fix", uri=uri, diagnostic=diagnostic(6)))["edit"] is None
        assert "no code" in editor.client.messages[0].message
        house.modeld.script.tokens = (FIXED,)
        secret = "ghp_" + "a1B2" * 9
        uri = editor.open("keys.py", CODE.replace("amount = 0", f'token = "{secret}"'))
        assert (await editor.command("intent.fix", uri=uri, diagnostic=diagnostic(6)))["edit"] is None
        assert "does not see" in editor.client.messages[1].message
        assert secret not in str(house.modeld.requests)
        assert not editor.edits


async def test_a_failed_test_is_explained_in_the_editor(house: House, editors: Editors) -> None:
    async with editors() as editor, house.connect() as door:
        await house.command(door, "plain")
        await house.until(door, lambda status: sum(offer.warm for offer in status.offers[:2]) == 2)
        editor.open("other.py", "x = 1\n")
        told = await editor.command("intent.explain")
        assert told["outcome"] == "hit"
        number = (await house.status(door)).offers[1].number
        assert (await editor.command("intent.explain", offer=number))["outcome"] == "hit"


async def test_an_answer_is_stopped_and_a_request_is_cancelled(house: House, editors: Editors) -> None:
    """S9"""
    house.modeld.script.held = True
    async with editors() as editor:
        uri = editor.open("stock.py", CODE)
        asking = asyncio.create_task(editor.command("intent.explain", uri=uri, diagnostic=diagnostic(6)))
        await house.modeld.wait_for(Turn)
        await editor.until(lambda: editor.answers, "the beginning")
        assert await editor.command("intent.stop", answer=editor.answers[0]["answer"]) is True
        assert (await asking)["reason"] == "cancelled"
        assert editor.answers[-1] == {"answer": editor.answers[0]["answer"], "kind": "end", "reason": "cancelled"}
        assert await editor.command("intent.stop") is False
        asking = asyncio.create_task(editor.command("intent.explain", uri=uri, diagnostic=diagnostic(6)))
        await house.modeld.wait_for(Turn, 2)
        (request,) = [id for id, future in editor.client.protocol._request_futures.items() if not future.done()]
        editor.client.cancel_request(types.CancelParams(id=request))
        with pytest.raises(JsonRpcException, match="cancel"):
            await asking
        await house.modeld.wait_for(Cancel, 2)


async def test_an_editor_that_gives_a_token_sees_progress(house: House, editors: Editors) -> None:
    async with editors(answers=False) as editor:
        uri = editor.open("stock.py", CODE)
        editor.client.progress_reports["t1"] = []
        await editor.command("intent.explain", token="t1", uri=uri, diagnostic=diagnostic(6))
        reports = editor.client.progress_reports["t1"]
        assert reports[0].title == f"explain {UNDEFINED}"
        assert reports[-2].message == "Hello, world"
        assert not editor.answers


async def test_two_editors_share_a_daemon_and_what_closes_or_leaves_is_forgotten(
    house: House, editors: Editors
) -> None:
    async with house.connect() as door, editors() as one:
        async with editors() as other:
            uri = one.open("one.py", CODE)
            one.diagnose(uri, (6, UNDEFINED))
            theirs = other.open("other.py", CODE.replace("total", "sum_up"))
            other.diagnose(theirs, (6, UNDEFINED))
            await house.modeld.wait_until(lambda: len(turns(house, speculative=True)) >= 2)
            assert (await house.status(door)).figures["editors"] == 2
        await house.until(door, lambda status: status.figures["editors"] == 1)
        assert {offer.view.path for offer in house.app.desks.offers()} == {str(house.workspace / "one.py")}
        one.close(uri)
        again = one.open("renamed.py", CODE)
        one.diagnose(again, (6, UNDEFINED))
        await house.until(door, lambda _: [o.view.path[-10:] for o in house.app.desks.offers()] == ["renamed.py"])


async def test_what_is_closed_leaves_nothing_behind(house: House, editors: Editors) -> None:
    async with editors(answers=False) as editor, house.connect() as door:
        uri = editor.open("stock.py", CODE)
        editor.diagnose(uri, (6, UNDEFINED))
        editor.client.progress_reports["t1"] = []
        await editor.command("intent.explain", token="t1", uri=uri, diagnostic=diagnostic(6))
        assert await editor.complete(uri, 6, 18)
        editor.type(uri, 6, 18, "x")
        editor.close(uri)
        assert await editor.complete(uri, 6, 18) is None
        server = editor.server
        assert (len(server.buffers), len(server.completions), len(server.answers)) == (0, 0, 0)
        assert not server._timers
        assert not server.completions._asking
        assert not server.work_done_progress.tokens
        await house.until(door, lambda _: not house.app.desks.offers())


async def test_a_daemon_that_dies_is_found_again_and_told_what_is_shown(house: House, editors: Editors) -> None:
    async with editors() as editor:
        uri = editor.open("stock.py", CODE)
        editor.diagnose(uri, (6, UNDEFINED))
        await house.modeld.wait_for(Turn)
        await house.app.stop()
        while editor.server.link.connected:
            await editor.actions(uri, (0, 0), (0, 0))
        with pytest.raises(JsonRpcException, match=r"no intentd answers at .*: start it with 'intentd serve"):
            await editor.command("intent.explain", uri=uri, diagnostic=diagnostic(6))
        assert await editor.complete(uri, 6, 0) is None
        assert not editor.client.messages
        before = len(turns(house, speculative=True))
        house.app = App(house.config)
        await house.app.start()
        await house.modeld.wait_until(lambda: len(turns(house, speculative=True)) > before)
        assert (await editor.command("intent.explain", uri=uri, diagnostic=diagnostic(6)))["text"]


@pytest.mark.parametrize(
    ("encoding", "column"),
    [
        (types.PositionEncodingKind.Utf8, 9),
        (types.PositionEncodingKind.Utf16, 7),
        (types.PositionEncodingKind.Utf32, 6),
    ],
)
async def test_positions_are_in_the_encoding_that_was_agreed_on(
    house: House, editors: Editors, encoding: types.PositionEncodingKind, column: int
) -> None:
    async with editors(encoding=encoding) as editor:
        uri = editor.open("smile.py", 'x = "😋"\r\ny = 2')
        editor.type(uri, 0, column, "!")
        assert await editor.complete(uri, 1, 5) == "Hello, world"
        (turn,) = house.modeld.received(Turn)
        assert turn.prefix[0].text == 'x = "😋!"\ny = 2'


async def test_each_file_belongs_to_its_own_workspace(house: House, editors: Editors, tmp_path: Path) -> None:
    async with editors() as editor:
        other = tmp_path / "elsewhere"
        (other / "deep").mkdir(parents=True)
        (other / "pyproject.toml").touch()
        uri = editor.open(str(other / "deep" / "mine.py"), CODE)
        await editor.command("intent.explain", uri=uri, diagnostic=diagnostic(6))
        assert "deep/mine.py:" in text_of(turns(house, speculative=False)[0])
        (other / ".noguessahead").touch()
        with pytest.raises(JsonRpcException, match="has opted out"):
            await editor.command("intent.explain", uri=uri, diagnostic=diagnostic(6))


async def test_folders_of_the_editor_come_and_go(house: House, editors: Editors, tmp_path: Path) -> None:
    (tmp_path / "second/deep").mkdir(parents=True)
    folder = types.WorkspaceFolder(uri=(tmp_path / "second").as_uri(), name="second")

    async def shown_as(editor: Any) -> str:
        uri = editor.open(str(tmp_path / "second/deep/mine.py"), CODE)
        await editor.command("intent.explain", uri=uri, diagnostic=diagnostic(6))
        (line,) = [line for line in text_of(house.modeld.received(Turn)[-1]).split("\n") if line.endswith("mine.py:")][
            :1
        ]
        return line

    def change(editor: Any, **event: Any) -> None:
        event = {"added": [], "removed": [], **event}
        params = types.DidChangeWorkspaceFoldersParams(event=types.WorkspaceFoldersChangeEvent(**event))
        editor.client.workspace_did_change_workspace_folders(params)

    async with editors() as editor:
        assert await shown_as(editor) == "mine.py:"
        change(editor, added=[folder])
        assert await shown_as(editor) == "deep/mine.py:"
        change(editor, removed=[folder])
        assert await shown_as(editor) == "mine.py:"


async def test_a_cursor_that_moves_ends_the_selection(house: House, editors: Editors) -> None:
    async with editors() as editor:
        uri = editor.open("stock.py", CODE)
        editor.select(uri, 4, 6)
        await warm(house, 1)
        editor.cursor(uri, 1)
        async with house.connect() as door:
            await house.until(door, lambda _: not house.app.desks.offers())


async def test_the_cancel_button_of_a_progress_ends_the_answer(house: House, editors: Editors) -> None:
    """S9"""
    house.modeld.script.held = True
    async with editors(answers=False) as editor:
        uri = editor.open("stock.py", CODE)
        editor.client.progress_reports["t1"] = []
        asking = asyncio.create_task(editor.command("intent.explain", token="t1", uri=uri, diagnostic=diagnostic(6)))
        await house.modeld.wait_for(Turn)
        editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token="t1"))
        with pytest.raises(JsonRpcException):
            await asking
        await house.modeld.wait_for(Cancel)
        assert not editor.server.work_done_progress.tokens


def test_the_process_ends_at_an_interrupt_though_the_editor_holds_its_input_open(tmp_path: Path) -> None:
    environment = {**os.environ, "GUESSAHEAD_RUNTIME_DIR": str(tmp_path)}
    words = [sys.executable, "-m", "intentd", "lsp", "--no-autostart"]
    hello = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":null,"capabilities":{}}}'
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as server:
        assert server.stdin
        assert server.stdout
        try:
            server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(hello), hello))
            server.stdin.flush()
            assert server.stdout.readline().startswith(b"Content-Length")  # by now it reads the next message
            server.send_signal(signal.SIGINT)
            assert server.wait(PATIENCE_S) == 0
        finally:
            server.kill()


async def test_the_process_serves_an_editor_over_its_standard_streams(house: House, editors: Editors) -> None:
    async with editors(real=True) as editor, house.connect() as door:
        await house.until(door, lambda status: status.figures["editors"] == 1)
        uri = editor.open("stock.py", CODE)
        editor.diagnose(uri, (6, UNDEFINED))
        await warm(house, 1)
        assert (await editor.command("intent.explain", uri=uri, diagnostic=diagnostic(6)))["outcome"] == "hit"
    async with house.connect() as door:
        await house.until(door, lambda status: status.figures["editors"] == 0)
