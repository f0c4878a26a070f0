"""Chunks: their size follows the measured rate, and a guess's stays within its budget."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from modeld.engine.messages import Advanced
from modeld.slot.prefill import Pace
from modeld.slot.settings import SlotSettings
from modelwire.messages import DecodeConfig

SETTINGS = SlotSettings(guess_chunk_ms=150, chunk_floor=32)


def test_a_guess_starts_small_and_grows_with_the_measured_rate() -> None:
    pace = Pace(SETTINGS, 512)
    assert (pace.chunk(True), pace.chunk(False), pace.cost_ms(512)) == (32, 512, 0)
    pace.learn(100, 0.1)
    assert pace.chunk(True) == 150
    assert pace.cost_ms(150) == pytest.approx(150)


def test_the_rate_follows_a_change_within_a_few_chunks() -> None:
    pace = Pace(SETTINGS, 512)
    pace.learn(512, 0.5)
    for _ in range(10):
        pace.learn(128, 0.5)
    assert pace.rate == pytest.approx(256, rel=0.1)


def test_a_slow_model_still_gets_the_floor_and_a_fast_one_no_more_than_fits() -> None:
    pace = Pace(SETTINGS, 512)
    pace.learn(64, 64.0)
    assert pace.chunk(True) == 32
    for _ in range(30):
        pace.learn(512, 0.001)
    assert pace.chunk(True) == 512
    assert Pace(SETTINGS, 16).chunk(True) == 16


@pytest.mark.parametrize(("tokens", "seconds"), [(1, 1.0), (31, 1.0), (512, 0.0), (512, -1.0)])
def test_what_says_nothing_about_prefill_is_not_learned(tokens: int, seconds: float) -> None:
    pace = Pace(SETTINGS, 512)
    pace.learn(tokens, seconds)
    assert pace.rate == 0


def test_s2_a_guesss_chunks_cost_no_more_than_the_budget(bench: Callable[..., Any]) -> None:
    here = bench(token_ms=1, chunk=512)
    here.run("a" * 600, decode=DecodeConfig(max_tokens=5))
    guess = here.run("b" * 600, guess=True)
    lengths = [0, *(m.length for m in guess.messages if isinstance(m, Advanced))]
    assert max(b - a for a, b in pairwise(lengths)) in (149, 150)
