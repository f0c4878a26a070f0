"""Owns the connection to modeld, the one guess in flight, and what is warm by modeld's own word. It decides nothing.

`plan.policy` decides; what is guessed and what is asked is built by the same function (S10). A guess that fails is
counted and never shown (S12).
"""

import asyncio
import contextlib
import hashlib
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable

from intentd.plan.offers import Offering
from intentd.plan.policy import Guess, NoGuess, Situation, decide
from intentd.plan.turns import PlannedTurn, TurnError
from modelwire.client import Client, OperationStream
from modelwire.errors import DaemonUnreachable, EndpointError, ErrorCode, WireError
from modelwire.link import probe
from modelwire.messages import Done, Outcome, Reason

log = logging.getLogger(__name__)

CHECK_S = 1.0
"""How often modeld is asked whether it is still the same, and files are looked at again."""
FIRST_RETRY_S, LAST_RETRY_S = 0.2, 5.0
TIMEOUT_S = 5.0
GUESS_AGAIN_S = 10.0
_WARM = {Reason.PREFILLED, Reason.DUPLICATE, Reason.CONTEXT}
_FAULTS = (WireError, DaemonUnreachable, EndpointError)

TurnOf = Callable[[Offering, int], PlannedTurn]
"""The turn of an offer for a model with so many tokens of context. Raises `TurnError`."""


