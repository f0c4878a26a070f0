"""The first measurement of batches, on a fake whose delays move the clock."""

import pytest

from modeld.backends.fake import FakeBackend, FakeScript
from modeld.backends.flag import LocalFlag
from modeld.slot.draft import time_widths
from modeld.slot.draft.timing import BUDGET_S, WIDTHS


class Timed:
    def __init__(self, **script: object) -> None:
        self.time = 0.0
        self.flag = LocalFlag()
        self.backend = FakeBackend(FakeScript(**script), self.flag, sleep=self._sleep)  # type: ignore[arg-type]

    def _sleep(self, seconds: float) -> None:
        self.time += seconds

    def widths(self) -> dict[int, float]:
        return time_widths(self.backend, lambda: self.time)


def test_the_time_of_every_width_is_found_and_nothing_stays_resident() -> None:
    here = Timed(step_ms=4.0, token_ms=1.0)
    assert here.widths() == pytest.approx({1: 0.005, 2: 0.006, 4: 0.008, 8: 0.012, 16: 0.020, 32: 0.036})
    assert here.backend.free_cells == 4096


def test_a_tile_is_timed_where_there_are_some() -> None:
    here = Timed(step_ms=4.0, token_ms=1.0)
    assert time_widths(here.backend, lambda: here.time, tile=True)[64] == pytest.approx(0.068)


def test_a_disturbed_batch_does_not_count_where_another_was_not() -> None:
    class Disturbed(Timed):
        calls = 0

        def _sleep(self, seconds: float) -> None:
            self.calls += 1
            super()._sleep(seconds * (9 if self.calls == WIDTHS[1] else 1))

    assert Disturbed(step_ms=4.0).widths()[1] == pytest.approx(0.004)


def test_a_slow_model_is_timed_where_it_matters_most() -> None:
    here = Timed(step_ms=300.0, token_ms=10.0)
    assert list(here.widths()) == [1]
    assert here.time <= BUDGET_S + 0.32
    here = Timed(step_ms=100.0, token_ms=10.0)
    assert list(here.widths()) == [1, 2, 4]
    assert here.time <= BUDGET_S + 0.14


@pytest.mark.parametrize(("chunk", "widest"), [(1, 1), (5, 4), (16, 16)])
def test_no_batch_is_wider_than_the_backend_takes(chunk: int, widest: int) -> None:
    assert max(Timed(step_ms=1.0, chunk=chunk).widths()) == widest
    assert max(Timed(step_ms=1.0, context=chunk).widths()) == widest


def test_where_it_cannot_be_told_there_is_nothing() -> None:
    assert Timed().widths() == {}  # no time passes
    here = Timed(step_ms=1.0, faults={2: "fail"})
    assert here.widths() == {}
    here = Timed(step_ms=1.0)
    here.flag.set()
    assert here.widths() == {}
