"""Owns what goes into the scheduler (events) and what comes out of it (commands). No logic."""

from enum import StrEnum
from typing import NamedTuple

from attrs import frozen

from modelwire.errors import ErrorCode
from modelwire.messages import Reason


class Kind(StrEnum):
    """Priority, highest first. A guess and housekeeping yield to anything above them."""

    REAL = "real"
    GUESS = "guess"
    HOUSE = "house"


class OpKey(NamedTuple):
    """An operation's name in the daemon: the client's connection and the id that the client chose.

    A tuple, as it is hashed and compared many times in each operation.
    """

    client: str
    op: str


@frozen(kw_only=True)
class Op:
    """An operation as far as scheduling it goes.

    `digest` stands for what it does: two guesses with the same digest are the same guess. `lane` is any word that is
    the same for the same lane. `deadline` is a time of the clock that `now` is read from. `switches`: it ends or
    exchanges the engine, so it needs none that is loaded.
    """

    key: OpKey
    kind: Kind
    digest: bytes = b""
    lane: str | None = None
    deadline: float | None = None
    switches: bool = False


# --- events ---------------------------------------------------------------------------------------------


@frozen
class Submitted:
    """A client asks for an operation."""

    op: Op


@frozen
class CancelAsked:
    """A client wants its operation ended."""

    key: OpKey


@frozen
class ClientGone:
    """A client left or fell silent: all its operations end."""

    client: str


@frozen
class EngineReady:
    """The engine is loaded and idle."""


@frozen
class EngineProduced:
    """The running operation's first token was sent: from now on it cannot be run again silently."""

    key: OpKey


@frozen
class EngineEnded:
    """The engine confirms that the running operation is over. `stopped`: the stop flag ended it."""

    key: OpKey
    stopped: bool


@frozen
class EngineLost:
    """The engine process is gone, with whatever ran in it."""


@frozen
class EngineRefused:
    """The model that was to be loaded cannot be, for the reason in `message`. There is no engine until one is woken."""

    message: str


@frozen
class EngineSwitched:
    """The running operation has ended or exchanged the engine, as it was to. `loaded`: there is one now, and idle."""

    key: OpKey
    loaded: bool


@frozen
class Tick:
    """Time passed."""


@frozen
class ShutdownAsked:
    """The daemon stops: everything ends, nothing starts."""


Event = (
    Submitted
    | CancelAsked
    | ClientGone
    | EngineReady
    | EngineProduced
    | EngineEnded
    | EngineLost
    | EngineRefused
    | EngineSwitched
    | Tick
    | ShutdownAsked
)


# --- commands -------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Accept:
    """Tell the client that its operation is queued."""

    key: OpKey


@frozen(kw_only=True)
class Start:
    """Send the operation to the engine. `preempted` is the guess that was stopped for it. `again`: its second run."""

    key: OpKey
    queued_at: float
    preempted: OpKey | None = None
    again: bool = False


@frozen(kw_only=True)
class Stop:
    """Set the stop flag for the running operation."""

    key: OpKey


@frozen(kw_only=True)
class End:
    """Tell the client that its operation is done. With `reason` None, for the reason that the engine gave."""

    key: OpKey
    reason: Reason | None


@frozen(kw_only=True)
class Fail:
    """Tell the client that its operation failed."""

    key: OpKey
    code: ErrorCode
    message: str
    retry: bool


@frozen
class Wake:
    """Load the engine again: an operation waits for it."""


Command = Accept | Start | Stop | End | Fail | Wake
