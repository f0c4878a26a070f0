"""What the plugin tells a language server, and how an answer is shown."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.neovim import KINDS, Neovim, person_environment, until
from integration.played_server import Server

both = pytest.mark.parametrize("kind", KINDS)
TEXT = "first = 1\nsecond = 2\n"


@both
def test_the_server_hears_of_the_cursor_with_the_version_it_belongs_to(editor: Neovim, server: Server) -> None:
    opened = server.expect_params("textDocument/didOpen")["textDocument"]
    said = server.expect_params("intent/cursor")
    assert said["textDocument"] == {"uri": opened["uri"], "version": opened["version"]}
    assert (said["position"], said["insert"]) == ({"line": 0, "character": 0}, False)
    editor.press("A2")
    while (said := server.expect_params("intent/cursor"))["position"]["character"] < 10:
        pass
    assert said["insert"]
    assert said["textDocument"]["version"] > opened["version"]


@both
def test_diagnostics_of_others_are_forwarded_in_the_servers_encoding(editor: Neovim, server: Server) -> None:
    server.expect("intent/cursor")
    editor.lua(
        """local other, client = vim.api.nvim_create_namespace('linter'), vim.lsp.get_clients({ name = 'intentd' })[1]
        local wrong = { lnum = 0, col = 3, end_lnum = 0, end_col = 6, severity = 1, message = 'wrong', code = 'E1' }
        vim.diagnostic.set(vim.lsp.diagnostic.get_namespace(client.id), 0, { vim.deepcopy(wrong) })
        vim.diagnostic.set(other, 0, { wrong })
        vim.diagnostic.set(other, 0, {})"""
    )
    said = [server.expect_params("intent/diagnostics") for _ in range(3)]
    assert [len(each["diagnostics"]) for each in said] == [0, 1, 0]
    (diagnostic,) = said[1]["diagnostics"]
    assert diagnostic["range"] == {"start": {"line": 0, "character": 2}, "end": {"line": 0, "character": 5}}
    assert (diagnostic["severity"], diagnostic["message"], diagnostic["code"]) == (1, "wrong", "E1")


@both
def test_what_a_tool_has_not_found_anew_is_told_as_before(editor: Neovim, server: Server) -> None:
    """Neovim does not move it with the edits, so the server must know that it is the same."""
    server.expect("intent/cursor")
    editor.lua(
        """local wrong = { lnum = 1, col = 3, end_lnum = 1, end_col = 6, message = 'wrong' }
        local function set(name, ...)
          vim.diagnostic.set(vim.api.nvim_create_namespace(name), 0, vim.deepcopy({ ... }))
        end
        set('slow', wrong)
        vim.api.nvim_buf_set_lines(0, 0, 0, false, { 'zero = 0', '' })
        set('quick', { lnum = 0, col = 0, message = 'quick' })
        set('quick')
        vim.cmd('doautocmd DiagnosticChanged')
        set('slow', wrong)"""
    )
    said = [server.expect_params("intent/diagnostics")["diagnostics"] for _ in range(5)]
    marks = [next(one["data"] for one in each if one["message"] == "wrong") for each in said]
    assert len(set(marks[:4])) == 1
    assert marks[4] != marks[3]
    assert {one["range"]["start"]["line"] for each in said for one in each if one["message"] == "wrong"} == {1}


@both
def test_a_selection_is_forwarded_and_a_cursor_ends_it(editor: Neovim, server: Server) -> None:
    def selected(end: tuple[int, int]) -> Any:
        while (said := server.expect_params("intent/selection")["range"])["end"] != dict(
            zip(("line", "character"), end, strict=True)
        ):
            pass
        return said["start"]

    server.expect("intent/cursor")
    editor.press("lvl")
    assert selected((0, 3)) == {"line": 0, "character": 1}
    editor.press("h")
    assert selected((0, 2)) == {"line": 0, "character": 1}
    editor.press("ohh")
    assert selected((0, 2)) == {"line": 0, "character": 0}
    editor.press("<Esc>")
    assert server.expect_params("intent/cursor")["insert"] is False
    editor.press("Vj")
    assert selected((1, 9)) == {"line": 0, "character": 0}


@both
def test_an_answer_streams_into_a_float_that_scrolls_stops_and_closes(editor: Neovim, server: Server) -> None:
    editor.command("IntentExplain")
    asked, argument = server.expect_command("intent.explain")
    assert argument == {}
    server.tell(answer="a1", kind="begin", title="why it fails")
    until(lambda: editor.float().get("title") == " why it fails ", "no float opens")
    for text in ("first\nsec", "ond", "\nlast" * 50):
        server.tell(answer="a1", kind="text", text=text)
    server.tell(answer="other", kind="text", text="not this")
    until(lambda: editor.float()["text"] == "first\nsecond" + "\nlast" * 50, "the text does not come")
    assert editor.request("nvim_win_get_cursor", 0) == [52, 0]
    editor.request("nvim_feedkeys", "\x03", "t", False)  # typed into a busy editor it would interrupt that instead
    stopping, argument = server.expect_command("intent.stop")
    assert argument == {"answer": "a1"}
    server.answer(stopping, None)
    server.tell(answer="a1", kind="end", reason="cancelled")
    server.answer(asked, {"answer": "a1", "text": "", "outcome": "hit", "reason": "cancelled", "first_token_ms": 4.2})
    until(lambda: editor.float()["footer"] == " hit, first token after 4 ms; q closes ", "no outcome is shown")
    editor.press("q")
    until(lambda: not editor.float(), "q does not close the float")


@both
def test_who_types_keeps_the_cursor_when_an_answer_comes(editor: Neovim, server: Server) -> None:
    editor.press("O")
    until(lambda: editor.request("nvim_get_mode")["mode"] == "i", "the editor does not insert")
    server.tell(answer="a1", kind="begin", title="t")
    until(editor.float, "no float opens")
    editor.press("typed")
    until(lambda: editor.lines("a.py")[0] == "typed", "the keys went elsewhere")


@both
def test_an_answer_that_comes_to_the_command_line_window_is_shown_beside_it(editor: Neovim, server: Server) -> None:
    server.expect("intent/cursor")
    editor.press("q:")
    until(lambda: editor.lua("return vim.fn.getcmdwintype()") == ":", "no window opens")
    for answer in ("a1", "a2"):
        server.tell(answer=answer, kind="begin", title="t")
        server.tell(answer=answer, kind="text", text=answer)
        server.heard()
        assert editor.float()["text"] == answer
    assert editor.lua("return vim.fn.getcmdwintype()") == ":"
    editor.press("<C-c><C-c>")


@both
def test_an_offer_that_is_no_number_is_asked_for_as_it_is(editor: Neovim, server: Server) -> None:
    """So it is refused with words."""
    editor.command("IntentExplain abc")
    assert server.expect_command("intent.explain")[1] == {"offer": "abc"}


@both
def test_what_is_explained_is_what_the_person_means(editor: Neovim, server: Server) -> None:
    editor.command("IntentExplain 3")
    assert server.expect_command("intent.explain")[1] == {"offer": 3}
    editor.lua("vim.diagnostic.set(vim.api.nvim_create_namespace('x'), 0, {{ lnum = 1, col = 0, message = 'm' }})")
    editor.press("j")
    until(lambda: editor.request("nvim_win_get_cursor", 0) == [2, 0], "the cursor does not move")
    editor.command("IntentExplain")
    assert server.expect_command("intent.explain")[1]["position"] == {"line": 1, "character": 0}
    editor.command("IntentExplain!")
    assert server.expect_command("intent.explain")[1] == {}
    editor.command("IntentFix")
    assert server.expect_command("intent.fix")[1]["position"] == {"line": 1, "character": 0}


@pytest.fixture
def other(editor: Neovim, server: Server, home: Path) -> Iterator[Server]:
    """The server of another project, whose file has taken the place of the first one's."""
    server.expect("intent/cursor")
    project = home / "other"
    project.mkdir()
    (project / "pytest.ini").touch()
    (project / "b.py").write_text(TEXT)
    other = Server(home / "lsp-other")
    editor.lua("vim.lsp.config('intentd', { cmd = vim.lsp.rpc.connect(...) })", str(home / "lsp-other"))
    editor.command(f"edit {project}/b.py")
    other.accept()
    other.expect("intent/cursor")
    yield other
    other.close()


