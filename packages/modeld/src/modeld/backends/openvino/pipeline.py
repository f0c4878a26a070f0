"""Owns one continuous-batching pipeline: requests of ids in, tokens of each step out. It knows no sequence and no text.

`step` holds the interpreter lock, so a read that waits would wait for ever: a handle is read only when it says that
there is something. A pipeline that is closed with requests in it complains of leaked blocks, so it is drained first.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai
from attrs import frozen

from modeld.backends.base import BackendError, Ids

BLOCK = 32
"""Positions that the CPU plugin stores, and recognises, together."""
_DRAIN_STEPS = 64


class NoRoom(BackendError):
    """The pipeline gave a request up: there are not enough blocks for it."""


@frozen(kw_only=True)
class Given:
    """What one step gave: tokens, and the logarithm of each one's probability."""

    tokens: tuple[int, ...]
    scores: tuple[float, ...]


class Pipeline:
    """One request at a time. `batch`: tokens of one step. `lookup`: it copies ahead, in every request."""

    def __init__(
        self,
        folder: Path,
        tokenizer: Any,
        device: str,
        *,
        blocks: int,
        batch: int,
        lookup: bool,
        properties: Mapping[str, Any],
        reuse: bool = True,
    ) -> None:
        config = genai.SchedulerConfig()
        config.enable_prefix_caching = reuse
        config.num_kv_blocks, config.cache_size = blocks, 0
        config.max_num_batched_tokens = batch
        config.max_num_seqs = 1
        wanted = {**properties, "prompt_lookup": True} if lookup else dict(properties)
        self._pipeline = genai.ContinuousBatchingPipeline(str(folder), tokenizer, config, device, **wanted)
        self.lookup = lookup
        self.steps = 0
        self._requests = 0

    def __repr__(self) -> str:
        return f"Pipeline({self._requests} requests, {self.steps} steps)"

    @property
    def cache_bytes(self) -> int:
        """What the library has reserved for KV; 0 before the first step."""
        return int(self._pipeline.get_metrics().cache_size_in_bytes)

    def begin(self, tape: Ids, config: Any) -> "Request":
        tensor = ov.Tensor(np.ascontiguousarray(tape, np.int64).reshape(1, -1))
        self._requests += 1
        try:
            return Request(self, self._pipeline.add_request(self._requests, tensor, config), len(tape))
        except RuntimeError as fault:
            raise BackendError(complaint(fault)) from None

    def step(self) -> None:
        try:
            self._pipeline.step()
        except RuntimeError as fault:
            raise BackendError(complaint(fault)) from None
        self.steps += 1

    @property
    def busy(self) -> bool:
        return bool(self._pipeline.has_non_finished_requests())

    def drain(self) -> None:
        """Lets the pipeline take out what was stopped; that computes nothing."""
        for _ in range(_DRAIN_STEPS):
            if not self.busy:
                return
            self._pipeline.step()
        raise RuntimeError("the pipeline does not let go of a stopped request")


class Request:
    """A running request. `end` it, whatever happens."""

    def __init__(self, pipeline: Pipeline, handle: Any, length: int) -> None:
        self._pipeline = pipeline
        self._handle = handle
        self._length = length
        self.steps = 0

    @property
    def running(self) -> bool:
        return self._pipeline.busy

    def step(self) -> Given:
        """One pass of the model. Raises `NoRoom`."""
        self._pipeline.step()
        self.steps += 1
        tokens, scores = list[int](), list[float]()
        while self._handle.can_read():
            for output in self._handle.read().values():
                tokens += output.generated_ids
                scores += output.generated_log_probs
        if not tokens and not self._pipeline.busy:
            raise NoRoom(f"the KV cache has no room for a prompt of {self._length} tokens")
        return Given(tokens=tuple(tokens), scores=tuple(scores))

    def end(self) -> None:
        """What is computed of it stays recognisable in whole blocks."""
        if self._pipeline.busy:
            self._handle.stop()
            self._pipeline.drain()


def complaint(fault: Exception) -> str:
    """What the library says, without the place in its source."""
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("Exception from ", "Check '"))]
    return (told or lines or ["it gave no reason"])[-1][:300]
