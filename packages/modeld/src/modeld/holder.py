"""Owns the operation that has the slot: sends it to the engine, hears what the engine says of it, changes the engine.

It decides nothing: who has the slot is the scheduler's, what clients are told of it goes through the driver.
"""

import logging
from typing import Protocol

from modeld.engine.messages import (
    Advanced,
    Begun,
    Encoded,
    Ended,
    EngineUnloaded,
    Failed,
    FromEngine,
    Generated,
    Probed,
    Ready,
    Refused,
    Run,
    Save,
    Saved,
)
from modeld.figures import Figures
from modeld.flight import Flight
from modeld.ports import Engine
from modeld.schedule import messages as schedule
from modeld.schedule.messages import OpKey
from modeld.sessions import Sessions
from modeld.switch import Switch
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import Acknowledged, Load, Progress, Reason, Started, Tokens, Unload

log = logging.getLogger(__name__)


class Tell(Protocol):
    """Gives the scheduler an event, before all that wait where it is to be the `first`."""

    def __call__(self, event: schedule.Event, now: float, *, first: bool = False) -> None: ...


class Say(Protocol):
    """Gives the operation's client a reply."""

    def __call__(self, flight: Flight, reply: Started | Progress | Tokens, now: float) -> None: ...


class Holder:
    """`switch` knows what is loaded."""

    def __init__(
        self, engine: Engine, switch: Switch, sessions: Sessions, figures: Figures, tell: Tell, say: Say
    ) -> None:
        self.switch = switch
        self._engine = engine
        self._sessions = sessions
        self._figures = figures
        self._tell = tell
        self._say = say
        self._running: Flight | None = None
        self._stop_asked, self._stopping = 0.0, False

    @property
    def running(self) -> Flight | None:
        """What has the slot."""
        return self._running

    # --- commands -----------------------------------------------------------------------------------------

    def start(self, flight: Flight, command: schedule.Start, now: float) -> None:
        if flight.started is None:
            flight.started = now
        try:
            self._send(flight)
        except Exception as fault:
            flight.end = _failed(fault)
            self._tell(schedule.EngineEnded(flight.key, False), now, first=True)
            return
        self._running = flight
        if not command.again:
            preempted = _name_for(flight.client, command.preempted)
            self._say(flight, Started(queue_ms=flight.queue_ms(now), preempted=preempted), now)
        if isinstance(flight.message, Load | Unload):
            self._change(flight, flight.message, now)

    def _send(self, flight: Flight) -> None:
        if flight.switches:
            return
        request = flight.request(self._sessions)
        try:
            self._engine.clear_stop()
            self._stopping = False
            self._engine.send(request)
        except Exception:
            if isinstance(request, Run | Save):
                self._sessions.put_back(request.closed)
            raise

    def _change(self, flight: Flight, wish: Load | Unload, now: float) -> None:
        if not self.switch.begin(wish):
            self._changed(flight, Acknowledged(found=False), now)

    def stop(self, now: float) -> None:
        self._engine.set_stop()
        self._stop_asked, self._stopping = now, True

    def stop_took(self, now: float) -> float:
        """Milliseconds since the last stop."""
        return 1000 * (now - self._stop_asked)

    # --- what the engine says -----------------------------------------------------------------------------

    def engine_said(self, message: FromEngine | EngineUnloaded, now: float) -> None:
        match message:
            case Ready():
                self._loaded(message, now)
            case EngineUnloaded():
                self.switch.unloaded()
                self._switched(now)
            case _ if self._running is not None and not self._running.switches:
                self._advance(self._running, message, now)
            case _:
                log.warning("the engine said %s while nothing ran", type(message).__name__)

    def engine_lost(self, now: float, *, for_good: bool) -> None:
        """One that is lost while it loads the wanted model is tried again, or refused in the end."""
        self.switch.lost()
        self._figures.engine_lost()
        if self._running and self._running.switches and not for_good:
            return
        if self._running:
            self._running.resident = 0
            self._running = None
        self._tell(schedule.EngineLost(), now)

    def refused(self, message: Refused, now: float) -> bool:
        """Goes on with the model before, or with none until an operation wants one. False where none was ever ready."""
        switching = self._running
        if switching and self.switch.refused(message.message):
            return True
        if not self.switch.was_ready:
            return False
        why = self.switch.given_up(message.message)
        log.warning("nothing is loaded: %s", why)
        self._figures.engine_ended()
        if switching:
            self._sessions.snapshots.void()
            self._changed(switching, Failed(code=ErrorCode.NOT_READY, message=why), now)
        else:
            self._tell(schedule.EngineRefused(why), now)
        return True

    def _loaded(self, ready: Ready, now: float) -> None:
        if self.switch.ready(ready):
            self._sessions.void()
        self._figures.cells_total = ready.cells
        if self._running:
            self._switched(now)
        else:
            self._tell(schedule.EngineReady(), now)

    def _switched(self, now: float) -> None:
        self._figures.engine_ended()
        self._sessions.snapshots.void()
        if self._running:
            self._changed(self._running, self.switch.finish() or Acknowledged(found=True), now)

    def _changed(self, flight: Flight, end: Acknowledged | Failed, now: float) -> None:
        self._running = None
        flight.end = end
        self._tell(schedule.EngineSwitched(flight.key, self.switch.state != "unloaded"), now)

    def _advance(self, flight: Flight, message: FromEngine, now: float) -> None:
        match message:
            case Begun():
                self._say(flight, flight.begun(message.ids, message.reused), now)
            case Advanced():
                self._say(flight, flight.advanced(message.length), now)
            case Generated():
                self._generated(flight, message, now)
            case Saved():
                self._saved(flight, message, now)
            case Ended() | Failed() | Encoded() | Probed():
                if isinstance(message, Ended) and message.last:
                    self._generated(flight, message.last, now, last=True)
                self._ended(flight, message, _was_stopped(message), now)

    def _generated(self, flight: Flight, message: Generated, now: float, *, last: bool = False) -> None:
        if flight.first_token is None and not last:  # with the last one comes the end, and nothing can run again
            self._tell(schedule.EngineProduced(flight.key), now)
        flight.generated(message, now)
        self._say(flight, Tokens(text=message.text, ids=message.ids), now)

    def _saved(self, flight: Flight, message: Saved, now: float) -> None:
        """Whatever was kept: where a stop was asked, nobody is there to have the handle."""
        if self._stopping:
            self._sessions.snapshots.discard(flight.client, flight.handle)
        else:
            self._sessions.snapshots.add(flight.client, flight.handle, flight.before)
        self._ended(flight, message, self._stopping, now)

    def _ended(
        self, flight: Flight, message: Ended | Failed | Encoded | Saved | Probed, stopped: bool, now: float
    ) -> None:
        if progress := flight.ended(message):
            self._say(flight, progress, now)
        self._running = None
        self._tell(schedule.EngineEnded(flight.key, stopped), now)


def _was_stopped(end: Ended | Failed | Encoded | Probed) -> bool:
    match end:
        case Ended():
            return end.reason is Reason.PREEMPTED
        case Probed():
            return end.stopped
        case _:
            return False


def _name_for(client: str, guess: OpKey | None) -> str | None:
    """Another client's operation id means nothing to this one, or the wrong thing."""
    return None if guess is None else guess.op if guess.client == client else "?"


def _failed(fault: Exception) -> Failed:
    """A fault of ours in one operation must not hold up the others."""
    if isinstance(fault, WireError):
        return Failed(code=fault.code, message=fault.message, retry=fault.retry, numbers=fault.numbers)
    log.error("an operation could not be started", exc_info=fault)
    return Failed(code=ErrorCode.INTERNAL, message="modeld failed at this operation: see its log")
