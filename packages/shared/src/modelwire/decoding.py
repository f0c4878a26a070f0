"""Owns what makes a `DecodeConfig` valid, for the daemon that refuses and for those who check before they ask."""

import math

from modelwire.errors import ErrorCode, WireError
from modelwire.messages import DecodeConfig

MAX_STOPS = 16
MAX_STOP_LENGTH = 256


def check_config(config: DecodeConfig) -> None:
    """Raises `WireError(BAD_REQUEST)` that names the parameter and its range."""
    rules = [
        ("max_tokens", config.max_tokens, config.max_tokens >= 0, "0 or more"),
        ("temperature", config.temperature, 0 <= config.temperature < math.inf, "0 or more"),
        ("top_k", config.top_k, config.top_k >= 0, "0 (off) or more"),
        ("top_p", config.top_p, 0 <= config.top_p <= 1, "from 0 to 1"),
        ("min_p", config.min_p, 0 <= config.min_p <= 1, "from 0 to 1"),
        ("repeat_penalty", config.repeat_penalty, 0.1 <= config.repeat_penalty <= 10, "from 0.1 to 10 (1 is off)"),
        ("repeat_last_n", config.repeat_last_n, config.repeat_last_n >= 0, "0 (off) or more"),
        ("seed", config.seed, config.seed >= 0, "0 or more"),
        ("speculative_ngram", config.speculative_ngram, (config.speculative_ngram or 0) >= 0, "none, 0 or more"),
        ("stop", len(config.stop), len(config.stop) <= MAX_STOPS, f"at most {MAX_STOPS} strings"),
    ]
    for name, value, valid, allowed in rules:
        if not valid:
            raise WireError(ErrorCode.BAD_REQUEST, f"{name} is {value}; it must be {allowed}")
    if not all(0 < len(stop) <= MAX_STOP_LENGTH for stop in config.stop):
        raise WireError(ErrorCode.BAD_REQUEST, f"a string of stop has 1 to {MAX_STOP_LENGTH} characters")
