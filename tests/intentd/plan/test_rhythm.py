"""A pause is a pause for the person who types."""

import pytest

from intentd.plan.rhythm import LEAST_S, MOST_S, UNKNOWN_S, Rhythm


def typed(*times: float) -> Rhythm:
    rhythm = Rhythm()
    for time in times:
        rhythm.press(time)
    return rhythm


def test_it_takes_after_the_person() -> None:
    assert typed().rest_s == typed(0, 1).rest_s == UNKNOWN_S
    assert typed(*(number * 0.1 for number in range(9))).rest_s == pytest.approx(0.15)
    assert typed(*(number * 0.2 for number in range(9))).rest_s == pytest.approx(0.3)
    assert typed(*(number * 0.01 for number in range(9))).rest_s == LEAST_S
    assert typed(*(number * 0.9 for number in range(9))).rest_s == MOST_S


def test_a_break_is_no_part_of_it() -> None:
    times = [number * 0.1 for number in range(9)]
    assert typed(*times, 60.0, *(60 + time for time in times[1:])).rest_s == pytest.approx(0.15)
