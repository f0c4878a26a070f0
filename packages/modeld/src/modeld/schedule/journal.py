"""Owns the scheduler's last events, each with the commands that followed, and their replay. It writes no file.

There is no client's text in it: an event knows keys, kinds, digests and times.
"""

from collections.abc import Callable

from attrs import define, field, frozen

from modeld.schedule.board import Board
from modeld.schedule.life import IllegalMove
from modeld.schedule.limits import ScheduleLimits
from modeld.schedule.messages import Command, Event, Tick
from modeld.schedule.scheduler import Scheduler

KEEP = 1024


@frozen
class Entry:
    """`commands` is None where the event was refused as one that cannot have happened."""

    event: Event
    now: float
    commands: tuple[Command, ...] | None


@define(eq=False)
class Segment:
    """Events in their order, from where the scheduler's board was `board`."""

    limits: ScheduleLimits
    board: Board
    entries: list[Entry] = field(factory=list)


@frozen
class Difference:
    """The first entry whose replay gave other commands (None: it was refused)."""

    number: int
    entry: Entry
    commands: tuple[Command, ...] | None


Listener = Callable[[Entry, Callable[[], Board]], None]
"""Is told an entry, and can ask for the scheduler's board after it."""


class Journal:
    """Stands before a scheduler: keeps its last `KEEP` events at least, twice as many at most, and passes each on.

    `also` is told every entry.
    """

    def __init__(self, scheduler: Scheduler, *, keep: int = KEEP, also: Listener | None = None) -> None:
        self._scheduler = scheduler
        self._keep = keep
        self._also = also
        self._current = Segment(scheduler.limits, scheduler.board())
        self._previous: Segment | None = None

    def handle(self, event: Event, now: float) -> list[Command]:
        """As the scheduler's."""
        try:
            commands = self._scheduler.handle(event, now)
        except IllegalMove:
            self._add(Entry(event, now, None))
            raise
        if commands or not isinstance(event, Tick):  # time alone changes nothing
            self._add(Entry(event, now, tuple(commands)))
        return commands

    def last(self) -> Segment:
        """What is kept, as one segment."""
        first = self._previous or self._current
        older = self._previous.entries if self._previous else []
        return Segment(first.limits, first.board, [*older, *self._current.entries])

    def _add(self, entry: Entry) -> None:
        self._current.entries.append(entry)
        if self._also:
            self._also(entry, self._scheduler.board)
        if len(self._current.entries) >= self._keep:
            self._previous, self._current = self._current, Segment(self._scheduler.limits, self._scheduler.board())


def replay(segment: Segment) -> Difference | None:
    """Feeds the events to a fresh scheduler. None: it gave the same commands to each."""
    scheduler = Scheduler(segment.limits, segment.board)
    for number, entry in enumerate(segment.entries, start=1):
        try:
            commands: tuple[Command, ...] | None = tuple(scheduler.handle(entry.event, entry.now))
        except IllegalMove:
            commands = None
        if commands != entry.commands:
            return Difference(number, entry, commands)
    return None
