"""The scheduler's rules, one by one: who runs, who waits, who yields, what supersedes what."""

import pytest

from modeld.schedule import Scheduler
from modeld.schedule.messages import (
    CancelAsked,
    EngineReady,
    Kind,
    Op,
    OpKey,
    Submitted,
    Tick,
)
from tests.modeld.schedule.phrases import ended, guess, house, key, play, ready, real, words


def test_an_operation_on_a_free_slot_starts_at_once() -> None:
    assert words(play(ready(), real("r1"))) == ["accept r1", "start r1"]


def test_operations_wait_while_the_engine_loads() -> None:
    scheduler = Scheduler()
    assert words(play(scheduler, real("r1"))) == ["accept r1"]
    assert words(play(scheduler, guess("g1"))) == ["accept g1"]
    assert words(play(scheduler, EngineReady())) == ["start r1"]
    assert words(play(scheduler, ended("r1"))) == ["end r1", "start g1"]


def test_real_operations_run_one_at_a_time_and_first_come_first_served() -> None:
    """S1."""
    scheduler = ready()
    assert words(play(scheduler, real("r1"), real("r2"), real("r3"))) == ["accept r3"]
    assert words(play(scheduler, ended("r1"))) == ["end r1", "start r2"]
    assert words(play(scheduler, ended("r2"))) == ["end r2", "start r3"]
    assert words(play(scheduler, ended("r3"))) == ["end r3"]
    assert scheduler.running is None


@pytest.mark.parametrize("yielding", [guess, house])
def test_a_real_operation_stops_a_guess_once_and_starts_after_the_confirmation(yielding: object) -> None:
    """S2, S3."""
    scheduler = ready()
    play(scheduler, guess("g1") if yielding is guess else house("g1"))
    assert words(play(scheduler, real("r1"))) == ["accept r1", "stop g1"]
    assert words(play(scheduler, real("r2"))) == ["accept r2"]
    assert words(play(scheduler, Tick())) == []
    expected = "start r1 for g1" if yielding is guess else "start r1"
    assert words(play(scheduler, ended("g1", stopped=True))) == ["end g1 preempted", expected]


def test_a_guess_that_finishes_before_the_stop_ends_for_its_own_reason_and_nothing_was_preempted() -> None:
    scheduler = ready()
    play(scheduler, guess("g1"), real("r1"))
    assert words(play(scheduler, ended("g1"))) == ["end g1", "start r1"]


def test_the_preempted_guess_is_named_only_by_the_operation_that_follows_it() -> None:
    scheduler = ready()
    play(scheduler, guess("g1"), real("r1"), CancelAsked(key("r1")))
    assert words(play(scheduler, ended("g1", stopped=True))) == ["end g1 preempted"]
    assert words(play(scheduler, real("r2"))) == ["accept r2", "start r2"]


def test_a_newer_operation_supersedes_a_waiting_one_in_its_lane() -> None:
    scheduler = ready()
    play(scheduler, real("r1"), real("r2", lane="inline"))
    assert words(play(scheduler, real("r3", lane="inline"))) == ["accept r3", "end r2 superseded"]


def test_a_newer_operation_stops_the_running_one_in_its_lane() -> None:
    scheduler = ready()
    play(scheduler, real("r1", lane="inline"))
    assert words(play(scheduler, real("r2", lane="inline"))) == ["accept r2", "stop r1"]
    assert words(play(scheduler, real("r3", lane="inline"))) == ["accept r3", "end r2 superseded"]
    assert words(play(scheduler, ended("r1", stopped=True))) == ["end r1 superseded", "start r3"]


@pytest.mark.parametrize(
    "other", [real("r2", lane="chat"), real("r2"), Submitted(Op(key=OpKey("bob", "r2"), kind=Kind.REAL, lane="inline"))]
)
def test_lanes_are_keyed_by_client_and_name(other: Submitted) -> None:
    scheduler = ready()
    play(scheduler, real("r1", lane="inline"))
    assert words(play(scheduler, other)) == ["accept r2"]


def test_a_guess_never_supersedes_a_real_operation_in_its_lane() -> None:
    scheduler = ready()
    play(scheduler, real("r1", lane="inline"), real("r2", lane="inline"), ended("r1", stopped=True), real("r3"))
    assert words(play(scheduler, guess("g1", lane="inline"))) == ["accept g1"]
    assert words(play(scheduler, ended("r2"))) == ["end r2", "start r3"]


def test_a_real_operation_supersedes_a_guess_that_waits_in_its_lane() -> None:
    scheduler = ready()
    play(scheduler, real("r1"), guess("g1", lane="inline"))
    assert words(play(scheduler, real("r2", lane="inline"))) == ["accept r2", "end g1 superseded"]


def test_one_guess_waits_at_most_and_the_newest_wins() -> None:
    scheduler = ready()
    play(scheduler, real("r1"), guess("g1"))
    assert words(play(scheduler, guess("g2"))) == ["accept g2", "end g1 superseded"]
    assert words(play(scheduler, ended("r1"))) == ["end r1", "start g2"]


def test_a_guess_stops_a_running_guess_with_other_bytes() -> None:
    scheduler = ready()
    play(scheduler, guess("g1"))
    assert words(play(scheduler, guess("g2"))) == ["accept g2", "stop g1"]
    assert words(play(scheduler, ended("g1", stopped=True))) == ["end g1 preempted", "start g2 for g1"]


def test_a_guess_with_the_bytes_of_the_running_one_is_a_duplicate() -> None:
    scheduler = ready()
    play(scheduler, guess("g1", b"same"))
    assert words(play(scheduler, guess("g2", b"same"))) == ["accept g2", "end g2 duplicate"]
    assert words(play(scheduler, ended("g1"))) == ["end g1"]


def test_a_guess_with_the_bytes_of_the_waiting_one_is_a_duplicate() -> None:
    scheduler = ready()
    play(scheduler, real("r1"), guess("g1", b"same"))
    assert words(play(scheduler, guess("g2", b"same"))) == ["accept g2", "end g2 duplicate"]
    assert words(play(scheduler, ended("r1"))) == ["end r1", "start g1"]


def test_a_guess_with_the_bytes_of_one_that_is_being_stopped_waits() -> None:
    scheduler = ready()
    play(scheduler, guess("g1", b"same"), real("r1"))
    assert words(play(scheduler, guess("g2", b"same"))) == ["accept g2"]
    play(scheduler, ended("g1", stopped=True))
    assert words(play(scheduler, ended("r1"))) == ["end r1", "start g2"]


def test_housekeeping_runs_when_nothing_else_waits_and_yields_to_a_guess() -> None:
    scheduler = ready()
    play(scheduler, real("r1"), house("h1"), guess("g1"))
    assert words(play(scheduler, ended("r1"))) == ["end r1", "start g1"]
    assert words(play(scheduler, ended("g1"))) == ["end g1", "start h1"]
    assert words(play(scheduler, guess("g2"))) == ["accept g2", "stop h1"]
    assert words(play(scheduler, ended("h1", stopped=True))) == ["end h1 preempted", "start g2"]