class Speculator:
    """Keeps the newest offer warm, and asks."""

    def __init__(self, endpoint: str, turn_of: TurnOf, newest: Callable[[], Offering | None]) -> None:
        self.endpoint = endpoint
        self.figures: Counter[str] = Counter()
        self.paused = False
        self.commands_running = 0
        self._turn_of = turn_of
        self._newest = newest
        self._changed = asyncio.Event()
        self._connected = asyncio.Event()
        self._client: Client | None = None
        self._instance = ""
        self._context = 0
        self._answering = 0
        self._guess: tuple[str, asyncio.Task[None]] | None = None
        self._warm: str | None = None
        self._warm_offer: str | None = None
        self._failed: set[str] = set()

    def __repr__(self) -> str:
        return f"<Speculator {self.endpoint} {self.state}: {self.reason}>"

    @property
    def reachable(self) -> bool:
        return self._client is not None

    @property
    def state(self) -> str:
        if self._answering:
            return "answering"
        return "paused" if self.paused else "guessing" if self._guess else "idle"

    @property
    def reason(self) -> str:
        """Why nothing is guessed now; empty where something is about to be."""
        decision, _, _ = self._look()
        return decision.reason if isinstance(decision, NoGuess) else ""

    def is_warm(self, offering: Offering) -> bool:
        return offering.id == self._warm_offer

    def poke(self) -> None:
        """Something has changed that a decision may depend on."""
        self._changed.set()

    # --- the connection ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until it is cancelled."""
        delay = FIRST_RETRY_S
        while True:
            try:
                async with Client(self.endpoint, name="intentd", timeout=TIMEOUT_S) as client:
                    await self._meet(client)
                    delay = FIRST_RETRY_S
                    await self._keep(client)
            except _FAULTS as fault:
                log.debug("modeld: %s", fault)
            finally:
                await self._part()
            await self._wait(delay)
            delay = min(delay * 2, LAST_RETRY_S)

    async def _meet(self, client: Client) -> None:
        """Learns what a new instance is; nothing that was said to another one counts."""
        description = await client.describe()
        self._instance = client.welcome.instance
        self._context = description.limits.context
        self._warm = self._warm_offer = None
        self._failed.clear()
        self._client = client
        self._connected.set()
        log.info("modeld %s: %s, %d tokens of context", self._instance, description.model.name, self._context)

    async def _keep(self, client: Client) -> None:
        while True:
            self._consider(client)
            if not await self._wait(CHECK_S):
                await client.status()
                if client.welcome.instance != self._instance:
                    await self._drop_guess()
                    await self._meet(client)

    async def _part(self) -> None:
        await self._drop_guess()
        self._client = None
        self._connected.clear()
        self._warm = self._warm_offer = None

    async def _wait(self, seconds: float) -> bool:
        """Whether something changed before the time was over."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    # --- guessing ---------------------------------------------------------------------------------------------

    def _look(self) -> tuple[Guess | NoGuess, Offering | None, PlannedTurn | None]:
        offering, turn = self._newest(), None
        decision: Guess | NoGuess
        try:
            turn = self._turn_of(offering, self._context) if offering and self._client else None
            decision = decide(self._situation(turn.key if turn else offering.id if offering else None))
        except TurnError as fault:
            decision = NoGuess(str(fault))
        return decision, offering, turn

    def _situation(self, wanted: str | None) -> Situation:
        return Situation(
            paused=self.paused,
            reachable=self.reachable,
            commands_running=self.commands_running,
            answering=self._answering > 0,
            wanted=wanted,
            in_flight=self._guess[0] if self._guess else None,
            warm=self._warm,
            failed=frozenset(self._failed),
        )

    def _consider(self, client: Client) -> None:
        decision, offering, turn = self._look()
        if isinstance(decision, NoGuess) or offering is None or turn is None:
            return
        if self._guess:
            self._guess[1].cancel()  # its stream's end cancels it at modeld, where it is replaced anyway
        task = asyncio.get_running_loop().create_task(self._make_guess(client, offering, turn))
        self._guess = (turn.key, task)

    async def _make_guess(self, client: Client, offering: Offering, turn: PlannedTurn) -> None:
        self.figures["guesses_sent"] += 1
        try:
            async with self._send(client, offering, turn, speculative=True) as stream:
                done = await stream.done()
        except _FAULTS as fault:
            self._guess_failed(turn.key, fault)
        else:
            log.info(
                "guess %s: %s, %d of %d tokens prefilled",
                turn.key,
                done.reason,
                done.usage.prefilled,
                done.usage.prompt,
            )
            if done.reason in _WARM:
                self.figures["guesses_finished"] += 1
                self._warm, self._warm_offer = turn.key, offering.id
        finally:
            if self._guess and self._guess[1] is asyncio.current_task():
                self._guess = None
                self.poke()

    def _guess_failed(self, key: str, fault: Exception) -> None:
        self.figures["guesses_failed"] += 1
        self._failed.add(key)
        if getattr(fault, "retry", True):
            asyncio.get_running_loop().call_later(GUESS_AGAIN_S, self._failed.discard, key)
        log.info("guess %s failed: %s", key, fault)

    async def _drop_guess(self) -> None:
        if self._guess:
            _, task = self._guess
            self._guess = None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # --- asking -----------------------------------------------------------------------------------------------

    async def answer(self, offering: Offering) -> AsyncGenerator[object, None]:
        """The replies to the offer's turn, as a real operation; closing the iterator cancels it.

        It never waits for the guess: modeld adopts that or stops it. Raises `WireError`, `DaemonUnreachable`.
        """
        client = await self._reach()
        try:
            turn = self._turn_of(offering, self._context)
        except TurnError as fault:
            raise WireError(ErrorCode.BAD_REQUEST, str(fault)) from None
        self._answering += 1
        self.figures["answers"] += 1
        try:
            async with self._send(client, offering, turn, speculative=False) as stream:
                async for reply in stream:
                    if isinstance(reply, Done):
                        self._answered(offering, turn, reply)
                    yield reply
        except _FAULTS:
            self.figures["answers_failed"] += 1
            raise
        finally:
            self._answering -= 1
            self.poke()

    def _answered(self, offering: Offering, turn: PlannedTurn, done: Done) -> None:
        if done.usage.outcome is not Outcome.NONE:
            self.figures[f"answers_{done.usage.outcome}"] += 1
            self._warm, self._warm_offer = turn.key, offering.id
        log.info("answer %s: %s, %s", turn.key, done.reason, done.usage.outcome)

    async def _reach(self) -> Client:
        if self._client is None:
            probe(self.endpoint, "modeld")  # says at once that nobody is there, and how to start it
            self.poke()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TIMEOUT_S):
                    await self._connected.wait()
        if self._client is None:
            raise WireError(ErrorCode.NOT_READY, f"modeld at {self.endpoint} is not ready yet: try again", retry=True)
        return self._client

    def _send(self, client: Client, offering: Offering, turn: PlannedTurn, *, speculative: bool) -> OperationStream:
        session = hashlib.sha256(offering.workspace.encode(errors="replace")).hexdigest()[:16]
        return client.turn(
            session=session, prefix=turn.prefix, suffix=turn.suffix, decode=turn.decode, speculative=speculative
        )
