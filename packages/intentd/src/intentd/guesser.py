"""Owns the one guess in flight: its stream, its end and what it cost. Which guess that is, others decide.

A guess that fails is counted and never shown (S12).
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable

from intentd.plan.ledger import Ledger
from intentd.warmth import Warmth
from modelwire.client import OperationStream
from modelwire.errors import DaemonUnreachable, EndpointError, ErrorCode, WireError
from modelwire.logs import told
from modelwire.messages import Done, Progress, Reason

log = logging.getLogger(__name__)

GUESS_AGAIN_S = 10.0
Measured = Callable[[int], object]
FAULTS = (WireError, DaemonUnreachable, EndpointError)
_WARM = {Reason.PREFILLED, Reason.DUPLICATE}


class Guesser:
    """At most one guess. `changed` is called when it has ended, or when a failed one may be tried again."""

    def __init__(self, ledger: Ledger, warm: Warmth, figures: Counter[str], changed: Callable[[], None]) -> None:
        self.failed: set[str] = set()
        self._ledger = ledger
        self._warm = warm
        self._figures = figures
        self._changed = changed
        self._guess: tuple[str, asyncio.Task[None]] | None = None
        self._progress: Progress | None = None

    @property
    def key(self) -> str | None:
        """Of the turn that is being prefilled."""
        return self._guess[0] if self._guess else None

    @property
    def progress(self) -> dict[str, int]:
        """How far the guess is, in tokens of its prompt; nothing where there is none, or none that has begun."""
        seen = self._progress if self._guess else None
        return {"guess_done": seen.done, "guess_total": seen.total} if seen else {}

    def start(self, send: Callable[[], OperationStream], key: str, account: str, measured: Measured) -> None:
        """The guess before it, if there is one, is stopped. `measured` is told how many tokens its prompt has."""
        self.stop()
        self._progress = None
        self._guess = key, asyncio.get_running_loop().create_task(self._make(send, key, account, measured))

    def stop(self) -> None:
        """Its stream's end cancels it at modeld, where its finished chunks stay for a while."""
        if self._guess:
            self._guess[1].cancel()
            self._guess = None

    async def drop(self) -> None:
        """As `stop`; returns when nothing of it is left."""
        if self._guess:
            task = self._guess[1]
            self.stop()
            await asyncio.gather(task, return_exceptions=True)

    async def _make(self, send: Callable[[], OperationStream], key: str, account: str, measured: Measured) -> None:
        self._figures["guesses_sent"] += 1
        begun, tokens = time.monotonic(), 0
        try:
            async with send() as stream:
                async for reply in stream:
                    if isinstance(reply, Progress):
                        self._progress = reply
                        tokens = reply.done - reply.reused
                    elif isinstance(reply, Done):
                        self._done(account, key, reply)
                        measured(reply.usage.prompt)
        except FAULTS as fault:
            self._has_failed(key, fault, retry=getattr(fault, "retry", True))
            measured(overflowing(fault))
        except Exception as fault:  # ours: without a pause it would be made again at once
            log.error("a guess could not be made:\n%s", told(fault))
            self._has_failed(key, type(fault).__name__, retry=True)
        except asyncio.CancelledError:
            self._ledger.guessed(account, tokens)
            self._warm.interrupted(key, account, tokens, time.monotonic() - begun)
            raise
        finally:
            if self._guess and self._guess[1] is asyncio.current_task():
                self._guess = None
            self._changed()

    def _done(self, account: str, key: str, done: Done) -> None:
        usage = done.usage
        log.info("guess %s: %s, %d of %d tokens prefilled", key, done.reason, usage.prefilled, usage.prompt)
        self._ledger.guessed(account, usage.prefilled)
        if done.reason in _WARM:
            self._figures["guesses_finished"] += 1
            self._warm.guessed(key, account, usage.prefilled, done.timings.prefill / 1000)
        else:
            self._warm.interrupted(key, account, usage.prefilled, done.timings.prefill / 1000)
            if done.reason is Reason.PREEMPTED:
                self._ledger.preempted(account)
            elif done.reason is Reason.CONTEXT:  # modeld had no room for all of it, and may have later
                self._has_failed(key, "modeld has no room for it", retry=True)

    def _has_failed(self, key: str, why: object, *, retry: bool) -> None:
        self._figures["guesses_failed"] += 1
        self.failed.add(key)
        if retry:
            asyncio.get_running_loop().call_later(GUESS_AGAIN_S, self._may_try_again, key)
        log.info("guess %s failed: %s", key, why)

    def _may_try_again(self, key: str) -> None:
        self.failed.discard(key)
        self._changed()


def overflowing(fault: Exception) -> int:
    """The tokens of the prompt that did not fit; 0 for any other fault."""
    if isinstance(fault, WireError) and fault.code == ErrorCode.CONTEXT_OVERFLOW:
        return fault.numbers.get("prompt", 0)
    return 0
