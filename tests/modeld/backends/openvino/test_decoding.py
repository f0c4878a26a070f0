"""What a request becomes in OpenVINO's words."""

from typing import Any

import pytest
from attrs import evolve

from modeld.backends.openvino import decoding
from modelwire.messages import DecodeConfig

ENDS = frozenset({2, 5})


@pytest.mark.parametrize(
    ("config", "history", "drafting"),
    [
        (DecodeConfig(), 100, (decoding.AHEAD, decoding.LONGEST_MATCH)),
        (DecodeConfig(speculative_ngram=5), 100, (decoding.AHEAD, decoding.LONGEST_MATCH)),
        (DecodeConfig(speculative_ngram=40), 100, (decoding.AHEAD, 40)),
        (DecodeConfig(speculative_ngram=5), 3, (decoding.AHEAD, 2)),
        (DecodeConfig(speculative_ngram=5), 1, (decoding.AHEAD, 1)),
        (DecodeConfig(speculative_ngram=0), 100, (1, 1)),
        (DecodeConfig(temperature=0.5), 100, (1, 1)),
    ],
)
def test_a_pipeline_that_copies_ahead_is_told_how_far(
    config: DecodeConfig, history: int, drafting: tuple[int, int]
) -> None:
    said = decoding.generation(config, ENDS, history, lookup=True)
    assert (said.num_assistant_tokens, said.max_ngram_size) == drafting


def test_one_that_does_not_is_told_nothing_of_it() -> None:
    said = decoding.generation(DecodeConfig(speculative_ngram=5), ENDS, 100, lookup=False)
    assert not said.is_prompt_lookup()


def test_a_request_keeps_its_ends_its_length_and_its_chance() -> None:
    config = DecodeConfig(max_tokens=7, temperature=0.5, top_k=40, top_p=0.9, min_p=0.1, seed=3)
    said = decoding.generation(config, ENDS, 100, lookup=False)
    assert (said.max_new_tokens, said.stop_token_ids, said.ignore_eos) == (7, {2, 5}, False)
    assert (said.do_sample, said.top_k, said.rng_seed) == (True, 40, 3)
    assert (said.temperature, said.top_p, said.min_p) == pytest.approx((0.5, 0.9, 0.1))
    assert not said.apply_chat_template
    said.validate()


@pytest.mark.parametrize(
    "extreme",
    [{"min_p": 1.0}, {"top_p": 0.0}, {"top_p": 1.0}, {"top_k": 2**62}, {"temperature": 1e-6}, {"temperature": 1e300}]
    + [{"repeat_penalty": penalty, "repeat_last_n": 500} for penalty in (0.1, 10.0)],
)
def test_what_a_request_may_say_the_library_takes(extreme: dict[str, Any]) -> None:
    """It would fail only after the whole prompt was prefilled, and again at each try."""
    config = evolve(DecodeConfig(max_tokens=7, temperature=0.7), **extreme)
    decoding.generation(config, ENDS, 100, lookup=False).validate()


def test_greedy_is_greedy() -> None:
    assert decoding.generation(DecodeConfig(), ENDS, 100, lookup=False).is_greedy_decoding()


@pytest.mark.parametrize(
    ("penalty", "last", "refused"), [(1.2, 64, True), (1.2, 300, False), (1.2, 0, False), (1.0, 64, False)]
)
def test_a_penalty_on_the_last_tokens_alone_cannot_be_said(penalty: float, last: int, refused: bool) -> None:
    config = DecodeConfig(max_tokens=100, repeat_penalty=penalty, repeat_last_n=last)
    assert (decoding.refusal(config, 200) is not None) is refused
