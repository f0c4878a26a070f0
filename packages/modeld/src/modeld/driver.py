"""Owns the operations of all clients: feeds the scheduler events, carries out its commands, answers the clients.

It is synchronous, and time comes in as a parameter. It knows no socket and no process: the engine is an `Engine`, a
client is a name to reply to.
"""

import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path

from modeld.backends.base import LoadError
from modeld.confirmations import MAX_WAITING, Confirmations
from modeld.engine.messages import (
    EngineUnloaded,
    FromEngine,
    Probed,
    Probing,
    Ready,
    Refused,
)
from modeld.figures import Figures
from modeld.flight import Asked, Flight, Last
from modeld.holder import Holder
from modeld.housekeeping import Housekeeping, IdleTimes
from modeld.ports import Engine, Reply
from modeld.runs import check_operation
from modeld.schedule import ScheduleLimits, Scheduler
from modeld.schedule import messages as schedule
from modeld.schedule.journal import Journal, Listener
from modeld.schedule.messages import Kind, OpKey
from modeld.sessions import SessionLimits, Sessions
from modeld.stories import Stories
from modeld.switch import Switch
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import (
    Accepted,
    Acknowledged,
    Error,
    Exactness,
    Load,
    Progress,
    Started,
    Tokenize,
    Tokens,
)
from modelwire.protocol import NOBODY

log = logging.getLogger(__name__)

DAEMON = "modeld"
"""Client of the daemon's own operations; no socket's identity is spelled so."""


