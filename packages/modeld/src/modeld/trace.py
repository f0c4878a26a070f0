"""Owns how recorded events look in a trace viewer (Perfetto, chrome://tracing): who had the slot when, and who waited.

The format is Chrome's "Trace Event Format". There is no word of a prompt in it, as there is none in a record.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from attrs import define, field

from modeld.schedule.journal import Entry, Segment
from modeld.schedule.messages import (
    Accept,
    CancelAsked,
    ClientGone,
    Command,
    End,
    EngineLost,
    EngineReady,
    EngineRefused,
    Fail,
    Kind,
    OpKey,
    ShutdownAsked,
    Start,
    Stop,
    Submitted,
)

_DAEMON, _SLOT = 1, 1
_SAID = {
    CancelAsked: "a cancel",
    ClientGone: "a client left",
    EngineReady: "the engine is ready",
    EngineLost: "the engine is lost",
    EngineRefused: "the model is refused",
    ShutdownAsked: "the daemon stops",
}
TraceEvent = dict[str, Any]


def trace(segments: Iterable[Segment]) -> Iterator[TraceEvent]:
    """The events for a viewer. Times are in microseconds of the clock of the record."""
    yield _named("process_name", "modeld")
    yield _named("thread_name", "slot")
    for segment in segments:
        yield from _Reader(segment).read()


@define(eq=False)
class _Live:
    """`since`: when it began to wait, or got the slot."""

    key: OpKey
    kind: Kind
    since: float
    stopped: float | None = None

    @property
    def title(self) -> str:
        return f"{self.kind} {self.key.op}"

    def args(self, **more: object) -> TraceEvent:
        return {"client": self.key.client, "op": self.key.op, **more}


@define(eq=False)
class _Reader:
    """Follows one segment."""

    _segment: Segment
    _waiting: dict[OpKey, _Live] = field(factory=dict)
    _running: _Live | None = None

    def read(self) -> Iterator[TraceEvent]:
        entries = self._segment.entries
        if not entries:
            return
        self._take_up(entries[0].now)
        for entry in entries:
            yield from self._follow(entry)
        yield from self._break_off(entries[-1].now)

    def _take_up(self, now: float) -> None:
        board = self._segment.board
        self._waiting = {life.op.key: _Live(life.op.key, life.op.kind, now) for life in board.waiters()}
        if board.running:
            self._running = _Live(board.running.op.key, board.running.op.kind, now)

    def _follow(self, entry: Entry) -> Iterator[TraceEvent]:
        if says := _SAID.get(type(entry.event)):
            yield {**_at("i", entry.now), "name": says, "s": "p"}
        commands = entry.commands or ()
        if isinstance(entry.event, EngineLost) and self._running and not _ends(self._running.key, commands):
            yield from self._lose(self._running, entry.now)
        for command in commands:
            yield from self._obey(command, entry)

    def _obey(self, command: Command, entry: Entry) -> Iterator[TraceEvent]:
        now = entry.now
        match command:
            case Accept() if isinstance(entry.event, Submitted):
                self._waiting[command.key] = _Live(command.key, entry.event.op.kind, now)
            case Start():
                begins = self._waiting.pop(command.key)
                yield from _waited(begins, now)
                self._running = _Live(begins.key, begins.kind, now)
            case Stop() if self._running:
                self._running.stopped = now
            case End() | Fail():
                how = str(command.code if isinstance(command, Fail) else command.reason or "done")
                if live := self._waiting.pop(command.key, None):
                    yield from _waited(live, now, how)
                elif self._running and self._running.key == command.key:
                    yield from self._left(self._running, now, how)
                    self._running = None

    def _lose(self, live: _Live, now: float) -> Iterator[TraceEvent]:
        """It waits for the next engine."""
        yield from self._left(live, now, "the engine was lost")
        self._running, self._waiting[live.key] = None, _Live(live.key, live.kind, now)

    def _left(self, live: _Live, now: float, how: str) -> Iterator[TraceEvent]:
        yield {**_slice(live.title, live.since, now), "cat": str(live.kind), "args": live.args(end=how)}
        if live.stopped is not None:
            yield {**_slice("stops", live.stopped, now), "cat": "stop"}

    def _break_off(self, now: float) -> Iterator[TraceEvent]:
        for live in self._waiting.values():
            yield from _waited(live, now, "the record ends")
        if self._running:
            yield from self._left(self._running, now, "the record ends")


def _ends(key: OpKey, commands: Iterable[Command]) -> bool:
    return any(isinstance(command, End | Fail) and command.key == key for command in commands)


def _waited(live: _Live, now: float, how: str = "") -> Iterator[TraceEvent]:
    """Many may wait at once, so each has a track of its own."""
    name = {"name": f"{live.title} waits", "cat": "waits", "id": f"{live.key.client}/{live.key.op}"}
    yield {**_at("b", live.since), **name, "args": live.args()}
    yield {**_at("e", now), **name, "args": {"end": how} if how else {}}


def _slice(name: str, since: float, until: float) -> TraceEvent:
    return {**_at("X", since), "name": name, "dur": 1e6 * (until - since)}


def _at(phase: str, when: float) -> TraceEvent:
    return {"ph": phase, "ts": 1e6 * when, "pid": _DAEMON, "tid": _SLOT}


def _named(what: str, name: str) -> TraceEvent:
    return {"ph": "M", "name": what, "pid": _DAEMON, "tid": _SLOT, "args": {"name": name}}
