"""Owns the messages of the wire as frozen classes. It knows no bytes (`codec`) and no sockets (`client`, `router`).

Every class carries its wire name in the registry `KINDS`. Fields with a default may be left out by a sender;
a receiver ignores fields that it does not know. Times are milliseconds, lengths are tokens unless they say bytes.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Literal, TypeVar

from attrs import field, frozen

PROTOCOL_VERSION = 1

_Class = TypeVar("_Class", bound=type)
KINDS: dict[str, type] = {}
"""Wire name → class, for every message of modeld's protocol."""


def _kind(name: str) -> Callable[[_Class], _Class]:
    """Gives a class its wire name."""

    def register(cls: _Class) -> _Class:
        KINDS[name] = cls
        return cls

    return register


# --- what a prompt is made of ---------------------------------------------------------------------------


@frozen(kw_only=True)
class Text:
    """Raw text. Only with `special` does it turn into special tokens where it spells them.

    Text of a template may; contents (files, output, messages) never do.
    """

    text: str
    special: bool = False


@frozen(kw_only=True)
class ChatMessage:
    """One message of a conversation; modeld puts it through the model's own chat template."""

    role: Literal["system", "user", "assistant"]
    content: str


Part = Text | ChatMessage
Prompt = tuple[Part, ...]
"""All `Text` or all `ChatMessage`; a mixture is a `bad_request`."""


@frozen(kw_only=True)
class DecodeConfig:
    """How to generate. The default is greedy.

    Sampling runs in the order penalty, top-k, top-p, min-p, temperature. `temperature` 0 is greedy, and so is
    what cannot be told from it (below 0.000001). `top_k` 0, `top_p` 1 and `min_p` 0 switch those filters off.
    `repeat_penalty` is from 0.1 to 10; 1, or a `repeat_last_n` of 0, switches it off. The same seed and prompt give the
    same text. `speculative_ngram` is the shortest match that may draft: 0 never drafts, None lets the daemon choose.
    """

    max_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    seed: int = 0
    stop: tuple[str, ...] = ()
    speculative_ngram: int | None = None

    @property
    def greedy(self) -> bool:
        return self.temperature < 1e-6


# --- questions: answered by one reply, or by an error ---------------------------------------------------


@_kind("hello")
@frozen(kw_only=True)
class Hello:
    """Who is there. `client` is a name for logs and status, not an identity."""

    client: str = ""


@_kind("describe")
@frozen(kw_only=True)
class Describe:
    """What the daemon and its model can do."""


@_kind("status")
@frozen(kw_only=True)
class GetStatus:
    """Live figures."""


@_kind("tokenize")
@frozen(kw_only=True)
class Tokenize:
    """Ids for a prompt, as a turn with this prompt would see them."""

    prompt: Prompt


@_kind("cancel")
@frozen(kw_only=True)
class Cancel:
    """End the operation `target` of this client. Answered once no token of it will follow."""

    target: str


@_kind("close")
@frozen(kw_only=True)
class Close:
    """End a session, or with None all sessions and operations of this client."""

    session: str | None = None


@_kind("load")
@frozen(kw_only=True)
class Load:
    """Load the model in the file `model` in place of the one that is loaded; with None, the one that was unloaded.

    It waits its turn as an operation does. Sessions hold tokens, so those of another model end.
    """

    model: str | None = None


@_kind("unload")
@frozen(kw_only=True)
class Unload:
    """End the engine and give its memory back, when the operations before have ended. The next one loads it again."""


@_kind("snapshot")
@frozen(kw_only=True)
class Snapshot:
    """Take a handle to what the session stands for now, for `Restore`. It waits its turn as an operation does."""

    session: str


@_kind("story")
@frozen(kw_only=True)
class TellStory:
    """What happened to the operation `target`, in words; empty for the newest.

    `client` is the beginning of a client's name in a story, where several clients have used the same id.
    """

    target: str = ""
    client: str = ""


@_kind("beat")
@frozen(kw_only=True)
class Beat:
    """I am alive. Not answered."""


# --- operations: run on the slot ------------------------------------------------------------------------


@frozen(kw_only=True)
class Operation:
    """What every operation on the slot carries.

    `speculative` makes it a guess: it yields to everything and changes nothing of the session. A newer operation in the
    same `lane` of the same client supersedes the older one. One that has not started after `deadline_ms` ends with
    `expired`.
    """

    session: str
    speculative: bool = False
    lane: str | None = None
    deadline_ms: int | None = None


