"""Ids are remembered within a bound."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from modeld.slot.runs import RunCache


class Counted:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, text: str) -> Sequence[int]:
        self.calls += 1
        return list(text.encode())


def test_a_text_is_tokenised_once() -> None:
    tokenise = Counted()
    runs = RunCache(tokenise, 10_000)
    assert runs.ids("abc").tolist() == runs.ids("abc").tolist() == [97, 98, 99]
    assert tokenise.calls == 1


def test_the_least_recently_used_text_goes_first() -> None:
    tokenise = Counted()
    runs = RunCache(tokenise, 600)  # two short texts
    for text in ("a", "b", "a", "c", "a"):
        runs.ids(text)
    assert tokenise.calls == 3
    runs.ids("b")
    assert tokenise.calls == 4


@given(st.lists(st.text(max_size=300), max_size=30), st.integers(0, 3000))
def test_the_memory_stays_within_its_bound(texts: list[str], bound: int) -> None:
    runs = RunCache(lambda text: list(text.encode(errors="replace")), bound)
    for text in texts:
        runs.ids(text)
        assert 0 <= runs.bytes <= bound
