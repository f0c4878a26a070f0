"""Following a copy, and the way back into it after an edit."""

from collections.abc import Sequence

import pytest

from modeld.slot.draft.edits import LONGEST_EDIT, MOST_HABITS, RESUMED, STEADY, Edit, Edits, Habits
from modeld.slot.draft.lengths import Acceptance
from modeld.slot.draft.source import Kind, Place, Source

FILE = list(range(100, 160))


def trust(place: Place) -> float:
    return Acceptance().rate(place.kind, place.length)


def after(prompt: Sequence[int], said: Sequence[int]) -> Source:
    source = Source()
    source.read(prompt)
    source.begin()
    for token in said:
        source.say(token, trust)
    return source


def test_a_copy_goes_on_with_what_follows_it() -> None:
    assert after([1, *FILE, 2], FILE[:10]).draft(5) == FILE[10:15]


def test_the_most_recent_of_two_equal_matches_is_followed() -> None:
    assert after([5, 6, 1, 9, 5, 6, 2, 9], [5, 6]).draft(1) == [2]


def test_one_token_is_enough_to_return_after_an_insertion() -> None:
    source = after([*FILE, 1], [*FILE[:20], 7, 8, FILE[20]])
    assert source.draft(3) == FILE[21:24]
    assert source.place is not None
    assert source.place.kind is Kind.BESIDE


def test_one_token_is_enough_to_return_after_a_replacement() -> None:
    assert after([*FILE, 1], [*FILE[:20], 7, 8, FILE[22]]).draft(3) == FILE[23:26]


def test_a_removal_is_noticed_by_its_first_token() -> None:
    assert after([*FILE, 1], [*FILE[:20], FILE[24]]).draft(3) == FILE[25:28]


def test_it_returns_near_home_and_not_to_a_more_recent_occurrence_elsewhere() -> None:
    prompt = [*FILE, 1, FILE[20], 3, 1]
    assert after(prompt, [*FILE[:20], 7, FILE[20]]).draft(2) == FILE[21:23]


def test_an_edit_is_made_again_where_the_same_tokens_come_again() -> None:
    name, renamed = [50, 51], [60]
    filler = [list(range(200 + 10 * n, 210 + 10 * n)) for n in range(3)]
    before = [*filler[0], 9, *name, *filler[1], 9, *name, *filler[2]]
    source = after(before, [*filler[0], 9, *renamed, *filler[1]])
    assert source.draft(5) == [9, *renamed, *filler[2][:3]]


def test_an_edit_that_was_not_made_again_is_forgotten() -> None:
    filler = [list(range(200 + 10 * n, 210 + 10 * n)) for n in range(4)]
    before = [*filler[0], 9, 50, *filler[1], 9, 50, *filler[2], 9, 50, *filler[3]]
    source = after(before, [*filler[0], 9, 60, *filler[1], 9, 50, *filler[2]])
    assert source.draft(2) == [9, 50]


def test_an_edit_is_made_only_where_all_that_it_replaces_comes() -> None:
    filler = [list(range(200 + 10 * n, 210 + 10 * n)) for n in range(3)]
    source = after([*filler[0], 9, 50, 51, *filler[1], 9, 50, 52, *filler[2]], [*filler[0], 9, 60, *filler[1]])
    assert source.draft(4) == [9, 50, 52, filler[2][0]]


@pytest.mark.parametrize(("longer", "made"), [(0, True), (1, False)])
def test_an_edit_that_is_long_is_no_habit(longer: int, made: bool) -> None:
    old, new = (5,) * LONGEST_EDIT, (6,) * (LONGEST_EDIT + longer)
    edits = Edits()
    edits.learn(1, 5, Edit(old, new))
    edits.learn(2, 5, Edit(old, old))
    assert edits.at(1, list(old), 0) == (Edit(old, new) if made else None)
    assert edits.at(2, list(old), 0) is None


def test_a_new_answer_repeats_no_edit_of_the_last_one() -> None:
    filler = [list(range(200 + 10 * n, 210 + 10 * n)) for n in range(2)]
    source = after([*filler[0], 9, 50, *filler[1]], [*filler[0], 9, 60, *filler[1]])
    source.read([-1])
    source.begin()
    for token in [*filler[0], 9]:
        source.say(token, lambda place: place.follow < 30)
    assert source.draft(1) != [60, 60]
    assert not source._edits._rules


NAME, RENAMED = [50, 51], [60]
LINES = [list(range(200 + 20 * n, 215 + 20 * n)) for n in range(6)]


def with_names(count: int, name: Sequence[int]) -> list[int]:
    """So many lines, each but the first with the name before it."""
    return [token for number, line in enumerate(LINES[:count]) for token in ([9, *name] if number else []) + line]


def test_an_edit_that_the_prompt_shows_twice_is_made_by_the_first_draft() -> None:
    prompt = [*with_names(6, NAME), 1, *with_names(3, RENAMED)]
    source = after(prompt, [9])
    assert source.draft(4) == [*RENAMED, *LINES[3][:3]]


def test_an_edit_that_the_prompt_shows_once_is_not() -> None:
    prompt = [*with_names(6, NAME), 1, *with_names(2, RENAMED)]
    assert after(prompt, [9]).draft(2) == NAME


def test_what_the_prompt_shows_holds_until_it_fails() -> None:
    prompt = [*with_names(6, NAME), 1, *with_names(3, RENAMED)]
    source = after(prompt, [9, *NAME, *LINES[3], 9])
    assert source.draft(2) == NAME
    again = after(prompt, [9])
    assert again.draft(1) == RENAMED


