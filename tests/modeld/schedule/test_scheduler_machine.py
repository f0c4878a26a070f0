"""The scheduler against a model of the engine, under every order of events that hypothesis finds."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from modeld.schedule import ScheduleLimits, Scheduler
from modeld.schedule.journal import Journal, replay
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
    EngineRefused,
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
from modelwire.errors import ErrorCode
from modelwire.messages import Reason

LIMITS = ScheduleLimits(queue=4, losses=3, history=8)
CLIENTS = st.sampled_from(["ann", "bob"])
LONG = settings.get_current_profile_name() == "long"
STEPS = 20_000
"""What `make test-long` runs at least."""


class EngineModel:
    """What the engine and the clients see: it believes nothing that the commands do not say."""

    def __init__(self) -> None:
        self.ready = False
        self.asleep = False
        self.losses = 0
        self.running: OpKey | None = None
        self.stop_set = False
        self.produced = False
        self.live: dict[OpKey, Op] = {}
        self.starts: dict[OpKey, int] = {}
        self.order: list[OpKey] = []  # accepted real operations that have not started

    @property
    def switching(self) -> bool:
        return self.running is not None and self.live[self.running].switches

    def obey(self, commands: list[Command], submitted: Op | None) -> None:
        for command in commands:
            match command:
                case Accept():
                    self._accept(command.key, submitted)
                case Start():
                    self._start(command)
                case Wake():
                    assert self.asleep
                    self.asleep = False
                case Stop():
                    assert not self.switching, "a stop for what nobody can stop"
                    assert command.key == self.running, "a stop for an operation that does not run"
                    assert not self.stop_set, "a second stop"
                    self.stop_set = True
                case End() | Fail():
                    self._end(command, submitted)

    def _accept(self, key: OpKey, submitted: Op | None) -> None:
        assert submitted is not None
        assert submitted.key == key
        assert key not in self.live
        self.live[key] = submitted
        self.starts[key] = 0
        if submitted.kind is Kind.REAL:
            self.order.append(key)

    def _start(self, command: Start) -> None:
        op = self.live[command.key]
        given_up = self.asleep or self.losses >= LIMITS.losses
        assert self.ready or (given_up and op.switches), "a start without an engine"
        assert self.running is None, "two operations run"
        assert command.again == (self.starts[command.key] == 1)
        assert self.starts[command.key] < 2
        if op.kind is Kind.REAL and not command.again:
            assert command.key == self.order.pop(0), "not first come, first served"
        assert op.kind is Kind.REAL or not self.order, "something started before a real operation"
        self.starts[command.key] += 1
        self.running = command.key
        self.stop_set = self.produced = False

    def _end(self, command: End | Fail, submitted: Op | None) -> None:
        key = command.key
        if isinstance(command, Fail) and command.code is ErrorCode.DUPLICATE_OP:
            assert submitted is not None
            assert key in self.live
            return
        if key not in self.live:
            assert isinstance(command, Fail), "an operation ended twice"
            assert submitted is not None
            assert submitted.key == key
            return
        assert key != self.running, "an operation ended before the engine confirmed it"
        if isinstance(command, End) and command.reason is Reason.PREEMPTED:
            assert self.live[key].kind is not Kind.REAL
        del self.live[key]
        if key in self.order:
            self.order.remove(key)


class SchedulerMachine(RuleBasedStateMachine):
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler(LIMITS)
        self.journal = Journal(self.scheduler, keep=7)
        self.engine = EngineModel()
        self.now = 0.0
        self.names = 0
        self.checked = 0
        self.log: list[tuple[Event, float, list[Command]]] = []

    @property
    def is_awaited(self) -> bool:
        """Whether an engine is being loaded, of itself."""
        return not (self.engine.ready or self.engine.asleep or self.engine.running)

    def tell(self, event: Event, submitted: Op | None = None) -> None:
        commands = self.journal.handle(event, self.now)
        self.log.append((event, self.now, list(commands)))
        self.engine.obey(commands, submitted)

    @rule(
        client=CLIENTS,
        kind=st.sampled_from([Kind.REAL, Kind.REAL, Kind.GUESS, Kind.GUESS, Kind.HOUSE]),
        lane=st.sampled_from([None, "x", "y"]),
        digest=st.sampled_from([b"1", b"2"]),
        wait=st.sampled_from([None, None, None, 0.0, 1.0, 5.0]),
    )
    def submit(self, client: str, kind: Kind, lane: str | None, digest: bytes, wait: float | None) -> None:
        self.names += 1
        deadline = None if wait is None else self.now + wait
        key = OpKey(client, str(self.names))
        op = Op(key=key, kind=kind, digest=digest, lane=lane if kind is not Kind.HOUSE else None, deadline=deadline)
        self.tell(Submitted(op), op)

    @rule(client=CLIENTS)
    def submit_switch(self, client: str) -> None:
        self.names += 1
        op = Op(key=OpKey(client, str(self.names)), kind=Kind.REAL, switches=True)
        self.tell(Submitted(op), op)

    @precondition(lambda self: self.engine.live)
    @rule(data=st.data())
    def submit_with_a_live_id(self, data: st.DataObject) -> None:
        op = self.engine.live[data.draw(st.sampled_from(sorted(self.engine.live, key=str)))]
        self.tell(Submitted(op), op)

    @rule(client=CLIENTS, back=st.integers(0, 6))
    def cancel(self, client: str, back: int) -> None:
        self.tell(CancelAsked(OpKey(client, str(self.names - back))))

    @rule(client=CLIENTS)
    def leave(self, client: str) -> None:
        self.tell(ClientGone(client))

    @rule(seconds=st.sampled_from([0.1, 1.0, 4.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.tell(Tick())

    @precondition(lambda self: self.is_awaited)
    @rule()
    def engine_ready(self) -> None:
        self.engine.ready, self.engine.losses = True, 0
        self.tell(EngineReady())

    @precondition(lambda self: self.is_awaited)
    @rule()
    def engine_refused(self) -> None:
        self.engine.asleep, self.engine.losses = True, 0
        self.tell(EngineRefused("no room"))
        assert all(op.switches for op in self.engine.live.values()), "something waits for nothing"

    @precondition(lambda self: self.engine.running and not self.engine.switching)
    @rule()
    def engine_produces(self) -> None:
        assert self.engine.running
        self.engine.produced = True
        self.tell(EngineProduced(self.engine.running))

    @precondition(lambda self: self.engine.switching)
    @rule(loaded=st.booleans())
    def engine_switches(self, loaded: bool) -> None:
        assert self.engine.running
        key, self.engine.running = self.engine.running, None
        self.engine.ready, self.engine.asleep, self.engine.losses = loaded, not loaded, 0
        self.tell(EngineSwitched(key, loaded))

    @precondition(lambda self: self.engine.running and not self.engine.switching)
    @rule(natural=st.booleans())
    def engine_ends(self, natural: bool) -> None:
        key, stopped = self.engine.running, self.engine.stop_set and not natural
        assert key
        self.engine.running = None
        self.tell(EngineEnded(key, stopped))

    @rule(lost=st.sampled_from([True, False, False, False]))
    def engine_lost(self, lost: bool) -> None:
        if lost and not self.engine.asleep:
            self.engine.ready = False
            self.engine.losses += 1
            again = self.engine.running, self.engine.produced
            self.engine.running = None
            self.tell(EngineLost())
            assert not (again[1] and again[0] in self.engine.live), "an operation that sent a token waits to run again"

    @rule(stop=st.sampled_from([True, *[False] * 15]))
    def shutdown(self, stop: bool) -> None:
        if stop:
            self.tell(ShutdownAsked())

    @invariant()
    def both_agree(self) -> None:
        self.checked += 1
        self.scheduler.check()
        assert (self.scheduler.running.key if self.scheduler.running else None) == self.engine.running
        assert all(self.scheduler.is_live(key) for key in self.engine.live)
        deadline = self.scheduler.next_deadline()
        assert deadline is None or deadline > self.now

    def teardown(self) -> None:
        """With nothing but endings of the engine, every operation ends (S8); the same events give the same commands."""
        if self.is_awaited:
            self.engine_ready()
        bound = len(self.engine.live)
        for _ in range(bound):
            if self.engine.switching:
                self.engine_switches(loaded=True)
            elif self.engine.running:
                self.engine_ends(natural=False)
        assert not self.engine.live, "starved"
        assert self.scheduler.waiting == 0
        twin = Scheduler(LIMITS)
        assert [twin.handle(event, now) for event, now, _ in self.log] == [commands for *_, commands in self.log]
        assert replay(self.journal.last()) is None
        type(self).steps += self.checked - 1  # once before the first step


@pytest.mark.timeout(3600 if LONG else 300)
def test_s1_s2_s3_s8_s9_any_order_of_events_is_served_by_the_rules() -> None:
    """The same events give the same commands, too."""
    examples, steps = (240, 100) if LONG else (60, 40)
    run_state_machine_as_test(
        SchedulerMachine,
        settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None),
    )
    assert SchedulerMachine.steps >= STEPS or not LONG
