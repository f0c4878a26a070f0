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
    real = here.run("a" * 600, decode=DecodeConfig(max_tokens=5))
    guess = here.run("b" * 600, guess=True)
    lengths = [0, *(m.length for m in guess.messages if isinstance(m, Advanced))]
    assert max(b - a for a, b in pairwise(lengths)) in (149, 150)
    assert real.ended.timings.chunk == pytest.approx(512)
    assert guess.ended.timings.chunk == pytest.approx(150, abs=1)


def test_s2_a_stopped_chunk_does_not_count_as_a_fast_one(bench: Callable[..., Any]) -> None:
    here = bench(token_ms=1, chunk=512, poll_tokens=16)
    before = here.run("a" * 600).ended.timings.chunk
    here.flag.after = 4
    stopped = here.run("b" * 600, session="two").ended
    assert (stopped.usage.chunks_stopped, stopped.timings.chunk) == (1, before)


def test_s5_where_positions_are_kept_in_blocks_a_guesss_chunks_end_with_blocks(bench: Callable[..., Any]) -> None:
    here = bench(fork="content", token_ms=1, chunk=512)
    here.run("a" * 101)
    guess = here.run("a" * 101 + "b" * 600, guess=True)
    lengths = [m.length for m in guess.messages if isinstance(m, Advanced)]
    assert len(lengths) > 3
    assert not any(length % here.backend.block for length in lengths[:-1])
