"""Owns the drafter that the decode loop talks to: it knows the tape, proposes drafts, learns from what became of them.

It keeps one text of everything it was shown, beside the tape and grown with it, so a warm tape costs nothing to draft
from. A tape that is cut or forked only ends a passage of that text. What is stale in it is still a fair guess: every
draft is verified by the model.
"""

from collections.abc import Sequence

import numpy as np
from attrs import define, field

from modeld.backends.base import Ids
from modeld.engine.messages import DraftFigures
from modeld.slot.draft.ledger import Ledger
from modeld.slot.draft.lengths import BUCKETS, Lengths, bucket
from modeld.slot.draft.source import Place, Source

CAPACITY = 32_768
"""Tokens of text (about 600 bytes each) after which only the tape is kept."""
BULK = 256
"""Tokens of a prefill chunk long enough to hide the time in which the text is made anew."""
OVERLAP = 16
"""Tokens of the old passage that a new one repeats, so that matches reach back over the cut."""
REMEMBERED = 8
"""Tapes whose contents are known to be in the text."""
FOLLOWED, CAUGHT_UP = 2_048, 256
"""The most tokens that are read after a chunk of prefill, and in a step: under a millisecond of it."""


@define
class Drafter:
    """Prompt lookup over the tapes of one client. Used by one thread; no call takes longer than a small part of a step.

    A tape that it has not been shown is read in parts, and nothing is drafted until it has been read.
    """

    lengths: Lengths
    ledger: Ledger = field(factory=Ledger)
    _source: Source = field(factory=Source)
    _tape: Ids = field(factory=lambda: np.zeros(0, np.int32))
    _known: list[Ids] = field(factory=list)
    _depth: int = 0  # of the tape that was last proposed for; not all of it may have been read yet
    _breaks: int = 0
    _before: tuple[float, float] = (0.0, 0.0)  # saved and lost when the answer began
    _shortest: int = 1
    _proposed: int = 0
    _place: Place | None = None  # where the last proposal came from
    _passes: int = 0
    _tokens: int = 0
    _drafted: list[int] = field(factory=lambda: [0] * len(BUCKETS))
    _accepted: list[int] = field(factory=lambda: [0] * len(BUCKETS))

    def __len__(self) -> int:
        """Tokens of its text."""
        return len(self._source.text)

    def begin(self, shortest: int | None = None) -> None:
        """An answer begins. `shortest`: the shortest match that may draft; 0 never drafts, None leaves it to costs."""
        self._source.begin()
        self.ledger.begin()
        self.lengths.acceptance.begin()
        self._shortest = 1 if shortest is None else shortest
        self._proposed, self._place = 0, None
        self._before = self.ledger.saved, self.ledger.lost
        self._passes = self._tokens = 0
        self._drafted, self._accepted = [0] * len(BUCKETS), [0] * len(BUCKETS)

    def follow(self, history: Ids) -> None:
        """The tape is `history` now. Called after every prefill chunk; costs about 3 µs for a token not seen before."""
        start = self._enter(history, FOLLOWED)
        self._source.read(self._tape[start:].tolist())

    def propose(self, history: Ids, limit: int) -> Sequence[int]:
        """At most `limit` tokens that may follow `history`; none where they would not pay.

        What it gained since the last proposal counts as generated.
        """
        self._depth = len(history)
        start = self._enter(history, CAUGHT_UP)
        if len(self._tape) < len(history):
            self._source.read(self._tape[start:].tolist())
            self._proposed, self._place = 0, None
            return []
        prompt = max(start, len(history) - 1 - self._proposed)
        self._source.read(history[start:prompt].tolist())
        for token in history[prompt:].tolist():
            self._say(token)
        self.lengths.costs.deepen(len(history))
        draft = self._draft(min(limit, self.lengths.costs.longest))
        self._proposed = len(draft)
        return draft

    def observe(self, accepted: int, seconds: float) -> None:
        """The step of the last proposal took `seconds` and kept `accepted` of its tokens and one more."""
        single = self.lengths.costs.table[1]
        self.lengths.costs.observe(1 + self._proposed, seconds, self._depth)
        self._passes += 1
        self._tokens += 1 + accepted
        if not self._proposed or self._place is None:
            return self.ledger.rest(1)
        self.ledger.enter(accepted, seconds, single)
        column = bucket(self._place.length)
        self._drafted[column] += self._proposed
        self._accepted[column] += accepted

    @property
    def figures(self) -> DraftFigures:
        return DraftFigures(
            drafted=sum(self._drafted),
            accepted=sum(self._accepted),
            passes=self._passes,
            tokens=self._tokens,
            seconds_saved=self.ledger.saved - self._before[0],
            seconds_lost=self.ledger.lost - self._before[1],
            on=self.ledger.on,
            by_length=tuple(zip(BUCKETS, self._drafted, self._accepted, strict=True)),
        )

    def check(self) -> None:
        """The text ends with the tape, as far back as its last passage goes."""
        size = min(len(self._tape), OVERLAP)
        assert (
            self._source.text.tokens[len(self._source.text) - size :] == self._tape[len(self._tape) - size :].tolist()
        )
        assert len(self._known) <= REMEMBERED

    def _draft(self, limit: int) -> list[int]:
        place = self._place = self._source.place
        if place is None or not self.ledger.on or not self._shortest or place.length < self._shortest:
            return []
        chosen = self.lengths.choose(place.kind, place.length, limit)
        draft = self._source.draft(chosen)
        if len(draft) < chosen:  # the text ends there; so many rows may be a bad choice
            return draft[: self.lengths.choose(place.kind, place.length, len(draft))]
        return draft

    def _say(self, token: int) -> None:
        place = self._source.place
        right = self._source.say(token, self._trust)
        if place is not None:
            self.lengths.acceptance.observe(place.kind, place.length, right)

    def _trust(self, place: Place) -> float:
        return self.lengths.acceptance.rate(place.kind, place.length)

    def _enter(self, tape: Ids, most: int) -> int:
        """Make the next `most` tokens of this the tape; from where on its tokens are not in the text yet."""
        size, old = len(self._tape), self._tape
        start = size if size <= len(tape) and np.array_equal(old, tape[:size]) else self._turn_to(tape)
        start = self._renewed(start, len(tape))
        self._tape = tape[: start + most].copy()
        return start

    def _turn_to(self, tape: Ids) -> int:
        """Begin a passage for another tape: behind what is known of it, with the end of that said once more."""
        self._known = [self._tape, *self._known][:REMEMBERED]
        # The last token is read in any case: it is what the next match is found by.
        start = max(0, min(len(tape) - 1, max(agreement(tape, known) for known in self._known)))
        self._breaks += 1
        self._source.read([-self._breaks, *tape[max(0, start - OVERLAP) : start].tolist()])
        return start

    def _renewed(self, start: int, length: int) -> int:
        """Begin the text anew once it is long, at a time when that is not noticed; or else in any case."""
        size = len(self._source.text)
        if size <= CAPACITY or (length - start < BULK and size <= 2 * CAPACITY):
            return start
        self._source, self._known = Source(), []
        return 0


def agreement(one: Ids, other: Ids) -> int:
    """Length of the common prefix."""
    size = min(len(one), len(other))
    differs = np.flatnonzero(one[:size] != other[:size])
    return int(differs[0]) if len(differs) else size
