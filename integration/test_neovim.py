"""What a person does in a real Neovim over the real language server, intentd and modeld: real processes, fake model."""

import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from integration.desk import ANSWER, BROKEN, FAKE, FIXED, Desk, answered, diagnose, furnished
from integration.neovim import KINDS, LIMIT_S, Neovim, until

ASK_AGAIN_S = 5.0
both = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with furnished() as desk:
        desk.serve()
        yield desk


@pytest.fixture
def own_desk() -> Iterator[Desk]:
    """For a test that changes what the daemons do."""
    with furnished() as desk:
        yield desk


@both
def test_a_diagnostic_of_another_tool_is_explained_from_warm_kv_and_mended(desk: Desk, kind: str) -> None:
    """S10"""
    guessed = desk.figure("guesses_finished")
    with desk.editor(kind, desk.project() / "calc.py") as editor:
        diagnose(editor)
        until(lambda: desk.figure("guesses_finished") > guessed, "nothing is guessed")
        editor.command("IntentExplain")
        assert answered(editor).startswith(" hit,")
        editor.press("q")
        until(lambda: not editor.float(), "the float stays")
        editor.command("IntentFix")
        until(lambda: editor.lines("calc.py") == FIXED, "nothing is mended")
        editor.press("qu")
        until(lambda: editor.lines("calc.py") == BROKEN.splitlines(), "the fix cannot be undone")
        editor.command("messages clear")


def warm(desk: Desk, project: Path) -> bool:
    return any(offer.warm for offer in desk.status().offers if offer.workspace == str(project))


