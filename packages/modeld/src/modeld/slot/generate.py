"""Owns the decode loop: draft, verify in one batch, accept the longest agreeing run, roll back the rest.

Sampling is done at each position in order, and a drafted token is accepted only where it equals the sample. So the
output does not depend on the drafts.
"""

from collections.abc import Callable, Sequence

import numpy as np
from attrs import define, field

from modeld.backends.base import Logits, LogitsBackend, StopFlag, Vocabulary
from modeld.engine.messages import Generated
from modeld.slot.draft.base import Drafter
from modeld.slot.prefill import Counts, Outcome, Prefill, Work
from modeld.slot.sampling import Sampler
from modeld.slot.shelf import Shelf
from modeld.slot.stops import StopText
from modelwire.messages import DecodeConfig, Reason


class Answer:
    """What was generated for one request, and when it is over. `before`: the last three ids that it goes on from."""

    def __init__(
        self,
        config: DecodeConfig,
        vocabulary: Vocabulary,
        emit: Callable[[Generated], None],
        before: Sequence[int] = (),
    ) -> None:
        self._config = config
        self._vocabulary = vocabulary
        self._emit = emit
        # Three tokens are enough for half a character. A special token, which has no bytes, ends one.
        self._text = StopText(config.stop, b"".join(vocabulary.piece(token) or b"\0" for token in before))
        self._ids: list[int] = []
        self._unsent_ids: list[int] = []
        self._unsent_text = ""
        self.reason: Reason | None = None

    @property
    def generated(self) -> int:
        return len(self._ids)

    @property
    def left(self) -> int:
        """How many tokens may still come."""
        return self._config.max_tokens - len(self._ids)

    def add(self, token: int) -> bool:
        """Takes a token; False if it is not part of the answer because it ends it."""
        if token in self._vocabulary.end_ids:
            self.reason = Reason.END
            return False
        self._ids.append(token)
        self._unsent_ids.append(token)
        self._unsent_text += self._text.feed(self._vocabulary.piece(token))
        if self._text.stopped:
            self.reason = Reason.STOP
        elif not self.left:
            self.reason = Reason.LENGTH
        return True

    def end(self, reason: Reason) -> None:
        """Ends it from outside. After a stop flag, held text stays unsaid."""
        self.reason = reason

    def send(self) -> None:
        """Emits what came since the last time."""
        if self.reason in (Reason.END, Reason.LENGTH, Reason.CONTEXT):
            self._unsent_text += self._text.flush()
        if self._unsent_ids or self._unsent_text:
            self._emit(Generated(text=self._unsent_text, ids=tuple(self._unsent_ids)))
        self._unsent_ids, self._unsent_text = [], ""


@define(kw_only=True)
class Decoder:
    """Generates on a backend with logits. `context` bounds the tape."""

    backend: LogitsBackend
    prefill: Prefill
    shelf: Shelf
    stop: StopFlag
    drafter: Drafter
    sampler: Sampler
    answer: Answer
    clock: Callable[[], float]
    counts: Counts = field(factory=Counts)

    def run(self, work: Work, logits: Logits) -> None:
        """Generates after `work.history`, whose last position has these logits, until the answer has a reason.

        Afterwards `work.history` ends with the answer, and `work.resident` says how much of it is on the tape.
        """
        if self.stop.is_set():
            return self.answer.end(Reason.PREEMPTED)
        self._take(work, self.sampler.choose(logits, work.history))
        self.answer.send()
        while self.answer.reason is None:
            self._step(work)
            self.answer.send()
        self._forget_drafts(work)

    def _step(self, work: Work) -> None:
        """One batch: the last token and the draft behind it. Its row j gives the token after draft[:j]."""
        if len(work.history) > self.backend.context:
            return self.answer.end(Reason.CONTEXT)
        draft = self._draft(work)
        said, began = len(work.history), self.clock()
        ahead = Work(tape=work.tape, history=np.append(work.history, np.array(draft, np.int32)), resident=work.resident)
        outcome = self.prefill.extend(ahead, rows=1 + len(draft), counts=self.counts)
        work.resident = min(ahead.resident, said)
        if outcome is not Outcome.READY:
            return self.answer.end(Reason.CONTEXT if outcome is Outcome.FULL else Reason.PREEMPTED)
        took = self.clock() - began
        accepted = self._accept(work, draft)
        # Positions of accepted tokens are right already; the rest of the draft is cut by the next extend.
        work.resident = said + accepted
        self.drafter.observe(accepted, took)

    def _accept(self, work: Work, draft: Sequence[int]) -> int:
        """Samples row by row as long as samples are what was drafted and the answer goes on; how many were."""
        for row in range(1 + len(draft)):
            token = self.sampler.choose(self.backend.logits(row), work.history)
            self._take(work, token)
            if self.answer.reason is not None or row == len(draft) or token != draft[row]:
                break
        return row

    def _draft(self, work: Work) -> Sequence[int]:
        """A draft that fits what may still be said, the context, a batch, and the room there is without evicting."""
        limit = min(
            self.answer.left - 1,
            self.backend.context - len(work.history),
            self.backend.chunk - 1,
            self.shelf.free_cells - 1,
        )
        draft = self._proposed(work, limit)
        if len(draft) and len(draft) >= (room := self.shelf.room(work.tape)):  # a guess, whose budget is less
            draft = self._proposed(work, room - 1)
        return draft

    def _proposed(self, work: Work, limit: int) -> Sequence[int]:
        return self.drafter.propose(work.history, max(0, limit))[: max(0, limit)]

    def _take(self, work: Work, token: int) -> None:
        if self.answer.add(token):
            work.history = np.append(work.history, np.int32(token))

    def _forget_drafts(self, work: Work) -> None:
        """What was written behind a finished answer is a draft that nobody said."""
        if self.counts.passes and not self.shelf.cut(work.tape, work.resident):
            work.resident = 0
