"""Owns the states of one operation and the table of moves between them. It decides nothing (`scheduler` does)."""

from enum import StrEnum

from attrs import define, field

from modeld.schedule.messages import End, Fail, Op
from modelwire.errors import Plain


class State(StrEnum):
    """Where an operation is. It holds the slot while it is running or stopping."""

    NEW = "new"
    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class Move(StrEnum):
    """What can happen to an operation."""

    QUEUE = "queue"
    START = "start"
    STOP = "stop"
    AGAIN = "again"
    END = "end"


MOVES: dict[tuple[State, Move], State] = {
    (State.NEW, Move.QUEUE): State.QUEUED,
    (State.QUEUED, Move.START): State.RUNNING,
    (State.QUEUED, Move.END): State.ENDED,  # cancelled, superseded, expired, a duplicate, or the daemon stops
    (State.RUNNING, Move.STOP): State.STOPPING,
    (State.RUNNING, Move.AGAIN): State.QUEUED,  # the engine was lost before the first token
    (State.RUNNING, Move.END): State.ENDED,
    (State.STOPPING, Move.END): State.ENDED,
}


class IllegalMove(Plain):
    """The scheduler was told something that cannot have happened. The message tells the operation's story."""


@define(eq=False)
class Life:
    """An operation from its arrival to its end. `last` is how it ends once the engine confirms that it was stopped."""

    op: Op
    queued_at: float
    state: State = State.NEW
    produced: bool = False
    again: bool = False
    last: End | Fail | None = None
    _story: list[tuple[float, str]] = field(factory=list)

    def move(self, move: Move, now: float, why: str = "") -> None:
        """Raises `IllegalMove` where the table has no such move."""
        state = MOVES.get((self.state, move))
        if state is None:
            raise IllegalMove(f"cannot {move} an operation that is {self.state}: {self.story()}")
        self.state = state
        self._story.append((now, f"{move} ({why})" if why else str(move)))

    def story(self) -> str:
        """One line: who it is and what happened to it, in seconds after its arrival."""
        name = f"{self.op.kind} operation {self.op.key.op} of {self.op.key.client}"
        steps = ", ".join(f"{what} at {now - self.queued_at:+.3f}s" for now, what in self._story)
        return f"{name}: {steps or 'nothing yet'}"

    def end(self, last: End | Fail, now: float) -> None:
        self.move(Move.END, now, _why(last))

    def stop(self, last: End | Fail, now: float) -> None:
        self.move(Move.STOP, now, _why(last))
        self.last = last

    @property
    def expires(self) -> float | None:
        """An operation that runs again has met its deadline the first time."""
        return None if self.again else self.op.deadline


def _why(last: End | Fail) -> str:
    return str(last.code if isinstance(last, Fail) else last.reason or "the engine ended it")
