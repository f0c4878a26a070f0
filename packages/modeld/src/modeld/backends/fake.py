"""Owns a backend without a model: its logits are a hash of what its cells really hold, so any wrong reuse shows.

The hash is over the cells as they lie, as attention adds them up: cells out of order show as well.
It is deterministic. It keeps positions and tokens per cell, shares them between sequences, runs out of them, stops
inside a chunk, takes time and fails as its script says.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b

import numpy as np

from modeld.backends.base import (
    TEST_SEQUENCES,
    BackendError,
    Capabilities,
    Extended,
    Ids,
    LoadError,
    Logits,
    OutOfCells,
    Scored,
    StopFlag,
    Stopped,
    Vocabulary,
)
from modeld.backends.fake_cells import FakeCells
from modeld.backends.fake_content import BLOCK, FakeContent
from modeld.backends.fake_script import FakeScript, Fault
from modeld.backends.fake_vocabulary import END_OF_TEXT, FakeVocabulary
from modeld.backends.kv_cache import KvCache
from modelwire.messages import DecodeConfig, ModelDescription

__all__ = ["FakeBackend", "FakeScript", "Fault"]


class FakeBackend:
    """A `LogitsBackend`, or with `fork="content"` a `NativeBackend`. `sleep` takes seconds."""

    block = BLOCK

    def __init__(self, script: FakeScript, stop: StopFlag, *, sleep: Callable[[float], None] = time.sleep) -> None:
        if script.load_error:
            raise LoadError(script.load_error)
        self._script = script
        self._stop = stop
        self._sleep = sleep
        self._vocabulary = FakeVocabulary(script.chat_template, script.bos)
        sequences = script.sequences + TEST_SEQUENCES
        self._cells = FakeCells(script.cells, sequences + 2)  # those of `KvCache`, too
        self._cache = KvCache(
            self._cells,
            cells=script.cells,
            sequences=sequences,
            piece=script.piece,
            in_order=script.in_order,
            stop=stop.is_set,
        )
        self._characters = [character.encode() for character in script.alphabet]
        self._content = FakeContent(script.cells) if script.fork == "content" else None
        self._rows: list[Logits] = []
        self._extends = 0
        self._planned: Fault | None = None
        self._computed = self.passes = 0
        self.scores: list[float] = []
        self._wait(script.load_ms)

    @property
    def capabilities(self) -> Capabilities:
        script = self._script
        own = script.fork == "cells"
        return Capabilities(
            fork=script.fork, rollback=script.rollback, stop=script.stop, logits=own, export_state=own and script.export
        )

    @property
    def model(self) -> ModelDescription:
        return ModelDescription(
            name="fake",
            architecture="hash",
            quantisation="none",
            fingerprint=self._script.fingerprint,
            parameters=0,
            vocabulary=self._vocabulary.size,
            context_trained=self._script.context,
            chat=self._script.chat_template is not None,
            fim=False,
        )

    @property
    def build(self) -> str:
        return "fake"

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    @property
    def cells(self) -> int:
        return self._script.cells

    @property
    def sequences(self) -> int:
        return self._script.sequences

    @property
    def context(self) -> int:
        return self._script.context

    @property
    def chunk(self) -> int:
        return self._script.chunk

    @property
    def free_cells(self) -> int:
        """What is free or could be made so by moving what is held."""
        arena = self._cache.arena
        return self._cells.free + (arena.garbage if arena is not None else 0)

    @property
    def relocated(self) -> int:
        return self._cache.relocated

    @property
    def extends(self) -> int:
        """How many times `extend` was called."""
        return self._extends

    @property
    def computed(self) -> int:
        """How many tokens went through the model."""
        return self._computed

    def plan(self, fault: Fault | None) -> None:
        """Lets the next `extend` go wrong, or not after all."""
        self._planned = fault

    def resident(self, sequence: int) -> tuple[int, ...]:
        """The tokens that the sequence's cells hold, for tests to compare with what the slot believes."""
        return tuple(self._cells.contents(sequence)[:, 1].tolist())

    def extend(self, sequence: int, tape: Ids, start: int, rows: int) -> Extended:
        self._rows = []
        self._extends += 1
        self._misbehave(sequence)
        if not 0 < len(tape) - start <= self._script.chunk or rows > len(tape) - start:
            raise BackendError(f"cannot extend by {len(tape) - start} tokens with {rows} rows")
        if not 0 <= tape[start:].min() <= tape[start:].max() < self._vocabulary.size:
            raise BackendError(f"cannot extend by ids that are not of a vocabulary of {self._vocabulary.size}")
        if self._content is not None:
            return self._extend_content(self._content, tape, start)
        try:
            self._cache.make_room(len(tape) - start)
        except Stopped:
            return Extended(length=start, stopped=True)
        done = self._work(len(tape) - start)
        if done < len(tape) - start:
            unit = self._script.ubatch
            kept = start + (done // unit * unit if unit else 0)
            self._write(sequence, start, tape[start:kept])
            return Extended(length=kept, stopped=True)
        self._write(sequence, start, tape[start:])
        contents = self._cells.contents(sequence, as_it_lies=True)
        ends = range(len(tape) - rows + 1, len(tape) + 1)
        self._rows = [self._score(contents[contents[:, 0] < end]) for end in ends]
        return Extended(length=len(tape), stopped=False)

    def _extend_content(self, content: FakeContent, tape: Ids, start: int) -> Extended:
        """A stopped request leaves nothing that could be recognised later."""
        missing = content.missing(tape)
        if self._work(missing) < missing:
            return Extended(length=start, stopped=True)
        content.remember(tape)
        return Extended(length=len(tape), stopped=False)

    def fork(self, source: int, target: int, length: int) -> None:
        if self._script.refuse_fork:
            raise BackendError("this fake refuses to fork")
        if self._cells.length(target):
            raise BackendError(f"sequence {target} is not empty: it cannot become a fork")
        self._cache.fork(source, target, length)

    def trim(self, sequence: int, length: int) -> bool:
        if self._script.refuse_trim:
            return False
        return self._cache.forget(sequence, length)

    def drop(self, sequence: int) -> None:
        self._cache.forget(sequence, 0)

    def save(
        self, sequence: int, length: int, enough: Callable[[int, int], bool] = lambda positions, size: False
    ) -> tuple[bytes, ...]:
        return self._cache.save(sequence, length, enough)

    def load(self, sequence: int, state: Sequence[bytes], length: int) -> None:
        self._cache.load(sequence, state, length)

    def tidy(self, wanted: Callable[[], bool] = lambda: False) -> None:
        self._cache.tidy(wanted)

    def check(self) -> None:
        """Asserts that the bookkeeping of cells is right."""
        if self._cache.arena is not None:
            self._cache.arena.check()
            assert self._cells.free == self._cache.arena.free

    def close(self) -> None:
        self._rows = []

    def logits(self, row: int) -> Logits:
        return self._rows[row]

    def reference(self, tapes: Sequence[Ids], tokens: int, advanced: Callable[[], None]) -> Sequence[Scored] | None:
        return None if self._stop.is_set() else [self._answer(tape, tokens) for tape in tapes]

    def _answer(self, tape: Ids, tokens: int) -> Scored:
        scores = list[float]()
        for _ in range(tokens):
            row = self._score(np.stack([np.arange(len(tape), dtype=np.int32), tape], axis=1))
            tape = np.append(tape, np.int32(np.argmax(row)))
            scores.append(float(row.max()))
        return Scored(tokens=tuple(tape[-tokens:].tolist()), scores=tuple(scores))

    def refusal(self, config: DecodeConfig, history: int) -> str | None:
        return None

    def generate(self, sequence: int, tape: Ids, config: DecodeConfig) -> Iterator[Sequence[int]]:
        """Greedy, or with a temperature a seeded choice: enough of sampling for a fake."""
        random = np.random.default_rng(config.seed)
        tokens = tape
        assert self._content is not None, "a backend that gives logits does not generate"
        self.scores = []
        for _ in range(config.max_tokens):
            self._work(self._content.missing(tokens))
            self._content.remember(tokens)
            pairs = np.stack([np.arange(len(tokens), dtype=np.int32), tokens], axis=1)
            scores = self._score(pairs)
            if not config.greedy:
                scores = scores / config.temperature + random.gumbel(size=len(scores)).astype(np.float32)
            token = int(np.argmax(scores))
            self.scores.append(float(scores[token]))
            yield (token,)
            if token in self._vocabulary.end_ids or self._stop.is_set():
                return
            tokens = np.append(tokens, np.int32(token))

    def _write(self, sequence: int, start: int, tokens: Ids) -> None:
        self._cells.write(sequence, start, tokens)
        self._cache.wrote(sequence, start, len(tokens))

    def _score(self, contents: Ids) -> Logits:
        """Logits from positions and tokens as they lie: noise seeded by their hash, with what may come next lifted."""
        digest = blake2b(np.ascontiguousarray(contents, dtype="<i4").tobytes(), digest_size=8).digest()
        number = int.from_bytes(digest, "little")
        scores = np.random.Generator(np.random.PCG64(number)).standard_normal(self._vocabulary.size, np.float32)
        scores[self._next_bytes(contents[-4:, 1])] += 12
        if self._script.answer and (token := self._vocabulary.goes_on(self._script.answer, contents[:, 1].tolist())):
            scores[token] += 40
        if self._script.end_one_in and number % self._script.end_one_in == 0:
            scores[END_OF_TEXT] += 40
        return scores

    def _next_bytes(self, tail: Ids) -> list[int]:
        """The bytes that go on with the alphabet's character that `tail` is in, or that begin one."""
        spoken = b"".join(self._vocabulary.piece(int(token)) for token in tail)
        for size in (3, 2, 1):
            begun = spoken[-size:]
            goes_on = [
                char[size] for char in self._characters if len(char) > size == len(begun) and char[:size] == begun
            ]
            if goes_on:
                return goes_on
        return [character[0] for character in self._characters]

    def _work(self, tokens: int) -> int:
        """Spends the time of a chunk; how many tokens were done when the stop flag was seen."""
        self.passes += 1
        self._wait(self._script.step_ms)
        polls = self._script.poll_tokens
        for done in range(0, tokens, polls):
            if self._script.stop == "node" and self._stop.is_set():
                return done
            self._computed += min(polls, tokens - done)
            self._wait(self._script.token_ms * min(polls, tokens - done))
        return tokens

    def _misbehave(self, sequence: int) -> None:
        fault, self._planned = self._planned or self._script.faults.get(self._extends), None
        match fault:
            case Fault.FAIL:
                self._spoil(sequence)
                raise BackendError("this fake was told to fail")
            case Fault.CELLS:
                raise OutOfCells("this fake was told to be full")
            case Fault.CRASH:
                os._exit(70)
            case Fault.ABORT:
                os.abort()
            case Fault.HANG:
                while True:
                    self._sleep(3600)

    def _spoil(self, sequence: int) -> None:
        """What a failed library may do at worst: the last token of the sequence is another one now, or is missing."""
        if length := self._cells.length(sequence):
            self._cache.forget(sequence, length - 1)
            with suppress(OutOfCells, Stopped):
                self._cache.make_room(1)
                self._write(sequence, length - 1, np.array([0], np.int32))

    def _wait(self, milliseconds: float) -> None:
        if milliseconds > 0:
            self._sleep(milliseconds / 1000)
