"""Which guesses are interrupted, and how the time of one is foretold."""

import pytest

from bench.interruptions import AFFORDABLE, LONG, SHORTEST, Pace, Plan

PLAN = Plan(requests=300, answers=60, longest=8000, seed=1)


def test_one_guess_in_ten_is_long_and_all_are_within_bounds() -> None:
    trials = PLAN.trials()
    assert len(trials) == 300
    assert sum(trial.tokens > LONG for trial in trials) == 30
    assert all(SHORTEST <= trial.tokens <= 8000 and 0 <= trial.phase < 1 for trial in trials)
    assert sum(trial.same for trial in trials) == 150


def test_answers_are_compared_after_both_kinds_of_request_and_never_after_a_long_matching_one() -> None:
    answers = [trial for trial in PLAN.trials() if trial.answer]
    assert [sum(trial.same is same for trial in answers) for same in (True, False)] == [30, 30]
    assert all(trial.tokens <= AFFORDABLE for trial in answers if trial.same)


def test_the_same_seed_plans_the_same() -> None:
    assert PLAN.trials() == PLAN.trials()


def test_the_time_of_a_guess_is_foretold_beyond_what_was_measured() -> None:
    pace = Pace()
    pace.learn([(tokens, 0.002 * tokens + 1e-7 * tokens**2) for tokens in range(50, 2000, 50)])
    assert pace.seconds(8000) == pytest.approx(16 + 6.4)


def test_two_points_are_enough_for_a_straight_line() -> None:
    pace = Pace()
    pace.learn([(100, 1.0), (200, 2.0)])
    assert pace.seconds(400) == pytest.approx(4.0)
