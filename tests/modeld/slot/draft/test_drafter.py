"""The drafter in a decode loop whose model is a recorded target."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modeld.backends.base import Ids
from modeld.engine.messages import DraftFigures
from modeld.slot.draft import Costs, Drafter, Lengths
from modeld.slot.draft import drafter as module
from modeld.slot.draft.ledger import FIRST_REST, LONGEST_REST
from modeld.slot.draft.lengths import BUCKETS

FLAT = {1: 0.013, 2: 0.014, 4: 0.016, 8: 0.018, 16: 0.024, 32: 0.040}
CPU = {1: 0.012, 2: 0.019, 4: 0.027, 8: 0.038, 16: 0.083, 32: 0.132}


def ids(tokens: Sequence[int]) -> Ids:
    return np.array(tokens, np.int32)


def new(curve: dict[int, float] = FLAT) -> Drafter:
    return Drafter(Lengths(Costs.measured(curve)))


def generate(drafter: Drafter, prompt: Sequence[int], target: Sequence[int], limit: int = 31) -> float:
    """Decode `target` after `prompt`; the modelled seconds that it took. The first token comes with the prefill."""
    costs, tape, said, seconds = list(drafter.lengths.costs.table), ids([*prompt, *target]), 1, 0.0
    while said < len(target):
        draft = drafter.propose(tape[: len(prompt) + said], limit)
        assert len(draft) <= limit
        drafter.check()
        rest = target[said : said + len(draft)]
        agreed = next((n for n, pair in enumerate(zip(draft, rest, strict=False)) if pair[0] != pair[1]), len(rest))
        agreed = min(agreed, len(target) - said - 1)
        drafter.observe(agreed, costs[1 + len(draft)])
        seconds += costs[1 + len(draft)]
        said += 1 + agreed
    return seconds


def noise(seed: int, count: int, vocabulary: int = 40_000) -> list[int]:
    chance = random.Random(seed)
    return [chance.randrange(vocabulary) for _ in range(count)]


def test_a_rewritten_file_takes_a_small_part_of_the_passes() -> None:
    file = noise(1, 600)
    drafter = new()
    drafter.follow(ids(file))
    drafter.begin()
    generate(drafter, file, [*file[:300], 1, 2, 3, *file[310:]])
    assert drafter.figures.tokens_per_pass > 12
    assert drafter.figures.seconds_saved > 10 * drafter.figures.seconds_lost


@pytest.mark.parametrize("vocabulary", [40, 400, 40_000])
def test_text_that_repeats_nothing_is_hardly_slower(vocabulary: int) -> None:
    """D3: drafting never makes generation slower beyond the probe's budget."""
    drafter = new(CPU)
    drafter.begin()
    target = noise(2, 1_000, vocabulary)
    assert generate(drafter, noise(3, 1_000, vocabulary), target) <= 1.03 * CPU[1] * (len(target) - 1)


@pytest.mark.parametrize(("shortest", "drafts"), [(None, True), (1, True), (12, False), (0, False)])
def test_the_shortest_match_that_may_draft_is_the_requests(shortest: int | None, drafts: bool) -> None:
    file = noise(4, 50)
    drafter = new()
    drafter.follow(ids(file))
    drafter.begin(shortest)
    generate(drafter, file, file[:8])
    assert (drafter.figures.drafted > 0) == drafts


def test_the_tape_may_be_shown_in_chunks_or_at_once() -> None:
    file = noise(5, 200)
    chunks, whole = new(), new()
    for end in range(50, 201, 50):
        chunks.follow(ids(file[:end]))
    for drafter in (chunks, whole):
        drafter.begin()
    history = ids([*file, *file[:8]])
    assert chunks.propose(history, 9) == whole.propose(history, 9)


def lose(drafter: Drafter) -> None:
    """More than a probe may cost."""
    drafter.ledger.enter(accepted=0, seconds=1.0, single=0.1)
    assert not drafter.ledger.on


def test_while_the_ledger_is_off_nothing_is_drafted() -> None:
    """D3: drafting never makes generation slower beyond the probe's budget."""
    file = noise(12, 100)
    drafter = new()
    drafter.follow(ids(file))
    drafter.begin()
    lose(drafter)
    assert drafter.propose(ids([*file, *file[:8]]), 9) == []


def test_steps_without_drafts_bring_the_next_try_nearer_and_another_answer_waits_no_longer() -> None:
    file = noise(17, 200)
    drafter = new()
    drafter.follow(ids(file))
    for _ in range(4):
        drafter.ledger.rest(LONGEST_REST)
        lose(drafter)
    drafter.begin()
    for said in range(9, 9 + FIRST_REST):
        assert drafter.propose(ids([*file, *file[:said]]), 9) == []
        drafter.observe(0, FLAT[1])
    assert drafter.propose(ids([*file, *file[: 9 + FIRST_REST]]), 9)


def test_another_answer_is_not_taken_to_copy_as_the_last_one_did() -> None:
    drafter = new()
    fresh = drafter.lengths.acceptance.steady
    drafter.lengths.acceptance.observe(0, 32, right=False)
    drafter.begin()
    assert drafter.lengths.acceptance.steady == fresh


