"""Inline completions in a real Neovim: shown, accepted, typed through, withdrawn."""

from pathlib import Path

import pytest

from integration.neovim import Neovim, until
from integration.played_server import Server

with_inline_completion = pytest.mark.parametrize("kind", ["0.12"])


COMPLETION = "f(x)\n    return x"


@with_inline_completion
@pytest.mark.parametrize(
    ("whole", "accepted"),
    [
        ("", ["        f(x)", "    return x"]),
        (" line", ["        f(x)"]),
        (" word", ["        f"]),
    ],
    ids=["all", "line", "word"],
)
def test_a_completion_is_accepted_whole_by_line_and_by_word(
    editor: Neovim, server: Server, whole: str, accepted: list[str]
) -> None:
    editor.press("Go        ")
    server.complete(COMPLETION, line=2, character=8)
    assert until(editor.shown, "nothing is shown") == COMPLETION
    editor.press(f"<Cmd>IntentAccept{whole}<CR>")
    until(lambda: editor.lines()[2:] == accepted, "nothing is accepted")
    if whole:  # what is left is shown without being asked for, and accepted on
        left = COMPLETION.removeprefix(accepted[0].strip())
        until(lambda: editor.shown() == left, "the rest is not kept")
        editor.press("<Cmd>IntentAccept line<CR>" * 2)
        until(
            lambda: editor.lines()[2:] == ["        f(x)", "    return x"][: len(editor.lines()[2:])], "not accepted on"
        )


@with_inline_completion
def test_the_line_endings_of_a_file_do_not_become_text(editor: Neovim, server: Server) -> None:
    editor.command("set fileformat=dos")
    editor.press("Go        ")
    server.complete(COMPLETION.replace("\n", "\r\n"), line=2, character=8)
    assert until(editor.shown, "nothing is shown") == COMPLETION
    editor.press("<Cmd>IntentAccept line<CR>")
    until(lambda: editor.shown() == "\n    return x", "the rest is not kept")
    editor.press("<Cmd>IntentAccept<CR>")
    until(lambda: editor.lines()[2:] == ["        f(x)", "    return x"], "nothing is accepted")


@with_inline_completion
def test_acceptance_is_undone_by_itself(editor: Neovim, server: Server) -> None:
    editor.press("Gox =")
    server.complete(" 1", line=2, character=3)
    until(editor.shown, "nothing is shown")
    editor.press("<Cmd>IntentAccept<CR>")
    until(lambda: editor.lines()[2] == "x = 1", "nothing is accepted")
    editor.press("<Esc>u")
    until(lambda: editor.lines()[2] == "x =", "not undone by itself")
    editor.command("messages clear")  # the editor has said what it undid


@with_inline_completion
def test_typing_through_keeps_the_rest_and_another_letter_withdraws_it(editor: Neovim, server: Server) -> None:
    """I2"""
    editor.press("A + h")
    server.complete("hélloé b", character=13, start=12)
    until(lambda: editor.shown() == "élloé b", "nothing is shown")
    editor.press("é")
    until(lambda: editor.shown() == "lloé b", "the rest is not kept")
    editor.press("<Cmd>IntentAccept word<CR>")
    until(lambda: editor.lines()[0] == "héllo = 1 + hélloé", "what was typed is there twice")
    until(lambda: editor.shown() == " b", "the rest is not kept")
    editor.press("x")
    until(lambda: not editor.shown(), "a stale completion is shown")
    assert editor.lua("return require('intentd.inline').accept()") is False


@with_inline_completion
def test_beside_a_menu_another_letter_withdraws_a_completion_and_its_own_keeps_the_rest(
    editor: Neovim, server: Server
) -> None:
    """I2"""
    editor.command("set completeopt=menuone,noinsert,noselect")
    editor.press("Gow<C-n>")
    until(lambda: editor.lua("return vim.fn.pumvisible()") == 1, "no menu opens")
    server.complete("ozy", line=2, character=1)
    until(lambda: editor.shown() == "ozy", "nothing is shown")
    editor.press("o")
    until(lambda: editor.shown() == "zy", "the rest is not kept")
    editor.press("r")
    until(lambda: editor.lines()[2] == "wor", "not typed")
    assert not editor.shown()
    assert editor.lua("return vim.fn.pumvisible()") == 1


@with_inline_completion
def test_a_late_answer_is_not_shown_and_no_answer_withdraws_the_old_one(editor: Neovim, server: Server) -> None:
    """I2"""
    editor.press("A + h")
    server.complete("hello", character=13, start=12)
    until(editor.shown, "nothing is shown")
    editor.press("e")
    request = server.expect("textDocument/inlineCompletion")
    server.answer(request, None)
    until(lambda: not editor.shown(), "the old completion is still shown")
    editor.press("l")
    late = server.expect("textDocument/inlineCompletion")
    editor.press("p")
    until(lambda: editor.lines()[0].endswith("help"), "not typed")
    at = {"line": 0, "character": 15}
    server.answer(late, [{"insertText": "lo", "range": {"start": at, "end": at}}])
    server.tell(answer="a1", kind="begin")
    until(editor.float, "what comes later is not seen")
    assert not editor.shown()


