"""The scheduler's rules on engines that are lost, and on operations that end or exchange them."""

from collections.abc import Callable

import pytest

from modeld.schedule import IllegalMove, ScheduleLimits, Scheduler
from modeld.schedule.messages import (
    CancelAsked,
    ClientGone,
    EngineLost,
    EngineProduced,
    EngineReady,
    EngineRefused,
    EngineSwitched,
    ShutdownAsked,
    Submitted,
    Tick,
)
from tests.modeld.schedule.phrases import ended, guess, house, key, play, ready, real, switch, words


def test_a_guess_that_was_running_when_the_engine_was_lost_fails_and_is_not_tried_again() -> None:
    """S12."""
    scheduler = ready()
    play(scheduler, guess("g1"))
    assert words(play(scheduler, EngineLost())) == ["fail g1 engine_lost"]
    assert words(play(scheduler, EngineReady())) == []


def test_a_real_operation_without_a_token_runs_again_before_all_others() -> None:
    scheduler = ready()
    play(scheduler, real("r1", deadline=1.0), real("r2"))
    assert words(play(scheduler, EngineLost())) == []
    assert words(play(scheduler, EngineReady(), now=9.0)) == ["start r1 again"]


def test_a_real_operation_runs_again_only_once() -> None:
    """S8."""
    scheduler = ready()
    play(scheduler, real("r1"), EngineLost(), EngineReady())
    assert words(play(scheduler, EngineLost())) == ["fail r1 engine_lost retry"]


def test_a_real_operation_that_sent_a_token_is_not_run_again() -> None:
    """S8."""
    scheduler = ready()
    play(scheduler, real("r1"), EngineProduced(key("r1")))
    assert words(play(scheduler, EngineLost())) == ["fail r1 engine_lost retry"]


def test_an_operation_that_was_being_stopped_when_the_engine_was_lost_ends_as_it_would_have() -> None:
    """S8."""
    scheduler = ready()
    play(scheduler, real("r1"), CancelAsked(key("r1")))
    assert words(play(scheduler, EngineLost())) == ["end r1 cancelled"]


def test_nobody_waits_for_an_engine_that_cannot_become_ready() -> None:
    scheduler = Scheduler(ScheduleLimits(losses=2))
    play(scheduler, real("r1"), EngineLost())
    assert words(play(scheduler, EngineLost())) == ["fail r1 not_ready retry"]


def test_s1_nothing_but_a_switch_starts_on_an_engine_that_does_not_become_ready() -> None:
    scheduler = Scheduler(ScheduleLimits(losses=2))
    play(scheduler, EngineLost(), EngineLost())
    assert words(play(scheduler, real("r1"))) == ["accept r1"]
    assert words(play(scheduler, EngineReady())) == ["start r1"]


def test_a_switch_waits_its_turn_stops_a_guess_and_what_comes_later_waits_for_it() -> None:
    """S1, S2."""
    scheduler = ready()
    play(scheduler, real("r1"))
    assert words(play(scheduler, switch("s1"), real("r2"))) == ["accept r2"]
    assert words(play(scheduler, ended("r1"))) == ["end r1", "start s1"]
    assert words(play(scheduler, EngineSwitched(key("s1"), True))) == ["end s1", "start r2"]
    play(scheduler, ended("r2"), guess("g1"))
    assert words(play(scheduler, switch("s2"))) == ["accept s2", "stop g1"]
    assert words(play(scheduler, ended("g1", stopped=True))) == ["end g1 preempted", "start s2 for g1"]


@pytest.mark.parametrize("next_one", [real, guess, house])
def test_an_engine_that_was_ended_is_woken_by_the_next_operation(
    next_one: Callable[[str], Submitted],
) -> None:
    scheduler = ready()
    play(scheduler, switch("s1"))
    assert words(play(scheduler, EngineSwitched(key("s1"), False))) == ["end s1"]
    assert words(play(scheduler, next_one("x"))) == ["accept x", "wake"]
    assert words(play(scheduler, Tick())) == []
    assert words(play(scheduler, EngineReady())) == ["start x"]


def test_a_switch_needs_no_engine_and_wakes_none() -> None:
    scheduler = ready()
    play(scheduler, switch("s1"), EngineSwitched(key("s1"), False))
    assert words(play(scheduler, switch("s2"))) == ["accept s2", "start s2"]
    assert words(play(scheduler, real("r1"))) == ["accept r1"]
    assert words(play(scheduler, EngineSwitched(key("s2"), False))) == ["end s2", "wake"]
    assert words(play(scheduler, EngineReady())) == ["start r1"]


def test_a_switch_waits_for_an_engine_that_is_being_loaded() -> None:
    scheduler = Scheduler()
    assert words(play(scheduler, switch("s1"))) == ["accept s1"]
    assert words(play(scheduler, EngineReady())) == ["start s1"]


def test_a_switch_that_has_begun_is_not_stopped_and_ends_as_it_ends() -> None:
    """S8."""
    scheduler = ready()
    play(scheduler, switch("s1"))
    for event in (CancelAsked(key("s1")), ClientGone("ann")):
        assert words(play(scheduler, event)) == []
    assert words(play(scheduler, EngineSwitched(key("s1"), True))) == ["end s1"]


def test_a_daemon_that_stops_ends_a_switch_with_its_engine() -> None:
    """S8."""
    scheduler = ready()
    play(scheduler, switch("s1"), ShutdownAsked())
    assert words(play(scheduler, EngineLost())) == ["fail s1 stopping retry"]


def test_only_a_switch_can_switch_the_engine() -> None:
    scheduler = ready()
    play(scheduler, real("r1"))
    with pytest.raises(IllegalMove, match="cannot switch"):
        scheduler.handle(EngineSwitched(key("r1"), True), 1.0)
    assert scheduler.is_live(key("r1"))


def test_a_switch_gets_in_where_the_engine_does_not_become_ready() -> None:
    """S13."""
    scheduler = Scheduler(ScheduleLimits(losses=2))
    play(scheduler, real("r1"), switch("s1"))
    assert words(play(scheduler, EngineLost())) == []
    assert words(play(scheduler, EngineLost())) == ["fail r1 not_ready retry", "start s1"]
    assert words(play(scheduler, EngineSwitched(key("s1"), True))) == ["end s1"]
    play(scheduler, EngineLost(), EngineLost())
    assert words(play(scheduler, switch("s2"))) == ["accept s2", "start s2"]


def test_a_switch_that_starts_ends_a_guess_that_waits() -> None:
    scheduler = ready()
    play(scheduler, real("r1"), guess("g1"), switch("s1"))
    assert words(play(scheduler, ended("r1"))) == ["end r1", "end g1 preempted", "start s1"]
    play(scheduler, guess("g2"))
    assert words(play(scheduler, EngineSwitched(key("s1"), False))) == ["end s1", "wake"]


def test_a_model_that_is_refused_ends_all_waiting_but_a_switch_and_the_next_operation_wakes_it() -> None:
    """S13."""
    scheduler = ready()
    play(scheduler, EngineLost(), real("r1"), guess("g1"))
    assert words(play(scheduler, EngineRefused("no room"))) == ["fail r1 not_ready retry", "fail g1 not_ready retry"]
    assert words(play(scheduler, real("r2"))) == ["accept r2", "wake"]
    play(scheduler, switch("s1"))
    assert words(play(scheduler, EngineRefused("no room"))) == ["fail r2 not_ready retry", "start s1"]
    with pytest.raises(IllegalMove, match="under an operation"):
        scheduler.handle(EngineRefused("no room"), 1.0)
