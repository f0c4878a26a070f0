"""What the live view of a daemon shows."""

import pytest
from attrs import evolve

from modeld.top import PLAIN_BARS, SAMPLES, View
from modelwire.messages import Status

BEFORE = Status(
    state="guessing",
    instance="one",
    model="twin",
    engine_pid=7,
    uptime_s=65.0,
    figures={
        **{"cells_used": 512.0, "cells_total": 1024.0, "tapes": 3.0, "tapes_guessed": 1.0},
        **{"tokens_prefilled": 100.0, "tokens_generated": 7.0, "queue": 2.0},
    },
)


def later(prefilled: float, instance: str = "one") -> Status:
    return evolve(BEFORE, instance=instance, figures={**BEFORE.figures, "tokens_prefilled": prefilled})


def line(view: View, label: str, width: int = 200) -> list[str]:
    return next(line.split() for line in view.frame(width).splitlines() if line.startswith(label))


def test_the_first_look_has_totals_and_no_rates() -> None:
    view = View()
    view.add(BEFORE, 10.0)
    assert view.rates() == {}
    assert line(view, "twin") == ["twin", "guessing", "up", "1", "min", "5", "s", "exactness:", "untested"]
    assert line(view, "prefilled") == ["prefilled", "-", "100"]
    assert line(view, "tapes") == ["tapes", "3,", "1", "of", "them", "guesses"]


def test_the_cells_in_use_are_a_bar() -> None:
    view = View(PLAIN_BARS)
    view.add(BEFORE, 10.0)
    assert line(view, "cells") == ["cells", "#" * 20 + "_" * 20, "512", "of", "1,024"]
    view.add(evolve(BEFORE, figures={}), 11.0)  # nothing is loaded yet
    assert line(view, "cells") == ["cells", "_" * 40, "0", "of", "0"]


def test_what_came_in_a_second_is_the_difference_by_the_time_between() -> None:
    view = View(PLAIN_BARS)
    view.add(BEFORE, 10.0)
    view.add(later(180.0), 10.5)
    view.add(later(180.0), 11.5)
    view.add(later(260.0), 12.5)
    assert view.rates()["tokens_prefilled"] == 80.0
    assert line(view, "prefilled") == ["prefilled", "80.0", "260", "#_="]


def test_the_past_is_bounded_and_ends_with_the_daemon() -> None:
    view = View()
    for number in range(3 * SAMPLES):
        view.add(later(100.0 * number), float(number))
    assert len(line(view, "prefilled")[3]) == SAMPLES
    view.add(later(5.0, instance="two"), 1000.0)
    assert view.rates() == {}
    view.add(later(15.0, instance="two"), 1001.0)
    assert view.rates()["tokens_prefilled"] == 10.0


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_newest_look_and_the_totals_are_always_on_the_screen(width: int) -> None:
    view = View(PLAIN_BARS)
    for number in range(80):
        view.add(later(0.0), float(number))
    view.add(later(500.0), 80.0)
    row = line(view, "prefilled", width)
    assert row[1:3] == ["500.0", "500"]
    assert row[3].endswith("_#")
    assert len(row[3]) == min(SAMPLES, width - 36)


def test_a_problem_is_wrapped_and_what_is_wider_than_the_terminal_cut() -> None:
    view, problem = View(), "5 engines died one after another, the last one of them was ended by SIGKILL: free memory"
    view.add(evolve(BEFORE, problem=f"{problem}\nnow"), 1.0)
    for width in (10, 40, 80):
        assert all(len(line) <= width for line in view.frame(width, "modeld does not answer").splitlines())
    shown = " ".join(view.frame(40, "modeld does not answer").split())
    assert f"problem: {problem} now" in shown
    assert shown.endswith("modeld does not answer")
