"""Which guesses are interrupted, and how the time of one is foretold."""

import math

import pytest

from bench.interruptions import AFFORDABLE, LONG, SHORTEST, Pace, Plan, Trial, Trials

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


async def test_a_guess_that_was_over_is_met_once_more_and_sooner() -> None:
    met: list[Trial] = []

    class Told(Trials):
        async def _measure_pace(self) -> None:
            pass

        async def _chunk_ms(self) -> float:
            return 1.0

        async def _interrupt(self, trial: Trial) -> bool:
            met.append(trial)
            return len(met) != 1

    told = Told(None, None, Plan(requests=2, answers=2, longest=800, seed=1), cap_s=1.0)  # type: ignore[arg-type]
    await told.run(until=math.inf)
    first, again, other = met
    assert (again.tokens, again.phase, again.answer) == (first.tokens, first.phase / 2, False)
    assert other not in (first, again)
