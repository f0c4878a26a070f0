"""The driver under every order of requests, engine messages and losses that hypothesis finds."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from modeld.driver import Driver
from modeld.engine.messages import Encode, EngineUnloaded, Failed, Probe, Refused, Run, Save
from modeld.flight import Asked
from modeld.housekeeping import IdleTimes
from modeld.schedule import ScheduleLimits
from modeld.schedule.journal import replay
from modeld.schedule.messages import OpKey
from modeld.sessions import SessionLimits
from modeld.testing import EngineTwin
from modelwire.errors import ErrorCode
from modelwire.messages import (
    Accepted,
    Acknowledged,
    ChatMessage,
    Decode,
    Done,
    EnsurePrefix,
    Error,
    Exactness,
    Load,
    PrefillSuffix,
    Progress,
    Restore,
    Snapshot,
    SnapshotTaken,
    Started,
    Text,
    TokenIds,
    Tokenize,
    Tokens,
    Turn,
    Unload,
)

CLIENTS = st.sampled_from(["ann", "bob"])
SESSIONS = st.sampled_from(["s", "t", "u"])
PROMPTS = st.sampled_from([(Text(text="abc"),), (Text(text="abd"),), (ChatMessage(role="user", content="hi"),)])
LONG = settings.get_current_profile_name() == "long"
STEPS = 20_000
"""What `make test-long` runs at least."""
AFTER: dict[type, set[type]] = {
    Accepted: {Started, Done, Error},
    Started: {Progress, Done, Error},
    Progress: {Progress, Tokens, Done, Error},
    Tokens: {Tokens, Done, Error},
    Done: set(),
    Error: set(),
    TokenIds: set(),
    Acknowledged: set(),
    SnapshotTaken: set(),
}
"""What may follow a reply of one operation."""
ENDS = (Done, Error, TokenIds, Acknowledged, SnapshotTaken)


class DriverMachine(RuleBasedStateMachine):
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.engine = EngineTwin()
        self.driver = Driver(
            self.engine,
            self.reply,
            limits=ScheduleLimits(queue=4),
            sessions=SessionLimits(per_client=2, total=3, snapshots=2),
            idle=IdleTimes(test_after=30.0, unload_after=60.0),
        )
        self.now = 0.0
        self.names = 0
        self.checked = 0
        self.last: dict[OpKey, Any] = {}
        self.sent: set[OpKey] = set()
        self.cancels: dict[OpKey, OpKey] = {}
        self.handles: dict[str, str] = {}
        self.alive = False
        self.asleep = False
        self.once = False
        self.begun = False
        self.full = False

    def reply(self, client: str, op: str, message: Any) -> None:
        key = OpKey(client, op)
        assert not isinstance(message, Error) or message.code != ErrorCode.INTERNAL, message
        if client == "modeld":
            return
        if isinstance(message, Acknowledged) and key not in self.sent:
            target = self.cancels.pop(key, None)
            assert not message.found or target is None or isinstance(self.last.get(target), ENDS)
            return
        assert key in self.sent
        previous = self.last.get(key)
        assert previous is None or type(message) in AFTER[type(previous)], f"{message} after {previous}"
        assert previous is not None or isinstance(message, Accepted | Error | TokenIds | Acknowledged | SnapshotTaken)
        self.last[key] = message
        if isinstance(message, SnapshotTaken):
            assert message.handle not in self.handles
            self.handles[message.handle] = client

    def name(self) -> str:
        self.names += 1
        return str(self.names)

    def submit(self, client: str, message: Asked) -> None:
        op = self.name()
        self.sent.add(OpKey(client, op))
        self.driver.submit(client, op, message, self.now)

    @rule(client=CLIENTS, session=SESSIONS, prompt=PROMPTS, guess=st.booleans(), wait=st.sampled_from([None, 1000]))
    def turn(self, client: str, session: str, prompt: Any, guess: bool, wait: int | None) -> None:
        self.submit(client, Turn(session=session, prefix=prompt, speculative=guess, deadline_ms=wait))

    @rule(client=CLIENTS, session=SESSIONS, prompt=PROMPTS, guess=st.booleans(), lane=st.sampled_from([None, "x"]))
    def step(self, client: str, session: str, prompt: Any, guess: bool, lane: str | None) -> None:
        self.submit(client, EnsurePrefix(session=session, prompt=prompt, speculative=guess, lane=lane))
        self.submit(client, PrefillSuffix(session=session, prompt=prompt, speculative=guess, lane=lane))

    @rule(client=CLIENTS, session=SESSIONS)
    def decode(self, client: str, session: str) -> None:
        self.submit(client, Decode(session=session))

    @rule(client=CLIENTS, session=SESSIONS)
    def snapshot(self, client: str, session: str) -> None:
        self.submit(client, Snapshot(session=session))

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), client=CLIENTS, session=SESSIONS, guess=st.booleans())
    def restore(self, data: st.DataObject, client: str, session: str, guess: bool) -> None:
        """S11: a handle works for its owner alone."""
        handle = data.draw(st.sampled_from(sorted(self.handles)))
        self.submit(client, Restore(handle=handle, session=session, speculative=guess))
        last = self.last[OpKey(client, str(self.names))]
        if self.handles[handle] != client:
            assert isinstance(last, Accepted | Error | Done)
            running = self.driver.scheduler.running
            assert running is None or running.key != OpKey(client, str(self.names))

    @rule(client=CLIENTS, prompt=PROMPTS)
    def tokenize(self, client: str, prompt: Any) -> None:
        self.submit(client, Tokenize(prompt=prompt))

    @rule(client=CLIENTS, model=st.sampled_from([None, "/a", "/b", "/bad"]), unload=st.booleans())
    def switch(self, client: str, model: str | None, unload: bool) -> None:
        self.submit(client, Unload() if unload else Load(model=model))

    @rule(client=CLIENTS, back=st.integers(0, 5))
    def cancel(self, client: str, back: int) -> None:
        target, op = str(self.names - back), self.name()
        self.cancels[OpKey(client, op)] = OpKey(client, target)
        self.driver.cancel(client, op, target, self.now)

    @rule(client=CLIENTS, session=st.sampled_from([None, "s", "t"]))
    def close(self, client: str, session: str | None) -> None:
        op = self.name()
        self.driver.close(client, op, session, self.now)

    @rule(client=CLIENTS)
    def leave(self, client: str) -> None:
        self.driver.client_gone(client, self.now)

    @rule(seconds=st.sampled_from([0.6, 0.6, 70.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.driver.tick(self.now)

    # --- the engine ---------------------------------------------------------------------------------------

    @precondition(lambda self: not self.alive and not self.asleep and not self.engine.asked)
    @rule()
    def ready(self) -> None:
        self.alive = self.once = True
        self.driver.engine_said(self.engine.ready(), self.now)

    @precondition(lambda self: self.engine.asked)
    @rule(short=st.sampled_from([False, False, True]))
    def does_what_it_was_asked(self, short: bool) -> None:
        """One after the other, as processes are ended and started; where memory is `short` no model is loaded."""
        model = self.engine.asked.pop(0)
        self.asleep = model == "nothing"
        self.alive = not (self.asleep or model == "/bad" or (short and self.once))
        if self.asleep:
            self.driver.engine_said(EngineUnloaded(epoch=1), self.now)
        elif self.alive:
            self.once = True
            self.driver.engine_said(self.engine.ready(f"{model}"), self.now)
        else:
            self.refuse()

    @precondition(lambda self: self.once and not self.alive and not self.asleep and not self.engine.asked)
    @rule()
    def refuse(self) -> None:
        assert self.driver.refused(Refused(message="no model at all"), self.now)
        self.asleep = not self.engine.asked

    @precondition(lambda self: isinstance(self.engine.running, Run) and not self.begun)
    @rule()
    def begin(self) -> None:
        self.begun, self.full = True, False
        self.driver.engine_said(self.engine.begin(), self.now)

    @precondition(lambda self: self.begun)
    @rule()
    def advance(self) -> None:
        if not self.full:
            self.full = True
            self.driver.engine_said(self.engine.advance(), self.now)

    @precondition(lambda self: self.begun)
    @rule()
    def generate(self) -> None:
        if self.full and isinstance(self.engine.running, Run) and self.engine.running.decode:
            self.driver.engine_said(self.engine.generate("x"), self.now)

    @precondition(lambda self: self.engine.running)
    @rule(failed=st.sampled_from([False, False, False, True]))
    def end(self, failed: bool) -> None:
        self.begun, running = False, self.engine.running
        if failed:
            self.engine.running = None
            self.driver.engine_said(Failed(code="engine_failed", message="x"), self.now)
        elif isinstance(running, Probe):
            stopped_or_full = self.engine.stop_set or self.names % 2
            verdict = None if stopped_or_full else Exactness(verdict="exact")
            self.driver.engine_said(self.engine.probed(verdict), self.now)
        elif isinstance(running, Save):
            self.driver.engine_said(self.engine.saved(), self.now)
        elif isinstance(running, Encode):
            self.driver.engine_said(self.engine.encoded(), self.now)
        else:
            self.driver.engine_said(self.engine.end(), self.now)

    @rule(lost=st.sampled_from([True, False, False]))
    def lose(self, lost: bool) -> None:
        if lost and not self.asleep and self.engine.asked != ["nothing"]:
            self.alive = self.begun = False
            self.engine.die()
            self.driver.engine_lost(self.now)

    @invariant()
    def holds(self) -> None:
        self.checked += 1
        self.driver.scheduler.check()
        self.driver.sessions.check()
        live = {key for key in self.sent if type(self.last.get(key)) not in ENDS}
        running = self.driver.scheduler.running
        idle = running is not None and running.key.client == "modeld"
        assert self.driver.live == len(live) + idle
        assert (self.engine.running is not None) == (running is not None and not running.switches)

    def teardown(self) -> None:
        """S8: with nothing but endings of the engine, every operation ends, and every cancel is confirmed."""
        for _ in range(10 * self.driver.live):
            if self.engine.asked:
                self.does_what_it_was_asked(short=False)
            elif self.engine.running:
                self.end(failed=False)
            elif not self.alive:
                self.ready()
        assert self.driver.live == 0
        assert not self.cancels
        assert replay(self.driver.journal.last()) is None
        type(self).steps += self.checked - 1  # once before the first step


@pytest.mark.timeout(3600 if LONG else 300)
def test_s8_s9_any_order_of_requests_and_losses_gives_every_operation_one_end() -> None:
    """And every cancel its confirmation."""
    examples, steps = (240, 100) if LONG else (60, 40)
    run_state_machine_as_test(
        DriverMachine,
        settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None),
    )
    assert DriverMachine.steps >= STEPS or not LONG
