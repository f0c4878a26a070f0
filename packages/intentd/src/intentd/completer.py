"""Owns completions at a place: ahead of the question while nothing else is wanted, or asked for. It shows none."""

import hashlib
import logging
import time
from collections.abc import AsyncGenerator, Callable

from attrs import define

from intentd.guesser import overflowing
from intentd.messages import Complete, CompletionUsed
from intentd.plan.ahead import FINISHED
from intentd.plan.inline import Completion, Lead
from intentd.plan.policy import Candidate, NoGuess, Situation, decide
from intentd.plan.turns import TurnError
from intentd.planner import Planner
from intentd.speculator import Speculator
from modelwire.client import Client, OperationStream
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import Done, Progress, Reason, Tokens

log = logging.getLogger(__name__)

INLINE = "inline"
"""The account of completions."""


@define(eq=False)
class Completer:
    """A document of an editor has one lane: a newer place ends what was made for the older one."""

    speculator: Speculator
    planner: Planner
    _now: Callable[[], float] = time.monotonic

    async def complete(self, editor: str, message: Complete) -> AsyncGenerator[object, None]:
        """The replies to `editor`; closing the iterator ends it. Raises `WireError`, `DaemonUnreachable`."""
        self._check(message)
        await self.speculator.reach()  # says what its model takes
        fits = False
        while not fits:
            completion = await self._planned(message)
            client = await self.speculator.reach()
            self._check(message)  # that took a while
            try:
                with self.speculator.busy():
                    async with self._send(client, editor, message, completion) as stream:
                        if message.ahead:
                            self.speculator.yielding.add(stream)
                        async for reply in self._read(stream, completion.lead, message):
                            yield reply
                fits = True
            except WireError as fault:
                if not self.planner.measured(message.view.path, completion.turn, overflowing(fault)):
                    raise

    def used(self, message: CompletionUsed) -> None:
        """What became of completions in an editor."""
        ledger, figures = self.speculator.ledger, self.speculator.figures
        figures["completions_accepted"] += message.accepted
        figures["completions_rejected"] += message.rejected
        if message.outcome:
            ledger.asked(INLINE, message.outcome, guessed=message.ahead, now=self._now())
        elif message.ahead:
            ledger.dropped(INLINE, message.prefilled, message.seconds, self._now())

    def _check(self, message: Complete) -> None:
        """Raises `WireError` where nothing is made ahead now."""
        now: Situation = self.speculator.situation((Candidate(INLINE, INLINE),))
        decision = decide(now)
        if message.ahead and isinstance(decision, NoGuess):
            raise WireError(ErrorCode.NOT_READY, decision.reason, retry=True)

    async def _planned(self, message: Complete) -> Completion:
        """Raises `WireError`."""
        try:
            return await self.planner.completion(message, self.speculator.gap, self.speculator.context)
        except TurnError as fault:
            raise WireError(ErrorCode.BAD_REQUEST, str(fault)) from None

    def _send(self, client: Client, editor: str, message: Complete, completion: Completion) -> OperationStream:
        own = hashlib.sha256(f"{editor}\0{message.view.path}".encode(errors="replace")).hexdigest()[:16]
        turn = completion.turn
        return client.turn(
            session=f"inline-{own}",
            prefix=turn.prefix,
            suffix=turn.suffix,
            decode=turn.decode,
            speculative=message.ahead,
            ahead=message.ahead,
            lane=f"inline-{own}",
            deadline_ms=message.deadline_ms,
        )

    async def _read(self, stream: OperationStream, lead: str, message: Complete) -> AsyncGenerator[object, None]:
        taken, began, tokens, ended = Lead(lead), self._now(), 0, False
        try:
            async for reply in stream:
                if isinstance(reply, Tokens):
                    if text := taken.feed(reply.text):
                        yield Tokens(text=text)
                    if taken.wrong:
                        yield Done(reason=Reason.END)
                        return
                    continue
                if isinstance(reply, Progress):
                    tokens = reply.done - reply.reused
                elif isinstance(reply, Done):
                    ended = True
                    self._ended(message, reply)
                yield reply
        finally:
            if message.ahead and not ended:
                self._cut_short(tokens, self._now() - began)

    def _ended(self, message: Complete, done: Done) -> None:
        if message.ahead:
            self.speculator.ledger.guessed(INLINE, done.usage.prefilled)
            if done.reason not in FINISHED:  # the editor has nothing to show, and says nothing of it
                spent = (done.timings.prefill + done.timings.decode) / 1000
                self.speculator.ledger.lost(INLINE, done.usage.prefilled, spent)
            if done.reason is Reason.PREEMPTED:
                self.speculator.ledger.preempted(INLINE)

    def _cut_short(self, tokens: int, seconds: float) -> None:
        """The person went another way, or the model did: what had been prefilled by then is lost."""
        self.speculator.ledger.guessed(INLINE, tokens)
        self.speculator.ledger.lost(INLINE, tokens, seconds)
