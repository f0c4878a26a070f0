"""Owns the short words in which tests speak of events and of the scheduler's commands. It tests nothing."""

from collections.abc import Sequence

from modeld.schedule import ScheduleLimits, Scheduler
from modeld.schedule.messages import (
    Command,
    End,
    EngineEnded,
    EngineReady,
    Event,
    Fail,
    Kind,
    Op,
    OpKey,
    Start,
    Submitted,
    Wake,
)


def key(name: str) -> OpKey:
    return OpKey("ann", name)


def real(name: str, *, lane: str | None = None, deadline: float | None = None) -> Submitted:
    return Submitted(Op(key=key(name), kind=Kind.REAL, lane=lane, deadline=deadline))


def guess(name: str, digest: bytes = b"", *, lane: str | None = None) -> Submitted:
    return Submitted(Op(key=key(name), kind=Kind.GUESS, digest=digest or name.encode(), lane=lane))


def house(name: str) -> Submitted:
    return Submitted(Op(key=key(name), kind=Kind.HOUSE))


def switch(name: str) -> Submitted:
    return Submitted(Op(key=key(name), kind=Kind.REAL, switches=True))


def ended(name: str, *, stopped: bool = False) -> EngineEnded:
    return EngineEnded(key(name), stopped)


def play(scheduler: Scheduler, *events: Event, now: float = 0.0) -> list[Command]:
    """The commands that answer the last of the events."""
    commands: list[Command] = []
    for event in events:
        commands = scheduler.handle(event, now)
        scheduler.check()
    return commands


def ready(limits: ScheduleLimits | None = None) -> Scheduler:
    scheduler = Scheduler(limits)
    play(scheduler, EngineReady())
    return scheduler


def words(commands: Sequence[Command]) -> list[str]:
    """Commands as short words: `end g1 preempted`."""
    result = []
    for command in commands:
        if isinstance(command, Wake):
            result.append("wake")
            continue
        word = f"{type(command).__name__.lower()} {command.key.op}"
        if isinstance(command, End):
            word += f" {command.reason}" if command.reason else ""
        if isinstance(command, Fail):
            word += f" {command.code}" + (" retry" if command.retry else "")
        if isinstance(command, Start):
            word += f" for {command.preempted.op}" if command.preempted else ""
            word += " again" if command.again else ""
        result.append(word)
    return result