@both
def test_a_test_that_failed_in_a_terminal_is_explained_in_the_editor(desk: Desk, kind: str) -> None:
    project = desk.project()
    with desk.editor(kind, project / "calc.py") as editor:
        ran = desk.do("run", "--", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", project=project)
        assert ran.returncode == 1
        until(lambda: warm(desk, project), "nothing is guessed")
        editor.command("IntentExplain")
        assert answered(editor).startswith(" hit,")


def test_two_editors_at_once_get_their_own_answers(desk: Desk) -> None:
    """S11"""
    with desk.editor("0.12", desk.project() / "calc.py") as one, desk.editor("0.11", desk.project() / "calc.py") as two:
        assert desk.figure("editors") == 2
        for editor in (one, two):
            diagnose(editor)
        one.command("IntentExplain")
        answered(one)
        assert not two.float()
        two.command("IntentFix")
        until(lambda: two.lines("calc.py") == FIXED, "nothing is mended")
        assert one.float()["text"] == ANSWER
        two.command("messages clear")
    until(lambda: desk.figure("editors") == 0, "an editor that has left is still there")


def test_a_fix_for_a_text_that_has_changed_since_changes_nothing(own_desk: Desk) -> None:
    own_desk.serve(step_ms=20)
    with own_desk.editor("0.12", own_desk.project() / "calc.py") as editor:
        diagnose(editor)
        editor.command("IntentFix")
        until(lambda: editor.float().get("text"), "no answer begins")
        editor.press("<C-w>pGo# mine<Esc>")
        until(lambda: "changed" in editor.messages(), "nothing is said of it")
        assert editor.lines("calc.py") == [*BROKEN.splitlines(), "# mine"]
        editor.command("messages clear")


def test_an_answer_is_stopped_from_the_editor(own_desk: Desk) -> None:
    """S9"""
    own_desk.serve(step_ms=100)
    with own_desk.editor("0.12", own_desk.project() / "calc.py") as editor:
        diagnose(editor)
        editor.command("IntentExplain")
        until(lambda: editor.float().get("text"), "no answer begins")
        editor.command("IntentStop")
        until(lambda: "first token" in editor.float()["footer"], "it does not stop")
        assert len(editor.float()["text"]) < len(ANSWER)


@both
def test_daemons_that_die_are_missed_in_silence_and_found_again(own_desk: Desk, kind: str) -> None:
    own_desk.serve()
    with own_desk.editor(kind, own_desk.project() / "calc.py") as editor:
        diagnose(editor)
        editor.command("IntentExplain")
        answered(editor)
        editor.press("q")
        own_desk.kill()
        editor.press("Go# on<Esc>")
        until(lambda: editor.lines("calc.py")[-1] == "# on", "the editor is stuck")
        assert editor.messages() == ""
        editor.command("IntentExplain")
        said = until(editor.messages, "nobody says why there is no answer")
        assert said.startswith("intentd: no intentd answers at ")
        editor.command("messages clear")
        own_desk.serve()
        diagnose(editor)
        before = time.monotonic()
        while not editor.float():
            editor.command("IntentExplain")
            until(
                lambda: editor.messages() or "first token" in editor.float().get("footer", ""), "no answer and no word"
            )
            editor.command("messages clear")
            assert time.monotonic() < before + LIMIT_S
        answered(editor)


def test_a_completion_is_made_ahead_typed_through_and_accepted_by_word_line_and_whole(desk: Desk) -> None:
    """I2"""
    with desk.editor("0.12", desk.project() / "calc.py") as editor:
        editor.press("Go<CR>def mul(a, b):<CR>return ")
        offered = shown(editor, lines=4)  # as this fake goes on with this text
        before = "\n".join(editor.lines())

        def taken() -> str:
            return "\n".join(editor.lines()).removeprefix(before)

        editor.press(offered[0])
        until(lambda: editor.shown() == offered[1:], "typing through does not keep the rest")
        for kind in ("word", "line", "line"):
            accept(editor, kind)
            assert offered.startswith(taken())
            until(lambda: editor.shown() == offered.removeprefix(taken()), "the rest is not shown")
        editor.press("<Cmd>IntentAccept<CR>")
        until(lambda: taken() == offered, "the rest is not accepted")
        shown(editor)  # what is made for what comes next
        assert desk.figure("completions_accepted") > 0
        editor.press("Z")
        until(lambda: not editor.shown(), "a stale completion is shown")
        until(lambda: made_ahead(desk, editor), "everything is made only when it is asked for")


def shown(editor: Neovim, lines: int = 1) -> str:
    """What is offered, of so many lines at least. What comes too late is cut or left out, and asked for again."""

    def offered() -> str:
        text = editor.shown()
        return text if text.count("\n") + 1 >= lines else ""

    for _ in range(int(LIMIT_S / ASK_AGAIN_S)):
        with suppress(AssertionError):
            return str(until(offered, "not yet", ASK_AGAIN_S))
        editor.press("<Esc>a")
    raise AssertionError(f"{lines} lines are not shown: {editor.shown()!r}")


def accept(editor: Neovim, kind: str) -> None:
    before = editor.lines()
    editor.press(f"<Cmd>IntentAccept {kind}<CR>")
    until(lambda: editor.lines() != before, "nothing is accepted")


def made_ahead(desk: Desk, editor: Neovim) -> bool:
    """Writes another line, and whether any was guessed before the editor asked."""
    editor.press("<CR>x = ")
    shown(editor)
    row = desk.status().triggers["inline"]
    return row["hits"] + row["partials"] > 0


def test_where_inline_completion_is_unknown_none_is_made(own_desk: Desk) -> None:
    own_desk.serve()
    with own_desk.editor("0.11", own_desk.project() / "calc.py") as editor:
        editor.press("Go<CR>def mul(a, b):<CR>return ")
        until(lambda: len(editor.lines()) == 5, "the editor is stuck")
        diagnose(editor)
        until(lambda: own_desk.figure("guesses_finished") > 0, "nothing is guessed")
        assert "inline" not in own_desk.status().triggers


def test_who_starts_an_editor_alone_finds_the_rest_there(own_desk: Desk) -> None:
    own_desk.environment |= {"MODELD_BACKEND": "fake", "MODELD_FAKE": json.dumps(FAKE)}
    with own_desk.editor("0.12", own_desk.project() / "calc.py", lua="") as editor:
        diagnose(editor)
        until(lambda: own_desk.figure("guesses_finished"), "nothing is guessed")
        editor.command("IntentExplain")
        assert answered(editor).startswith(" hit,")


def health(editor: Neovim) -> str:
    """What `:checkhealth` shows."""
    editor.command("silent checkhealth intentd")
    return "\n".join(editor.lines())


@both
def test_checkhealth_says_what_runs_and_what_is_missing(own_desk: Desk, kind: str) -> None:
    own_desk.serve()
    with own_desk.editor(kind, own_desk.project() / "calc.py") as editor:
        said = health(editor)
        assert ("this Neovim has no inline completion" in said) == (kind == "0.11")
        for well in ("OK intentd ", "OK 1 language server(s)", "OK intentd serves"):
            assert well in said
        assert not [line for line in said.splitlines() if "WARNING" in line and kind == "0.12"]
        own_desk.end("modeld")
        until(lambda: "WARNING modeld" in health(editor), "nobody says that modeld is missing")
        editor.lua("vim.lsp.stop_client(vim.lsp.get_clients({ name = 'intentd' }), true)")
        until(lambda: "WARNING no language server" in health(editor), "a language server stays")
        intentd = shutil.which("intentd", path=own_desk.environment["PATH"])
        editor.lua("vim.env.PATH = ''")
        assert "ERROR `intentd` cannot be run: " in health(editor)
        for words in ([intentd], [sys.executable, "-m", "intentd"]):
            editor.lua("vim.lsp.config('intentd', { cmd = ... })", [*words, "lsp"])
            assert "OK intentd serves" in health(editor)
        editor.command("messages clear")
