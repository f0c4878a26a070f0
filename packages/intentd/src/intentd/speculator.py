"""Owns the connection to modeld: what is prepared there and what is asked. It decides nothing.

`plan.policy` decides, `guesser` keeps the one guess in flight, `warmth` what is resident. What is guessed and what is
asked is built by the same function (S10).
"""

import asyncio
import contextlib
import hashlib
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping
from functools import partial
from weakref import WeakSet

from intentd.guesser import FAULTS, Guesser, overflowing
from intentd.plan.desks import SHOWN, Desks
from intentd.plan.ledger import Ledger
from intentd.plan.offers import Intent, OfferBook, Offering
from intentd.plan.policy import Candidate, Guess, NoGuess, Situation, decide, must_stop
from intentd.plan.turns import Outdated, Passing, PlannedTurn, TurnError
from intentd.planner import Planner, measured_as
from intentd.sources.files import FileWatch
from intentd.warmth import Warmth
from modelwire.client import Client, OperationStream
from modelwire.errors import DaemonUnreachable, ErrorCode, WireError
from modelwire.link import probe
from modelwire.messages import Done, ModelDescription, Outcome, Progress, Status

log = logging.getLogger(__name__)

CHECK_S = 1.0
"""How often modeld is asked whether it is still the same."""
MAX_PREPARED = 3
"""So many offers are kept warm: modeld has room for a few guesses beside the sessions."""
OTHERS, FIX = "others", "fix"
"""The accounts of offers behind the first and of changes that mend the first: the likeliest must not pay for them."""
UNKNOWN_CONTEXT = 8192
"""What a prompt is shown for while no modeld has said how much it takes: modeld's own default."""
FIRST_RETRY_S, LAST_RETRY_S = 0.2, 5.0
TIMEOUT_S = 5.0
_AWAY = {"loading", "restarting", "unloaded"}
"""States of a modeld without a model in memory."""
Wanted = tuple[str, Intent]
"""A question that may be asked: the offer's id and what is asked of it."""