@_kind("ensure_prefix")
@frozen(kw_only=True)
class EnsurePrefix(Operation):
    """Make the session's tape start with `prompt`, and put its head there."""

    prompt: Prompt


@_kind("prefill_suffix")
@frozen(kw_only=True)
class PrefillSuffix(Operation):
    """Append `prompt` at the session's head."""

    prompt: Prompt


@_kind("decode")
@frozen(kw_only=True)
class Decode(Operation):
    """Generate from the session's head."""

    decode: DecodeConfig = field(factory=DecodeConfig)


@_kind("turn")
@frozen(kw_only=True)
class Turn(Operation):
    """`ensure_prefix`, `prefill_suffix` and `decode` as one operation that nothing comes between.

    A guessed turn ends after the prefill, unless it is to go `ahead`: then it generates as well, and is still a guess.
    """

    prefix: Prompt
    suffix: Prompt = ()
    decode: DecodeConfig = field(factory=DecodeConfig)
    ahead: bool = False


@_kind("restore")
@frozen(kw_only=True)
class Restore(Operation):
    """Let the session stand for what a snapshot of this client does, in place of what it stood for."""

    handle: str


# --- replies to an operation, in this order -------------------------------------------------------------


@_kind("accepted")
@frozen(kw_only=True)
class Accepted:
    """The operation is queued."""


@_kind("started")
@frozen(kw_only=True)
class Started:
    """The operation has the slot. `preempted` names the guess that had to go for it."""

    queue_ms: float
    preempted: str | None = None


@_kind("progress")
@frozen(kw_only=True)
class Progress:
    """Of the `total` prompt tokens `done` are resident; `reused` of them were so before."""

    reused: int
    done: int
    total: int


@_kind("tokens")
@frozen(kw_only=True)
class Tokens:
    """What was generated since the last such message. `text` is whole characters; it can lag behind `ids`."""

    text: str
    ids: tuple[int, ...] = ()


class Reason(StrEnum):
    """Why an operation is done."""

    END = "end"  # the model ended its answer
    STOP = "stop"  # a stop string appeared; it is not part of the text
    LENGTH = "length"  # max_tokens were generated
    CONTEXT = "context"  # the context is full
    PREFILLED = "prefilled"  # there was nothing to generate
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    PREEMPTED = "preempted"  # a guess that yielded; its finished chunks stay
    DUPLICATE = "duplicate"  # a guess with the same bytes is waiting, running or resident


class Outcome(StrEnum):
    """What reuse gave a real operation."""

    HIT = "hit"  # the whole prompt was resident
    PARTIAL = "partial"  # some tokens of a guess were
    WARM = "warm"  # some tokens were, none of them guessed
    COLD = "cold"  # nothing was
    NONE = "none"  # it had no prompt, or never started


@frozen(kw_only=True)
class Usage:
    """Counts in tokens. `guessed` are reused tokens that a guess had prefilled; `prefilled` went through the model.

    `forward_passes` are those before the first token (of the whole operation where nothing is generated). `drafted`
    tokens were tried ahead in a pass of the model, and `accepted` ones were what it says.
    """

    prompt: int = 0
    reused: int = 0
    guessed: int = 0
    prefilled: int = 0
    generated: int = 0
    forward_passes: int = 0
    chunks_finished: int = 0
    chunks_stopped: int = 0
    outcome: Outcome = Outcome.NONE
    drafted: int = 0
    accepted: int = 0


@frozen(kw_only=True)
class Timings:
    """Milliseconds. `first_token` counts from the request's arrival at the daemon's socket; 0 where there was none.

    `decode` is the time of all decode steps after the first token. `stopped_chunk` is how long the chunk that was
    stopped had run, `chunk` what a whole one costs by measurement (0 where not known). `first_pass` counts from arrival
    to the operation's first call of the model for its prompt; 0 where it needed none.
    """

    queue: float = 0.0
    tokenise: float = 0.0
    prefill: float = 0.0
    first_token: float = 0.0
    decode: float = 0.0
    total: float = 0.0
    stopped_chunk: float = 0.0
    chunk: float = 0.0
    first_pass: float = 0.0


