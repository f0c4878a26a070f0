"""Owns which operation has the slot, which wait, and how each ends. It knows no engine, no client and no clock.

The rules:

1. One operation has the slot. It has it until the engine confirms that it is over, also after a stop (S1, S3).
2. Nothing starts before the engine is ready; until then everything waits.
3. Real operations run first come, first served, before all others: a guess or housekeeping that holds the slot is
   stopped, once, and the real operation starts after the confirmation (S2).
4. A newer real operation supersedes the older one in the same lane of the same client: a waiting one ends at once, a
   running one is stopped. A guess never supersedes or stops a real operation.
5. One guess waits at most: the newest. A guess stops a running guess, unless both have the same digest: then the new
   one is a duplicate, as it is of a waiting one.
6. Housekeeping runs when nothing else waits, and yields to everything.
7. An operation that has not started by its deadline expires, at whatever event comes then. One that expires stops
   nobody.
8. A cancel, or its client's leaving, ends a waiting operation at once and stops a running one. An operation that is
   being stopped ends for the reason that came first; if the engine finished it all the same, for the engine's reason.
9. When the engine is lost, what was being stopped ends as it would have; a guess fails; a real operation that had
   produced nothing runs again, once, before all others; any other one fails (S8). When the engine is lost several times
   without becoming ready, nobody waits any longer: an operation that switches it starts, all others fail. So they do
   when the model is refused; then the next operation that needs one wakes the engine.
10. When the daemon stops, everything ends and nothing starts.
11. An operation that switches the engine waits its turn as any real one, and nobody can stop it once it has the slot.
    When it starts, a waiting guess ends: it is older. When it has ended the engine for good, the next operation that
    needs one wakes it (`Wake`), and waits.

The table of an operation's moves is `life.MOVES`. Every operation that is accepted ends exactly once, with `End` or
`Fail`; one that is refused gets one `Fail` and no `Accept`. The end of an operation comes before the start of the next.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from modeld.schedule.board import Board
from modeld.schedule.life import IllegalMove, Life, Move, State
from modeld.schedule.limits import ScheduleLimits
from modeld.schedule.messages import (
    Accept,
    CancelAsked,
    ClientGone,
    Command,
    End,
    EngineEnded,
    EngineLost,
    EngineProduced,
    EngineReady,
    EngineRefused,
    EngineSwitched,
    Event,
    Fail,
    Kind,
    Op,
    OpKey,
    ShutdownAsked,
    Start,
    Stop,
    Submitted,
    Tick,
    Wake,
)
from modelwire.errors import ErrorCode
from modelwire.messages import Reason


class Scheduler:
    """Give it every event with its time; carry out the commands in their order."""

    def __init__(self, limits: ScheduleLimits | None = None, board: Board | None = None) -> None:
        self.limits = limits or ScheduleLimits()
        self._board = board.copy() if board else Board()
        self._past: deque[Life] = deque(maxlen=self.limits.history)
        self._now = 0.0
        self._yielded: OpKey | None = None
        self._commands: list[Command] = []

    # --- what others may ask ----------------------------------------------------------------------------

    @property
    def running(self) -> Op | None:
        return self._board.running.op if self._board.running else None

    @property
    def waiting(self) -> int:
        return len(self._board.waiters())

    def ahead_of(self, kind: Kind) -> int:
        return self._board.ahead_of(kind)

    def is_live(self, key: OpKey) -> bool:
        return self._board.find(key) is not None

    def next_deadline(self) -> float | None:
        """When the next operation expires; a `Tick` is due then."""
        return min((life.expires for life in self._board.waiters() if life.expires is not None), default=None)

    def story(self, key: OpKey) -> str:
        """What happened to an operation, for error messages."""
        life = self._board.find(key) or next((past for past in reversed(self._past) if past.op.key == key), None)
        return life.story() if life else f"operation {key.op} of {key.client}: never heard of"

    def board(self) -> Board:
        """A copy: another scheduler can go on from here."""
        return self._board.copy()

    # --- events -----------------------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> list[Command]:
        """Raises `IllegalMove` for an event that cannot have happened; then nothing has changed."""
        self._now = now
        self._commands = []
        self._yielded = None
        _HANDLERS[type(event)](self, event)
        self._expire(self._now)
        self._admit()
        self._expire(math.nextafter(self._now, math.inf))  # one may start at its deadline, and not after it
        self._preempt()
        return self._commands

    def _submitted(self, event: Submitted) -> None:
        op = event.op
        if refusal := self._refusal(op):
            self._commands.append(refusal)
            return
        life = Life(op, self._now)
        life.move(Move.QUEUE, self._now)
        self._commands.append(Accept(key=op.key))
        if op.kind is Kind.GUESS and self._is_duplicate(op):
            self._end(life, End(key=op.key, reason=Reason.DUPLICATE))
            return
        for older in self._superseded_by(op):
            self._let_go(older, End(key=older.op.key, reason=Reason.SUPERSEDED))
        self._board.waiting[op.kind].append(life)

    def _refusal(self, op: Op) -> Fail | None:
        if self.is_live(op.key):
            return _fail(op.key, ErrorCode.DUPLICATE_OP, f"operation {op.key.op} is still live: choose a new id")
        if self._board.stopping:
            return _stopping(op.key)
        leaving = sum(older.state is State.QUEUED for older in self._superseded_by(op) if older.op.kind is op.kind)
        waiting = len(self._board.waiting[op.kind]) - leaving
        if waiting >= self.limits.queue:
            message = f"{waiting} operations wait already, the limit (queue): try later"
            return _fail(op.key, ErrorCode.OVERLOADED, message, retry=True)
        return None

    def _is_duplicate(self, op: Op) -> bool:
        rivals = list(self._board.waiting[Kind.GUESS])
        running = self._board.running
        if running and running.state is State.RUNNING and running.op.kind is Kind.GUESS:
            rivals.append(running)
        return any(rival.op.digest == op.digest for rival in rivals)

    def _superseded_by(self, op: Op) -> list[Life]:
        if op.kind is Kind.GUESS:
            return list(self._board.waiting[Kind.GUESS])
        if op.kind is Kind.HOUSE or op.lane is None:
            return []
        others = (life for life in self._board.live() if life.op.key != op.key)
        return [life for life in others if (life.op.key.client, life.op.lane) == (op.key.client, op.lane)]

    def _cancel_asked(self, event: CancelAsked) -> None:
        if life := self._board.find(event.key):
            self._let_go(life, End(key=event.key, reason=Reason.CANCELLED))

    def _client_gone(self, event: ClientGone) -> None:
        for life in [life for life in self._board.live() if life.op.key.client == event.client]:
            self._let_go(life, End(key=life.op.key, reason=Reason.CANCELLED))

    def _shutdown_asked(self, _: ShutdownAsked) -> None:
        self._board.stopping = True
        for life in self._board.live():
            self._let_go(life, _stopping(life.op.key))

    def _engine_ready(self, _: EngineReady) -> None:
        if self._board.running:
            raise IllegalMove(f"the engine became ready under an operation: {self._board.running.story()}")
        self._board.ready = True
        self._board.losses = 0

    def _engine_produced(self, event: EngineProduced) -> None:
        self._must_run(event.key).produced = True

    def _engine_ended(self, event: EngineEnded) -> None:
        life = self._must_run(event.key)
        if event.stopped and life.last is None:
            raise IllegalMove(f"the engine stopped an operation that nobody stopped: {life.story()}")
        last = life.last if event.stopped and life.last else End(key=event.key, reason=None)
        if life.op.kind is Kind.GUESS and isinstance(last, End) and last.reason in _MAKES_ROOM:
            self._yielded = event.key
        self._release(life, last)

    def _engine_refused(self, event: EngineRefused) -> None:
        if self._board.running:
            raise IllegalMove(f"the engine was refused under an operation: {self._board.running.story()}")
        self._board.ready, self._board.asleep = False, True
        self._board.losses = 0
        self._end_waits(event.message)

    def _engine_switched(self, event: EngineSwitched) -> None:
        life = self._must_run(event.key)
        if not life.op.switches:
            raise IllegalMove(f"this operation cannot switch the engine: {life.story()}")
        self._board.ready = event.loaded
        self._board.asleep = not event.loaded
        self._board.losses = 0
        self._release(life, End(key=event.key, reason=None))

    def _engine_lost(self, _: EngineLost) -> None:
        self._board.ready = False
        self._board.losses += 1
        if self._board.running:
            self._lose(self._board.running)
        if self._board.losses >= self.limits.losses:
            self._end_waits(f"the engine was lost {self._board.losses} times in a row: see the daemon's log")

    # --- what follows from them ---------------------------------------------------------------------------

    def _end_waits(self, message: str) -> None:
        """Of all that need an engine."""
        for life in [life for life in self._board.waiters() if not life.op.switches]:
            self._let_go(life, _fail(life.op.key, ErrorCode.NOT_READY, message, retry=True))

    def _lose(self, life: Life) -> None:
        real = life.op.kind is Kind.REAL
        if life.last is not None:
            self._release(life, life.last)
        elif real and not life.produced and not life.again:
            life.move(Move.AGAIN, self._now, "the engine was lost")
            life.again = True
            self._board.running = None
            self._board.waiting[Kind.REAL].insert(0, life)
        else:
            message = "the engine was lost while this ran" + (": ask again" if real else "")
            self._release(life, _fail(life.op.key, ErrorCode.ENGINE_LOST, message, retry=real))

    def _let_go(self, life: Life, last: End | Fail) -> None:
        """Ends an operation that waits; stops one that runs; leaves one alone that is being stopped."""
        if life.state is State.QUEUED:
            self._board.waiting[life.op.kind].remove(life)
            self._end(life, last)
        elif life.state is State.RUNNING:
            life.stop(last, self._now)
            if not life.op.switches:
                self._commands.append(Stop(key=life.op.key))

    def _release(self, life: Life, last: End | Fail) -> None:
        self._board.running = None
        self._end(life, last)

    def _end(self, life: Life, last: End | Fail) -> None:
        life.end(last, self._now)
        self._past.append(life)
        self._commands.append(last)

    def _must_run(self, key: OpKey) -> Life:
        if self._board.running is None or self._board.running.op.key != key:
            raise IllegalMove(f"the engine speaks of an operation that does not run: {self.story(key)}")
        return self._board.running

    def _expire(self, before: float) -> None:
        for life in self._board.waiters():
            if life.expires is not None and life.expires < before:
                self._let_go(life, End(key=life.op.key, reason=Reason.EXPIRED))

    def _preempt(self) -> None:
        running, waiting = self._board.running, self._board.waiting
        if running and running.op.kind is not Kind.REAL and (waiting[Kind.REAL] or waiting[Kind.GUESS]):
            self._let_go(running, End(key=running.op.key, reason=Reason.PREEMPTED))

    def _admit(self) -> None:
        if self._board.running or not (waiters := self._board.waiters()):
            return
        life = waiters[0]
        if self._board.asleep and not life.op.switches:
            self._board.asleep = False
            self._commands.append(Wake())
        if not self._board.ready and not (life.op.switches and self._is_given_up()):
            return
        self._board.waiting[life.op.kind].pop(0)
        if life.op.switches:
            for guess in list(self._board.waiting[Kind.GUESS]):
                self._let_go(guess, End(key=guess.op.key, reason=Reason.PREEMPTED))
        life.move(Move.START, self._now)
        self._board.running = life
        start = Start(key=life.op.key, queued_at=life.queued_at, preempted=self._yielded, again=life.again)
        self._commands.append(start)

    def _is_given_up(self) -> bool:
        """Whether an operation that switches the engine does not wait for the one that is to be there."""
        return self._board.asleep or self._board.losses >= self.limits.losses

    def check(self) -> None:
        """Raises AssertionError where the state breaks the rules."""
        self._board.check(self.limits)


_MAKES_ROOM = {Reason.PREEMPTED, Reason.SUPERSEDED}

_HANDLERS: dict[type, Callable[[Scheduler, Any], None]] = {
    Submitted: Scheduler._submitted,
    CancelAsked: Scheduler._cancel_asked,
    ClientGone: Scheduler._client_gone,
    EngineReady: Scheduler._engine_ready,
    EngineProduced: Scheduler._engine_produced,
    EngineEnded: Scheduler._engine_ended,
    EngineLost: Scheduler._engine_lost,
    EngineRefused: Scheduler._engine_refused,
    EngineSwitched: Scheduler._engine_switched,
    Tick: lambda scheduler, _: None,  # time alone does what `handle` does after every event
    ShutdownAsked: Scheduler._shutdown_asked,
}


def _fail(key: OpKey, code: ErrorCode, message: str, *, retry: bool = False) -> Fail:
    return Fail(key=key, code=code, message=message, retry=retry)


def _stopping(key: OpKey) -> Fail:
    return _fail(key, ErrorCode.STOPPING, "the daemon stops: try again when it is back", retry=True)
