"""Owns what the front and the engine process say to each other. It knows no bytes and no process.

The front sends one message at a time, and the next only after the engine has ended the one before. A `Run` is
self-contained: it carries every id that the session stands for, so an engine that has just been restarted serves it as
well, only slower.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from attrs import field, frozen

from modelwire.messages import DecodeConfig, Exactness, ModelDescription, Prompt, Reason, Timings, Usage

_Class = TypeVar("_Class", bound=type)
KINDS: dict[str, type] = {}


def _kind(name: str) -> Callable[[_Class], _Class]:
    def register(cls: _Class) -> _Class:
        KINDS[name] = cls
        return cls

    return register


# --- front to engine ------------------------------------------------------------------------------------


@_kind("run")
@frozen(kw_only=True)
class Run:
    """One operation: make `base` + `prompt` resident, then generate if `decode` says so.

    `base`: ids before the prompt, int32 little-endian. `complete`: a chat prompt is the whole of a request, so it ends
    with the template's opening of the answer. `client` and `session` own the tape. `closed`: sessions that ended since
    the last `Run`, as (client, session).
    """

    client: str
    session: str
    guess: bool
    base: bytes = b""
    prompt: Prompt = ()
    complete: bool = False
    decode: DecodeConfig | None = None
    closed: tuple[tuple[str, str], ...] = ()


@_kind("encode")
@frozen(kw_only=True)
class Encode:
    """Ids for a prompt, as a `Run` with it would see them."""

    prompt: Prompt
    complete: bool = False


@_kind("save")
@frozen(kw_only=True)
class Save:
    """Keep the state of the tape that holds `ids` (int32 little-endian) in host memory, where that pays.

    It goes when the session `place` of `client` is closed. `closed` as in `Run`.
    """

    client: str
    place: str
    ids: bytes
    closed: tuple[tuple[str, str], ...] = ()


@_kind("probe")
@frozen(kw_only=True)
class Probe:
    """Test the exactness of this model, build, CPU and profile: housekeeping for idle times, ended by the stop flag.

    Sent again after an unfinished one, it goes on.
    """


@_kind("quit")
@frozen(kw_only=True)
class Quit:
    """Free everything and exit."""


# --- engine to front ------------------------------------------------------------------------------------


@_kind("ready")
@frozen(kw_only=True)
class Ready:
    """The model is loaded. `exactness` is what a former `Probe` found, if there was one."""

    backend: str
    profile: str
    model: ModelDescription
    capabilities: Mapping[str, str | bool]
    context: int
    cells: int
    load_ms: float
    exactness: Exactness = field(factory=Exactness)


@_kind("refused")
@frozen(kw_only=True)
class Refused:
    """The model cannot be loaded; trying again does not help. The engine exits."""

    message: str


@_kind("begun")
@frozen(kw_only=True)
class Begun:
    """The prompt is tokenised and matched.

    `ids` (int32 little-endian, `base` included) are what the session stands for from now on.
    """

    ids: bytes
    reused: int


@_kind("advanced")
@frozen(kw_only=True)
class Advanced:
    """Positions up to `length` are resident. That all are, a first token that follows at once says instead."""

    length: int


@_kind("generated")
@frozen(kw_only=True)
class Generated:
    """Tokens that belong to the answer, and the whole characters that they completed."""

    text: str
    ids: tuple[int, ...]


@_kind("encoded")
@frozen(kw_only=True)
class Encoded:
    """Ends an `Encode`."""

    ids: tuple[int, ...]


@_kind("saved")
@frozen(kw_only=True)
class Saved:
    """Ends a `Save`: so many `bytes` are kept. 0: it does not pay, or there is no room for it."""

    bytes: int


@_kind("probing")
@frozen(kw_only=True)
class Probing:
    """A `Probe` goes on: the fraction of the test that is done."""

    progress: float


@_kind("probed")
@frozen(kw_only=True)
class Probed:
    """Ends a `Probe`. If it is not `finished`, the stop flag ended it, or what is resident leaves it no room."""

    finished: bool
    stopped: bool = False
    exactness: Exactness = field(factory=Exactness)


@_kind("shelf")
@frozen(kw_only=True)
class ShelfFigures:
    """What is resident after an operation, and what was done to it since the load.

    `relocated`: positions that were moved to keep cells in order. `parked`: tapes in host memory, of `parked_bytes`.
    `restored`: tapes that came back from there.
    """

    tapes: int = 0
    guesses: int = 0
    cells_used: int = 0
    evicted: int = 0
    relocated: int = 0
    parked: int = 0
    parked_bytes: int = 0
    restored: int = 0


@_kind("drafts")
@frozen(kw_only=True)
class DraftFigures:
    """What drafting did in one answer. `passes` of the model gave `tokens`.

    `by_length`: tokens drafted and accepted by the length of the match that they were drafted from, as (length from,
    drafted, accepted). Seconds are against single rows. `on`: drafting is not switched off for its losses.
    """

    drafted: int = 0
    accepted: int = 0
    passes: int = 0
    tokens: int = 0
    seconds_saved: float = 0.0
    seconds_lost: float = 0.0
    on: bool = False
    by_length: tuple[tuple[int, int, int], ...] = ()

    @property
    def tokens_per_pass(self) -> float:
        return self.tokens / self.passes if self.passes else 0.0


@_kind("ended")
@frozen(kw_only=True)
class Ended:
    """Ends a `Run`. `length` is how much of the tape is resident. `drafts` is None where no decode loop of ours ran.

    `last` is what came last of the answer: it and the end wake the front once.

    `reason` is PREEMPTED wherever the stop flag ended it; the front knows why it set the flag. `first_pass_at` is when
    the first call of the model for the prompt began, in seconds of the machine's monotonic clock: both processes have
    the same, and only the front knows the request's arrival.
    """

    reason: Reason
    length: int
    usage: Usage
    timings: Timings
    shelf: ShelfFigures = field(factory=ShelfFigures)
    drafts: DraftFigures | None = None
    first_pass_at: float | None = None
    last: Generated | None = None


@_kind("failed")
@frozen(kw_only=True)
class Failed:
    """Ends what the front asked as an error (codes of `modelwire.errors`)."""

    code: str
    message: str
    retry: bool = False
    numbers: Mapping[str, int] = field(factory=dict)


# --- from the supervisor, in the front ------------------------------------------------------------------


@frozen(kw_only=True)
class EngineGone:
    """The engine process of this epoch has ended, and with it what ran and what was resident. Another one starts."""

    epoch: int
    reason: str


@frozen(kw_only=True)
class EngineUnloaded:
    """The engine process of this epoch has ended, as it was asked to. There is none until one is asked for."""

    epoch: int


@frozen(kw_only=True)
class Upgraded:
    """What is installed now is of another edition than this process, which no engine will ever serve again."""


FromSupervisor = EngineGone | EngineUnloaded | Upgraded
ToEngine = Run | Encode | Save | Probe | Quit
FromEngine = Ready | Refused | Begun | Advanced | Generated | Encoded | Saved | Probing | Probed | Ended | Failed
