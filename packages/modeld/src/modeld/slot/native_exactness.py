"""Owns the test of exactness where a library gives no logits: are answers the same, however their prompt came about?

What it has instead are tokens and the logarithm of each one's probability. They are held against answers to the same
prompts as if nothing had been seen before. It runs in idle time, in parts, as `exactness` does.
"""

from collections.abc import Callable, Sequence

import numpy as np

from modeld.backends.base import BackendError, Ids, NativeBackend, Scored, Stopped
from modeld.slot.exactness import DEPTH, WIDEST
from modelwire.messages import DecodeConfig, Exactness

TOKENS = 24
CONTEXT = DEPTH + max(TOKENS, WIDEST)
"""In one of so many tokens, or more, both tests reach `DEPTH`."""
Part = Callable[[], None]


class NativeExactnessTest:
    """`text` are ids of ordinary text, three times `DEPTH` or what fits. `run` may be called until `finished`."""

    def __init__(self, backend: NativeBackend, text: Ids) -> None:
        self._backend = backend
        self._depth = min(DEPTH, backend.context - TOKENS, len(text) * 2 // 3)
        other = text[self._depth :][: self._depth // 3]
        self._asked = text[: self._depth]
        self._forked = np.concatenate([text[: self._depth // 2], other])
        self._expected: Sequence[Scored] = ()
        self._parts: list[Part] = [self._reference, self._chunks, self._adopted]
        self._total = len(self._parts)
        self._advanced: Callable[[], None] = lambda: None
        self._largest, self._compared, self._differing = 0.0, 0, 0

    @property
    def cells(self) -> int:
        """KV positions that must be free."""
        return len(self._asked) + len(self._forked) + 2 * TOKENS

    @property
    def finished(self) -> bool:
        return not self._parts

    @property
    def progress(self) -> float:
        """The fraction of the parts that is done."""
        return (self._total - len(self._parts)) / self._total

    @property
    def exactness(self) -> Exactness:
        if not self.finished:
            return Exactness(progress=self.progress)
        if not self._compared:
            return Exactness(progress=1.0)
        return Exactness(
            verdict="exact" if self._largest == 0 and not self._differing else "approximate",
            largest_difference=self._largest,
            differing_tokens=self._differing / max(1, self._compared),
            progress=1.0,
        )

    def run(self, sequences: Sequence[int], advanced: Callable[[], None] = lambda: None) -> bool:
        """Does parts on empty sequences until all are done (True) or the stop flag is set; leaves them empty.

        `advanced` is called after every call of the model.
        """
        self._advanced = advanced
        self._one, self._two = sequences[:2]
        while self._parts:
            try:
                self._parts[0]()
            except Stopped:
                return False
            finally:
                for sequence in sequences:
                    self._backend.drop(sequence)
            del self._parts[0]
        return True

    # --- the parts ----------------------------------------------------------------------------------------

    def _reference(self) -> None:
        """Where there is none, the question stays open: that is no fault of what serves."""
        try:
            answers = self._backend.reference((self._asked, self._forked), TOKENS, self._advanced)
        except BackendError:
            del self._parts[1:]
            return
        if answers is None:
            raise Stopped
        self._expected = answers

    def _chunks(self) -> None:
        """In odd chunks, then as a hit, each with what is copied ahead and without."""
        self._fill(self._one, self._asked, 0)
        for copied in (0, None, 0):
            self._compare(self._answer(self._one, self._asked, copied), self._expected[0])

    def _adopted(self) -> None:
        """On a fork of another tape that goes."""
        self._fill(self._one, self._asked, 0)
        shared = self._depth // 2
        self._backend.fork(self._one, self._two, shared)
        self._backend.drop(self._one)
        self._fill(self._two, self._forked, shared)
        for copied in (None, 0):
            self._compare(self._answer(self._two, self._forked, copied), self._expected[1])

    # --- how ----------------------------------------------------------------------------------------------

    def _fill(self, sequence: int, tape: Ids, start: int) -> None:
        size = max(1, self._backend.chunk * 3 // 8)
        for at in range(start, len(tape), size):
            if self._backend.extend(sequence, tape[: at + size], at, 0).stopped:
                raise Stopped
            self._advanced()

    def _answer(self, sequence: int, tape: Ids, copied: int | None) -> Scored:
        self._backend.trim(sequence, len(tape))
        config = DecodeConfig(max_tokens=TOKENS, speculative_ngram=copied)
        tokens = list[int]()
        for step in self._backend.generate(sequence, tape, config):
            tokens += step
            self._advanced()
        if len(tokens) < TOKENS and (not tokens or tokens[-1] not in self._backend.vocabulary.end_ids):
            raise Stopped
        return Scored(tokens=tuple(tokens), scores=tuple(self._backend.scores))

    def _compare(self, answer: Scored, expected: Scored) -> None:
        """Up to the first token that differs: after it, the texts are different ones."""
        for number, token in enumerate(answer.tokens):
            self._compared += 1
            if token != expected.tokens[number]:
                self._differing += 1
                return
            self._largest = max(self._largest, abs(answer.scores[number] - expected.scores[number]))
