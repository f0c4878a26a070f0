"""Owns what the scheduler knows at a moment: which operations wait, which has the slot, how the engine is.

It decides nothing (`scheduler` does). It is plain data, so a record of events can begin with it.
"""

from copy import deepcopy

from attrs import define, field

from modeld.schedule.life import Life, State
from modeld.schedule.limits import ScheduleLimits
from modeld.schedule.messages import Kind, OpKey

_ORDER = tuple(Kind)
"""Iterating over an enumeration takes many times as long, and this is done at every event."""


def _queues() -> dict[Kind, list[Life]]:
    return {kind: [] for kind in Kind}


@define(eq=False)
class Board:
    """`asleep`: the engine was ended on purpose. `losses`: engines lost in a row."""

    waiting: dict[Kind, list[Life]] = field(factory=_queues)
    running: Life | None = None
    ready: bool = False
    asleep: bool = False
    stopping: bool = False
    losses: int = 0

    def copy(self) -> "Board":
        return deepcopy(self)

    def waiters(self) -> list[Life]:
        """In the order in which they would start."""
        waiting = self.waiting
        return [*waiting[Kind.REAL], *waiting[Kind.GUESS], *waiting[Kind.HOUSE]]

    def ahead_of(self, kind: Kind) -> int:
        """How many operations are there before one of this kind that comes now."""
        before = _ORDER[: _ORDER.index(kind) + 1]
        return sum(len(self.waiting[other]) for other in before) + (self.running is not None)

    def live(self) -> list[Life]:
        return [self.running, *self.waiters()] if self.running else self.waiters()

    def find(self, key: OpKey) -> Life | None:
        return next((life for life in self.live() if life.op.key == key), None)

    def check(self, limits: ScheduleLimits) -> None:
        """Raises AssertionError where the scheduler's rules are broken."""
        waiting, running = self.waiters(), self.running
        keys = [life.op.key for life in self.live()]
        assert len(keys) == len(set(keys)), "an operation is held twice"
        assert all(life.op.kind is kind for kind in Kind for life in self.waiting[kind])
        assert all(life.state is State.QUEUED for life in waiting)
        assert len(self.waiting[Kind.GUESS]) <= 1, "more than one guess waits"
        assert all(len(self.waiting[kind]) <= limits.queue + 1 for kind in Kind)
        lanes = [(life.op.key.client, life.op.lane) for life in waiting if life.op.kind is Kind.REAL and life.op.lane]
        assert len(lanes) == len(set(lanes)), "two real operations wait in one lane"
        assert not (self.ready and self.asleep)
        if running is None:
            assert not (self.ready or self.asleep) or not waiting, "the slot is free and something waits"
        else:
            unready = self.asleep or self.losses >= limits.losses
            assert self.ready or (unready and running.op.switches), "something runs without an engine"
            assert (running.last is not None) == (running.state is State.STOPPING)
            rivals = [life for life in waiting if life.op.kind is not Kind.HOUSE]
            holds = running.state is State.STOPPING or running.op.kind is Kind.REAL
            assert holds or not rivals, "nobody told it to yield"
        assert not (self.stopping and waiting), "something waits for a daemon that stops"