def test_d3_what_a_step_took_is_told_with_its_rows_and_the_depth_of_its_tape(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[float, ...]] = []
    monkeypatch.setattr(Costs, "observe", lambda _, *step: told.append(step))
    file = noise(18, 600)
    drafter = new()
    drafter.begin()
    tape = [*file, *file[:9]]
    while not (draft := drafter.propose(ids(tape), 9)):
        drafter.observe(0, 0.013)
        assert told.pop() == (1, 0.013, len(tape))  # also while not all of it has been read
    drafter.observe(4, 0.018)
    assert told == [(1 + len(draft), 0.018, len(tape))]


@pytest.mark.parametrize("dear", [False, True])
def test_d3_where_depth_makes_rows_as_dear_as_steps_nothing_is_drafted_behind_a_long_tape(dear: bool) -> None:
    file = noise(19, 2_000)
    drafter = new()
    drafter.follow(ids(file))
    drafter.begin()
    drafter.lengths.costs.single = drafter.lengths.costs.further = 50e-6 * dear
    assert bool(drafter.propose(ids([*file, *file[:9]]), 9)) is not dear


def test_d3_where_a_text_ends_too_soon_for_the_length_that_pays_the_one_below_is_taken() -> None:
    file = noise(20, 80)
    drafter = new({1: 0.012, 2: 0.014, 8: 0.020, 9: 0.045, 31: 0.050, 32: 0.051})
    drafter.follow(ids(file))
    drafter.follow(ids(noise(21, 50)))
    drafter.begin()
    for said, drafted in ((33, 31), (68, 7)):
        assert len(drafter.propose(ids([*noise(21, 50), *file[:said]]), 31)) == drafted


def test_every_generated_token_that_was_foretold_or_not_is_learned_from() -> None:
    """Also where nothing is drafted: what a place would have said costs nothing to know."""
    file = noise(14, 100)
    drafter = new()
    drafter.follow(ids(file))
    drafter.begin(0)
    generate(drafter, file, file)
    assert drafter.lengths.acceptance.observed == len(file) - 2


def test_a_prompt_that_was_not_shown_before_teaches_nothing_about_answers() -> None:
    file = noise(13, 100)
    drafter = new()
    drafter.begin()
    drafter.propose(ids([*file, *file]), 9)
    assert drafter.lengths.acceptance.observed == 0


def test_a_tape_that_was_shown_is_not_read_again() -> None:
    file = noise(6, 2_000)
    drafter = new()
    drafter.follow(ids(file))
    other = ids([*file[:1_000], *noise(7, 100)])
    drafter.follow(other)
    size = len(drafter._source.text)
    drafter.follow(ids(file))
    drafter.follow(other)
    assert len(drafter._source.text) - size <= 2 * (module.OVERLAP + 2)


def test_what_a_cut_tape_said_can_still_be_drafted() -> None:
    """An answer of before is a source for the next one: it is only a guess."""
    prompt, answer = noise(8, 100), noise(9, 60)
    drafter = new()
    drafter.follow(ids([*prompt, *answer]))
    drafter.begin()
    assert drafter.propose(ids([*prompt, *answer[:9]]), 20)[:4] == answer[9:13]


def test_no_draft_holds_the_mark_between_two_passages() -> None:
    prompt = noise(10, 40)
    drafter = new()
    for n in range(5):
        drafter.follow(ids([*prompt[: 20 + n], n, n + 1]))
        drafter.begin()
        drafted = drafter.propose(ids([*prompt[: 20 + n], n, n + 1, *prompt[:9]]), 31)
        assert all(token >= 0 for token in drafted)


def test_the_text_is_made_anew_before_it_grows_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CAPACITY", 1_000)
    drafter = new()
    for n in range(20):
        drafter.follow(ids(noise(n, 400)))
        drafter.check()
    assert len(drafter._source.text) <= 1_500


def test_figures_tell_what_became_of_the_drafts() -> None:
    file = noise(11, 120)
    drafter = new()
    drafter.follow(ids(file))
    drafter.begin()
    generate(drafter, file, file)
    figures = drafter.figures
    assert figures.tokens == len(file) - 1
    assert figures.drafted == sum(drafted for _, drafted, _ in figures.by_length)
    assert figures.accepted == figures.tokens - figures.passes
    assert figures.on


tapes = st.lists(st.tuples(st.integers(0, 40), st.lists(st.integers(0, 3), max_size=20)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(tapes)
def test_whatever_is_cut_and_forked_the_text_ends_with_the_tape(changes: list[tuple[int, list[int]]]) -> None:
    drafter = new()
    tape: list[int] = []
    for keep, more in changes:
        tape = [*tape[:keep], *more]
        drafter.begin()
        drafter.propose(ids(tape), 31)
        drafter.check()


def test_a_long_tape_that_was_not_shown_is_read_in_parts_beside_the_steps() -> None:
    """A warm tape of 8k tokens must not cost a decode step."""
    file = noise(15, 8_000)
    drafter = new()
    drafter.begin()
    tape, calls = [*file, *file[:9]], 0
    while not drafter.propose(ids(tape), 9):
        assert len(drafter) <= (calls + 1) * module.CAUGHT_UP
        calls += 1
    assert calls == len(tape) // module.CAUGHT_UP
    assert drafter.propose(ids(tape), 4) == file[9:13]


def test_figures_are_those_of_the_answer() -> None:
    file = noise(16, 120)
    drafter = new()
    drafter.follow(ids(file))
    drafter.begin()
    generate(drafter, file, file)
    assert drafter.figures.seconds_saved > 0
    drafter.begin()
    assert drafter.figures == DraftFigures(on=True, by_length=tuple((least, 0, 0) for least in BUCKETS))
