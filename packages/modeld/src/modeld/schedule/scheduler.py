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
   without becoming ready, nobody waits any longer.
10. When the daemon stops, everything ends and nothing starts.

The table of an operation's moves is `life.MOVES`. Every operation that is accepted ends exactly once, with `End` or
`Fail`; one that is refused gets one `Fail` and no `Accept`. The end of an operation comes before the start of the next.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

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
)
from modelwire.errors import ErrorCode
from modelwire.messages import Reason


class Scheduler:
    """Give it every event with its time; carry out the commands in their order."""

    def __init__(self, limits: ScheduleLimits | None = None) -> None:
        self._limits = limits or ScheduleLimits()
        self._live: dict[OpKey, Life] = {}
        self._waiting: dict[Kind, deque[Life]] = {kind: deque() for kind in Kind}
        self._running: Life | None = None
        self._past: deque[Life] = deque(maxlen=self._limits.history)
        self._ready = False
        self._stopping = False
        self._losses = 0
        self._now = 0.0
        self._yielded: OpKey | None = None
        self._commands: list[Command] = []

    # --- what others may ask ----------------------------------------------------------------------------

    @property
    def running(self) -> Op | None:
        return self._running.op if self._running else None

    @property
    def waiting(self) -> int:
        return sum(len(lives) for lives in self._waiting.values())

    def is_live(self, key: OpKey) -> bool:
        return key in self._live

    def next_deadline(self) -> float | None:
        """When the next operation expires; a `Tick` is due then."""
        return min((life.expires for life in self._waiters() if life.expires is not None), default=None)

    def story(self, key: OpKey) -> str:
        """What happened to an operation, for error messages."""
        life = self._live.get(key) or next((past for past in reversed(self._past) if past.op.key == key), None)
        return life.story() if life else f"operation {key.op} of {key.client}: never heard of"

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
        self._live[op.key] = life
        self._commands.append(Accept(key=op.key))
        if op.kind is Kind.GUESS and self._is_duplicate(op):
            self._end(life, End(key=op.key, reason=Reason.DUPLICATE))
            return
        for older in self._superseded_by(op):
            self._let_go(older, End(key=older.op.key, reason=Reason.SUPERSEDED))
        self._waiting[op.kind].append(life)

    def _refusal(self, op: Op) -> Fail | None:
        if op.key in self._live:
            return _fail(op.key, ErrorCode.DUPLICATE_OP, f"operation {op.key.op} is still live: choose a new id")
        if self._stopping:
            return _stopping(op.key)
        leaving = sum(older.state is State.QUEUED for older in self._superseded_by(op) if older.op.kind is op.kind)
        waiting = len(self._waiting[op.kind]) - leaving
        if waiting >= self._limits.queue:
            return _fail(op.key, ErrorCode.OVERLOADED, f"{waiting} operations wait already: try later", retry=True)
        return None

    def _is_duplicate(self, op: Op) -> bool:
        rivals = list(self._waiting[Kind.GUESS])
        if self._running and self._running.state is State.RUNNING and self._running.op.kind is Kind.GUESS:
            rivals.append(self._running)
        return any(rival.op.digest == op.digest for rival in rivals)

    def _superseded_by(self, op: Op) -> list[Life]:
        if op.kind is Kind.GUESS:
            return list(self._waiting[Kind.GUESS])
        if op.kind is Kind.HOUSE or op.lane is None:
            return []
        others = (life for life in self._live.values() if life.op.key != op.key)
        return [life for life in others if (life.op.key.client, life.op.lane) == (op.key.client, op.lane)]

    def _cancel_asked(self, event: CancelAsked) -> None:
        if life := self._live.get(event.key):
            self._let_go(life, End(key=event.key, reason=Reason.CANCELLED))

    def _client_gone(self, event: ClientGone) -> None:
        for life in [life for key, life in self._live.items() if key.client == event.client]:
            self._let_go(life, End(key=life.op.key, reason=Reason.CANCELLED))

    def _shutdown_asked(self, _: ShutdownAsked) -> None:
        self._stopping = True
        for life in list(self._live.values()):
            self._let_go(life, _stopping(life.op.key))

    def _engine_ready(self, _: EngineReady) -> None:
        if self._running:
            raise IllegalMove(f"the engine became ready under an operation: {self._running.story()}")
        self._ready = True
        self._losses = 0

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

    def _engine_lost(self, _: EngineLost) -> None:
        self._ready = False
        self._losses += 1
        if self._running:
            self._lose(self._running)
        if self._losses >= self._limits.losses:
            for life in list(self._waiters()):
                message = f"the engine was lost {self._losses} times in a row: see the daemon's log"
                self._let_go(life, _fail(life.op.key, ErrorCode.NOT_READY, message, retry=True))

    # --- what follows from them ---------------------------------------------------------------------------

    def _lose(self, life: Life) -> None:
        real = life.op.kind is Kind.REAL
        if life.last is not None:
            self._release(life, life.last)
        elif real and not life.produced and not life.again:
            life.move(Move.AGAIN, self._now, "the engine was lost")
            life.again = True
            self._running = None
            self._waiting[Kind.REAL].appendleft(life)
        else:
            message = "the engine was lost while this ran" + (": send it again" if real else "")
            self._release(life, _fail(life.op.key, ErrorCode.ENGINE_LOST, message, retry=real))

    def _let_go(self, life: Life, last: End | Fail) -> None:
        """Ends an operation that waits; stops one that runs; leaves one alone that is being stopped."""
        if life.state is State.QUEUED:
            self._waiting[life.op.kind].remove(life)
            self._end(life, last)
        elif life.state is State.RUNNING:
            life.stop(last, self._now)
            self._commands.append(Stop(key=life.op.key))

    def _release(self, life: Life, last: End | Fail) -> None:
        self._running = None
        self._end(life, last)

    def _end(self, life: Life, last: End | Fail) -> None:
        life.end(last, self._now)
        del self._live[life.op.key]
        self._past.append(life)
        self._commands.append(last)

    def _must_run(self, key: OpKey) -> Life:
        if self._running is None or self._running.op.key != key:
            raise IllegalMove(f"the engine speaks of an operation that does not run: {self.story(key)}")
        return self._running

    def _waiters(self) -> Iterator[Life]:
        return (life for kind in Kind for life in self._waiting[kind])

    def _expire(self, before: float) -> None:
        for life in list(self._waiters()):
            if life.expires is not None and life.expires < before:
                self._let_go(life, End(key=life.op.key, reason=Reason.EXPIRED))

    def _preempt(self) -> None:
        running = self._running
        if running and running.op.kind is not Kind.REAL and (self._waiting[Kind.REAL] or self._waiting[Kind.GUESS]):
            self._let_go(running, End(key=running.op.key, reason=Reason.PREEMPTED))

    def _admit(self) -> None:
        life = next(self._waiters(), None)
        if life is None or not self._ready or self._running:
            return
        self._waiting[life.op.kind].popleft()
        life.move(Move.START, self._now)
        self._running = life
        start = Start(key=life.op.key, queued_at=life.queued_at, preempted=self._yielded, again=life.again)
        self._commands.append(start)

    def check(self) -> None:
        """Raises AssertionError where the state breaks the rules."""
        waiting = list(self._waiters())
        running = self._running
        held = [*waiting, running] if running else waiting
        assert {id(life) for life in held} == {id(life) for life in self._live.values()}
        assert len(held) == len(self._live), "an operation is held twice"
        assert all(life.op.kind is kind for kind in Kind for life in self._waiting[kind])
        assert all(life.state is State.QUEUED for life in waiting)
        assert len(self._waiting[Kind.GUESS]) <= 1, "more than one guess waits"
        assert all(len(self._waiting[kind]) <= self._limits.queue + 1 for kind in Kind)
        lanes = [(life.op.key.client, life.op.lane) for life in waiting if life.op.kind is Kind.REAL and life.op.lane]
        assert len(lanes) == len(set(lanes)), "two real operations wait in one lane"
        if running is None:
            assert not self._ready or not waiting, "the slot is free and something waits"
        else:
            assert self._ready, "something runs without an engine"
            assert (running.last is not None) == (running.state is State.STOPPING)
            rivals = [life for life in waiting if life.op.kind is not Kind.HOUSE]
            holds = running.state is State.STOPPING or running.op.kind is Kind.REAL
            assert holds or not rivals, "nobody told it to yield"
        assert not (self._stopping and waiting), "something waits for a daemon that stops"


_MAKES_ROOM = {Reason.PREEMPTED, Reason.SUPERSEDED}

_HANDLERS: dict[type, Callable[[Scheduler, Any], None]] = {
    Submitted: Scheduler._submitted,
    CancelAsked: Scheduler._cancel_asked,
    ClientGone: Scheduler._client_gone,
    EngineReady: Scheduler._engine_ready,
    EngineProduced: Scheduler._engine_produced,
    EngineEnded: Scheduler._engine_ended,
    EngineLost: Scheduler._engine_lost,
    Tick: lambda scheduler, _: None,  # time alone does what `handle` does after every event
    ShutdownAsked: Scheduler._shutdown_asked,
}


def _fail(key: OpKey, code: ErrorCode, message: str, *, retry: bool = False) -> Fail:
    return Fail(key=key, code=code, message=message, retry=retry)


def _stopping(key: OpKey) -> Fail:
    return _fail(key, ErrorCode.STOPPING, "the daemon stops: try again when it is back", retry=True)
