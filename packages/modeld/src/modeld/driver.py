"""Owns the operations of all clients: feeds the scheduler events, carries out its commands, answers the clients.

It is synchronous, and time comes in as a parameter. It knows no socket and no process: the engine is an `Engine`, a
client is a name to reply to.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from modeld.confirmations import Confirmations
from modeld.engine.messages import (
    Advanced,
    Begun,
    Encoded,
    Ended,
    Failed,
    FromEngine,
    Generated,
    Ready,
    ToEngine,
)
from modeld.figures import Figures
from modeld.flight import Flight
from modeld.runs import check_operation
from modeld.schedule import ScheduleLimits, Scheduler
from modeld.schedule import messages as schedule
from modeld.schedule.messages import Kind, OpKey
from modeld.sessions import SessionLimits, Sessions
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import (
    Accepted,
    Acknowledged,
    Done,
    Error,
    Reason,
    SlotOperation,
    Started,
    TokenIds,
    Tokenize,
    Tokens,
    Usage,
)

log = logging.getLogger(__name__)

NOBODY = "?"
"""Op id of a reply that must not be taken for one to the live operation of that id."""


class Engine(Protocol):
    """The engine process as seen from here. None of it blocks."""

    def send(self, message: ToEngine) -> None:
        """Raises `WireError` for a message that is too large."""

    def set_stop(self) -> None: ...

    def clear_stop(self) -> None: ...


Reply = Callable[[str, str, Any], None]
"""(client, op, message). It may call `client_gone` from within."""


class Driver:
    """One for the daemon's life. Everything happens on the thread that calls it."""

    def __init__(
        self,
        engine: Engine,
        reply: Reply,
        *,
        limits: ScheduleLimits | None = None,
        sessions: SessionLimits | None = None,
    ) -> None:
        self.scheduler = Scheduler(limits)
        self.sessions = Sessions(sessions)
        self.figures = Figures()
        self.ready: Ready | None = None
        self.stopping = False
        self._engine = engine
        self._reply = reply
        self._flights: dict[OpKey, Flight] = {}
        self._running: Flight | None = None
        self._confirmations = Confirmations()
        self._events: deque[tuple[schedule.Event, float]] = deque()
        self._telling = False

    def __repr__(self) -> str:
        return f"<Driver {self.state}, {len(self._flights)} live operations, {len(self.sessions)} sessions>"

    @property
    def state(self) -> str:
        """A word for `status`."""
        if self.stopping:
            return "stopping"
        if self.ready is None:
            return "restarting" if self.figures.engine_restarts else "loading"
        running = self.scheduler.running
        if running is None:
            return "idle"
        return "busy" if running.kind is Kind.REAL else "guessing"

    @property
    def live(self) -> int:
        return len(self._flights)

    @property
    def clients(self) -> set[str]:
        """Those with live operations or sessions."""
        return self.sessions.clients | self.busy_clients

    @property
    def busy_clients(self) -> set[str]:
        return {key.client for key in self._flights}

    # --- what clients ask ---------------------------------------------------------------------------------

    def refuse_live_id(self, client: str, op: str) -> bool:
        """Whether `op` is the id of a live operation; then that is said, and the live one is not disturbed."""
        live = OpKey(client, op) in self._flights
        if live:
            message = f"operation {op} is still live: choose a new id"
            self._reply(client, NOBODY, Error(code=ErrorCode.DUPLICATE_OP, message=message))
        return live

    def submit(self, client: str, op: str, message: SlotOperation | Tokenize, now: float) -> None:
        if self.refuse_live_id(client, op):
            return
        try:
            check_operation(message)
        except WireError as fault:
            self._reply(client, op, _error(fault))
            return
        flight = Flight(OpKey(client, op), message, now)
        self._flights[flight.key] = flight
        self._tell(schedule.Submitted(flight.schedule_op(self.sessions)), now)

    def cancel(self, client: str, op: str, target: str, now: float) -> None:
        self._end_then_confirm(client, op, {OpKey(client, target)} & self._flights.keys(), False, now)

    def close(self, client: str, op: str, session: str | None, now: float) -> None:
        """Ends a session and what runs in it; with None, all of the client."""
        own = [flight for flight in self._flights.values() if flight.key.client == client]
        targets = {flight.key for flight in own if session is None or flight.session_name == session}
        had = self.sessions.close_all(client) > 0 if session is None else self.sessions.close(client, session)
        self._end_then_confirm(client, op, targets, had, now)

    def client_silent(self, client: str, now: float) -> None:
        """Its operations end; its sessions stay, it may come back."""
        self._tell(schedule.ClientGone(client), now)

    def client_gone(self, client: str, now: float) -> None:
        self._tell(schedule.ClientGone(client), now)
        self.sessions.close_all(client)

    def tick(self, now: float) -> None:
        self._tell(schedule.Tick(), now)

    def shutdown(self, now: float) -> None:
        self.stopping = True
        self._tell(schedule.ShutdownAsked(), now)

    def _end_then_confirm(self, client: str, op: str, targets: set[OpKey], had: bool, now: float) -> None:
        if not targets:
            self._reply(client, op, Acknowledged(found=had))
        elif self._confirmations.full:
            error = Error(code=ErrorCode.OVERLOADED, message="too many cancels wait already: try later", retry=True)
            self._reply(client, op, error)
        else:
            self._confirmations.add(client, op, targets)
            for key in targets:
                self._tell(schedule.CancelAsked(key), now)

    # --- what the engine says -----------------------------------------------------------------------------

    def engine_said(self, message: FromEngine, now: float) -> None:
        if isinstance(message, Ready):
            self.ready = message
            self.figures.cells_total = message.cells
            self._tell(schedule.EngineReady(), now)
        elif self._running is not None:
            self._advance(self._running, message, now)
        else:
            log.warning("the engine said %s while nothing ran", type(message).__name__)

    def engine_lost(self, now: float) -> None:
        self.ready = None
        if self._running:
            self._running.resident = 0
            self._running = None
        self.figures.engine_lost()
        self._tell(schedule.EngineLost(), now)

    def _advance(self, flight: Flight, message: FromEngine, now: float) -> None:
        match message:
            case Begun():
                self._reply(*flight.address, flight.begun(message.ids, message.reused))
            case Advanced():
                self._reply(*flight.address, flight.advanced(message.length))
            case Generated():
                if flight.first_token is None:
                    self._tell(schedule.EngineProduced(flight.key), now)
                flight.generated(message, now)
                self._reply(*flight.address, Tokens(text=message.text, ids=message.ids))
            case Ended() | Failed() | Encoded():
                flight.ended(message)
                self._running = None
                stopped = isinstance(message, Ended) and message.reason is Reason.PREEMPTED
                self._tell(schedule.EngineEnded(flight.key, stopped), now)

    # --- what the scheduler commands ----------------------------------------------------------------------

    def _tell(self, event: schedule.Event, now: float) -> None:
        """What happens while commands are carried out (a reply finds its client gone) waits until they all are."""
        self._events.append((event, now))
        if self._telling:
            return
        self._telling = True
        try:
            while self._events:
                event, at = self._events.popleft()
                for command in self.scheduler.handle(event, at):
                    self._obey(command, at)
        finally:
            self._telling = False

    def _obey(self, command: schedule.Command, now: float) -> None:
        flight = self._flights[command.key]
        match command:
            case schedule.Accept():
                self.figures.accepted(guess=flight.is_guess)
                if not flight.is_question:
                    self._reply(*flight.address, Accepted())
            case schedule.Start():
                self._start(flight, command, now)
            case schedule.Stop():
                self._engine.set_stop()
            case schedule.End():
                self._finish(flight, flight.last_reply(command.reason, now), now)
            case schedule.Fail():
                error = Error(code=command.code, message=command.message, retry=command.retry)
                self._finish(flight, error, now)

    def _start(self, flight: Flight, command: schedule.Start, now: float) -> None:
        if flight.started is None:
            flight.started = now
        try:
            request = flight.request(self.sessions)
            self._engine.clear_stop()
            self._engine.send(request)
        except Exception as fault:
            flight.end = _failed(fault)
            self._events.appendleft((schedule.EngineEnded(flight.key, False), now))
            return
        self._running = flight
        if not command.again and not flight.is_question:
            preempted = _name_for(flight.client, command.preempted)
            self._reply(*flight.address, Started(queue_ms=flight.queue_ms(now), preempted=preempted))

    def _finish(self, flight: Flight, last: Done | Error | TokenIds, now: float) -> None:
        del self._flights[flight.key]
        self._count(flight, last, now)
        self._reply(*flight.address, last)
        log.info("%s of %s: %s", flight.key.op, flight.client, flight.summary(last, now))
        for client, op in self._confirmations.ended(flight.key):
            self._reply(client, op, Acknowledged(found=True))

    def _count(self, flight: Flight, last: Done | Error | TokenIds, now: float) -> None:
        if isinstance(flight.end, Ended):
            self.figures.shelf = flight.end.shelf
        usage = flight.end.usage if isinstance(flight.end, Ended) else Usage()
        if flight.is_guess and flight.started is not None:
            reason = last.reason if isinstance(last, Done) else None
            ids = flight.ids[: 4 * flight.resident]
            self.figures.guess_ended(flight.client, ids, now - flight.started, usage, reason)
        elif not flight.is_guess:
            self.figures.real_ended(flight.client, flight.ids, usage)


def _name_for(client: str, guess: OpKey | None) -> str | None:
    """Another client's operation id means nothing to this one, or the wrong thing."""
    return None if guess is None else guess.op if guess.client == client else NOBODY


def _failed(fault: Exception) -> Failed:
    """A fault of ours in one operation must not hold up the others."""
    if isinstance(fault, WireError):
        return Failed(code=fault.code, message=fault.message)
    log.error("an operation could not be started", exc_info=fault)
    return Failed(code=ErrorCode.INTERNAL, message="modeld failed at this operation: see its log")


def _error(fault: WireError) -> Error:
    return Error(code=fault.code, message=fault.message, retry=fault.retry, numbers=fault.numbers)
