"""What is kept of the scheduler's events, and that a replay of it finds what has changed."""

import pytest
from attrs import evolve

from modeld.schedule import IllegalMove, Scheduler
from modeld.schedule.journal import Entry, Journal, Segment, replay
from modeld.schedule.messages import (
    CancelAsked,
    End,
    EngineEnded,
    EngineReady,
    Kind,
    Op,
    OpKey,
    Start,
    Submitted,
    Tick,
)


def key(op: str) -> OpKey:
    return OpKey("ann", op)


def busy(journal: Journal, count: int) -> None:
    """`count` operations, one after the other; three events for each."""
    for number in range(count):
        journal.handle(Submitted(Op(key=key(f"{number}"), kind=Kind.REAL)), float(number))
        journal.handle(CancelAsked(key("nobody")), float(number))
        journal.handle(EngineEnded(key(f"{number}"), False), number + 0.5)


@pytest.fixture
def journal() -> Journal:
    journal = Journal(Scheduler(), keep=10)
    journal.handle(EngineReady(), 0.0)
    return journal


def test_what_is_kept_is_bounded_and_can_be_replayed_from_where_it_begins(journal: Journal) -> None:
    for _ in range(40):
        busy(journal, 1)
        assert len(journal.last().entries) <= 20
        assert replay(journal.last()) is None
    assert len(journal.last().entries) >= 10
    assert journal.last().board.ready


def test_it_begins_amid_an_operation_where_it_must() -> None:
    journal = Journal(Scheduler(), keep=3)
    journal.handle(EngineReady(), 0.0)
    for op in "123":
        journal.handle(Submitted(Op(key=key(op), kind=Kind.REAL)), 1.0)
    for op in "123":
        journal.handle(EngineEnded(key(op), False), 2.0)
    segment = journal.last()
    assert segment.board.running or segment.board.waiting[Kind.REAL]
    assert replay(segment) is None


def test_time_that_changes_nothing_is_not_kept(journal: Journal) -> None:
    journal.handle(Tick(), 1.0)
    assert [type(entry.event) for entry in journal.last().entries] == [EngineReady]
    late = Op(key=key("1"), kind=Kind.REAL)
    journal.handle(Submitted(late), 1.0)
    journal.handle(Submitted(evolve(late, key=key("2"), deadline=2.0)), 1.0)
    journal.handle(Tick(), 3.0)
    assert isinstance(journal.last().entries[-1].event, Tick)


def test_an_event_that_cannot_have_happened_is_the_last_that_is_kept(journal: Journal) -> None:
    with pytest.raises(IllegalMove):
        journal.handle(EngineEnded(key("1"), False), 1.0)
    assert journal.last().entries[-1] == Entry(EngineEnded(key("1"), False), 1.0, None)
    assert replay(journal.last()) is None


def test_the_first_difference_is_found(journal: Journal) -> None:
    busy(journal, 2)
    segment = journal.last()
    at = next(n for n, entry in enumerate(segment.entries) if any(isinstance(c, Start) for c in entry.commands or ()))
    broken = evolve(segment.entries[at], commands=(End(key=key("0"), reason=None),))
    entries = [*segment.entries[:at], broken, *segment.entries[at + 1 :]]
    difference = replay(Segment(segment.limits, segment.board, entries))
    assert difference
    assert (difference.number, difference.entry) == (at + 1, broken)
    assert difference.commands == segment.entries[at].commands


def test_also_is_told_every_entry_with_the_board_after_it() -> None:
    told = []
    journal = Journal(Scheduler(), also=lambda entry, board: told.append((entry, board())))
    journal.handle(EngineReady(), 0.0)
    journal.handle(Submitted(Op(key=key("1"), kind=Kind.REAL)), 1.0)
    assert [type(entry.event) for entry, _ in told] == [EngineReady, Submitted]
    assert told[1][1].running
    assert not told[0][1].running
