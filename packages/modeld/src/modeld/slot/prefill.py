"""Owns making tokens resident: in chunks, the stop flag between them, room made before. It samples nothing."""

from collections.abc import Callable
from enum import Enum, auto

from attrs import define

from modeld.backends.base import Backend, BackendError, Extended, Ids, NativeBackend, OutOfCells, StopFlag, Stopped
from modeld.slot.settings import SlotSettings
from modeld.slot.shelf import Shelf
from modeld.slot.tape import Tape, TapeKind

_WEIGHT = 0.3
"""Of the newest chunk in the measured rate: a few chunks are enough to follow a change."""


class Pace:
    """The measured prefill rate, and the size of a chunk that follows from it: of a guess, whole blocks."""

    def __init__(self, settings: SlotSettings, largest: int, block: int = 1) -> None:
        self._settings = settings
        self._largest = largest
        self._block = block
        self._rate = 0.0

    @property
    def rate(self) -> float:
        """Tokens per second; 0 before the first measurement."""
        return self._rate

    def learn(self, tokens: int, seconds: float) -> None:
        """Chunks below the floor say nothing: most of their time is the same for any size."""
        if seconds <= 0 or tokens < min(self._settings.chunk_floor, self._largest):
            return
        rate = tokens / seconds
        self._rate = rate if not self._rate else (1 - _WEIGHT) * self._rate + _WEIGHT * rate

    def chunk(self, guess: bool) -> int:
        """Tokens per chunk: a guess's costs no more than its budget, for it may have to be waited for."""
        if not guess:
            return self._largest
        affordable = int(self._rate * self._settings.guess_chunk_ms / 1000)
        whole = affordable - affordable % self._block
        return min(self._largest, max(self._settings.chunk_floor, self._block, whole))

    def cost_ms(self, tokens: int) -> float:
        return 1000 * tokens / self._rate if self._rate else 0.0


def block_of(backend: Backend) -> int:
    """How many positions are kept together."""
    return backend.block if not backend.capabilities.logits and isinstance(backend, NativeBackend) else 1


@define(kw_only=True)
class Counts:
    """What one operation did so far. `passes` are calls of the model, `first` is when the first of them began."""

    passes: int = 0
    prefilled: int = 0
    finished: int = 0
    stopped: int = 0
    stopped_ms: float = 0.0
    first: float | None = None


class Outcome(Enum):
    READY = auto()  # everything is resident
    STOPPED = auto()  # the stop flag ended it
    FULL = auto()  # no room could be made


@define(kw_only=True)
class Work:
    """A tape with what it is to hold: its first `resident` positions are those of `history`, the others may differ."""

    tape: Tape
    history: Ids
    resident: int


class Prefill:
    """Extends tapes on one backend."""

    def __init__(self, backend: Backend, shelf: Shelf, pace: Pace, stop: StopFlag, clock: Callable[[], float]) -> None:
        self._backend = backend
        self._shelf = shelf
        self._pace = pace
        self._stop = stop
        self._clock = clock
        self._block = block_of(backend)

    def extend(
        self, work: Work, *, rows: int, counts: Counts, advanced: Callable[[int], None] = lambda length: None
    ) -> Outcome:
        """Makes all of `work.history` resident, with logits for its last `rows` positions.

        `work.resident` is right at every moment, but after a `BackendError` the tape must go.
        """
        if work.resident < len(work.history) and not self._shelf.cut(work.tape, work.resident):
            work.resident = 0
        while work.resident < len(work.history):
            if self._stop.is_set():
                return Outcome.STOPPED
            end = self._next_end(work, rows)
            try:
                outcome = self._chunk(work, end, rows if end == len(work.history) else 0, counts)
            except Stopped:  # before the model was called
                return Outcome.STOPPED
            if outcome is not Outcome.READY:
                return outcome
            advanced(work.resident)
        return Outcome.READY

    def _next_end(self, work: Work, rows: int) -> int:
        """The last chunk holds all the rows, so one before it may be shorter; it ends with a block.

        A guess's draft may be more than its chunks are: it is one batch, or it says nothing.
        """
        total = len(work.history)
        end = min(work.resident + max(self._pace.chunk(work.tape.kind is TapeKind.GUESS), rows), total)
        if end == total:
            return end
        whole = end - end % self._block
        return min(whole if whole > work.resident else end, total - max(rows, 1))

    def _chunk(self, work: Work, end: int, rows: int, counts: Counts) -> Outcome:
        start = work.resident
        if not self._shelf.make_room(work.tape, end - start):
            return Outcome.FULL
        began = self._clock()
        counts.first = began if counts.first is None else counts.first
        extended = self._call(work, end, rows)
        if extended is None:
            return Outcome.FULL
        took = self._clock() - began
        self._shelf.appended(work.tape, work.history[start : extended.length])
        work.resident = extended.length
        counts.prefilled += extended.computed if extended.computed is not None else extended.length - start
        counts.passes += 1
        if extended.stopped:
            counts.stopped += 1
            counts.stopped_ms = 1000 * took
            return Outcome.STOPPED
        counts.finished += 1
        if rows <= 1:  # a draft is slower: all its rows give logits
            self._pace.learn(end - start, took)
        return Outcome.READY

    def _call(self, work: Work, end: int, rows: int) -> Extended | None:
        """None where the backend has no room though nothing more can go."""
        start = work.resident
        while True:
            try:
                extended = self._backend.extend(work.tape.sequence, work.history[:end], start, rows)
                break
            except OutOfCells:
                if not self._shelf.evict_for(work.tape):
                    return None
        if not (start <= extended.length <= end and (extended.stopped or extended.length == end)):
            raise BackendError(f"extend from {start} to {end} came to {extended.length}")
        return extended