@with_inline_completion
@pytest.mark.parametrize("key", ["<Del>", "("], ids=["deleted", "paired"])
def test_a_completion_is_withdrawn_when_the_text_behind_it_changes(editor: Neovim, server: Server, key: str) -> None:
    """I2"""
    editor.command("inoremap ( ()<Left>")
    editor.press("ea")
    server.complete("(x)", character=5)
    until(lambda: editor.shown() == "(x)", "nothing is shown")
    editor.press(key)
    until(lambda: not editor.shown(), "a stale completion is shown")
    assert editor.lua("return require('intentd.inline').accept()") is False


@with_inline_completion
def test_an_interrupt_that_ends_inserting_withdraws_a_completion(editor: Neovim, server: Server) -> None:
    """I2"""
    editor.press("A + h")
    server.complete("hello", character=13, start=12)
    until(editor.shown, "nothing is shown")
    editor.request("nvim_feedkeys", "\x03", "t", False)  # typed into a busy editor it would interrupt that instead
    until(lambda: editor.request("nvim_get_mode")["mode"] == "n", "the editor still inserts")
    until(lambda: not editor.shown(), "a stale completion is shown")


SWITCHED_OFF = "vim.lsp.inline_completion.enable(false, { bufnr = 0 })"


@with_inline_completion
@pytest.mark.parametrize("gone", ["completions", "server"])
def test_typing_goes_on_in_silence_where_what_is_shown_has_lost_its_source(
    editor: Neovim, server: Server, gone: str
) -> None:
    count = "vim.api.nvim_create_autocmd('CursorMovedI', { callback = function() vim.g.column = vim.fn.col('.') end })"
    editor.lua(count)  # after those of the plugin
    editor.press("A + h")
    server.complete("hello", character=13, start=12)
    until(editor.shown, "nothing is shown")
    if gone == "server":
        server.close()
    else:
        editor.lua(SWITCHED_OFF)
    until(lambda: not editor.shown(), "the completion stays")
    editor.press("x")
    until(lambda: editor.request("nvim_get_var", "column") == len("héllo = 1 + hx".encode()) + 1, "the editor is stuck")
    assert editor.messages() == ""
    assert editor.lua("return require('intentd.inline').accept()") is False


@with_inline_completion
def test_an_answer_that_comes_after_completions_were_switched_off_is_dropped(editor: Neovim, server: Server) -> None:
    editor.press("A + h")
    request = server.asked_for(character=13)
    editor.lua(SWITCHED_OFF)
    server.offer(request, "hello", start=12)
    server.heard()
    assert editor.messages() == ""
    assert editor.lua("return require('intentd.inline').accept()") is False


@with_inline_completion
def test_completions_that_a_person_has_switched_off_stay_off(editor: Neovim, server: Server, home: Path) -> None:
    editor.command(f"autocmd FileType python lua {SWITCHED_OFF}")
    editor.command(f"edit {home}/project/b.py")
    while not server.expect_params("intent/cursor")["textDocument"]["uri"].endswith("b.py"):
        pass  # what is said of a file follows its attaching
    assert editor.lua("return vim.lsp.inline_completion.is_enabled({ bufnr = 0 })") is False


@with_inline_completion
def test_another_server_does_not_switch_completions_on_again(editor: Neovim, server: Server) -> None:
    server.expect("intent/cursor")
    editor.lua(SWITCHED_OFF)
    editor.lua(
        """vim.lsp.start({ name = 'other', cmd = function()
          return {
            request = function(_, _, callback) return true, 1, callback(nil, { capabilities = {} }) end,
            notify = function() return true end,
            is_closing = function() return false end,
            terminate = function() end,
          }
        end })"""
    )
    until(lambda: editor.lua("return #vim.lsp.get_clients({ bufnr = 0 })") == 2, "the other one does not attach")
    assert editor.lua("return vim.lsp.inline_completion.is_enabled({ bufnr = 0 })") is False


@with_inline_completion
def test_where_nothing_comes_it_is_asked_for_a_little_later(editor: Neovim, server: Server) -> None:
    editor.press("A + h")
    for _ in range(2):
        server.answer(server.expect("textDocument/inlineCompletion"), None)
    server.complete("hello", character=13, start=12)
    until(lambda: editor.shown() == "ello", "nothing is shown")


@pytest.mark.parametrize("kind", ["0.11"])
def test_without_inline_completion_there_is_nothing_to_accept(editor: Neovim, server: Server) -> None:
    editor.press("ix")
    editor.command("IntentAccept")
    assert editor.lua("return require('intentd.inline').accept('word')") is False