def test_what_the_prompt_shows_holds_only_where_it_ends_in_the_copy() -> None:
    prompt = [*with_names(3, RENAMED), 1, *with_names(6, NAME), 2, *with_names(3, RENAMED), *range(1000, 1020)]
    assert after(prompt, [*LINES[3], 9]).draft(2) == NAME


@pytest.mark.parametrize(
    ("behind", "holds"), [(1, True), (LONGEST_EDIT + RESUMED - 1, True), (LONGEST_EDIT + RESUMED, False)]
)
def test_what_the_prompt_shows_holds_a_little_behind_the_copy_too(behind: int, holds: bool) -> None:
    """A chat template puts some tokens between the copy and the answer."""
    prompt = [*with_names(6, NAME), 1, *with_names(3, RENAMED), *range(1000, 1000 + behind)]
    assert after(prompt, [*LINES[3], 9]).draft(1) == (RENAMED if holds else NAME[:1])


def test_two_edits_of_the_same_tokens_are_no_habit() -> None:
    prompt = [*with_names(6, NAME), 1, *LINES[0], 9, 60, *LINES[1], 9, 61, *LINES[2]]
    assert after(prompt, [9]).draft(2) == NAME


def test_what_agrees_for_a_few_tokens_shows_no_edits() -> None:
    source = Source(habits=(habits := Habits()))
    source.read([1, 2, 3, *NAME, 4, 5, 6, 1, 2, 3, *RENAMED, 4, 5, 6])
    assert not habits._shown


@pytest.mark.parametrize(
    ("old", "new", "seen"),
    [(LONGEST_EDIT, 1, True), (LONGEST_EDIT + 1, 1, False), (1, LONGEST_EDIT, True), (1, LONGEST_EDIT + 1, False)],
)
def test_an_edit_is_seen_up_to_its_longest(old: int, new: int, seen: bool) -> None:
    source = Source(habits=(habits := Habits()))
    source.read([*LINES[0], *range(1000, 1000 + old), *LINES[1], 1])
    source.read([*LINES[0], *range(2000, 2000 + new), *LINES[1]])
    assert [(len(edit.old), len(edit.new)) for edit in habits._shown.values()] == [(old, new)] * seen


@pytest.mark.parametrize("behind", [[], [2]], ids=["in the copy", "behind it"])
def test_what_comes_behind_an_answer_shows_no_edit_of_what_stood_before_it(behind: list[int]) -> None:
    prompt = [*with_names(6, NAME), 1, *with_names(3, RENAMED), *behind]
    source = after(prompt, [5])
    shown = dict(source._habits._shown)
    source.read([7, NAME[1], LINES[3][0]])
    assert source._habits._shown == shown


def test_one_token_that_agrees_by_chance_ends_no_edit() -> None:
    source = Source(habits=(habits := Habits()))
    source.read([*LINES[0], 9, *NAME, *LINES[1], 1, *LINES[0], 9, 61, NAME[1], 8, *LINES[1]])
    assert list(habits._shown.values()) == [Edit(tuple(NAME), (61, NAME[1], 8))]


def test_what_repeats_itself_shows_no_edit_where_it_ends() -> None:
    source = Source(habits=(habits := Habits()))
    source.read([*3 * FILE[:STEADY], 5, 6])
    assert not habits._shown


def test_other_passages_show_no_edits() -> None:
    prompt = [*with_names(2, NAME), -1, *with_names(2, RENAMED), -2, *with_names(2, RENAMED)[:-8], -3, *LINES[0]]
    assert after(prompt, [9]).draft(1) == [RENAMED[0]]  # the latest occurrence, and no edit of it
    source = Source(habits=(habits := Habits()))
    for number in range(3):
        source.read([*with_names(4, NAME), -1, *with_names(3, [-1]), 20 + number])
    assert not habits._twice


def test_habits_are_bounded() -> None:
    source = Source(habits=(habits := Habits()))
    for number in range(MOST_HABITS + 50):
        before, first = 10_000 + number, 20_000 + 40 * number
        lines = [list(range(first + 12 * k, first + 12 * k + 10)) for k in range(3)]
        for name in (NAME, RENAMED):
            source.read([token for line in lines for token in [*line, before, *name]])
    assert len(habits._twice) == len(habits._shown) == MOST_HABITS


def test_the_habits_shown_longest_ago_go_first() -> None:
    habits, edit = Habits(), Edit((1,), (2,))
    for number in (*range(MOST_HABITS), 0, MOST_HABITS):
        for _ in range(2):
            habits._see((number, 1), edit)
    for known in (habits._twice, habits._shown):
        assert list(known) == [(number, 1) for number in (*range(2, MOST_HABITS), 0, MOST_HABITS)]


def test_a_draft_ends_where_a_passage_ends() -> None:
    assert after([*FILE[:12], -1, 3, 4], FILE[:10]).draft(9) == FILE[10:12]


def test_an_insertion_before_the_end_of_a_passage_is_not_drafted_into_the_next_one() -> None:
    """The mark between them is no token, and a library that is given it fails."""
    source = after([*FILE[:12], -1, *range(300, 420)], [*FILE[:12], 7, *FILE[10:12]])
    assert source.draft(3) == []


def test_without_a_match_there_is_no_draft() -> None:
    assert after(FILE, [1]).draft(5) == []


def test_what_repeats_itself_is_drafted_beyond_the_end_of_the_text() -> None:
    assert after([1], [5, 5]).draft(4) == [5, 5, 5, 5]
    assert after([1], [5, 6, 7, 5, 6]).draft(7) == [7, 5, 6, 7, 5, 6, 7]
