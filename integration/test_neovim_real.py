"""A real Neovim on the packaged model: type, wait, accept; a diagnostic appears and its explanation is asked for."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import intentd
from integration.desk import Desk, diagnose, furnished
from integration.neovim import Neovim, until

SLOW_S = 120.0
"""What takes the packaged model seconds, on two busy cores."""
TOKENS = 24


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    """Its person likes short answers: a whole one of hundreds of tokens says no more about the parts that make it."""
    with furnished() as desk:
        mine = desk.directory / "guessahead/templates/diagnostic.toml"
        mine.parent.mkdir(parents=True)
        built_in = Path(intentd.__file__).parent / "templates/diagnostic.toml"
        mine.write_text(re.sub("max_tokens = [0-9]+", f"max_tokens = {TOKENS}", built_in.read_text()))
        desk.serve_packaged()
        yield desk


@pytest.fixture
def editor(desk: Desk) -> Iterator[Neovim]:
    with desk.editor("0.12", desk.project() / "calc.py") as editor:
        yield editor


def test_what_is_typed_is_completed_and_what_is_accepted_is_what_was_shown(editor: Neovim) -> None:
    editor.press("Go<CR>def mul(a, b):<CR>return ")
    offered = until(editor.shown, "nothing is shown")
    before = "\n".join(editor.lines())
    editor.press("<Cmd>IntentAccept<CR>")
    until(lambda: "\n".join(editor.lines()) == before + offered, "nothing is accepted")


def test_a_diagnostic_is_explained_from_warm_kv(desk: Desk, editor: Neovim) -> None:
    """S10"""
    diagnose(editor)
    until(lambda: "warm" in desk.status().reason, "nothing is guessed", SLOW_S)
    editor.command("IntentExplain")
    until(lambda: "first token" in editor.float().get("footer", ""), "no answer is shown", SLOW_S)
    shown = editor.float()
    assert shown["footer"].startswith(" hit,")
    assert shown["text"].strip()