class Speculator:
    """Keeps the likeliest offers warm, one guess at a time, and asks."""

    def __init__(self, endpoint: str, planner: Planner, offers: OfferBook, desks: Desks | None = None) -> None:
        self.endpoint = endpoint
        self.figures: Counter[str] = Counter()
        self.ledger = Ledger()
        self.paused = False
        self.commands_running = 0
        self._pressure: str | None = None
        self.planner = planner
        self._offers = offers
        self._desks = desks or Desks()
        self.watch = FileWatch(self.poke)
        self._changed = asyncio.Event()
        self._connected = asyncio.Event()
        self._client: Client | None = None
        self._met: tuple[str, str, int] | None = None
        """Which modeld, model and engine is known: what was prefilled in another one is gone."""
        self._model: tuple[str, ModelDescription] | None = None
        self._asleep = frozenset[str]()
        self.context = 0
        self.gap: tuple[str, ...] = ()
        """The model's tokens around a gap: prefix, suffix, middle."""
        self._answering = 0
        self._completing = 0
        self.yielding: WeakSet[OperationStream] = WeakSet()
        """Completions that are made ahead: they end where a guess has to."""
        self._ending: set[asyncio.Task[None]] = set()
        self._plans: dict[Wanted, Candidate] = {}
        self._warm = Warmth(self.ledger)
        self._guesser = Guesser(self.ledger, self._warm, self.figures, self.poke)
        self._no_turns: dict[Wanted, str] = {}
        """Why there is none."""

    def __repr__(self) -> str:
        return f"<Speculator {self.endpoint} {self.state}: {self.reason}>"

    @property
    def reachable(self) -> bool:
        return self._client is not None

    @property
    def state(self) -> str:
        if self._answering:
            return "answering"
        return "paused" if self.paused else "guessing" if self._guesser.key else "idle"

    @property
    def reason(self) -> str:
        """Why nothing is guessed now, and which offer cannot be; empty where something is about to be."""
        wanted = [(offer.id, intent) for offer, intent in self._wanted()]
        cannot = [self._no_turns[one] for one in wanted if one in self._no_turns][:1]
        can = [self._plans.get(one) or Candidate(one[0], "") for one in wanted if one not in self._no_turns]
        decision = decide(self.situation(tuple(can or [Candidate("", "")] * len(cannot))))
        if isinstance(decision, NoGuess):
            return "; ".join([decision.reason, *cannot])
        if self._completing:
            return "a completion is being made"
        return "" if can else "; ".join(cannot)

    @property
    def progress(self) -> dict[str, int]:
        """Of the guess in flight, in tokens."""
        return self._guesser.progress

    def is_warm(self, offering: Offering) -> bool:
        plan = self._plans.get((offering.id, "explain"))
        return plan is not None and plan.key in self._warm

    def poke(self) -> None:
        """Something has changed that a decision may depend on."""
        if must_stop(self.situation(())):
            self._guesser.stop()
            while self.yielding:
                task = asyncio.get_running_loop().create_task(_end(self.yielding.pop()))
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)
        self._changed.set()

    def press(self, lack: str | None) -> None:
        """What the machine lacks from now on."""
        self._pressure = lack
        self.poke()

    # --- the connection ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until it is cancelled."""
        delay = FIRST_RETRY_S
        while True:
            try:
                async with Client(self.endpoint, name="intentd", timeout=TIMEOUT_S) as client:
                    try:
                        await self._meet(client)
                        delay = FIRST_RETRY_S
                        await self._keep(client)
                    finally:
                        self._part()  # before it is closed: nobody must find one that closes
            except FAULTS as fault:
                log.debug("modeld: %s", fault)
            finally:
                await self._guesser.drop()
            await self._wait(delay)
            delay = min(delay * 2, LAST_RETRY_S)

    async def _meet(self, client: Client) -> None:
        """Learns what is there; nothing that was said to another modeld, or to one with another model, counts."""
        self._met = _identity(await client.status())
        description = await client.describe()
        self.context = description.limits.context
        self.gap = description.model.fim_tokens
        self._warm.clear()
        self._asleep = frozenset()
        model = self._met[0], description.model
        if model != self._model:  # else what ended an engine would end the next one
            self._model = model
            self._guesser.failed.clear()
            self.planner.forget_measures()
        self._client = client
        self._connected.set()
        log.info("modeld %s: %s, %d tokens of context", self._met[0], description.model.name, self.context)

    async def _keep(self, client: Client) -> None:
        """What changes all the time keeps nobody from looking after modeld."""
        changed, look_at = True, time.monotonic() + CHECK_S
        while True:
            off = self.ledger.switched_off(time.monotonic())
            if changed:
                await self._consider(client)
            changed = await self._wait(look_at - time.monotonic())
            if time.monotonic() >= look_at:
                other = await self._look_after(client)
                changed = changed or other or off != self.ledger.switched_off(time.monotonic())
                look_at = time.monotonic() + CHECK_S

    async def _look_after(self, client: Client) -> bool:
        """Whether it is not what it was. One that has unloaded its model is not woken for what was wanted before.

        Its link notices a modeld that is gone or hangs; an answer that is late may be late because of us.
        """
        try:
            status = await client.status()
        except DaemonUnreachable:
            if not client.connected:
                raise
            return False
        now = _identity(status)
        if now == self._met:
            return False
        if status.state in _AWAY and self._met is not None and now[0] == self._met[0]:
            unloaded = status.state == "unloaded"
            self._asleep = frozenset(plan.key for plan in self._plans.values()) if unloaded else frozenset()
            self._warm.clear()
            self._met = now
        else:
            await self._guesser.drop()
            await self._meet(client)
        return True

    def _part(self) -> None:
        self._client = None
        self._connected.clear()
        self._warm.clear()

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

    def _likeliest(self) -> tuple[Offering, ...]:
        """What an editor shows comes first: it changes with what the person does."""
        shown = self._desks.offers()[:MAX_PREPARED]
        return (*shown, *self._offers.all()[: MAX_PREPARED - len(shown) // 2])

    def _wanted(self) -> Iterator[tuple[Offering, Intent]]:
        """What may be asked next, the likeliest first. A fix shares all but its last sentence with its explanation."""
        likeliest = self._likeliest()
        yield from ((offering, "explain") for offering in likeliest)
        yield from ((offering, "fix") for offering in likeliest[:1] if offering.failure.trigger != "selection")

    def situation(self, wanted: tuple[Candidate, ...]) -> Situation:
        return Situation(
            paused=self.paused,
            reachable=self.reachable,
            commands_running=self.commands_running,
            answering=self._answering > 0,
            wanted=wanted,
            in_flight=self._guesser.key,
            warm=self._warm.keys(),
            failed=frozenset(self._guesser.failed),
            asleep=self._asleep,
            switched_off=self.ledger.switched_off(time.monotonic()),
            pressure=self._pressure,
        )

    async def _consider(self, client: Client) -> None:
        """Builds the turns of the likeliest questions, and starts the guess for the first that needs one."""
        plans: dict[Wanted, Candidate] = {}
        no_turns: dict[Wanted, str] = {}
        decided = False
        wanted = list(self._wanted())
        for offering, intent in wanted:
            turn = await self._plan(offering, intent)
            if self._changed.is_set() and list(self._wanted()) != wanted:  # it is all considered again at once
                return
            this = offering.id, intent
            if isinstance(turn, TurnError):
                no_turns[this] = f"offer {offering.number}: {turn}" if offering.number else str(turn)
                if isinstance(turn, Passing) and this in self._plans:
                    plans[this] = self._plans[this]
                continue
            account = FIX if intent == "fix" else self._account(offering, plans)
            plans[this] = Candidate(turn.key, account)
            self._plans = {**self._plans, **plans}
            can = (plan for key, plan in plans.items() if key not in no_turns or plan.key == self._guesser.key)
            decision = decide(self.situation(tuple(can)))
            if not (decided or self._completing) and isinstance(decision, Guess) and client is self._client:
                decided = True
                send = partial(self._send, client, offering, turn, speculative=True)
                measured = partial(self.planner.measured, measured_as(offering), turn)
                self._guesser.start(send, turn.key, account, measured)
        self._plans, self._no_turns = plans, no_turns
        self._forget({plan.key for plan in plans.values()})
        await self.watch.want(self.planner.files_of(self._likeliest()))

    @staticmethod
    def _account(offering: Offering, plans: Mapping[Wanted, Candidate]) -> str:
        """Its own kind's, where no likelier one of the terminal, or of its kind in an editor, is prepared."""
        before = ((id.startswith(SHOWN), one.trigger) for (id, _), one in plans.items())
        trigger = offering.failure.trigger
        behind = any(shown == bool(offering.view) and (not shown or kind == trigger) for shown, kind in before)
        return OTHERS if behind else trigger

    async def _plan(self, offering: Offering, intent: Intent) -> PlannedTurn | TurnError:
        """The turn, or why there is none."""
        try:
            return await self.planner.turn(offering, intent, self.context, speculative=True)
        except TurnError as fault:
            if isinstance(fault, Outdated):
                self.withdraw(offering)
            return fault

    def withdraw(self, offering: Offering) -> None:
        if self._offers.withdraw(offering):
            log.info("offer %s is withdrawn: its test or file is gone", offering.id)
            self.poke()

    def _forget(self, wanted: set[str]) -> None:
        """What was prefilled for offers that are gone or have changed; a guess in flight for such is stopped."""
        self._warm.keep(wanted)
        if self._guesser.key not in wanted:
            self._guesser.stop()

    # --- asking -----------------------------------------------------------------------------------------------

    async def answer(self, offering: Offering, intent: Intent) -> AsyncGenerator[object, None]:
        """The replies to the offer's turn, as a real operation; closing the iterator cancels it.

        It never waits for the guess: modeld adopts that or stops it. Raises `WireError`, `DaemonUnreachable`.
        """
        await self.reach()  # says how long a prompt may be
        turn: PlannedTurn | None = await self.turn(offering, intent)
        self._answering += 1
        self.figures["answers"] += 1
        try:
            while turn is not None:
                sent, turn = turn, None
                if sent.focus is not None:
                    yield sent.focus
                try:
                    async with (
                        self._send(await self.reach(), offering, sent, speculative=False) as stream,
                        contextlib.aclosing(self._counted(offering, intent, sent, stream)) as replies,
                    ):
                        async for reply in replies:
                            yield reply
                except WireError as fault:
                    if not self.planner.measured(measured_as(offering), sent, overflowing(fault)):
                        raise
                    turn = await self.turn(offering, intent)
        except FAULTS:
            self.figures["answers_failed"] += 1
            raise
        finally:
            self._answering -= 1
            self.poke()

    async def _counted(
        self, offering: Offering, intent: Intent, turn: PlannedTurn, stream: OperationStream
    ) -> AsyncGenerator[object, None]:
        """The replies. What the guess was good for counts also where nobody waits for the end."""
        base = self._plans.get((offering.id, "explain")) if intent == "fix" else None
        found: Progress | None = None
        outcome = Outcome.NONE
        account = FIX if intent == "fix" else offering.failure.trigger
        with self._warm.asking(turn.key, *([base.key] if base else [])):
            try:
                async for reply in stream:
                    if isinstance(reply, Progress):
                        found = found or reply
                    elif isinstance(reply, Done):
                        found, outcome = None, reply.usage.outcome
                        self._found(turn, account, outcome, base)
                        self.planner.measured(measured_as(offering), turn, reply.usage.prompt)
                        log.info("answer %s: %s, %s", turn.key, reply.reason, outcome)
                    yield reply
            finally:
                if found is not None:
                    self._found(turn, account, self._warm.outcome(turn.key, found), base)

    def _found(self, turn: PlannedTurn, account: str, outcome: Outcome, base: Candidate | None) -> None:
        if outcome is not Outcome.NONE:
            self.figures[f"answers_{outcome}"] += 1
            self._warm.asked(turn.key, account, outcome, base=base.key if base else None)

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """A completion is made: no guess may end it."""
        self._completing += 1
        try:
            yield
        finally:
            self._completing -= 1
            self.poke()

    async def turn(self, offering: Offering, intent: Intent) -> PlannedTurn:
        """What would be asked now. Raises `WireError`."""
        try:
            return await self.planner.turn(offering, intent, self.context or UNKNOWN_CONTEXT)
        except TurnError as fault:
            if isinstance(fault, Outdated):
                self.withdraw(offering)
            raise WireError(ErrorCode.BAD_REQUEST, str(fault)) from None

    @property
    def doubt(self) -> str:
        """Why a prompt that is shown now may not be what will be sent; empty where it is."""
        if self.context:
            return ""
        return f"modeld has not answered yet: with another context than {UNKNOWN_CONTEXT} tokens the prompt may differ"

    async def reach(self) -> Client:
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


async def _end(stream: OperationStream) -> None:
    """Its reader reads the end."""
    with contextlib.suppress(*FAULTS):
        await stream.cancel()


def _identity(status: Status) -> tuple[str, str, int]:
    return status.instance, status.model, status.engine_pid
