"""Owns the choice of one token from raw logits. It knows no tape and no text.

The order is penalty, top-k, top-p, min-p, temperature, as in llama.cpp. Ties go to the lowest id.
"""

import math

import numpy as np
from numpy.typing import NDArray

from modeld.backends.base import BackendError, Ids, Logits
from modelwire.messages import DecodeConfig

_FEW = 512


class Sampler:
    """Chooses tokens for one request. Each choice with a temperature takes one number of the request's own stream."""

    def __init__(self, config: DecodeConfig) -> None:
        self._config = config
        self._random = np.random.Generator(np.random.PCG64(config.seed))

    def choose(self, logits: Logits, history: Ids) -> int:
        """The token after `history`. Raises `BackendError` for logits that are not numbers."""
        config = self._config
        if config.repeat_penalty != 1.0 and config.repeat_last_n:
            logits = _penalised(logits, history, config)
        best = int(np.argmax(logits))
        if not np.isfinite(logits[best]):
            raise BackendError("the model gave logits that are not numbers")
        if config.greedy:
            return best
        return self._draw(logits)

    def _draw(self, logits: Logits) -> int:
        config = self._config
        ids, scores = np.arange(len(logits)), logits
        if 0 < config.top_k < len(scores):
            ids = _top_k(logits, config.top_k)
            scores = logits[ids]
        if config.top_p < 1:
            kept = _top_p(scores, config.top_p)
            ids, scores = ids[kept], scores[kept]
        if config.min_p > 0:
            kept = np.flatnonzero(scores >= scores.max() + math.log(config.min_p))
            ids, scores = ids[kept], scores[kept]
        sums = np.cumsum(_powers(scores, config.temperature))
        place = int(np.searchsorted(sums, self._random.random() * sums[-1], side="right"))
        return int(ids[min(place, len(ids) - 1)])


def _penalised(logits: Logits, history: Ids, config: DecodeConfig) -> Logits:
    """llama.cpp's: each token of the last n once, divided where positive, multiplied where not."""
    recent = np.unique(history[-config.repeat_last_n :])
    scores = logits.copy()
    with np.errstate(over="ignore"):  # the lowest number that there is can mean "never": it stays that
        scores[recent] = np.where(
            logits[recent] > 0, logits[recent] / config.repeat_penalty, logits[recent] * config.repeat_penalty
        )
    return scores


def _top_k(logits: Logits, k: int) -> NDArray[np.int64]:
    """Ids of the k highest in ascending order; of equal ones at the edge, the lowest ids. All of them for a large k."""
    if k >= len(logits):
        return np.arange(len(logits))
    edge = np.partition(logits, len(logits) - k)[len(logits) - k]
    above, equal = np.flatnonzero(logits > edge), np.flatnonzero(logits == edge)
    return np.sort(np.concatenate([above, equal[: k - len(above)]]))


def _top_p(scores: Logits, p: float) -> NDArray[np.int64]:
    """Places of the highest, in falling order, up to the one that crosses `p`. Mostly a few hundred need sorting."""
    powers = _powers(scores)
    wanted = p * powers.sum()
    for most in (_FEW, len(scores)):
        places = _top_k(scores, most)
        places = places[np.argsort(-scores[places], kind="stable")]
        sums = np.cumsum(powers[places])
        if sums[-1] >= wanted:
            break
    return places[: max(1, int(np.count_nonzero(sums - powers[places] < wanted)))]


def _powers(scores: Logits, temperature: float = 1.0) -> NDArray[np.float64]:
    """The likelihood of each, that of the likeliest being 1. In 32 bits, as the scores are: ten times as fast."""
    with np.errstate(over="ignore"):  # further below the highest than there are numbers is "never", too
        powers: NDArray[np.float32] = np.exp((scores - scores.max()) / np.float32(temperature))
    return powers.astype(np.float64)
