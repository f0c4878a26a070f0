"""Recorded events as a trace viewer shows them."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from modeld.schedule import Scheduler
from modeld.schedule.journal import Entry, Journal, Segment
from modeld.schedule.life import IllegalMove
from modeld.schedule.messages import (
    CancelAsked,
    EngineEnded,
    EngineLost,
    EngineReady,
    Event,
    Kind,
    Op,
    OpKey,
    Submitted,
    Tick,
)
from modeld.trace import trace

GUESS, REAL = OpKey("ann", "1"), OpKey("bob", "1")


def submitted(key: OpKey, kind: Kind) -> Submitted:
    return Submitted(Op(key=key, kind=kind))


def traced(*events: Event) -> list[dict[str, Any]]:
    """Of these events, a second after each other."""
    journal = Journal(Scheduler())
    for second, event in enumerate(events):
        journal.handle(event, float(second))
    return [event for event in trace([journal.last()]) if event["ph"] != "M"]


def slices(events: Iterable[dict[str, Any]]) -> list[tuple[str, float, float]]:
    """(name, begin, end) in seconds."""
    return [(e["name"], e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6) for e in events if e["ph"] == "X"]


def waits(events: Iterable[dict[str, Any]]) -> list[tuple[str, float]]:
    return [(e["ph"] + " " + e["name"], e["ts"] / 1e6) for e in events if e["ph"] in "be"]


def test_a_guess_has_the_slot_until_its_stop_is_confirmed_and_the_real_operation_waits() -> None:
    events = traced(
        EngineReady(),
        submitted(GUESS, Kind.GUESS),
        submitted(REAL, Kind.REAL),
        EngineEnded(GUESS, True),
        EngineEnded(REAL, False),
    )
    assert slices(events) == [("guess 1", 1.0, 3.0), ("stops", 2.0, 3.0), ("real 1", 3.0, 4.0)]
    assert waits(events) == [("b a real operation waits", 2.0), ("e a real operation waits", 3.0)]
    ended = {e["name"]: e["args"]["end"] for e in events if e["ph"] == "X" and "args" in e}
    assert ended == {"guess 1": "preempted", "real 1": "done"}
    assert [(e["name"], e["ts"]) for e in events if e["ph"] == "i"] == [("the engine is ready", 0.0)]


def test_an_operation_whose_engine_is_lost_waits_again() -> None:
    events = traced(EngineReady(), submitted(REAL, Kind.REAL), EngineLost(), EngineReady(), EngineEnded(REAL, False))
    assert slices(events) == [("real 1", 1.0, 2.0), ("real 1", 3.0, 4.0)]
    assert waits(events) == [("b a real operation waits", 2.0), ("e a real operation waits", 3.0)]


def test_what_ends_while_it_waits_never_has_the_slot() -> None:
    other = OpKey("ann", "2")
    events = traced(
        EngineReady(),
        submitted(REAL, Kind.REAL),
        submitted(other, Kind.REAL),
        CancelAsked(other),
        EngineEnded(REAL, False),
    )
    assert slices(events) == [("real 1", 1.0, 4.0)]
    [ended] = [e for e in events if e["ph"] == "e" and e["id"] == "ann/2"]
    assert ended["args"] == {"end": "cancelled"}


def test_a_record_that_begins_and_ends_in_the_middle_shows_what_it_has() -> None:
    journal, other = Journal(Scheduler(), keep=2), OpKey("ann", "9")
    begun: list[Event] = [
        EngineReady(),
        submitted(REAL, Kind.REAL),
        submitted(other, Kind.REAL),
        EngineEnded(REAL, False),
    ]
    for second, event in enumerate(begun):
        journal.handle(event, float(second))
    kept = journal.last()
    assert [entry.now for entry in kept.entries] == [2.0, 3.0]
    events = [event for event in trace([kept]) if event["ph"] != "M"]
    assert slices(events) == [("real 1", 2.0, 3.0), ("real 9", 3.0, 3.0)]
    assert [e["args"]["end"] for e in events if e["ph"] == "X"] == ["done", "the record ends"]


def test_a_record_that_begins_during_a_stop_shows_it_and_since_when_others_wait() -> None:
    journal = Journal(Scheduler(), keep=2)
    begun: list[Event] = [EngineReady(), submitted(GUESS, Kind.GUESS), submitted(REAL, Kind.REAL), Tick()]
    for second, event in enumerate(begun):
        journal.handle(event, float(second))
    whole = journal.last()
    kept = Segment(whole.limits, journal._scheduler.board(), [])
    later = Scheduler(board=kept.board)
    kept.entries.append(Entry(EngineEnded(GUESS, True), 9.0, tuple(later.handle(EngineEnded(GUESS, True), 9.0))))
    events = [event for event in trace([kept]) if event["ph"] != "M"]
    assert slices(events) == [("guess 1", 9.0, 9.0), ("stops", 9.0, 9.0), ("real 1", 9.0, 9.0)]
    assert waits(events) == [("b a real operation waits", 2.0), ("e a real operation waits", 9.0)]


def test_a_second_clock_in_a_record_is_a_process_of_its_own() -> None:
    first, second = Journal(Scheduler()), Journal(Scheduler())
    for journal, start in ((first, 100.0), (second, 95.0)):
        journal.handle(EngineReady(), start)
        journal.handle(submitted(REAL, Kind.REAL), start + 1.0)
        journal.handle(EngineEnded(REAL, False), start + 9.0)
    events = [event for event in trace([first.last(), second.last()]) if event["ph"] == "X"]
    assert [event["pid"] for event in events] == [1, 2]
    again = [event for event in trace([second.last(), first.last()]) if event["ph"] == "X"]
    assert [event["pid"] for event in again] == [1, 2]  # 95 to 104 s overlaps 100 s


def test_an_id_that_is_refused_since_it_is_live_ends_nothing() -> None:
    events = traced(EngineReady(), submitted(REAL, Kind.REAL), submitted(REAL, Kind.REAL), EngineEnded(REAL, False))
    assert slices(events) == [("real 1", 1.0, 3.0)]


@given(st.lists(st.sampled_from(["ready", "lost", "guess", "real", "ended", "stopped", "cancel"]), max_size=40))
def test_every_wait_that_begins_ends_and_the_slot_has_one_at_a_time(words: list[str]) -> None:
    """S1."""
    scheduler, second, keys = Scheduler(), 0.0, iter(range(1000))
    journal = Journal(scheduler)
    last = GUESS
    for word in words:
        running = scheduler.running
        if word in ("guess", "real"):
            last = OpKey("ann", str(next(keys)))
        possible: dict[str, Event] = {
            "ready": EngineReady(),
            "lost": EngineLost(),
            "guess": submitted(last, Kind.GUESS),
            "real": submitted(last, Kind.REAL),
            "ended": EngineEnded(running.key if running else GUESS, False),
            "stopped": EngineEnded(running.key if running else GUESS, True),
            "cancel": CancelAsked(last),
        }
        second += 0.123456789
        try:
            journal.handle(possible[word], second)
        except IllegalMove:
            continue
    events = list(trace([journal.last()]))
    open_waits: set[str] = set()
    for e in events:
        if e["ph"] == "b":
            assert e["id"] not in open_waits
            open_waits.add(e["id"])
        elif e["ph"] == "e":
            open_waits.remove(e["id"])
    assert not open_waits
    taken = [event for event in events if event["ph"] == "X"]
    assert all(type(event["ts"]) is type(event["dur"]) is int for event in taken)  # which no viewer rounds apart
    ends = [(event["ts"], event["ts"] + event["dur"]) for event in taken if event["name"] != "stops"]
    assert all(before[1] <= after[0] for before, after in pairwise(sorted(ends)))
    for stop in (event for event in taken if event["name"] == "stops"):
        assert any(begin <= stop["ts"] and stop["ts"] + stop["dur"] == end for begin, end in ends)
