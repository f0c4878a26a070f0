"""What an editor shows: which diagnostic is likeliest, what a prompt shows of it, what edits elsewhere change."""

import string

import pytest
from attrs import evolve

from intentd.plan.desks import MAX_VIEWS, SHOWN, Desks, offering
from intentd.plan.document import Document, Place
from intentd.plan.privacy import OVERLAP, scrub_long
from intentd.plan.templates import Template, parse
from intentd.plan.turns import PlannedTurn, TurnError
from intentd.plan.view_turns import build_view, seen_whole
from intentd.plan.views import likeliest, only
from intentd.plan.windows import AROUND_CHARACTERS, view_of
from intentd.shown import Diagnostic, Focus, View
from modelwire.messages import ChatMessage

CODE = "import os\n\n\ndef first():\n    return 1\n\n\ndef second():\n    x = undefined\n    return x\n"
DIAGNOSTIC = Diagnostic(line=8, last=8, message="undefined name", source="ruff", code="F821")
TEMPLATE = parse(
    "diagnostic.toml",
    'title = "explain $test"\nsystem = "$workspace"\nuser = "$source\\n--\\n$code\\n--\\n$traceback\\n"\n'
    "[budget]\ncharacters = 9000\n",
)


def view(text: str = CODE, **fields: object) -> View:
    made = view_of(Document.of(text, 1), workspace="/w", path="/w/a.py", cursor=8, diagnostics=(DIAGNOSTIC,))
    return evolve(made, **fields)  # type: ignore[arg-type]


def prompt(turn: PlannedTurn) -> str:
    return "".join(part.content for part in turn.suffix if isinstance(part, ChatMessage))


def turn_of(one: View, template: Template = TEMPLATE) -> PlannedTurn:
    return build_view(only(one, next(likeliest(one))), template, context=4096)


def at(line: int, severity: int = 1) -> Diagnostic:
    return Diagnostic(line=line, last=line, message=f"line {line}", severity=severity)


def test_the_diagnostic_at_the_cursor_comes_first_then_errors_then_the_nearest() -> None:
    diagnostics = (at(0), at(7, 2), at(8, 2), at(4), at(9, 3))
    order = [one.line for one in likeliest(view(diagnostics=diagnostics))]
    assert order == [8, 4, 0, 7, 9]


def test_no_two_views_of_a_long_day_have_one_id_by_chance() -> None:
    """S10: the turn that was kept under it is sent."""
    assert len(bytes.fromhex(offering(view()).id.removeprefix(SHOWN))) >= 8


def test_the_prompt_shows_the_block_the_head_and_the_line() -> None:
    shown = prompt(turn_of(view()))
    assert "def second():\n    x = undefined\n    return x" in shown
    assert "def first" not in shown
    assert "a.py:\n```\nimport os\n```" in shown
    assert "error: undefined name [F821]\nin the line: x = undefined" in shown


def test_of_changes_that_nobody_looked_for_nothing_is_claimed() -> None:
    template = evolve(TEMPLATE, user=string.Template("What was changed: $diff"))
    assert prompt(build_view(only(view(), DIAGNOSTIC), template, context=4096)).endswith("changed: (not available)")


def test_a_line_added_above_moves_the_diagnostic_and_not_the_prompt() -> None:
    """S10: what was guessed before the edit is what is asked after it."""
    document = Document.of(CODE, 1)
    change = document.replace(Place(4, 0), Place(4, 0), "    # why\n")
    moved = evolve(DIAGNOSTIC, line=change.moved(8), last=change.moved(8))
    later = view_of(document, workspace="/w", path="/w/a.py", cursor=9, diagnostics=(moved,))
    assert turn_of(later).key == turn_of(view()).key
    assert turn_of(later).focus == Focus(first=8, last=11, whole=True)


def test_explain_and_fix_show_the_same() -> None:
    fix = evolve(TEMPLATE, name="fix_in_place", decode=evolve(TEMPLATE.decode, max_tokens=700))
    assert prompt(turn_of(view(), fix)) == prompt(turn_of(view()))


def test_what_was_redacted_is_not_seen_whole() -> None:
    one = only(view(), DIAGNOSTIC)
    turn = build_view(one, TEMPLATE, context=4096)
    hidden = evolve(one, text=one.text.replace("undefined\n", "[redacted]\n"))
    assert seen_whole(turn, one, one).focus == Focus(first=7, last=10, whole=True)
    assert seen_whole(turn, one, hidden).focus == Focus(first=7, last=10, whole=False)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\n".join(f"value_{number:02} = 'x' * {number:030}" for number in range(40)), 31),
        ("x" * 3000, 0),
        (CODE, 99),
        ("\n\n", 1),
    ],
    ids=["more lines than fit", "a line that does not fit", "a line that is not there", "blank lines"],
)
def test_what_is_not_shown_to_its_end_is_not_seen_whole(text: str, line: int) -> None:
    """Else what the model was not shown would be gone with its answer."""
    one = only(view(text, diagnostics=(at(line),), cursor=line), at(line))
    turn = seen_whole(build_view(one, TEMPLATE, context=2048), one, one)
    assert turn.focus is not None
    assert turn.focus.whole is False


def test_a_selection_is_shown_with_the_block_around_it() -> None:
    shown = prompt(build_view(only(view(), None, (9, 10)), TEMPLATE, context=4096))
    assert shown.startswith("a.py:\n```\ndef second():")
    assert "a.py:\n```\n    return x\n```" in shown


def test_a_context_that_is_too_small_is_said() -> None:
    with pytest.raises(TurnError, match="too small"):
        build_view(only(view(), DIAGNOSTIC), TEMPLATE, context=1024)


