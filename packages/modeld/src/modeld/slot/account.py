"""Owns the account of one operation: what it reused, what it did, how long it took. It measures nothing itself."""

from attrs import define, field

from modeld.engine.messages import DraftFigures, Generated
from modeld.slot.claims import Claim
from modeld.slot.prefill import Counts
from modelwire.messages import Outcome, Timings, Usage


@define(kw_only=True)
class Account:
    """Figures of one operation while it runs. Times are seconds of the slot's clock, `passes` those before a token."""

    began: float
    guess: bool
    tokenised: float = 0.0
    prefilled: float = 0.0
    first_token: float | None = None
    passes: int = 0
    prompt: int = 0
    reused: int = 0
    generated: int = 0
    claim: Claim | None = None
    drafts: DraftFigures | None = None
    last: Generated | None = None  # it goes with the end
    prefill: Counts = field(factory=Counts)

    def usage(self) -> Usage:
        return Usage(
            prompt=self.prompt,
            reused=self.reused,
            guessed=self._guessed,
            prefilled=self.prefill.prefilled,
            generated=self.generated,
            drafted=self.drafts.drafted if self.drafts is not None else 0,
            accepted=self.drafts.accepted if self.drafts is not None else 0,
            forward_passes=self.passes,
            chunks_finished=self.prefill.finished,
            chunks_stopped=self.prefill.stopped,
            outcome=self._outcome(),
        )

    def timings(self, now: float, chunk_ms: float) -> Timings:
        first = self.first_token
        return Timings(
            tokenise=1000 * (self.tokenised - self.began),
            prefill=1000 * max(0.0, self.prefilled - self.tokenised),
            first_token=1000 * (first - self.began) if first is not None else 0.0,
            decode=1000 * (now - first) if first is not None else 0.0,
            total=1000 * (now - self.began),
            stopped_chunk=self.prefill.stopped_ms,
            chunk=chunk_ms,
        )

    @property
    def _guessed(self) -> int:
        return self.claim.guessed if self.claim is not None and self.reused else 0

    def _outcome(self) -> Outcome:
        if self.guess or self.claim is None:
            return Outcome.NONE
        if self.claim.whole and self.reused == self.claim.reused:
            return Outcome.HIT
        if self._guessed:
            return Outcome.PARTIAL
        return Outcome.WARM if self.reused else Outcome.COLD
