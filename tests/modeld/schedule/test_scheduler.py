"""The scheduler's rules, one by one."""

from collections.abc import Callable, Sequence

import pytest

from modeld.schedule import IllegalMove, ScheduleLimits, Scheduler
from modeld.schedule.messages import (
    Accept,
    CancelAsked,
    ClientGone,
    Command,
    End,
    EngineEnded,
    EngineLost,
    EngineProduced,
    EngineReady,
    EngineSwitched,
    Event,
    Fail,
    Kind,
    Op,
    OpKey,
    ShutdownAsked,
    Start,
    Stop,
    Submitted,
    Tick,
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


# --- switching the engine -------------------------------------------------------------------------------


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