@_kind("done")
@frozen(kw_only=True)
class Done:
    """The operation's end. `head` is where the session's head now stands."""

    reason: Reason
    head: int = 0
    usage: Usage = field(factory=Usage)
    timings: Timings = field(factory=Timings)


@_kind("error")
@frozen(kw_only=True)
class Error:
    """The operation's or question's end, as an error.

    Codes are in `errors.ErrorCode`. `numbers` holds the figures that the message states, for programs.
    """

    code: str
    message: str
    retry: bool = False
    numbers: Mapping[str, int] = field(factory=dict)


# --- replies to questions -------------------------------------------------------------------------------


@frozen(kw_only=True)
class Limits:
    """Bounds that the daemon keeps.

    `snapshots`: how many a client may have. `silence_ms`: a client with live operations that says nothing for so long
    is taken as gone.
    """

    message_bytes: int
    context: int
    sessions: int
    queue: int
    silence_ms: int
    snapshots: int = 0


@_kind("welcome")
@frozen(kw_only=True)
class Welcome:
    """Answers `hello`. `instance` changes when the daemon restarts.

    `beat_ms` is how often a client says `beat` while operations of it live.
    """

    protocol: int
    server: str
    version: str
    instance: str
    beat_ms: int


@frozen(kw_only=True)
class ModelDescription:
    """The model in the slot. `fingerprint` is a digest of the file; `chat` says whether it has a chat template.

    `fim`: it has tokens for filling in the middle; `fim_tokens` are the texts of those for (prefix, suffix, middle).
    """

    name: str
    architecture: str
    quantisation: str
    fingerprint: str
    parameters: int
    vocabulary: int
    context_trained: int
    chat: bool
    fim: bool
    fim_tokens: tuple[str, ...] = ()


@frozen(kw_only=True)
class Exactness:
    """Whether results are bit-identical across batch widths, chunkings, forks and adoptions, as tested.

    `running`: the test is under way now. `progress` is the fraction of it that is done. `reason`: why there is no
    verdict, for people.
    """

    verdict: Literal["exact", "approximate", "untested"] = "untested"
    largest_difference: float = 0.0
    differing_tokens: float = 0.0
    running: bool = False
    progress: float = 0.0
    reason: str = ""


@_kind("description")
@frozen(kw_only=True)
class Description:
    """Answers `describe`. `capabilities` are the backend's, by name (docs/protocol.md lists them)."""

    backend: str
    profile: str
    model: ModelDescription
    capabilities: Mapping[str, str | bool]
    exactness: Exactness
    limits: Limits


@_kind("figures")
@frozen(kw_only=True)
class Status:
    """Answers `status`. `state` is `loading`, `idle`, `guessing`, `busy`, `unloaded`, `restarting` or `stopping`.

    `problem` is for people, and empty where all is well. docs/protocol.md names the figures.
    """

    state: str
    instance: str
    model: str
    engine_pid: int
    uptime_s: float
    figures: Mapping[str, float]
    exactness: Exactness = field(factory=Exactness)
    problem: str = ""


@_kind("ids")
@frozen(kw_only=True)
class TokenIds:
    """Answers `tokenize`."""

    ids: tuple[int, ...]


@_kind("acknowledged")
@frozen(kw_only=True)
class Acknowledged:
    """Answers `cancel`, `close`, `load` and `unload`. `found` is false where there was nothing to do."""

    found: bool


@_kind("snapshot_taken")
@frozen(kw_only=True)
class SnapshotTaken:
    """Answers `snapshot`. Restoring needs no prefill while its `bytes` are kept; with 0 it is prefilled again.

    `head` is where the session's head stood.
    """

    handle: str
    head: int
    bytes: int


@_kind("story_told")
@frozen(kw_only=True)
class StoryTold:
    """Answers `story`: a line for each thing that happened, the first says to what. No text of a prompt is in it."""

    lines: tuple[str, ...]


Question = Hello | Describe | GetStatus | Tokenize | Cancel | Close | Load | Unload | Snapshot | TellStory
SlotOperation = EnsurePrefix | PrefillSuffix | Decode | Turn | Restore
Request = Question | SlotOperation | Beat
Answer = Welcome | Description | Status | TokenIds | Acknowledged | SnapshotTaken | StoryTold
Terminal = Done | Error | Answer
Reply = Accepted | Started | Progress | Tokens | Terminal
