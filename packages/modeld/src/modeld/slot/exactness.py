"""Owns the test of exactness: are logits the same bits however their tape came about? It decides nothing.

It runs in idle time, in parts of at most one prefill of the test's text. What was stopped is done again, the finished
parts are kept. Everything is compared to a cold run on an otherwise unused sequence.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from modeld.backends.base import ExportingBackend, Ids, LogitsBackend, Stopped
from modeld.slot.draft.lengths import TILE, UNTILED
from modelwire.messages import Exactness

DEPTH = 1030
"""Tokens before what is compared: past every switch of kernels that depends on depth."""
STEPS = 8
WIDEST = TILE
WIDTHS = (2, 3, 5, STEPS, 1 + UNTILED, WIDEST)
"""Rows of batches: up to those of the longest draft where no tile was timed, and a tile."""

Row = tuple[int, Ids]
"""The number of a step, 0 after the prompt, and its logits as bits."""
Part = Callable[[], Iterator[Row]]


class ExactnessTest:
    """`text` are ids of ordinary text, three times `DEPTH` or what fits. `run` may be called until `finished`."""

    def __init__(self, backend: LogitsBackend, text: Ids) -> None:
        self._backend = backend
        self._ahead = max(STEPS, min(WIDEST, backend.context // 4, len(text) // 4))
        depth = min(DEPTH, backend.context - self._ahead, len(text) * 2 // 3)
        self._tape = text[: depth + self._ahead]
        self._other = np.concatenate([text[: depth // 2], text[len(self._tape) :][: depth // 3]])
        self._depth = depth
        self._expected: list[Ids] = []
        self._parts: list[Part] = [self._cold, self._widths, self._chunks, self._adopted, self._restored]
        self._total = len(self._parts)
        self._advanced: Callable[[], None] = lambda: None
        self._largest, self._compared, self._differing = 0.0, 0, 0

    @property
    def cells(self) -> int:
        """KV positions that must be free."""
        return len(self._tape) + len(self._other) + self._depth // 3

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
        return Exactness(
            verdict="exact" if self._largest == 0 else "approximate",
            largest_difference=self._largest,
            differing_tokens=self._differing / max(1, self._compared),
            progress=1.0,
        )

    def run(self, sequences: Sequence[int], advanced: Callable[[], None] = lambda: None) -> bool:
        """Does parts on empty sequences until all are done (True) or the stop flag is set; leaves them empty.

        `advanced` is called after every call of the model.
        """
        self._advanced = advanced
        self._one, self._two, self._three = sequences
        while self._parts:
            before = self._largest, self._compared, self._differing
            expected = list(self._expected)
            try:
                for step, row in self._parts[0]():  # not all at once: with a large vocabulary each is a megabyte
                    self._compare(step, row, expected)
            except BaseException as fault:
                self._largest, self._compared, self._differing = before
                if not isinstance(fault, Stopped):
                    raise
                return False
            finally:
                for sequence in sequences:
                    self._backend.drop(sequence)
            self._expected = expected
            del self._parts[0]
        self._expected.clear()
        return True

    def _compare(self, step: int, row: Ids, expected: list[Ids]) -> None:
        """The first part's rows are what is expected."""
        if not self._expected:
            expected.append(row)
            return
        one, other = row.view(np.float32), expected[step].view(np.float32)
        if not np.array_equal(row, expected[step]):
            self._largest = max(self._largest, float(np.abs(one - other).max()), float(np.finfo(np.float32).tiny))
        self._differing += int(np.argmax(one) != np.argmax(other))
        self._compared += 1

    # --- the parts: each gives some rows ------------------------------------------------------------------

    def _cold(self) -> Iterator[Row]:
        """As many steps as a draft has rows; of a tile, that is half."""
        self._fill(self._one, self._tape[: self._depth])
        yield from self._steps(self._one, last=min(self._ahead, 1 + UNTILED))

    def _widths(self) -> Iterator[Row]:
        """Verified in batches of several rows, as drafts are, each rolled back before the next."""
        self._fill(self._one, self._tape[: self._depth])
        yield 0, self._bits(0)
        for width in WIDTHS if self._backend.capabilities.rollback else ():
            width = min(width, self._ahead, self._backend.chunk)
            self._extend(self._one, self._tape[: self._depth + width], self._depth, width)
            yield from ((1 + row, self._bits(row)) for row in range(min(width, 1 + UNTILED)))
            self._backend.trim(self._one, self._depth)

    def _chunks(self) -> Iterator[Row]:
        self._fill(self._one, self._tape[: self._depth], chunk=max(1, self._backend.chunk * 3 // 8))
        yield from self._steps(self._one)

    def _adopted(self) -> Iterator[Row]:
        """On a fork of another tape that goes, as does one that lay below."""
        if self._backend.capabilities.fork != "cells":
            return
        self._fill(self._three, self._other[len(self._other) // 2 :])
        self._fill(self._one, self._other)
        shared = self._depth // 2
        self._backend.fork(self._one, self._two, shared)
        self._fill(self._two, self._tape[: self._depth], shared)
        yield 0, self._bits(0)
        self._backend.drop(self._one)
        self._backend.drop(self._three)
        self._backend.tidy()
        yield from self._steps(self._two, 1)

    def _restored(self) -> Iterator[Row]:
        """Saved, dropped and restored above what was written meanwhile."""
        backend = self._backend
        if not backend.capabilities.export_state or not isinstance(backend, ExportingBackend):
            return
        self._fill(self._one, self._tape[: self._depth])
        state = backend.save(self._one, self._depth - 1)
        backend.drop(self._one)
        self._fill(self._two, self._other[: len(self._other) // 2])
        backend.load(self._three, state, self._depth - 1)
        backend.drop(self._two)
        self._extend(self._three, self._tape[: self._depth], self._depth - 1, 1)
        yield from self._steps(self._three)

    # --- how ----------------------------------------------------------------------------------------------

    def _steps(self, sequence: int, first: int = 0, last: int = STEPS) -> Iterator[Row]:
        if not first:
            yield 0, self._bits(0)
        for step in range(1, last + 1):
            end = self._depth + step
            self._extend(sequence, self._tape[:end], end - 1, 1)
            yield step, self._bits(0)

    def _fill(self, sequence: int, tape: Ids, start: int = 0, chunk: int | None = None) -> None:
        size = chunk or self._backend.chunk
        for at in range(start, len(tape), size):
            self._extend(sequence, tape[: at + size], at, 1)

    def _extend(self, sequence: int, tape: Ids, start: int, rows: int) -> None:
        if self._backend.extend(sequence, tape, start, rows).stopped:
            raise Stopped("the stop flag ended a part")
        self._advanced()

    def _bits(self, row: int) -> Ids:
        return self._backend.logits(row).copy().view(np.int32)
