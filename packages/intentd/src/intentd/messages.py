"""Owns what is spoken at intentd's door, as frozen classes. It knows no sockets and no policy.

The machinery's own messages (`hello`, `beat`, `cancel` …) and the replies to an operation are modelwire's.
"""

from collections.abc import Mapping

from attrs import field, frozen

from intentd.shown import Focus, View
from modelwire.messages import (
    Accepted,
    Acknowledged,
    Beat,
    Cancel,
    Done,
    Error,
    GetStatus,
    Hello,
    Progress,
    Started,
    Tokens,
    Welcome,
)
from modelwire.protocol import Protocol


@frozen(kw_only=True)
class CommandStarted:
    """An operation that lives as long as a wrapped command. Ends with `done` once `command_finished` has come."""

    run: str
    argv: tuple[str, ...]
    cwd: str


@frozen(kw_only=True)
class CommandQuiet:
    """A command that watches files has ended a cycle and waits, or (`quiet` false) goes on. Answered by `acknowledged`.

    `output` is the end of the `total` bytes of the cycle.
    """

    run: str
    quiet: bool
    output: bytes = b""
    total: int = 0


@frozen(kw_only=True)
class CommandFinished:
    """A command has ended, with an exit status or by a signal; without either where nobody knows (`intentd pipe`).

    `output` is the end of its `total` bytes; of one that watches files only of those behind its last whole cycle.
    """

    run: str
    exit: int | None
    signal: int | None
    output: bytes
    total: int


@frozen(kw_only=True)
class Ask:
    """An operation: answers the first offer of the workspace around `cwd`, or the one with the number or id `offer`.

    `intent` is `explain` or `fix`. `view`: the question is about what an editor shows, its diagnostic or its selection;
    `intent` can be the name of an action on selections then.
    """

    cwd: str
    intent: str = "explain"
    offer: str | None = None
    view: View | None = None


@frozen(kw_only=True)
class EditorOpened:
    """An operation that lives as long as an editor's connection. `starts_modeld`: it wants modeld started."""

    name: str = ""
    starts_modeld: bool = False


@frozen(kw_only=True)
class Shown:
    """What an editor shows now of a document. Answered by `acknowledged`.

    `used`: when a person used it last, in seconds of the machine's monotonic clock; 0 where nobody has.
    A language server from before that was told does not say.
    """

    view: View
    used: float | None = None


@frozen(kw_only=True)
class Closed:
    """An editor has closed the document `path`. Answered by `acknowledged`, `found` if it had been shown."""

    path: str


@frozen(kw_only=True)
class Complete:
    """An operation: what may follow at a place of the view, its `line` and a `character` of that.

    `ahead`: nobody has asked for it yet. It ends with `expired` if it has not started after `deadline_ms`.
    """

    view: View
    line: int
    character: int
    ahead: bool = False
    deadline_ms: int | None = None


@frozen(kw_only=True)
class CompletionUsed:
    """What became of a completion: `outcome` is `hit` (all of it was there when it was asked for), `partial` (it was
    being made) or `miss`; empty where it was never asked for. Answered by `acknowledged`.

    `ahead`: it was made ahead, at the cost of `prefilled` tokens and `seconds`. `accepted` and `rejected` are counts.
    """

    outcome: str = ""
    ahead: bool = False
    accepted: int = 0
    rejected: int = 0
    prefilled: int = 0
    seconds: float = 0.0


@frozen(kw_only=True)
class GetOffers:
    """What can be asked in the workspace around `cwd`."""

    cwd: str


@frozen(kw_only=True)
class GetPrompt:
    """What `ask` with the same fields would send to the model now. Answered by `shown_prompt`."""

    cwd: str
    intent: str = "explain"
    offer: str | None = None


@frozen(kw_only=True)
class ShownPrompt:
    """The messages of a prompt for people, as (role, content). `doubt`: why what will be sent may differ, or empty."""

    offer: str
    messages: tuple[tuple[str, str], ...]
    doubt: str = ""


@frozen(kw_only=True)
class Offer:
    """Something that can be asked. `warm`: its prompt was prefilled when modeld was last heard.

    `number` is its name for people; `trigger` is `test_failed`, `diagnostic` or `crash`. `line` of its file (0: not
    known) and `message`, the first line of what its tool said, tell it from others of the same title.
    """

    id: str
    number: int
    trigger: str
    title: str
    workspace: str
    warm: bool
    line: int = 0
    message: str = ""


@frozen(kw_only=True)
class Offers:
    """Answers `get_offers`, the likeliest question first. `problem`: why there can be none here, or empty."""

    offers: tuple[Offer, ...]
    problem: str = ""


@frozen(kw_only=True)
class Pause:
    """No guesses from now on, or again guesses. Answered by `acknowledged`, `found` if it changed anything."""

    paused: bool


@frozen(kw_only=True)
class DaemonStatus:
    """Answers `status`. `state` is `idle`, `guessing`, `answering` or `paused`; `reason` says why nothing is guessed.

    Figures: `guesses_sent`, `guesses_finished`, `guesses_failed`, `answers`, and of those `answers_hit`,
    `answers_partial`, `answers_warm`, `answers_cold`, `answers_failed`; `commands_running`, `editors`; while one
    guess is prefilled `guess_done` and `guess_total` tokens; `completions_accepted`, `completions_rejected`. Of each
    trigger: `asks`, `hits`, `partials`, `warm`, `misses`, `preemptions`, `prefilled` and `wasted` tokens, `wasted_s`,
    `off` (1 while it is switched off) and `retry_s` until it is tried again. `others` are the offers behind the first,
    `fix` the changes that mend. `problems` are lines about unusable files of the user's.
    """

    state: str
    reason: str
    instance: str
    modeld: str
    modeld_reachable: bool
    offers: tuple[Offer, ...]
    uptime_s: float
    figures: Mapping[str, int] = field(factory=dict)
    triggers: Mapping[str, Mapping[str, float]] = field(factory=dict)
    problems: tuple[str, ...] = ()


KINDS: Mapping[str, type] = {
    "command_started": CommandStarted,
    "command_quiet": CommandQuiet,
    "command_finished": CommandFinished,
    "ask": Ask,
    "editor_opened": EditorOpened,
    "shown": Shown,
    "closed": Closed,
    "focus": Focus,
    "complete": Complete,
    "completion_used": CompletionUsed,
    "get_offers": GetOffers,
    "offers": Offers,
    "get_prompt": GetPrompt,
    "shown_prompt": ShownPrompt,
    "pause": Pause,
    "status": GetStatus,
    "daemon_status": DaemonStatus,
    "accepted": Accepted,
    "started": Started,
    "progress": Progress,
    "tokens": Tokens,
    "done": Done,
}

INTENTD = Protocol(
    service="intentd",
    kinds=KINDS,
    requests=frozenset(
        {
            Hello,
            Beat,
            Cancel,
            CommandStarted,
            CommandQuiet,
            CommandFinished,
            Ask,
            EditorOpened,
            Shown,
            Closed,
            Complete,
            CompletionUsed,
            GetOffers,
            GetPrompt,
            Pause,
            GetStatus,
        }
    ),
    terminal=frozenset({Done, Error, Welcome, Acknowledged, Offers, ShownPrompt, DaemonStatus}),
)
