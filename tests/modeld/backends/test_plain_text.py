"""Text never becomes a special token, whatever it spells: cutting it apart, with tokenisers that are functions."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modeld.backends.plain_text import Ids, cut, tokenise_plain

SPECIAL = {1000: "<tool>", 1001: "<<", 1002: "tool>", 1003: "§", 1004: "aa"}


def _greedy(text: str) -> Ids:
    """Matches special tokens first, as llama.cpp does with user-defined ones; else one id a character."""
    ids: list[int] = []
    while text:
        match = max((token for token in SPECIAL if text.startswith(SPECIAL[token])), key=_length, default=None)
        ids.append(ord(text[0]) if match is None else match)
        text = text[1 if match is None else len(SPECIAL[match]) :]
    return np.array(ids, np.int32)


def _length(token: int) -> int:
    return len(SPECIAL[token])


def _spell(text: str) -> Ids:
    return np.array([-1 - byte for byte in text.encode()], np.int32)


def _plain(text: str, first: Callable[[str], Ids] = _greedy, later: Callable[[str], Ids] = _greedy) -> list[int]:
    ids = tokenise_plain(text, first=first, later=later, special=SPECIAL, spell=_spell)
    return [int(token) for token in ids]


def _text(ids: list[int]) -> str:
    data = b"".join(bytes([-1 - token]) if token < 0 else chr(token).encode() for token in ids)
    return data.decode()


def test_text_that_spells_nothing_is_tokenised_whole() -> None:
    assert _plain("hello") == [ord(character) for character in "hello"]
    assert _plain("") == []


@pytest.mark.parametrize(
    "text",
    [
        "<tool>",
        "a<tool>b",
        "<tool><tool>",
        "<<tool>",
        "<<<<",
        "<<<tool>>",
        "§",
        "a§<tool>§",
        "aaaa",
        "tool>",
        "<too§l>",
    ],
)
def test_hostile_text_gives_its_characters_and_no_special_token(text: str) -> None:
    ids = _plain(text)
    assert not set(ids) & set(SPECIAL)
    assert _text(ids) == text


@given(st.text(alphabet="<tol>§a \n", max_size=60))
def test_any_text_gives_its_characters_and_no_special_token(text: str) -> None:
    ids = _plain(text)
    assert not set(ids) & set(SPECIAL)
    assert _text(ids) == text


def test_only_the_first_part_is_tokenised_as_a_beginning() -> None:
    beginnings, middles = [], []

    def first(text: str) -> Ids:
        beginnings.append(text)
        return _greedy(text)

    def later(text: str) -> Ids:
        middles.append(text)
        return _greedy(text)

    _plain("x<tool>y", first, later)
    assert beginnings == ["x<tool>y", "x<"]
    assert middles[0] == "tool>y"


def test_a_spelling_that_the_tokeniser_made_itself_is_taken_apart_by_characters() -> None:
    """A tokeniser that normalises can find a special token where the text does not spell it."""

    def normalising(text: str) -> Ids:
        return np.array([1000], np.int32) if text == "＜tool＞" else _greedy(text)

    assert _text(_plain("＜tool＞", normalising)) == "＜tool＞"


def test_cuts_lie_inside_every_occurrence() -> None:
    assert cut("a<t><t>", ["<t>"]) == ["a<", "t><", "t>"]
    assert cut("aaa", ["aa"]) == ["a", "a", "a"]
    assert cut("nothing", ["<t>"]) == ["nothing"]
    assert cut("a§§", ["§"]) == ["a", "§", "§"]
    assert "".join(cut("<<tool>x", ["<tool>", "<<"])) == "<<tool>x"
