"""The scheduler's rules on deadlines, cancels, limits and the daemon's stop: every operation ends once (S8)."""

import pytest

from modeld.schedule import IllegalMove, ScheduleLimits, Scheduler
from modeld.schedule.messages import (
    Accept,
    CancelAsked,
    ClientGone,
    EngineProduced,
    EngineReady,
    Event,
    Kind,
    Op,
    OpKey,
    ShutdownAsked,
    Start,
    Stop,
    Submitted,
    Tick,
)
from tests.modeld.schedule.phrases import ended, guess, key, play, ready, real, words


@pytest.mark.parametrize("event", [Tick(), real("r3"), ended("r1")])
def test_an_operation_that_has_not_started_by_its_deadline_expires_at_any_event(event: Event) -> None:
    scheduler = ready()
    play(scheduler, real("r1"), real("r2", deadline=5.0))
    assert scheduler.next_deadline() == 5.0
    assert "end r2 expired" in words(play(scheduler, event, now=5.1))
    assert scheduler.next_deadline() is None


def test_an_operation_expires_at_its_deadline_unless_the_slot_is_free_then() -> None:
    scheduler = ready()
    assert words(play(scheduler, real("r1", deadline=5.0), now=5.0)) == ["accept r1", "start r1"]
    play(scheduler, real("r2", deadline=6.0), real("r3", deadline=7.0), now=5.0)
    assert words(play(scheduler, Tick(), now=6.0)) == ["end r2 expired"]
    assert words(play(scheduler, ended("r1"), now=7.0)) == ["end r1", "start r3"]


def test_an_operation_that_will_not_wait_stops_no_guess() -> None:
    scheduler = ready()
    play(scheduler, guess("g1"))
    assert words(play(scheduler, real("r1", deadline=5.0), now=5.0)) == ["accept r1", "end r1 expired"]


def test_an_operation_whose_deadline_is_over_never_starts_and_stops_nothing() -> None:
    scheduler = ready()
    play(scheduler, guess("g1"))
    assert words(play(scheduler, real("r1", deadline=1.0), now=2.0)) == ["accept r1", "end r1 expired"]


def test_a_running_operation_has_no_deadline() -> None:
    scheduler = ready()
    play(scheduler, real("r1", deadline=1.0))
    assert scheduler.next_deadline() is None
    assert words(play(scheduler, Tick(), now=9.0)) == []


def test_a_cancel_ends_a_waiting_operation_at_once() -> None:
    scheduler = ready()
    play(scheduler, real("r1"), real("r2"))
    assert words(play(scheduler, CancelAsked(key("r2")))) == ["end r2 cancelled"]


def test_a_cancel_stops_a_running_operation_once() -> None:
    scheduler = ready()
    play(scheduler, real("r1"))
    assert words(play(scheduler, CancelAsked(key("r1")))) == ["stop r1"]
    assert words(play(scheduler, CancelAsked(key("r1")))) == []
    assert words(play(scheduler, ended("r1", stopped=True))) == ["end r1 cancelled"]
    assert words(play(scheduler, CancelAsked(key("r1")))) == []
    assert words(play(scheduler, CancelAsked(key("never")))) == []


def test_an_operation_that_is_being_stopped_ends_for_the_reason_that_came_first() -> None:
    scheduler = ready()
    play(scheduler, guess("g1"), real("r1"), CancelAsked(key("g1")), ShutdownAsked())
    assert words(play(scheduler, ended("g1", stopped=True))) == ["end g1 preempted"]


def test_when_a_client_leaves_all_its_operations_end_and_others_go_on() -> None:
    """S8."""
    scheduler = ready()
    play(scheduler, real("r1"), real("r2"), guess("g1"))
    play(scheduler, Submitted(Op(key=OpKey("bob", "b1"), kind=Kind.REAL)))
    assert words(play(scheduler, ClientGone("ann"))) == ["stop r1", "end r2 cancelled", "end g1 cancelled"]
    assert words(play(scheduler, ended("r1", stopped=True))) == ["end r1 cancelled", "start b1"]