@both
def test_two_projects_in_one_editor_keep_their_answers_apart(editor: Neovim, server: Server, other: Server) -> None:
    editor.command("buffer a.py")
    editor.command("IntentExplain")
    asked, _ = server.expect_command("intent.explain")
    other.tell(answer="a1", kind="begin", title="of the other")
    until(editor.float, "no float opens")
    server.tell(answer="a1", kind="text", text="not this")
    server.tell(answer="a1", kind="end", reason="end")
    server.answer(asked, {"answer": "a1", "text": "", "outcome": "hit", "reason": "end", "first_token_ms": 4.2})
    server.heard()
    other.tell(answer="a1", kind="text", text="this")
    other.heard()
    assert editor.float() == {"title": " of the other ", "text": "this", "footer": " q closes, <C-c> stops "}
    editor.command("IntentStop")
    assert other.expect_command("intent.stop")[1] == {"answer": "a1"}


@both
def test_an_answer_whose_server_has_gone_stops_none_of_another(editor: Neovim, server: Server, other: Server) -> None:
    server.tell(answer="a1", kind="begin")
    until(editor.float, "no float opens")
    editor.press("q")
    server.close()
    until(lambda: editor.lua("return #vim.lsp.get_clients()") == 1, "the client stays")
    editor.command("IntentStop")
    assert other.expect_command("intent.stop")[1] == {}


