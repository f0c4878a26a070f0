"""Owns how a `DecodeConfig` is said to OpenVINO GenAI, and what of it cannot be. It runs nothing."""

from collections.abc import Set
from typing import Any

import openvino_genai as genai

from modelwire.messages import DecodeConfig

LONGEST_MATCH = 16
"""The library copies from the first match of so many tokens; where there is none, of one token less, and so on. With a
few tokens that is often another place than the one that is being copied."""
_BELOW_ONE = 1 - 1e-6
"""Of `min_p`: 1 itself is refused, and leaves the same token."""
AHEAD = 11
"""Tokens that are tried ahead in a pass where drafting is wanted: a pass of twelve rows costs less than four of one."""


def refusal(config: DecodeConfig, history: int) -> str | None:
    """What of a request with `history` tokens before its answer this library cannot do; None if nothing."""
    least = history + config.max_tokens
    if config.repeat_penalty == 1.0 or not 0 < config.repeat_last_n < least:
        return None
    return (
        f"OpenVINO applies repeat_penalty to the whole text, not to its last {config.repeat_last_n} tokens: "
        f"set repeat_last_n to {least} or more, or repeat_penalty to 1"
    )


def prefill(end_ids: Set[int], *, lookup: bool) -> Any:
    """The shortest request that there is: it makes a prompt resident, and one token."""
    return generation(DecodeConfig(max_tokens=1, speculative_ngram=0), end_ids, 2, lookup=lookup)


def generation(config: DecodeConfig, end_ids: Set[int], history: int, *, lookup: bool) -> Any:
    """`history`: tokens before the answer."""
    said = genai.GenerationConfig()
    said.apply_chat_template = False
    said.max_new_tokens = config.max_tokens
    said.logprobs = 1
    said.set_eos_token_id(min(end_ids, default=0))  # one is wanted, also where none ends an answer
    said.ignore_eos = not end_ids
    said.stop_token_ids = {*end_ids, said.eos_token_id}
    said.do_sample = not config.greedy
    if not config.greedy:
        _sampling(said, config)
    if config.repeat_penalty != 1.0 and config.repeat_last_n:
        said.repetition_penalty = config.repeat_penalty
    if lookup:
        said.num_assistant_tokens, said.max_ngram_size = drafting(config, history)
    return said


def _sampling(said: Any, config: DecodeConfig) -> None:
    said.temperature, said.top_p, said.min_p, said.rng_seed = (
        config.temperature,
        config.top_p or 1e-6,
        min(config.min_p, _BELOW_ONE),
        config.seed,
    )
    if config.top_k:
        said.top_k = config.top_k


def drafting(config: DecodeConfig, history: int) -> tuple[int, int]:
    """How many tokens are tried ahead, and the longest match that they are copied from.

    A pipeline that copies ahead does so in every request. One that must not draft, or that draws by chance, gets the
    least that it takes: one token. The shortest match cannot be said, so `speculative_ngram` is only off or on, unless
    it is longer than our longest. A match is never longer than what it is looked for in.
    """
    if config.speculative_ngram == 0 or not config.greedy:
        return 1, 1
    return AHEAD, max(1, min(max(LONGEST_MATCH, config.speculative_ngram or 0), history - 1))
