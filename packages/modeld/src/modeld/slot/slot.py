"""Owns the slot: one operation from prompt to its end. The parts do the work; this is their order and the account.

It is pure but for the backend and the clock that it is given. One thread uses it, one operation at a time.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
from attrs import evolve

from modeld.backends.base import (
    TEST_SEQUENCES,
    Backend,
    BackendError,
    Ids,
    LogitsBackend,
    NativeBackend,
    StopFlag,
    Stopped,
)
from modeld.engine.messages import (
    Advanced,
    Begun,
    DraftFigures,
    Encode,
    Encoded,
    Ended,
    Failed,
    FromEngine,
    Generated,
    Probed,
    Probing,
    Run,
    Save,
    Saved,
    ShelfFigures,
)
from modeld.slot.account import Account
from modeld.slot.claims import Claim, Wanted
from modeld.slot.draft.base import Drafter, Drafters, NoDrafts
from modeld.slot.exactness import ExactnessTest
from modeld.slot.generate import Answer, Decoder
from modeld.slot.native import generate_natively
from modeld.slot.native_exactness import NativeExactnessTest
from modeld.slot.parking import Parking
from modeld.slot.prefill import Counts, Outcome, Pace, Prefill, Work, block_of
from modeld.slot.prompt import Encoder, check_size
from modeld.slot.sampling import Sampler
from modeld.slot.settings import SlotSettings
from modeld.slot.shelf import Shelf
from modeld.slot.tape import Owner
from modelwire.codec import MAX_ITEMS
from modelwire.decoding import check_config
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import DecodeConfig, Reason

Emit = Callable[[FromEngine], None]


class Slot:
    """Serves `Run` and `Encode`. Without `drafters` it generates token by token.

    `awaited` says whether the next request is there already.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        stop: StopFlag,
        clock: Callable[[], float],
        settings: SlotSettings,
        drafters: Drafters | None = None,
        awaited: Callable[[], bool] = lambda: False,
    ) -> None:
        self._backend = backend
        self._scoring = backend if backend.capabilities.logits and isinstance(backend, LogitsBackend) else None
        self._stop = stop
        self._awaited = awaited
        self._clock = clock
        can_draft = self._scoring is not None and backend.capabilities.rollback
        self._drafters = drafters if drafters is not None and can_draft else NoDrafts()
        self._encoder = Encoder(backend.vocabulary, settings)
        self._pace = Pace(settings, backend.chunk, block_of(backend))
        parking = Parking(
            backend,
            max_bytes=settings.parking_bytes,
            least=settings.parking_least,
            clock=clock,
            rate=lambda: self._pace.rate,
        )
        self._shelf = Shelf(backend, parking=parking, spare_cells=settings.spare_cells)
        self._sample = settings.sample
        self._exactness: ExactnessTest | NativeExactnessTest | None = None
        self._prefill = Prefill(backend, self._shelf, self._pace, stop, clock)

    def __repr__(self) -> str:
        return f"<Slot on {type(self._backend).__name__}: {self._shelf!r}>"

    @property
    def shelf(self) -> Shelf:
        return self._shelf

    def figures(self) -> ShelfFigures:
        return self._shelf.figures()

    def check(self) -> None:
        """Asserts what must hold between operations."""
        self._shelf.check()

    def encode(self, request: Encode) -> Encoded | Failed:
        try:
            check_size(request.prompt, self._backend.context)
            ids = self._encoder.encode(request.prompt, complete=request.complete)
            if len(ids) > MAX_ITEMS:
                raise _too_many(len(ids))
        except WireError as fault:
            return _failed(fault)
        except BackendError as fault:
            return _failed_library(fault)
        return Encoded(ids=tuple(ids.tolist()))

    def save(self, request: Save) -> Saved:
        """Keeps a tape's state for a snapshot; tapes stay as they are."""
        self._close(request.closed)
        ids = np.frombuffer(request.ids, "<i4").astype(np.int32)
        try:
            return Saved(bytes=self._shelf.save(ids, Owner(request.client, request.place)))
        except Stopped:
            return Saved(bytes=0)

    def probe(self, emit: Emit = lambda message: None) -> Probed | Failed:
        """Goes on with the test of exactness; tapes stay as they are. Emits `Probing` after every call of the model."""
        try:
            test = self._exactness = self._exactness or self._new_test()
            if test is None:
                return Probed(finished=True)
            if (free := self._shelf.free_cells) < test.cells:
                why = f"the test needs {test.cells:,} free KV cells, and {free:,} are free: tapes hold the others"
                return Probed(finished=False, exactness=evolve(test.exactness, reason=why))
            own = range(self._backend.sequences, self._backend.sequences + TEST_SEQUENCES)
            finished = test.run(own, lambda: emit(Probing(progress=test.progress)))
            if not finished and not self._stop.is_set():
                raise BackendError("it ended a part of the test of exactness that nobody stopped")
        except BackendError as fault:
            return _failed_library(fault)
        return Probed(finished=finished, stopped=not finished, exactness=test.exactness)

    def _new_test(self) -> ExactnessTest | NativeExactnessTest | None:
        text = np.array(self._backend.vocabulary.tokenise(self._sample), np.int32)
        if len(text) <= 100:
            return None
        if self._scoring is not None:
            return ExactnessTest(self._scoring, text)
        assert isinstance(self._backend, NativeBackend), "a backend without logits generates by itself"
        return NativeExactnessTest(self._backend, text)

    def run(self, request: Run, emit: Emit) -> None:
        """Emits `Begun`, what happens, and exactly one `Ended` or `Failed`. Any exception is a bug: end the engine."""
        self._close(request.closed)
        try:
            ended = self._operate(request, emit)
        except WireError as fault:
            emit(_failed(fault))
        except BackendError as fault:
            emit(_failed_library(fault))
        else:
            emit(ended)
            if not request.guess:
                with suppress(Stopped):
                    self._shelf.leave_room(self._awaited)
            if ended.reason is not Reason.PREEMPTED:  # after a stop somebody waits
                with suppress(BackendError):  # the answer has ended, and what is resident stays so
                    self._backend.tidy(self._awaited)

    def _close(self, closed: Sequence[tuple[str, str]]) -> None:
        for client, session in closed:
            self._shelf.close(Owner(client, session))
        if closed:
            self._drafters.keep(self._shelf.clients)

    # --- one operation ----------------------------------------------------------------------------------

    def _operate(self, request: Run, emit: Emit) -> Ended:
        account = Account(began=self._clock(), guess=request.guess)
        config = self._config(request)
        ids = self._ids(request, config)
        self._refuse(config, len(ids))
        account.prompt, account.tokenised = len(ids), self._clock()
        reason = Reason.CONTEXT if len(ids) else Reason.PREFILLED
        try:
            claim = account.claim = self._claim(request, ids, config) if len(ids) else None
        except Stopped:
            claim, reason = None, Reason.PREEMPTED
        emit(Begun(ids=ids.astype("<i4").tobytes(), reused=claim.reused if claim is not None else 0))
        if claim is None:
            return self._ended(account, reason, 0)
        work = Work(tape=claim.tape, history=ids, resident=claim.reused)
        drafter = self._drafters.of(request.client)

        def advanced(length: int) -> None:
            answers = config is not None and length == len(ids)
            if not answers or self._scoring is None:  # a first token that follows at once says as much
                emit(Advanced(length=length))
            if not answers:  # before a first token that somebody waits for, nothing is read
                drafter.follow(ids[:length])

        try:
            reason = self._prefilled(work, account, advanced)
            if reason is Reason.PREFILLED and config is not None:
                reason = self._generated(work, config, account, drafter, emit)
        except BackendError:
            self._shelf.drop(work.tape)  # what a failed library left in it cannot be trusted
            raise
        if not work.tape.length:
            self._shelf.drop(work.tape)  # it would hold a sequence for nothing
        self._shelf.keep_budget()
        return self._ended(account, reason, work.resident)

    def _ended(self, account: Account, reason: Reason, length: int) -> Ended:
        chunk_ms = self._pace.cost_ms(self._pace.chunk(account.guess))
        timings = account.timings(self._clock(), chunk_ms)
        return Ended(
            reason=reason,
            length=length,
            usage=account.usage(),
            timings=timings,
            shelf=self.figures(),
            drafts=account.drafts,
            first_pass_at=account.prefill.first,
            last=account.last,
        )

    def _config(self, request: Run) -> DecodeConfig | None:
        """How to generate; None where nothing is."""
        if request.decode is None:
            return None
        check_config(request.decode)
        return request.decode if request.decode.max_tokens else None

    def _ids(self, request: Run, config: DecodeConfig | None) -> Ids:
        base = np.frombuffer(request.base, "<i4").astype(np.int32) if len(request.base) % 4 == 0 else None
        if base is None or (len(base) and not 0 <= base.min() <= base.max() < self._backend.vocabulary.size):
            raise WireError(ErrorCode.BAD_REQUEST, "the ids before the prompt are not of this model's vocabulary")
        context = min(self._backend.context, self._backend.cells)
        check_size(request.prompt, context)
        ids = self._encoder.encode(request.prompt, complete=request.complete, base=base)
        if config is not None and not len(ids):
            raise WireError(ErrorCode.BAD_REQUEST, "there is nothing to generate from: the prompt is empty")
        if len(ids) > context:
            raise _overflow(len(ids), context)
        return ids

    def _refuse(self, config: DecodeConfig | None, history: int) -> None:
        """Before anything is prefilled for it: what a backend that generates by itself cannot do."""
        if config is None or self._scoring is not None:
            return
        assert isinstance(self._backend, NativeBackend), "a backend without logits generates by itself"
        if refusal := self._backend.refusal(config, history):
            raise WireError(ErrorCode.BAD_REQUEST, refusal)

    def _claim(self, request: Run, ids: Ids, config: DecodeConfig | None) -> Claim | None:
        needs_logits = self._scoring is not None and (request.guess or config is not None)
        owner = Owner(request.client, request.session)
        wanted = Wanted(ids=ids, owner=owner, guess=request.guess, logits=needs_logits, generates=config is not None)
        if request.guess:
            self._shelf.leave_room(guess=wanted)
        return self._shelf.claim(wanted)

    def _prefilled(self, work: Work, account: Account, advanced: Callable[[int], None]) -> Reason:
        writes = work.resident < len(work.history)
        account.reused = work.resident
        counts, rows = account.prefill, 1 if self._scoring is not None else 0
        outcome = self._prefill.extend(work, rows=rows, counts=counts, advanced=advanced)
        account.reused = min(account.reused, work.resident - counts.prefilled)  # a refused trim may have lost them
        account.prefilled, account.passes = self._clock(), counts.passes
        if outcome is Outcome.READY:
            if writes and self._scoring is not None:
                self._shelf.keep(work.tape, self._scoring.logits(0))
            return Reason.PREFILLED
        if outcome is Outcome.FULL and not account.guess:
            room = work.resident + self._shelf.free_cells
            if len(work.history) <= room:
                raise BackendError(f"it has no room for {len(work.history)} tokens, and {room} should fit")
            raise _overflow(len(work.history), room)
        return Reason.CONTEXT if outcome is Outcome.FULL else Reason.PREEMPTED

    def _generated(self, work: Work, config: DecodeConfig, account: Account, drafter: Drafter, emit: Emit) -> Reason:
        counts = Counts()

        def sent(message: Generated) -> None:
            if account.first_token is None:
                account.first_token = self._clock()
                account.passes += counts.passes
            if answer.reason is not None and self._scoring is not None:
                account.last = message
            else:
                emit(message)

        answer = Answer(config, self._backend.vocabulary, sent, before=work.history[-3:].tolist())
        drafter.begin(config.speculative_ngram)
        account.drafts = self._decode(work, config, answer, drafter, counts)
        account.generated = answer.generated
        assert answer.reason is not None
        return answer.reason

    def _decode(
        self, work: Work, config: DecodeConfig, answer: Answer, drafter: Drafter, counts: Counts
    ) -> DraftFigures:
        if self._scoring is None:
            assert isinstance(self._backend, NativeBackend), "a backend without logits generates by itself"
            return generate_natively(self._backend, self._shelf, self._stop, work, config, answer, counts)
        logits = work.tape.kept_at(len(work.history))
        assert logits is not None, "a tape that is ready has the logits of its last position"
        decoder = Decoder(
            backend=self._scoring,
            prefill=self._prefill,
            shelf=self._shelf,
            stop=self._stop,
            drafter=drafter,
            sampler=Sampler(config),
            answer=answer,
            clock=self._clock,
            counts=counts,
        )
        decoder.run(work, logits)
        return drafter.figures


def _overflow(prompt: int, context: int) -> WireError:
    return WireError(
        ErrorCode.CONTEXT_OVERFLOW,
        f"the prompt has {prompt} tokens, the context holds {context}: shorten the prompt by {prompt - context} "
        "tokens, or start modeld with a larger --context",
        numbers={"prompt": prompt, "context": context, "excess": prompt - context},
    )


def _too_many(ids: int) -> WireError:
    return WireError(
        ErrorCode.TOO_LARGE,
        f"the text has {ids} tokens, a message holds {MAX_ITEMS}: tokenise it in parts",
        numbers={"tokens": ids, "limit": MAX_ITEMS},
    )


def _failed(fault: WireError) -> Failed:
    return Failed(code=fault.code, message=fault.message, retry=fault.retry, numbers=fault.numbers)


def _failed_library(fault: BackendError) -> Failed:
    return Failed(code=ErrorCode.ENGINE_FAILED, message=f"the model's library failed: {fault}", retry=True)
