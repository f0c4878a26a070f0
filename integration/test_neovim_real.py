"""A real Neovim on the packaged model: type, wait, accept; a diagnostic appears and its explanation is asked for."""

from collections.abc import Iterator

import pytest

from integration.desk import Desk, diagnose, furnished
from integration.neovim import Neovim, until

ANSWER_S = 240.0
"""A whole answer of the packaged model, on two busy cores."""


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with furnished() as desk:
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


@pytest.mark.long
def test_a_diagnostic_is_explained_from_warm_kv(desk: Desk, editor: Neovim) -> None:
    """S10"""
    diagnose(editor)
    until(lambda: desk.figure("guesses_finished") and desk.status().state == "idle", "nothing is guessed")
    editor.command("IntentExplain")
    footer = until(
        lambda: "first token" in (said := editor.float().get("footer", "")) and said, "no answer is shown", ANSWER_S
    )
    assert footer.startswith(" hit,")