class Driver:
    """One for the daemon's life. Everything happens on the thread that calls it."""

    def __init__(
        self,
        engine: Engine,
        reply: Reply,
        *,
        limits: ScheduleLimits | None = None,
        sessions: SessionLimits | None = None,
        also: Listener | None = None,
        model: str | None = None,
        idle: IdleTimes | None = None,
        check_model: Callable[[Path], None] = lambda path: None,
    ) -> None:
        """`also` is told every event of the scheduler.

        `check_model` raises `LoadError` for a file that need not be tried.
        """
        self.scheduler = Scheduler(limits)
        self.journal = Journal(self.scheduler, also=also)
        self.sessions = Sessions(sessions)
        self.figures = Figures()
        self.stories = Stories()
        self.stopping = False
        self._house = Housekeeping(idle or IdleTimes())
        self._check_model = check_model
        self._reply = reply
        self._flights: dict[OpKey, Flight] = {}
        self._confirmations = Confirmations()
        self._events: deque[tuple[schedule.Event, float]] = deque()
        self._telling = False
        self._gone: set[str] = set()
        self._holder = Holder(engine, Switch(engine, model), self.sessions, self.figures, self._tell, self._say)

    def __repr__(self) -> str:
        return f"<Driver {self.state}, {len(self._flights)} live operations, {len(self.sessions)} sessions>"

    @property
    def state(self) -> str:
        """A word for `status`."""
        if self.stopping:
            return "stopping"
        if self._holder.switch.state:
            return self._holder.switch.state
        running = self.scheduler.running
        if running is None or running.kind is Kind.HOUSE:
            return "idle"
        return "busy" if running.kind is Kind.REAL else "guessing"

    @property
    def ready(self) -> Ready | None:
        """What is loaded, or was until it was unloaded."""
        return self._holder.switch.loaded

    @property
    def exactness(self) -> Exactness:
        return self._house.exactness

    @property
    def running(self) -> Flight | None:
        """What has the slot."""
        return self._holder.running

    @property
    def live(self) -> int:
        return len(self._flights)

    @property
    def clients(self) -> set[str]:
        """Those with live operations or sessions."""
        return self.sessions.clients | self.busy_clients

    @property
    def busy_clients(self) -> set[str]:
        return {key.client for key in self._flights} - {DAEMON}

    # --- what clients ask ---------------------------------------------------------------------------------

    def refuse_live_id(self, client: str, op: str) -> bool:
        """Whether `op` is the id of a live operation; then that is said, and the live one is not disturbed."""
        live = OpKey(client, op) in self._flights
        if live:
            message = f"operation {op} is still live: choose a new id"
            self._reply(client, NOBODY, Error(code=ErrorCode.DUPLICATE_OP, message=message))
        return live

    def submit(self, client: str, op: str, message: Asked, now: float) -> None:
        if self.refuse_live_id(client, op):
            return
        try:
            check_operation(message)
            if isinstance(message, Load) and message.model:
                self._check_model(Path(message.model))
        except WireError as fault:
            self._reply(client, op, _error(fault))
            return
        except LoadError as fault:
            self._reply(client, op, Error(code=ErrorCode.BAD_REQUEST, message=str(fault)))
            return
        flight = Flight(OpKey(client, op), message, now)
        self._flights[flight.key] = flight
        scheduled = flight.schedule_op(self.sessions)
        if client != DAEMON and not isinstance(message, Tokenize):
            self.stories.begin(flight.key, flight.what, now, self.scheduler.ahead_of(scheduled.kind))
        if not flight.is_house:
            self._house.used(now)
        self._tell(schedule.Submitted(scheduled), now)

    def cancel(self, client: str, op: str, target: str, now: float) -> None:
        targets = {OpKey(client, target)} & self._flights.keys()
        if self._has_room_for(client, op, targets):
            self._end_then_confirm(client, op, targets, False, now)

    def close(self, client: str, op: str, session: str | None, now: float) -> bool:
        """Ends a session and what runs in it; with None, all of the client. False where that is refused."""
        own = [flight for flight in self._flights.values() if flight.key.client == client]
        targets = {flight.key for flight in own if session is None or flight.session_name == session}
        if not self._has_room_for(client, op, targets):
            return False
        had = self.sessions.close_all(client) > 0 if session is None else self.sessions.close(client, session)
        self._end_then_confirm(client, op, targets, had, now)
        return True

    def client_silent(self, client: str, now: float) -> None:
        """Its operations end; its sessions stay, it may come back."""
        self._tell(schedule.ClientGone(client), now)

    def client_gone(self, client: str, now: float) -> None:
        self._gone.add(client)
        self._tell(schedule.ClientGone(client), now)

    def tick(self, now: float) -> None:
        self._tell(schedule.Tick(), now)
        if self.state == "idle" and (wish := self._house.due(now)):
            self.submit(DAEMON, type(wish).__name__.lower(), wish, now)

    def shutdown(self, now: float) -> None:
        self.stopping = True
        self._tell(schedule.ShutdownAsked(), now)

    def _has_room_for(self, client: str, op: str, targets: set[OpKey]) -> bool:
        """Where the confirmation would have to wait and cannot, that is said: nothing is ended then."""
        full = bool(targets) and self._confirmations.full
        if full:
            message = f"{MAX_WAITING} cancels wait already, which is the limit: try later"
            self._reply(client, op, Error(code=ErrorCode.OVERLOADED, message=message, retry=True))
        return not full

    def _end_then_confirm(self, client: str, op: str, targets: set[OpKey], had: bool, now: float) -> None:
        if not targets:
            self._reply(client, op, Acknowledged(found=had))
        else:
            self._confirmations.add(client, op, targets)
            for key in targets:
                self._tell(schedule.CancelAsked(key), now)

    # --- what the engine says -----------------------------------------------------------------------------

    def engine_said(self, message: FromEngine | EngineUnloaded, now: float) -> None:
        match message:
            case Ready():
                self._house.loaded(message, now)
            case Probing():
                self._house.advanced(message)
                return
        self._holder.engine_said(message, now)

    def engine_lost(self, now: float) -> None:
        self._holder.engine_lost(now, for_good=self.stopping)

    def refused(self, message: Refused, now: float) -> bool:
        """Whether the daemon goes on all the same."""
        return self._holder.refused(message, now)

    # --- what the scheduler commands ----------------------------------------------------------------------

    def _tell(self, event: schedule.Event, now: float, *, first: bool = False) -> None:
        """What happens while commands are carried out (a reply finds its client gone) waits until they all are."""
        (self._events.appendleft if first else self._events.append)((event, now))
        if self._telling:
            return
        self._telling = True
        try:
            while self._events:
                event, at = self._events.popleft()
                for command in self.journal.handle(event, at):
                    self._obey(command, at)
            while self._gone:  # only now: a command may have opened a session for one that was gone already
                self.sessions.close_all(self._gone.pop())
        finally:
            self._telling = False

    def _obey(self, command: schedule.Command, now: float) -> None:
        if isinstance(command, schedule.Wake):
            self._holder.switch.wake()
            return
        flight = self._flights[command.key]
        if flight.is_house:
            self._obey_for_house(flight, command, now)
            return
        match command:
            case schedule.Accept():
                if flight.key.client != DAEMON:
                    self.figures.accepted(guess=flight.is_guess)
                self._say(flight, Accepted(), now)
            case schedule.Start():
                self.stories.started(command, now, waited_ms=self._holder.stop_took(now))
                self._holder.start(flight, command, now)
            case schedule.Stop():
                self._holder.stop(now)
                self.stories.note(flight.key, now, "asked to stop")
            case schedule.End():
                self._finish(flight, flight.last_reply(command.reason, now), now)
            case schedule.Fail():
                error = Error(code=command.code, message=command.message, retry=command.retry)
                self._finish(flight, error, now)

    def _obey_for_house(self, flight: Flight, command: schedule.Command, now: float) -> None:
        """Nobody is told, and nothing is counted as an operation."""
        match command:
            case schedule.Start():
                self._house.started()
                self._holder.start(flight, command, now)
            case schedule.Stop():
                self._holder.stop(now)
            case schedule.End() | schedule.Fail():
                del self._flights[flight.key]
                probed = flight.end if isinstance(flight.end, Probed) else None
                self._house.ended(probed, yielded=isinstance(command, schedule.End) and bool(command.reason), now=now)
                log.info("the test of exactness: %s", self.exactness)

    def _say(self, flight: Flight, reply: Accepted | Started | Progress | Tokens | Last, now: float) -> None:
        """Tells the client; a question is answered by its last reply alone."""
        if not flight.is_question or not isinstance(reply, Accepted | Started):
            self._reply(flight.key.client, flight.key.op, reply)
        self.stories.heard(flight.key, reply, now)

    def _finish(self, flight: Flight, last: Last, now: float) -> None:
        """The client is told before the books are kept: it waits."""
        del self._flights[flight.key]
        self._say(flight, last, now)
        self._house.used(now)
        self.figures.ended(flight, last, now)
        if log.isEnabledFor(logging.INFO):
            log.info("%s of %s: %s", flight.key.op, flight.client, flight.summary(last, now))
        for client, op in self._confirmations.ended(flight.key):
            self._reply(client, op, Acknowledged(found=True))


def _error(fault: WireError) -> Error:
    return Error(code=fault.code, message=fault.message, retry=fault.retry, numbers=fault.numbers)