def test_of_a_huge_document_a_bounded_part_leaves_the_editor_with_what_judges_it() -> None:
    text = "\n".join(f"value_{number} = {number}" for number in range(200_000))
    made = view_of(Document.of(text, 1), workspace="/w", path="/w/a.py", cursor=100_000)
    assert len(made.text) < 2 * (AROUND_CHARACTERS + OVERLAP) + 2_000
    assert made.holds(100_000)
    assert made.lines()[100_000 - made.start] == "value_100000 = 100000"
    assert made.start % 32 == 0
    assert made.lead > 0
    assert made.tail > 0
    assert not made.holds(made.start + len(made.lines()))
    long = view_of(Document.of("x" * 5_000_000, 1), workspace="/w", path="/w/a.py", cursor=0)
    assert len(long.text) < 5000
    wide = Document.of("\n".join("x" * 3000 for _ in range(400)), 1)
    made = view_of(wide, workspace="/w", path="/w/a.py", cursor=199)
    assert made.holds(199)
    assert len("\n".join(made.lines()[: 199 - made.start])) <= AROUND_CHARACTERS
    assert len("\n".join(made.lines()[199 - made.start :])) <= AROUND_CHARACTERS


def test_what_is_shown_is_judged_by_what_stands_behind_it_too() -> None:
    """I3: that it is a Secret may stand below of where the part ends that leaves the editor."""
    data = "".join(f"  part{number}: {'Y29y' * 900}\n" for number in range(5))
    made = view_of(Document.of(f"data:\n{data}kind: Secret\n", 1), workspace="/w", path="/w/a.yaml", cursor=0)
    assert "kind" not in "\n".join(made.lines())
    fit = evolve(made, text=scrub_long(made.text).text)
    assert len(fit.lines()) == len(made.lines())
    assert "Y29y" not in "\n".join(fit.lines())


def test_of_a_path_outside_of_the_workspace_its_name_alone_is_said() -> None:
    """An editor may know a file by a link; where else on the machine that is, is nobody's business."""
    assert view(path="/w/deep/a.py").name == "deep/a.py"
    assert view(path="/links/somewhere/a.py").name == "a.py"
    assert offering(only(view(path="/links/somewhere/a.py"), DIAGNOSTIC)).failure.name == "a.py: F821"


def test_a_desk_holds_the_documents_used_last_and_nothing_of_an_editor_that_has_left() -> None:
    desks = Desks()
    for number in range(4):
        desks.show("vim", view(path=f"/w/{number}.py"), number)
        desks.check()
    desks.show("emacs", view(path="/w/e.py", selection=(1, 2)), 4)
    paths = [one.failure.path for one in desks.offers()]
    assert paths == ["/w/e.py", "/w/e.py", *[f"/w/{3 - number}.py" for number in range(MAX_VIEWS)]]
    assert desks.offers()[0].failure.trigger == "selection"
    assert desks.close("vim", "/w/3.py")
    assert not desks.close("vim", "/w/0.py")
    assert desks.leave("emacs")
    assert not desks.leave("emacs")
    assert [one.failure.path for one in desks.offers()] == ["/w/2.py"]


def test_on_a_desk_counts_when_a_document_was_used_not_when_it_is_told() -> None:
    desks = Desks()

    def told(*documents: tuple[str, float]) -> list[str]:
        for path, used in documents:
            desks.show("vim", view(path=path), used)
            desks.check()
        return [one.failure.path for one in desks.offers()]

    assert told(("/w/c.py", 0), ("/w/a.py", 2), ("/w/b.py", 0)) == ["/w/a.py", "/w/c.py"]
    assert told(("/w/b.py", 0), ("/w/c.py", 0), ("/w/b.py", 0)) == ["/w/a.py", "/w/c.py"]
    assert told(("/w/d.py", 1), ("/w/c.py", 0), ("/w/d.py", 1)) == ["/w/a.py", "/w/d.py"]
    desks.show("vim", view(path="/w/a.py", diagnostics=()), 3)
    assert told(("/w/c.py", 0)) == ["/w/d.py", "/w/c.py"]


def test_of_documents_that_nobody_has_used_those_shown_first_keep_their_places() -> None:
    """As a tool publishes all that it has after each save, of a session that was restored. Else the guesses are thrown
    away for others each time."""
    desks = Desks()
    for path in ("/w/a.py", "/w/b.py", "/w/c.py", "/w/a.py", "/w/b.py", "/w/c.py", "/w/a.py"):
        desks.show("vim", view(path=path), 0.0)
        desks.check()
    assert [one.failure.path for one in desks.offers()] == ["/w/a.py", "/w/b.py"]


def test_of_an_editor_that_knows_nothing_of_use_the_document_told_last_counts() -> None:
    desks = Desks()
    for path in ("/w/a.py", "/w/b.py", "/w/c.py", "/w/b.py"):
        desks.show("old", view(path=path), None)
        desks.check()
    assert [one.failure.path for one in desks.offers()] == ["/w/b.py", "/w/c.py"]
    desks.show("vim", view(path="/w/v.py"), 1)
    desks.show("old", view(path="/w/d.py"), None)
    assert [one.failure.path for one in desks.offers()] == ["/w/v.py", "/w/d.py", "/w/b.py"]


def test_an_offer_is_the_same_whatever_else_the_editor_shows() -> None:
    one = offering(only(view(), DIAGNOSTIC))
    assert one == offering(only(view(version=9, cursor=2, diagnostics=(at(0), DIAGNOSTIC)), DIAGNOSTIC))
    assert one.failure.name == "a.py: F821"
