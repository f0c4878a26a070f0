"""Owns how recorded events look in a trace viewer (Perfetto, chrome://tracing): who had the slot when, and who waited.

The format is Chrome's "Trace Event Format". There is no word of a prompt in it, as there is none in a record.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import define, field

from modeld.schedule.journal import Entry, Segment
from modeld.schedule.life import State
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
from modelwire.errors import ErrorCode

_SLOT = {"tid": 1}
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
    """The events for a viewer, in whole microseconds of the clock of the record.

    A record that is older than the machine's last start has two clocks: what ran by either is a process of its own.
    """
    process, ended = 0, math.inf
    for segment in filter(lambda segment: segment.entries, segments):
        if segment.entries[0].now < ended:
            process += 1
            yield {"ph": "M", **_SLOT, "pid": process, "name": "process_name", "args": {"name": f"modeld {process}"}}
            yield {"ph": "M", **_SLOT, "pid": process, "name": "thread_name", "args": {"name": "slot"}}
        yield from ({**_SLOT, "pid": process, **event} for event in _Reader(segment).read())
        ended = segment.entries[-1].now


@define(eq=False)
class _Live:
    """`since`: when it began to wait, or got the slot."""

    key: OpKey
    kind: Kind
    since: float
    stopped: float | None = None

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
        self._take_up(entries[0].now)
        for entry in entries:
            yield from self._follow(entry)
        yield from self._break_off(entries[-1].now)

    def _take_up(self, now: float) -> None:
        board = self._segment.board
        waiting = (_Live(life.op.key, life.op.kind, life.queued_at) for life in board.waiters())
        self._waiting = {live.key: live for live in waiting}
        if life := board.running:
            self._running = _Live(life.op.key, life.op.kind, now, now if life.state is State.STOPPING else None)

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
                if begins := self._waiting.pop(command.key, None):
                    yield from _waited(begins, now)
                    self._running = _Live(begins.key, begins.kind, now)
            case Stop() if self._running:
                self._running.stopped = now
            case Fail(code=ErrorCode.DUPLICATE_OP):
                pass  # another one has this id, and goes on
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
        name = f"{live.kind} {live.key.op}"
        yield {**_slice(name, live.since, now), "cat": str(live.kind), "args": live.args(end=how)}
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
    """Many may wait at once. A viewer has a row for each name, and one below the other what overlaps in it."""
    if _whole(now) > _whole(live.since):
        same = {"name": f"a {live.kind} operation waits", "cat": "waits", "id": f"{live.key.client}/{live.key.op}"}
        yield {**_at("b", live.since), **same, "args": live.args()}
        yield {**_at("e", now), **same, "args": {"end": how} if how else {}}


def _slice(name: str, since: float, until: float) -> TraceEvent:
    return {**_at("X", since), "name": name, "dur": _whole(until) - _whole(since)}


def _at(phase: str, when: float) -> TraceEvent:
    return {"ph": phase, "ts": _whole(when)}


def _whole(seconds: float) -> int:
    """Microseconds. A viewer drops a slice that ends a rounding error after the one that it lies in."""
    return round(1e6 * seconds)