@both
def test_where_no_project_is_the_last_one_is_asked(editor: Neovim, other: Server) -> None:
    editor.command("new")
    editor.command("IntentExplain!")
    assert other.expect_command("intent.explain")[1] == {}


@both
@pytest.mark.parametrize("text", ["", "see a.py"], ids=["empty", "begun"])
def test_another_file_in_the_float_is_left_alone(editor: Neovim, server: Server, home: Path, text: str) -> None:
    server.tell(answer="a1", kind="begin", title="first")
    server.tell(answer="a1", kind="text", text=text)
    server.heard()
    editor.command(f"edit {home}/project/pytest.ini")
    server.tell(answer="a1", kind="text", text="not this")
    server.tell(answer="a1", kind="end", reason="end")
    server.tell(answer="a2", kind="begin", title="second")
    server.heard()
    shown = [editor.request("nvim_win_get_buf", window) for window in editor.request("nvim_list_wins")]
    names = {Path(editor.request("nvim_buf_get_name", buffer)).name for buffer in shown}
    assert names == {"a.py", "pytest.ini", ""}
    assert editor.lines("pytest.ini") == [""]


@both
def test_a_question_that_fails_is_said_once(editor: Neovim, server: Server) -> None:
    editor.command("IntentFix")
    asked, _ = server.expect_command("intent.fix")
    server.tell(answer="a1", kind="begin", title="fix")
    server.tell(answer="a1", kind="end", reason="error")
    server.send(id=asked["id"], error={"code": -32803, "message": "modeld does not answer"})
    said = until(editor.messages, "nothing is said")
    assert said == "intentd: modeld does not answer"
    assert not editor.float()
    editor.command("messages clear")


@both
def test_without_intentd_nothing_is_said_until_it_is_asked_for(kind: str, home: Path) -> None:
    (home / "a.py").write_text(TEXT)
    (home / "b.py").write_text(TEXT)
    editor = Neovim(kind, home, {**person_environment(), "PATH": "/usr/bin:/bin"})
    try:
        for name in ("a.py", "b.py"):
            editor.command(f"edit {home}/{name}")
        editor.lua("vim.diagnostic.set(vim.api.nvim_create_namespace('x'), 0, {})")
        assert editor.lua("return vim.v.errmsg") == editor.messages() == ""
        editor.command("IntentExplain")
        assert editor.messages() == "intentd: no language server runs for this file"
    finally:
        editor.close()


@both
def test_an_intentd_that_cannot_run_is_said_once(kind: str, home: Path) -> None:
    broken = home / "bin/intentd"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o700)
    editor = Neovim(kind, home, {**person_environment(), "PATH": f"{broken.parent}:/usr/bin:/bin"})
    try:
        for name in ("a.py", "b.py", "c.py"):
            (home / name).write_text(TEXT)
            editor.command(f"edit {home}/{name}")
            until(lambda: "quit with exit code 3" in editor.messages(), "nothing is said")
            until(lambda: not editor.lua("return vim.lsp.is_enabled('intentd')"), "it goes on")
        assert editor.messages().count("intentd") == 1
    finally:
        editor.close()