def test_the_queue_has_a_limit_which_running_operations_do_not_count_to() -> None:
    scheduler = ready(ScheduleLimits(queue=1))
    play(scheduler, real("r1"), real("r2"))
    assert words(play(scheduler, real("r3"))) == ["fail r3 overloaded retry"]
    assert words(play(scheduler, guess("g1"))) == ["accept g1"]
    assert words(play(scheduler, ended("r1"))) == ["end r1", "start r2"]
    assert words(play(scheduler, real("r3"))) == ["accept r3"]


def test_an_operation_that_is_refused_supersedes_nothing_and_one_that_makes_room_is_not_refused() -> None:
    scheduler = ready(ScheduleLimits(queue=1))
    play(scheduler, real("r1", lane="one"), real("r2", lane="two"))
    assert words(play(scheduler, real("r3", lane="one"))) == ["fail r3 overloaded retry"]
    assert words(play(scheduler, real("r4", lane="two"))) == ["accept r4", "end r2 superseded"]


@pytest.mark.parametrize("at", ["running", "waiting"])
def test_a_second_operation_with_a_live_id_fails_and_the_live_one_is_untouched(at: str) -> None:
    scheduler = ready()
    play(scheduler, *([real("r1")] if at == "running" else [real("r0"), real("r1")]))
    assert words(play(scheduler, real("r1"))) == ["fail r1 duplicate_op"]
    assert scheduler.is_live(key("r1"))


def test_an_id_can_be_used_again_when_its_operation_has_ended() -> None:
    scheduler = ready()
    play(scheduler, real("r1"), ended("r1"))
    assert words(play(scheduler, real("r1"))) == ["accept r1", "start r1"]


def test_when_the_daemon_stops_everything_ends_and_nothing_starts() -> None:
    """S8."""
    scheduler = ready()
    play(scheduler, real("r1"), real("r2"), guess("g1"))
    assert words(play(scheduler, ShutdownAsked())) == ["stop r1", "fail r2 stopping retry", "fail g1 stopping retry"]
    assert words(play(scheduler, real("r3"))) == ["fail r3 stopping retry"]
    assert words(play(scheduler, ended("r1", stopped=True))) == ["fail r1 stopping retry"]


def test_an_event_that_cannot_have_happened_tells_the_story_and_changes_nothing() -> None:
    scheduler = ready()
    play(scheduler, real("r1"), ended("r1"), real("r2"))
    with pytest.raises(IllegalMove, match=r"real operation r1 of ann: queue .*start .*end \(the engine ended it\)"):
        scheduler.handle(ended("r1"), 1.0)
    with pytest.raises(IllegalMove, match="nobody stopped"):
        scheduler.handle(ended("r2", stopped=True), 1.0)
    with pytest.raises(IllegalMove, match="never heard of"):
        scheduler.handle(EngineProduced(key("zz")), 1.0)
    with pytest.raises(IllegalMove, match="under an operation"):
        scheduler.handle(EngineReady(), 1.0)
    assert words(play(scheduler, ended("r2"))) == ["end r2"]


def test_ended_operations_are_forgotten_but_for_a_bounded_history() -> None:
    scheduler = ready(ScheduleLimits(history=2))
    for name in ("r1", "r2", "r3"):
        play(scheduler, real(name), ended(name))
    assert "never heard of" in scheduler.story(key("r1"))
    assert "end" in scheduler.story(key("r3"))


def test_accept_says_which_operation() -> None:
    assert play(Scheduler(), real("r1")) == [Accept(key=key("r1"))]


def test_start_says_since_when_it_waited() -> None:
    scheduler = Scheduler()
    play(scheduler, real("r1"), now=1.5)
    assert play(scheduler, EngineReady(), now=4.0) == [Start(key=key("r1"), queued_at=1.5)]


def test_a_stop_is_for_the_running_operation() -> None:
    scheduler = ready()
    play(scheduler, real("r1"))
    assert play(scheduler, CancelAsked(key("r1"))) == [Stop(key=key("r1"))]
