"""What was generated ahead: typing it keeps the rest, anything else ends it, and nothing is said twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentd.plan.ahead import Ahead, Spot, fitting
from intentd.plan.document import Document, Place


def made(document: Document, line: int, character: int, text: str) -> Ahead:
    ahead = Ahead(Spot.of(document, line, character))
    ahead.add(text)
    ahead.finish()
    return ahead


def put(document: Document, line: int, character: int, text: str, ahead: Ahead) -> bool:
    change = document.replace(Place(line, character), Place(line, character), text)
    return ahead.follow(document, change)


@given(
    text=st.text(st.sampled_from("ab \n"), min_size=1, max_size=12),
    cuts=st.lists(st.integers(1, 5), max_size=6),
    ending=st.sampled_from(("\n", "\r\n")),
)
def test_in_whatever_pieces_it_is_typed_the_rest_is_the_rest(text: str, cuts: list[int], ending: str) -> None:
    document = Document.of(f"first{ending}x = {ending}")
    ahead = made(document, 1, 4, text)
    text, line, character = ahead.text, 1, 4
    for size in cuts:
        piece = ahead.text[ahead.taken : ahead.taken + size]
        assert put(document, line, character, piece.replace("\n", ending), ahead)
        line += piece.count("\n")
        character = len(piece.rpartition("\n")[2]) + (0 if "\n" in piece else character)
        assert ahead.rest(line, character) == text[ahead.taken :]


@pytest.mark.parametrize(("line", "character", "typed"), [(1, 4, "z"), (0, 0, "import os\n"), (1, 0, "y"), (3, 0, "!")])
def test_any_other_edit_ends_it(line: int, character: int, typed: str) -> None:
    document = Document.of("first\nx = \n\nlast\n")
    ahead = made(document, 1, 4, "width")
    assert ahead.rest(1, 4) == "width"
    assert not put(document, line, character, typed, ahead)


@pytest.mark.parametrize(
    ("start", "end", "text", "holds"),
    [
        ((1, 0), (2, 0), "x = width\n", True),  # an editor may send the whole line
        ((2, 0), (2, 0), "    more\n", False),
        ((1, 4), (3, 0), "width\nother\n", False),  # as many lines as before, and one of them another
    ],
)
def test_what_holds_is_the_text_however_an_editor_tells_of_it(
    start: tuple[int, int], end: tuple[int, int], text: str, holds: bool
) -> None:
    document = Document.of("first\nx = \n\nlast\n")
    ahead = made(document, 1, 4, "width")
    assert ahead.follow(document, document.replace(Place(*start), Place(*end), text)) is holds


def test_i2_an_edit_from_its_own_line_that_reaches_far_below_ends_it() -> None:
    """A formatter replaces all that follows, and leaves the next lines as they are."""
    below = [f"line{number}" for number in range(9)]
    for start in (Place(0, 0), Place(0, 4), None):
        document = Document.of("\n".join(["x = ", *below]))
        ahead = made(document, 0, 4, "width")
        text = "\n".join(["x = ", *below[:-1], "other"])
        end = document.end
        change = document.replace(start, end, text[start.column :]) if start else document.become(text)
        assert document.text == text
        assert not ahead.follow(document, change)


def test_i2_another_rest_of_the_line_that_is_as_long_ends_it() -> None:
    document = Document.of("f(x)\n")
    ahead = made(document, 0, 2, "a, ")
    assert not ahead.follow(document, document.replace(Place(0, 2), Place(0, 3), "y"))


def test_a_line_that_was_taken_can_be_taken_back() -> None:
    document = Document.of("first\nx = \nlast\n")
    ahead = made(document, 1, 4, "width\ny = height")
    assert put(document, 1, 4, "width", ahead)
    assert ahead.follow(document, document.replace(Place(2, 0), Place(2, 0), "y = height\n"))
    assert ahead.taken == len(ahead.text)
    assert ahead.follow(document, document.replace(Place(2, 0), Place(3, 0), ""))
    assert ahead.rest(1, 9) == "\ny = height"


def test_it_holds_at_its_own_place_alone() -> None:
    ahead = made(Document.of("x = "), 0, 4, "width")
    assert ahead.rest(0, 3) is None
    assert ahead.rest(1, 4) is None


def test_a_word_taken_at_once_is_accepted_and_letters_are_not_until_the_last() -> None:
    document = Document.of("x = ")
    ahead = made(document, 0, 4, "ab cd")
    ahead.shown = 0
    for at, letter in enumerate("ab"):
        put(document, 0, 4 + at, letter, ahead)
    assert (ahead.accepted, ahead.rejected) == (0, True)
    put(document, 0, 6, " c", ahead)
    assert ahead.accepted == 1
    put(document, 0, 8, "d", ahead)
    assert (ahead.accepted, ahead.rejected) == (2, False)


def test_until_it_is_complete_only_whole_lines_are_shown() -> None:
    ahead = Ahead(Spot.of(Document.of("x = "), 0, 4))
    ahead.add("one\ntw")
    assert ahead.text == "one"
    ahead.add("o")
    ahead.finish()
    assert ahead.text == "one\ntwo"


def test_lines_that_a_model_ends_otherwise_are_lines() -> None:
    assert made(Document.of("x = \r\n"), 0, 4, "one\r\ntwo\r").text == "one\ntwo"


@pytest.mark.parametrize(
    ("text", "before", "after", "following", "fits"),
    [
        ("width)", "f(", ")", (), "width"),
        ("width\nmore", "f(", ")", (), "width"),
        ("a = 1\n    return a\n", "    ", "", ("    return a",), "a = 1"),
        ("a\n\n", "", "", (), "a"),
        ("a\nb", "", "", ("", "b"), "a"),
        ("a\nkey = [redacted]\nb", "", "", (), "a"),
        ("[redacted]", "key = ", "", (), ""),
    ],
)
def test_what_stands_there_already_is_not_said_again(
    text: str, before: str, after: str, following: tuple[str, ...], fits: str
) -> None:
    assert fitting(text, Spot(0, before, after, 1, following)) == fits
