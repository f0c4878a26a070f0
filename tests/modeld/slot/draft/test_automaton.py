"""The automaton against a search by brute force."""

from hypothesis import given
from hypothesis import strategies as st

from modeld.slot.draft.automaton import PATH_LIMIT, Automaton

texts = st.lists(st.integers(0, 2), min_size=1, max_size=60)


def longest_match(text: list[int]) -> tuple[int, int]:
    """The longest suffix that occurred before, and what follows its most recent earlier occurrence."""
    for length in range(len(text) - 1, 0, -1):
        for follow in range(len(text) - 1, length - 1, -1):
            if text[follow - length : follow] == text[-length:]:
                return length, follow
    return 0, 0


@given(texts)
def test_every_token_gets_the_longest_match_at_its_most_recent_occurrence(text: list[int]) -> None:
    automaton = Automaton()
    for count, token in enumerate(text, 1):
        match = automaton.append(token)
        length, follow = longest_match(text[:count])
        assert match.length == length
        assert length == 0 or match.follow == follow


@given(texts, texts)
def test_reach_is_the_longest_beginning_that_stands_somewhere_in_the_text(text: list[int], wanted: list[int]) -> None:
    automaton = Automaton()
    for token in text:
        automaton.append(token)
    spans = [wanted[:n] for n in range(len(wanted) + 1)]
    found = max(len(span) for span in spans if any(text[i : i + len(span)] == span for i in range(len(text) + 1)))
    assert automaton.reach(wanted) == found


@given(texts)
def test_the_index_stays_linear_in_the_text(text: list[int]) -> None:
    automaton = Automaton()
    for token in text:
        automaton.append(token)
    assert automaton.states <= 2 * len(text) + 1


def test_one_token_repeated_costs_bounded_work_and_still_matches_in_full() -> None:
    automaton = Automaton()
    for _ in range(4 * PATH_LIMIT):
        match = automaton.append(7)
    assert (match.length, match.follow) == (4 * PATH_LIMIT - 1, 4 * PATH_LIMIT - 1)
