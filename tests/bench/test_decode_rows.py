"""The arithmetic of the decode bench."""

import pytest

from bench.corpus.tasks import Task
from bench.decode_pairs import Decoded, Pair, Played
from bench.decode_rows import cap, copied, differing, distinct_lines, reaches, rows, tokens_per_pass
from bench.lookup import Generated
from modeld.slot.draft import Costs

FLAT = Costs.measured({1: 1.0, 32: 1.0})
STEEP = Costs.measured({1: 1.0, 2: 2.0, 32: 32.0})
PROMPT = tuple(range(100, 140))


def decoded(ids: list[int], seconds: float, *, accepted: int = 0, ended: bool = False, text: str = "") -> Decoded:
    return Decoded(Generated(tuple(ids), seconds), text, 2 * accepted, accepted, ended)


def played(ids: list[int], off: float, on: float, peer: float, group: str = "copy", other: int | None = None) -> Played:
    drafted = decoded(ids if other is None else [*ids[:other], -1, *ids[other + 1 :]], on, accepted=len(ids) // 2)
    pair = Pair(decoded(ids, off), drafted)
    answer = Generated(tuple(ids), peer)
    return Played(Task(group, "name", ""), PROMPT, (pair,), pair, {"a": (answer,), "b": (answer,)}, {"a": answer})


def test_a_perfect_drafter_is_as_fast_as_the_costs_allow() -> None:
    one = played(list(range(63)), 1.0, 1.0, 1.0)
    assert cap(one, FLAT) == pytest.approx(31.0), "62 tokens after the first, in two batches of 32 rows"
    assert cap(one, STEEP) == pytest.approx(1.0), "where rows cost what they cost alone, nothing can be gained"


def test_copying_can_draft_only_what_stands_in_the_tape() -> None:
    new, old = list(range(32)), [1, *PROMPT[:31]]
    assert cap(played(new, 1.0, 1.0, 1.0), FLAT, copying=True) == pytest.approx(1.0)
    assert cap(played(old, 1.0, 1.0, 1.0), FLAT, copying=True) == pytest.approx(31.0)


def test_what_is_copied_may_stand_in_the_answer_itself() -> None:
    assert reaches([7, 8], [7, 8, 9, 7, 8, 9], 31) == [2, 1, 0, 3, 2, 1]


def test_a_row_tells_speedups_against_no_drafts_on_the_same_prompt() -> None:
    ids = list(range(21))
    row = rows([played(ids, 2.0, 1.0, 1.25), played(ids, 4.0, 2.0, 2.5)], FLAT)["copy"]
    assert row["speedup"] == pytest.approx(2.0)
    assert row["peer_speedup"] == pytest.approx(1.6)
    assert row["identical"] == 1.0
    assert row["differing_tokens"] == 0.0


def test_answers_that_differ_once_are_not_identical_and_tell_how_often_tokens_differ() -> None:
    ids = list(range(21))
    row = rows([played(ids, 1.0, 1.0, 1.0), played(ids, 1.0, 1.0, 1.0, other=9)], FLAT)["copy"]
    assert row["identical"] == 0.5
    pairs = [Pair(decoded(ids, 1.0), decoded([*ids[:9], -1], 1.0)), Pair(decoded(ids, 1.0), decoded(ids, 1.0))]
    assert differing(pairs) == pytest.approx(1 / (9 + 1 + 21))


def test_the_same_tokens_with_other_text_are_not_identical() -> None:
    assert not Pair(decoded([1], 1.0, text="a"), decoded([1], 1.0, text="b")).same


def test_passes_follow_from_what_was_accepted_and_the_end_token_takes_one() -> None:
    assert tokens_per_pass([decoded(list(range(11)), 1.0, accepted=5)]) == pytest.approx(2.0)
    assert decoded(list(range(11)), 1.0, accepted=5, ended=True).passes == 6


def test_groups_keep_their_order() -> None:
    found = rows([played([1, 2, 3], 1.0, 1.0, 1.0, group=group) for group in ("copy-b", "json", "copy-b")], FLAT)
    assert list(found) == ["copy-b", "json"]
    assert found["copy-b"]["prompts"] == 2


def test_loops_and_new_text_can_be_told_from_copies() -> None:
    assert distinct_lines("a\nb\n\n a\nc") == 0.75
    assert copied(PROMPT, PROMPT[3:20]) == 1.0
    assert copied(PROMPT, range(20)) == 0.0
