"""Owns the stories of operations: what happened to each and when, in words. It has no word of a prompt or an answer."""

from collections import deque
from collections.abc import Callable, Iterator

from attrs import define, field

from modeld.schedule.messages import OpKey, Start
from modelwire.messages import (
    Accepted,
    Acknowledged,
    Done,
    Error,
    Progress,
    SnapshotTaken,
    Started,
    TokenIds,
    Tokens,
    Usage,
)

HISTORY = 256
_LINES = 64
"""Of one story; what comes later is left out, but not the end."""

Reply = Accepted | Started | Progress | Tokens | Done | Error | TokenIds | Acknowledged | SnapshotTaken


@define(eq=False)
class Story:
    """Of one operation, which came when `behind` others were before it.

    Each line is worded when it is asked for: how much was guessed is known only at the end.
    """

    key: OpKey
    what: str
    arrived: float
    behind: int
    over: bool = False
    _told: list[tuple[float, Callable[[], str]]] = field(factory=list)
    _progress: Progress | None = None
    _chunks: int = 0
    _tokens: int = 0
    _usage: Usage | None = None

    def note(self, now: float, says: str | Callable[[], str]) -> None:
        if len(self._told) < _LINES or self.over:
            self._told.append((now, says if callable(says) else lambda: says))

    def heard(self, reply: Reply, now: float) -> None:
        """A reply that its client gets tells what happened."""
        match reply:
            case Accepted():
                self.note(now, f"accepted, queued behind {self.behind}" if self.behind else "accepted")
            case Progress():
                self._advanced(reply, now)
            case Tokens():
                self._tokens += len(reply.ids)
                if self._tokens == len(reply.ids):
                    if self._progress:
                        total = self._progress.total
                        self._advanced(Progress(reused=self._progress.reused, done=total, total=total), now)
                    self.note(now, self._first_token)
            case Done() | Error() | TokenIds() | Acknowledged() | SnapshotTaken():
                self.over = True
                self._usage = reply.usage if isinstance(reply, Done) else None
                self.note(now, lambda: self._end(reply))

    def _advanced(self, progress: Progress, now: float) -> None:
        before, self._progress = self._progress, progress
        if before is None or progress.done < before.done:
            self._chunks = 0
            self.note(now, lambda: self._matched(progress))
        elif progress.done > before.done:
            self._chunks += 1
            if progress.done == progress.total:
                chunks = self._chunks
                self.note(now, lambda: f"prompt complete after {_count(chunks, 'chunk')}")

    def _matched(self, progress: Progress) -> str:
        guessed = f", {self._usage.guessed:,} of them of a guess" if self._usage and self._usage.guessed else ""
        return f"prompt {_count(progress.total, 'token')}, {progress.reused:,} reused{guessed}"

    def _first_token(self) -> str:
        if self._usage is None:
            return "first token"
        passes = self._usage.forward_passes
        return f"first token, {_count(passes, 'forward pass', 'forward passes') if passes else 'no forward pass'}"

    def _end(self, reply: Reply) -> str:
        if isinstance(reply, Error):
            return f"error: {reply.code}"
        if not isinstance(reply, Done):
            return "done"
        part = self._progress
        partly = f", {part.done:,} of {part.total:,} prompt tokens resident" if part and part.done < part.total else ""
        generated = f", {_count(self._tokens, 'token')}" if self._tokens else ""
        return f"done: {reply.reason}{generated}{partly}"

    def lines(self) -> Iterator[str]:
        yield f"{self.what} {self.key.op} of client {self.key.client}"
        for when, says in self._told:
            yield f"{1000 * (when - self.arrived):.1f} ms {says()}"


class Stories:
    """Those of all live operations and of the last `HISTORY` that ended."""

    def __init__(self) -> None:
        self._live: dict[OpKey, Story] = {}
        self._past: deque[Story] = deque(maxlen=HISTORY)

    def __len__(self) -> int:
        return len(self._live) + len(self._past)

    def begin(self, key: OpKey, what: str, now: float, behind: int) -> None:
        self._live[key] = Story(key, what, now, behind)

    def note(self, key: OpKey, now: float, says: str) -> None:
        if story := self._live.get(key):
            story.note(now, says)

    def started(self, start: Start, now: float, *, waited_ms: float) -> None:
        """`waited_ms`: for the engine to stop the guess before it."""
        says = "started"
        if start.again:
            says = "started again: the engine was lost"
        elif start.preempted:
            says = f"started, preempted guess {start.preempted.op} (waited {waited_ms:.1f} ms for the engine to stop)"
        self.note(start.key, now, says)

    def heard(self, key: OpKey, reply: Reply, now: float) -> None:
        if story := self._live.get(key):
            story.heard(reply, now)
            if story.over:
                self._past.append(self._live.pop(key))

    def tell(self, op: str = "", client: str = "") -> tuple[str, ...] | None:
        """The newest that fits; an empty `op` fits every one. None where none does."""
        stories = [*self._past, *self._live.values()]
        fitting = [s for s in stories if op in ("", s.key.op) and s.key.client.startswith(client)]
        newest = max(fitting, key=lambda story: story.arrived, default=None)
        return None if newest is None else tuple(newest.lines())


def _count(number: int, noun: str, several: str = "") -> str:
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"
