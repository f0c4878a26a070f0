"""One token from raw logits: filters, ties, streams, and parameters that make no sense."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modeld.backends.base import BackendError, Ids
from modeld.slot.sampling import Sampler, _top_p
from modelwire.decoding import check_config
from modelwire.errors import WireError
from modelwire.messages import DecodeConfig

NOTHING: Ids = np.empty(0, np.int32)


def _logits(*scores: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array(scores, np.float32)


def _drawn(scores: tuple[float, ...], **config: Any) -> Counter[int]:
    sampler = Sampler(DecodeConfig(**{"temperature": 1.0, **config}))
    return Counter(sampler.choose(_logits(*scores), NOTHING) for _ in range(2000))


def test_greedy_takes_the_highest_and_of_equal_ones_the_lowest_id() -> None:
    assert Sampler(DecodeConfig()).choose(_logits(1, 3, 3, 2), NOTHING) == 1


def test_drawing_follows_the_shares() -> None:
    shares = (0.5, 0.3, 0.2)
    drawn = _drawn(tuple(math.log(share) for share in shares))
    for token, share in enumerate(shares):
        assert drawn[token] / 2000 == pytest.approx(share, abs=0.04)


def test_temperature_comes_last_and_sharpens() -> None:
    scores = tuple(math.log(share) for share in (0.6, 0.4))
    cold = _drawn(scores, temperature=0.25)
    assert cold[0] / 2000 == pytest.approx(0.6**4 / (0.6**4 + 0.4**4), abs=0.04)
    assert set(_drawn(scores, temperature=100.0, top_p=0.5)) == {0}  # the filter saw the shares before it


@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-40, 1e-7])
def test_a_temperature_next_to_nothing_is_greedy(temperature: float) -> None:
    scores = _logits(1, 30, 30, 2)
    assert Sampler(DecodeConfig(temperature=temperature, top_p=0.9, seed=5)).choose(scores, NOTHING) == 1


@given(
    st.floats(0, 1e300),
    st.floats(0.1, 10),
    st.lists(st.floats(width=32, allow_nan=False, max_value=2.0**100), min_size=1, max_size=20),
)
def test_whatever_is_valid_draws_a_possible_token_without_a_warning(
    temperature: float, penalty: float, scores: list[float]
) -> None:
    logits = _logits(*scores, 0.0)
    config = DecodeConfig(temperature=temperature, repeat_penalty=penalty, top_p=0.9, min_p=0.01)
    check_config(config)
    with np.errstate(all="raise", under="ignore"):
        chosen = Sampler(config).choose(logits, np.arange(len(logits), dtype=np.int32))
    assert math.isfinite(logits[chosen])


def test_top_k_keeps_k_and_of_equal_ones_at_the_edge_the_lowest_ids() -> None:
    assert set(_drawn((1, 2, 1, 1), top_k=2)) == {0, 1}
    assert set(_drawn((1, 2, 1, 1), top_k=9)) == {0, 1, 2, 3}


def test_top_p_keeps_the_token_that_crosses_the_line_and_at_least_one() -> None:
    scores = tuple(math.log(share) for share in (0.5, 0.3, 0.2))
    assert set(_drawn(scores, top_p=0.6)) == {0, 1}
    assert set(_drawn(scores, top_p=0.0)) == {0}


@given(st.integers(0, 2**32), st.floats(0.1, 9), st.floats(0, 1))
def test_top_p_of_a_large_vocabulary_is_that_of_all_of_it_in_order(seed: int, spread: float, p: float) -> None:
    logits = np.round(np.random.default_rng(seed).normal(0, spread, 900), 1).astype(np.float32)
    order = np.argsort(-logits, kind="stable")
    powers = np.exp(logits[order].astype(np.float64))
    before = (np.cumsum(powers) - powers) / powers.sum()
    kept = _top_p(logits, p).tolist()
    assert kept == order[: len(kept)].tolist()
    least, most = (int(np.count_nonzero(before < p + difference)) for difference in (-1e-5, 1e-5))
    assert max(1, least) <= len(kept) <= max(1, most)


def test_min_p_is_relative_to_the_best() -> None:
    scores = tuple(math.log(share) for share in (0.6, 0.31, 0.09))
    assert set(_drawn(scores, min_p=0.5)) == {0, 1}
    assert set(_drawn(scores, min_p=1.0)) == {0}


def test_the_penalty_divides_what_is_positive_and_multiplies_what_is_not() -> None:
    config = DecodeConfig(repeat_penalty=2.0, repeat_last_n=2)
    history = np.array([2, 0, 1, 1], np.int32)  # 2 and 0 are out of reach
    assert Sampler(config).choose(_logits(1.0, 3.0, 1.4, 0.0), history) == 1
    assert Sampler(config).choose(_logits(1.0, 2.5, 1.4, 0.0), history) == 2
    assert Sampler(config).choose(_logits(-3.0, -1.0, -1.5, -9.0), history) == 2
    everything = DecodeConfig(repeat_penalty=2.0, repeat_last_n=100)
    assert Sampler(everything).choose(_logits(2.0, 2.0, 2.0, 1.5), history) == 3
    off = DecodeConfig(repeat_penalty=2.0, repeat_last_n=0)
    assert Sampler(off).choose(_logits(1.0, 3.0, 2.9, 0.0), history) == 1


def test_the_penalty_does_not_change_the_logits_that_are_kept() -> None:
    logits = _logits(1, 2)
    logits.setflags(write=False)
    Sampler(DecodeConfig(repeat_penalty=2.0)).choose(logits, np.array([1], np.int32))
    assert logits.tolist() == [1, 2]


@given(st.integers(0, 2**64), st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=40))
def test_the_same_seed_gives_the_same_tokens_and_one_draw_each(seed: int, scores: list[float]) -> None:
    config = DecodeConfig(temperature=0.8, top_k=5, top_p=0.9, min_p=0.01, seed=seed)
    one, other = Sampler(config), Sampler(config)
    logits = _logits(*scores)
    assert [one.choose(logits, NOTHING) for _ in range(5)] == [other.choose(logits, NOTHING) for _ in range(5)]
    reference = np.random.Generator(np.random.PCG64(seed))
    reference.random(5)
    assert one._random.bit_generator.state == reference.bit_generator.state


def test_impossible_tokens_are_never_drawn() -> None:
    assert set(_drawn((-math.inf, 1.0, -math.inf))) == {1}


@pytest.mark.parametrize("scores", [(1.0, math.nan), (-math.inf, -math.inf), (math.inf, 1.0)])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_are_the_backends_fault(scores: tuple[float, ...], temperature: float) -> None:
    with pytest.raises(BackendError, match="not numbers"):
        Sampler(DecodeConfig(temperature=temperature)).choose(_logits(*scores), NOTHING)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_tokens": -1},
        {"temperature": -0.1},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_k": -1},
        {"top_p": -0.1},
        {"top_p": 1.1},
        {"top_p": math.nan},
        {"min_p": 1.1},
        {"min_p": math.nan},
        {"repeat_penalty": 0.0},
        {"repeat_penalty": 0.09},
        {"repeat_penalty": 10.1},
        {"repeat_penalty": 1e300},
        {"repeat_penalty": math.nan},
        {"repeat_penalty": math.inf},
        {"repeat_last_n": -1},
        {"seed": -1},
        {"speculative_ngram": -1},
        {"stop": ("",)},
        {"stop": ("x" * 257,)},
        {"stop": ("x",) * 17},
    ],
    ids=str,
)
def test_a_parameter_that_makes_no_sense_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(WireError, match=next(iter(wrong))) as refused:
        check_config(DecodeConfig(**wrong))
    assert refused.value.code == "bad_request"


def test_the_defaults_and_the_extremes_are_fine() -> None:
    check_config(DecodeConfig())
    check_config(
        DecodeConfig(
            max_tokens=0, temperature=5, top_k=1, top_p=0, min_p=1, repeat_last_n=0, seed=2**80, stop=("x" * 256,) * 16
        )
    )
