"""Documents: edits and positions agree with a plain string in every encoding, with every line ending."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentd.plan.document import MAX_TEXT, Document, Encoding, Place, can_be_kept

ENCODINGS: tuple[Encoding, ...] = ("utf-8", "utf-16", "utf-32")
TEXTS = st.lists(st.sampled_from([*"ab \t\n\x0c\u2028é€😋\ud83d", "\r\n"]), max_size=30).map("".join)


def units(text: str, encoding: Encoding) -> int:
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    return len(text.encode(f"{encoding}-le" if width > 1 else encoding, errors="surrogatepass")) // width


def starts(text: str) -> list[int]:
    """Where each line begins, the way editors count."""
    return [0, *(found.end() for found in re.finditer(r"\r\n|\n", text))]


def place_of(text: str, index: int, encoding: Encoding) -> Place:
    line = sum(start <= index for start in starts(text)) - 1
    return Place(line, units(text[starts(text)[line] : index], encoding))


@given(text=TEXTS, new=TEXTS, at=st.data(), encoding=st.sampled_from(ENCODINGS))
def test_an_edit_does_what_it_does_to_a_string(text: str, new: str, at: Any, encoding: Encoding) -> None:
    document = Document.of(text, encoding=encoding)
    places = [index for index in range(len(text) + 1) if text[max(index - 1, 0) : index + 1] != "\r\n"]
    start, end = sorted((at.draw(st.sampled_from(places)), at.draw(st.sampled_from(places))))
    before = document.count
    change = document.replace(place_of(text, start, encoding), place_of(text, end, encoding), new)
    whole = text[:start] + new + text[end:]
    assert document.text == whole
    assert document == document  # an identity, not a value
    assert document.count == len(starts(whole)) == before + change.grown
    assert document.lines(0, document.count) == re.split(r"\r\n|\n", whole)


@given(text=TEXTS, encoding=st.sampled_from(ENCODINGS))
def test_places_and_characters_are_one_and_the_same(text: str, encoding: Encoding) -> None:
    document = Document.of(text, encoding=encoding)
    for line in range(document.count):
        for character in range(len(document.line(line)) + 1):
            assert document.index(document.place(line, character)) == (line, character)


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 7), ("utf-16", 5), ("utf-32", 4)])
def test_a_surrogate_pair_counts_as_its_encoding_says(encoding: Encoding, column: int) -> None:
    document = Document.of('x="😋"\r\n', encoding=encoding)
    assert document.index(Place(0, column)) == (0, 4)
    document.replace(Place(0, column), Place(0, column), "!")
    assert document.text == 'x="😋!"\r\n'
    assert document.ending == "\r\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_column_within_a_character_counts_as_the_one_behind_it(encoding: Encoding) -> None:
    document = Document.of("é😋!", encoding=encoding)
    wide = units("é", encoding)
    assert [document.index(Place(0, wide + one))[1] for one in range(units("😋", encoding) + 1)] == [
        1,
        *[2] * units("😋", encoding),
    ]


def test_what_lies_beyond_the_end_counts_as_the_end() -> None:
    document = Document.of("one\ntwo")
    assert document.index(Place(0, 99)) == (0, 3)
    assert document.index(Place(9, 0)) == (1, 3)
    document.replace(Place(1, 99), Place(7, 7), "!")
    assert document.text == "one\ntwo!"
    assert document.line(5) == ""
    assert document.end == Place(1, 4)


def test_a_change_says_where_lines_have_gone_and_where_the_new_text_ends() -> None:
    document = Document.of("a\nb\nc\nd\n")
    change = document.replace(Place(1, 0), Place(2, 0), "x\ny\nz\n")
    assert [change.moved(line) for line in (0, 1, 3)] == [0, 1, 5]
    assert change.end == (4, 0)
    assert change.moved(2) == 4
    assert document.replace(Place(4, 1), Place(4, 1), "!").end == (4, 2)
    assert document.become("").grown == -6


@pytest.mark.parametrize(
    ("start", "end", "text", "now"),
    [
        ((1, 0), (1, 0), "\n", [0, 2, 3]),
        ((1, 0), (1, 0), "new\r\n", [0, 2, 3]),
        ((0, 3), (0, 3), "\n", [0, 2, 3]),
        ((1, 0), (1, 0), "new ", [0, 1, 2]),
        ((0, 1), (1, 0), "\n", [0, 1, 2]),
        ((0, 0), (1, 0), "", [0, 0, 1]),
        ((0, 3), (1, 0), "", [0, 0, 1]),
        ((1, 0), (1, 0), "", [0, 1, 2]),
        ((1, 1), (1, 1), "\n", [0, 1, 3]),
    ],
)
def test_a_line_stands_where_its_text_does(
    start: tuple[int, int], end: tuple[int, int], text: str, now: list[int]
) -> None:
    change = Document.of("one\ntwo\nthree\n").replace(Place(*start), Place(*end), text)
    assert [change.moved(line) for line in range(3)] == now


@pytest.mark.parametrize("text", ["a\rb\n", "a\r\r\nb", "a\r", "\n\r", "x" * (MAX_TEXT + 1)])
def test_a_text_whose_lines_editors_count_otherwise_or_a_huge_one_is_no_document(text: str) -> None:
    assert not can_be_kept(text)
    assert can_be_kept("a\r\nb\n\r\n")
