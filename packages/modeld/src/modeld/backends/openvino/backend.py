"""Owns a loaded model in OpenVINO GenAI behind the `NativeBackend` protocol. How it is loaded is `loading`'s.

The library finds equal beginnings of prompts by itself, in whole blocks, once a request has computed them. So a tape is
made resident by requests for ever longer beginnings of it, each of one token and of one step: what is finished stays
recognisable whatever becomes of the rest. A sequence is nothing but the ids that were made resident last.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from attrs import evolve, frozen

from modeld.backends.base import TEST_SEQUENCES, Capabilities, Extended, Ids, OutOfCells, Scored, StopFlag, Vocabulary
from modeld.backends.openvino import decoding
from modeld.backends.openvino.pipeline import BLOCK, Given, NoRoom, Pipeline, Request
from modeld.backends.openvino.residency import Residency
from modelwire.messages import DecodeConfig, ModelDescription

WRITTEN = 2
"""Blocks for what is being written."""


@frozen(kw_only=True)
class Sizes:
    """In tokens, but for `sequences`. `slack`: what the library may keep beyond `cells`."""

    context: int
    cells: int
    sequences: int
    chunk: int
    slack: int

    @property
    def blocks(self) -> int:
        """One more for each sequence, whose last block is not full."""
        return -(-(self.cells + self.slack) // BLOCK) + self.sequences + TEST_SEQUENCES + WRITTEN


class OpenVinoBackend:
    """Takes over the pipeline. One thread; after `close`, which calls `free`, no method may be called."""

    block = BLOCK

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        description: ModelDescription,
        vocabulary: Vocabulary,
        sizes: Sizes,
        device: str,
        build: str,
        stop: StopFlag,
        reference: Callable[[Sequence[Ids], int, Callable[[], None]], Sequence[Scored] | None],
        free: Callable[[], None],
    ) -> None:
        self._pipeline: Pipeline | None = pipeline
        self._free = free
        self._reference = reference
        self._stop = stop
        self._residency = Residency(blocks=sizes.blocks - WRITTEN)
        self.build = build
        self.model = description
        self.vocabulary = vocabulary
        self.context, self.cells, self.sequences, self.chunk = sizes.context, sizes.cells, sizes.sequences, sizes.chunk
        self.capabilities = Capabilities(
            fork="content", rollback=True, stop="step", logits=False, native_lookup=pipeline.lookup, device=device
        )
        self.relocated = 0
        self.scores: Sequence[float] = ()

    def __repr__(self) -> str:
        state = "closed" if self._pipeline is None else f"{self.cells} cells, {self.sequences} sequences"
        return f"OpenVinoBackend({self.model.name}, {state})"

    @property
    def passes(self) -> int:
        return self._open.steps

    @property
    def cache_bytes(self) -> int:
        return self._open.cache_bytes

    def extend(self, sequence: int, tape: Ids, start: int, rows: int) -> Extended:
        count = len(tape) - start
        if not 0 < count <= self.chunk or rows:
            raise ValueError(f"{count} tokens with {rows} rows; a chunk has 1 to {self.chunk} tokens and no rows")
        self._keep(sequence, count)  # nothing that another sequence holds may go for what is written
        if self._stop.is_set():
            return Extended(length=start, stopped=True, computed=0)
        before = self._open.steps
        given = self._filled(tape)
        computed = self._computed(len(tape), start, self._open.steps - before)
        if given is None:
            return Extended(length=start, stopped=True, computed=0)
        self._residency.use(sequence, tape, (given.tokens[0], given.scores[0]), computed)
        return Extended(length=len(tape), stopped=False, computed=computed)

    def _filled(self, tape: Ids) -> Given | None:
        """The token that follows; None if the stop flag ended it, which it can only where blocks were lost."""
        request = self._open.begin(tape, decoding.prefill(self.vocabulary.end_ids, lookup=self._open.lookup))
        try:
            return self._first_of(request)
        except NoRoom as fault:
            raise OutOfCells(str(fault)) from None
        finally:
            request.end()

    def _first_of(self, request: Request) -> Given | None:
        while not (given := request.step()).tokens:
            if self._stop.is_set():
                return None
        return given

    def _computed(self, length: int, start: int, steps: int) -> int:
        """The library does not tell what it recognised: whole blocks before `start`, if the number of steps fits that.

        If there were more, blocks had been lost, and it is what so many steps can compute at most.
        """
        expected = length - start // BLOCK * BLOCK
        return (
            expected if steps * self.chunk >= expected > (steps - 1) * self.chunk else min(length, steps * self.chunk)
        )

    def fork(self, source: int, target: int, length: int) -> None:
        self._residency.fork(source, target, length)

    def trim(self, sequence: int, length: int) -> bool:
        self._residency.trim(sequence, length)
        return True

    def drop(self, sequence: int) -> None:
        self._residency.drop(sequence)

    def tidy(self, wanted: Callable[[], bool] = lambda: False) -> None:
        """A request waits for one step at most."""
        self._keep(None, max(self.chunk, self._residency.free * BLOCK // 2), wanted)

    def close(self) -> None:
        if self._pipeline is not None:
            self._pipeline.drain()
            self._pipeline = None
            self._free()

    def reference(self, tapes: Sequence[Ids], tokens: int, advanced: Callable[[], None]) -> Sequence[Scored] | None:
        return self._reference(tapes, tokens, advanced)

    # --- generating ---------------------------------------------------------------------------------------

    def refusal(self, config: DecodeConfig, history: int) -> str | None:
        return decoding.refusal(config, history)

    def generate(self, sequence: int, tape: Ids, config: DecodeConfig) -> Iterator[Sequence[int]]:
        """A greedy answer's first token is known since its prompt was made resident, and costs nothing."""
        said, scores = list[int](), list[float]()
        self.scores = scores
        known = self._residency.known.get(sequence)
        first = known.first if known is not None and known.first and np.array_equal(known.ids, tape) else None
        try:
            if first is not None and config.greedy and config.repeat_penalty == 1.0:
                said.append(first[0])
                scores.append(first[1])
                yield tuple(said)
            if not self._over(said, config):
                yield from self._steps(tape, said, scores, config)
        finally:
            fed = np.concatenate([tape, np.array(said[:-1], np.int32)])
            self._residency.use(sequence, fed, first if len(fed) == len(tape) else None, len(said))

    def _steps(self, tape: Ids, said: list[int], scores: list[float], config: DecodeConfig) -> Iterator[Sequence[int]]:
        ahead = len(said)
        history = np.concatenate([tape, np.array(said, np.int32)])
        request = self._begin(history, config, ahead)
        try:
            while request.running:
                given = request.step()
                said += given.tokens
                scores += given.scores
                if given.tokens:
                    yield given.tokens
                if self._stop.is_set():
                    return
        finally:
            request.end()

    def _begin(self, history: Ids, config: DecodeConfig, ahead: int) -> Request:
        left = evolve(config, max_tokens=config.max_tokens - ahead)
        said = decoding.generation(left, self.vocabulary.end_ids, len(history), lookup=self._open.lookup)
        return self._open.begin(history, said)

    def _over(self, said: Sequence[int], config: DecodeConfig) -> bool:
        ended = bool(said) and said[-1] in self.vocabulary.end_ids
        return ended or len(said) >= config.max_tokens or (bool(said) and self._stop.is_set())

    # --- keeping tapes in the library's cache -------------------------------------------------------------

    def _keep(self, spare: int | None, ahead: int, wanted: Callable[[], bool] = lambda: False) -> None:
        """Uses again what else could go if `ahead` tokens were written, each once: a step for each."""
        for _ in self._residency.known:
            due = self._residency.oldest(spare, ahead)
            if due is None or wanted() or self._stop.is_set():
                return
            ids = self._residency.known[due].ids
            self._filled(ids[: (len(ids) - 1) // BLOCK * BLOCK + 1])
            self._residency.touched(due)

    @property
    def _open(self) -> Pipeline:
        if self._pipeline is None:
            raise RuntimeError("the backend is closed")
        return self._pipeline
