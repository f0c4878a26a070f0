"""What of an answer is shown: not what the model thinks, no special token, and everything else as it comes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intentd.plan.visible import Visible


def shown(*pieces: str) -> str:
    visible = Visible()
    return "".join(map(visible.feed, pieces)) + visible.end()


@given(cuts=st.lists(st.integers(0, 40), max_size=6))
def test_hidden_reasoning_is_hidden_however_it_comes(cuts: list[int]) -> None:
    text = "a < b<think>no\nno</think>yes <|im_end|>c <x> |> <"
    edges = [0, *sorted(cuts), len(text)]
    assert shown(*(text[one:other] for one, other in pairwise(edges))) == "a < byes c <x> |> <"


def test_reasoning_that_does_not_end_stays_hidden() -> None:
    assert shown("ok<think>never", " ending") == "ok"


@pytest.mark.parametrize("text", ["x <= y", "List<String>", "a <| b", "<", "<thin", "if a<b|c:"])
def test_code_is_shown_as_it_is(text: str) -> None:
    assert shown(*text) == text


def test_special_tokens_are_not_shown_whatever_family_spells_them() -> None:
    assert shown("a<|fim_pad|>b<|END_OF_TURN_TOKEN|>c<|reserved_special_token_7|>d<｜end▁of▁sentence｜>e") == "abcde"


def test_text_without_marks_is_not_held_back() -> None:
    visible = Visible()
    assert visible.feed("Hello") == "Hello"
