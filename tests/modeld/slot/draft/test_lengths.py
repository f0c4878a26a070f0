"""The length that saves most, from costs and acceptance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modeld.slot.draft.lengths import LIMIT, REFRESH, STEADY, TILE, UNTILED, Acceptance, Costs, Lengths, bucket
from modeld.slot.draft.source import Kind

FLAT = {1: 0.013, 2: 0.014, 4: 0.016, 8: 0.018, 16: 0.024, 32: 0.040}
STEEP = {rows: 0.010 * rows for rows in (1, 2, 4, 6, 8, 16, 32)}
CLIFF = {1: 0.012, 2: 0.019, 4: 0.027, 8: 0.038, 9: 0.080, 16: 0.100, 32: 0.190}


def lengths(curve: dict[int, float]) -> Lengths:
    return Lengths(Costs.measured(curve))


def test_a_sure_copy_is_drafted_as_far_as_batches_get_cheaper() -> None:
    assert lengths(FLAT).choose(Kind.FAR, 32, LIMIT) == UNTILED


def test_nothing_is_drafted_where_rows_cost_as_much_as_steps() -> None:
    """D3: drafting never makes generation slower."""
    assert all(lengths(STEEP).choose(kind, length, LIMIT) == 0 for kind in Kind for length in range(40))


def test_a_doubtful_match_is_drafted_shorter_than_a_sure_one() -> None:
    assert 0 <= lengths(FLAT).choose(Kind.FAR, 1, LIMIT) < lengths(FLAT).choose(Kind.BESIDE, 8, LIMIT)


def test_a_draft_stops_before_a_step_in_the_cost_of_batches() -> None:
    assert lengths(CLIFF).choose(Kind.FAR, 32, LIMIT) == 7


@given(st.sampled_from(Kind), st.integers(0, 40), st.integers(0, LIMIT), st.sampled_from([FLAT, STEEP, CLIFF]))
def test_no_draft_is_longer_than_its_limit(kind: Kind, length: int, limit: int, curve: dict[int, float]) -> None:
    assert 0 <= lengths(curve).choose(kind, length, limit) <= limit


def test_matches_that_keep_failing_are_no_longer_drafted() -> None:
    chooser = lengths(FLAT)
    assert chooser.choose(Kind.FAR, 4, LIMIT) > 0
    for _ in range(10 * REFRESH):
        chooser.acceptance.observe(Kind.FAR, 4, right=False)
    assert chooser.choose(Kind.FAR, 4, LIMIT) == 0


def test_acceptance_is_learned_apart_for_each_kind_and_length() -> None:
    acceptance = Acceptance()
    before = acceptance.rate(Kind.NEAR, 2)
    for _ in range(50):
        acceptance.observe(Kind.NEAR, 1, right=False)
        acceptance.observe(Kind.FAR, 2, right=False)
    assert acceptance.rate(Kind.NEAR, 2) == before
    assert acceptance.rate(Kind.NEAR, 1) < 0.2


def test_old_observations_fade() -> None:
    acceptance = Acceptance()
    for right in (False, True):
        for _ in range(5_000):
            acceptance.observe(Kind.FAR, 3, right)
    assert acceptance.rate(Kind.FAR, 3) > 0.95


@given(st.integers(0, 100), st.integers(0, 100))
def test_a_longer_match_is_never_in_a_lower_group(one: int, other: int) -> None:
    assert (bucket(one) <= bucket(other)) == (one <= other) or bucket(one) == bucket(other)


def test_costs_between_two_widths_lie_on_a_line_and_go_on_beyond_the_last() -> None:
    table = Costs.measured({1: 1.0, 5: 3.0, 9: 4.0}).table
    assert table[3] == pytest.approx(2.0)
    assert table[13] == pytest.approx(5.0)


def test_real_steps_move_the_costs_towards_them() -> None:
    costs = Costs.measured(FLAT)
    for _ in range(10 * REFRESH):
        costs.observe(8, 0.036)
    assert costs.table[8] == pytest.approx(0.036, rel=0.05)
    assert costs.table[32] < 2.5 * FLAT[32]


def test_one_disturbed_step_hardly_moves_the_costs() -> None:
    costs = Costs.measured(FLAT)
    costs.observe(1, 60.0)
    for _ in range(REFRESH - 1):
        costs.observe(1, FLAT[1])
    assert costs.table[1] < 1.1 * FLAT[1]
    costs.observe(1, 0.0)
    assert costs.seconds[0] > 0.97 * FLAT[1]


def test_d3_the_table_is_made_anew_after_some_steps_and_not_at_every_one() -> None:
    """To make it, and to choose all lengths again, would cost at every step more than drafts give."""
    costs = Costs.measured(FLAT)
    table = costs.table
    for _ in range(REFRESH - 1):
        costs.observe(1, FLAT[1])
    assert costs.table is table
    costs.observe(1, FLAT[1])
    assert costs.table is not table


def test_what_the_first_steps_of_a_deep_tape_tell_is_known_at_once() -> None:
    costs = Costs.measured(STEEP)
    costs.deepen(1_000)
    for rows in (1, 6):
        for _ in range(2):
            costs.observe(rows, _deep(rows, 1_000), depth=1_000)
        assert costs.table[rows] == pytest.approx(_deep(rows, 1_000), rel=0.1)


def test_d3_depth_makes_no_batch_cheaper_whatever_its_steps_seemed_to_take() -> None:
    costs = Costs.measured(STEEP)
    for rows in 8 * (1, 6):
        costs.observe(rows, 0.6 * STEEP[rows], depth=1_000)
    flat = list(costs.table)
    costs.deepen(8_000)
    assert all(deep >= shallow > 0 for deep, shallow in zip(costs.table, flat, strict=True))


def test_what_depth_costs_is_known_after_a_few_steps_at_every_width_and_depth() -> None:
    """A batch pays more for its first row than for the others."""
    costs = Costs.measured(STEEP)
    for rows in 8 * (1, 1, 6):
        costs.observe(rows, _deep(rows, 1_000), depth=1_000)
    for depth, rows in ((1_000, 1), (1_000, 8), (4_000, 1), (4_000, 2), (4_000, 32), (0, 1), (0, 8)):
        costs.deepen(depth)
        assert costs.table[rows] == pytest.approx(_deep(rows, depth), rel=0.1)


def _deep(rows: int, depth: int) -> float:
    return STEEP[rows] + depth * (11e-6 + (rows - 1) * 3e-6)


def test_single_steps_do_not_tell_what_further_rows_pay_for_depth() -> None:
    costs = Costs.measured(STEEP)
    for rows in (*4 * (6,), *200 * (1,)):
        costs.observe(rows, _deep(rows, 1_000), depth=1_000)
    costs.deepen(1_000)
    assert costs.table[6] == pytest.approx(_deep(6, 1_000), rel=0.1)


def test_at_another_depth_the_length_is_chosen_anew() -> None:
    chooser = lengths(FLAT)
    assert chooser.choose(Kind.BESIDE, 32, LIMIT) == UNTILED
    chooser.costs.single, chooser.costs.further = 13e-6, 13e-6
    chooser.costs.deepen(8_000)
    assert chooser.choose(Kind.FAR, 4, LIMIT) == 0


TILED = {**FLAT, TILE: 0.065}


def test_a_tile_is_drafted_once_a_copy_of_this_answer_has_lasted_for_long() -> None:
    chooser = lengths(TILED)
    assert chooser.choose(Kind.FAR, 32, LIMIT) == UNTILED
    _copies(chooser, 400)
    assert chooser.choose(Kind.FAR, 32, LIMIT) == LIMIT
    assert chooser.choose(Kind.FAR, 32, LIMIT - 1) <= UNTILED


def test_where_no_tile_has_room_a_sure_copy_is_drafted_as_without_tiles() -> None:
    """An answer's last tokens, or a text's, do not wait for a tile that cannot come."""
    curve = {1: 0.0135, 2: 0.024, 4: 0.034, 8: 0.06, 16: 0.104, 32: 0.204}
    tiled, plain = lengths({**curve, TILE - 1: 0.415, TILE: 0.253}), lengths(curve)
    for chooser in (tiled, plain):
        _copies(chooser, 400)
    assert tiled.choose(Kind.FAR, 32, LIMIT) == LIMIT
    for limit in (5, 20, LIMIT - 1):
        assert tiled.choose(Kind.FAR, 32, limit) == plain.choose(Kind.FAR, 32, limit) > 0


def test_where_copies_keep_ending_no_tile_is_drafted_and_another_answer_begins_anew() -> None:
    chooser = lengths(TILED)
    for _ in range(10):
        _copies(chooser, 24)
        chooser.acceptance.observe(Kind.FAR, 24, right=False)
    assert chooser.choose(Kind.FAR, 32, LIMIT) <= UNTILED
    chooser.acceptance.begin()
    _copies(chooser, 400)
    assert chooser.choose(Kind.FAR, 32, LIMIT) == LIMIT


def _copies(chooser: Lengths, tokens: int) -> None:
    for length in range(STEADY, STEADY + tokens):
        chooser.acceptance.observe(Kind.FAR, length, right=True)


def test_what_a_tile_pays_for_depth_is_learned_apart_from_what_other_batches_pay() -> None:
    """The rows just below one are no bargain, so nothing is drafted that long."""
    chooser = lengths({**STEEP, TILE: 0.640})
    _copies(chooser, 2_000)
    for _ in range(16):
        chooser.costs.observe(1, STEEP[1] + 1_000 * 11e-6, depth=1_000)
    before = chooser.costs.single, chooser.costs.further
    chooser.costs.deepen(1_000)
    assert chooser.choose(Kind.BESIDE, 32, LIMIT) == LIMIT  # tried, since nothing has told that it does not pay
    chooser.costs.observe(TILE, 0.640 + TILE * 1_000 * 11e-6, depth=1_000)
    assert chooser.choose(Kind.BESIDE, 32, LIMIT) <= UNTILED
    for _ in range(REFRESH):
        chooser.costs.observe(TILE, 0.640 + TILE * 1_000 * 2e-6, depth=1_000)
    assert chooser.costs.table[TILE] == pytest.approx(0.640 + TILE * 1_000 * 2e-6, rel=0.05)
    assert chooser.costs.table[TILE - 1] > chooser.costs.table[TILE]
    assert (chooser.costs.single, chooser.costs.further) == before
    assert chooser.choose(Kind.BESIDE, 32, LIMIT) == LIMIT


def test_one_disturbed_tile_hardly_moves_what_tiles_pay_for_depth() -> None:
    costs = Costs.measured(TILED)
    for seconds in (0.265, 60.0):
        costs.observe(TILE, seconds, depth=1_000)
    costs.deepen(1_000)
    assert costs.table[TILE] < 1.3 * 0.265


def test_another_answer_is_chosen_for_at_once() -> None:
    chooser = lengths(TILED)
    _copies(chooser, 400)
    assert chooser.choose(Kind.FAR, 32, LIMIT) == LIMIT
    chooser.acceptance.begin()
    assert chooser.choose(Kind.FAR, 32, LIMIT) == UNTILED


def test_costs_without_a_single_row_are_refused() -> None:
    with pytest.raises(ValueError, match="time a single row too"):
        Costs.measured({2: 0.01})
