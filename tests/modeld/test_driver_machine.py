"""The driver under every order of requests, engine messages and losses that hypothesis finds."""

import os
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from modeld.driver import Driver
from modeld.engine.messages import Encode, Failed, Run
from modeld.schedule import ScheduleLimits
from modeld.schedule.messages import OpKey
from modeld.sessions import SessionLimits
from modeld.testing import EngineTwin
from modelwire.messages import (
    Accepted,
    Acknowledged,
    ChatMessage,
    Decode,
    Done,
    EnsurePrefix,
    Error,
    PrefillSuffix,
    Progress,
    SlotOperation,
    Started,
    Text,
    TokenIds,
    Tokenize,
    Tokens,
    Turn,
)

CLIENTS = st.sampled_from(["ann", "bob"])
SESSIONS = st.sampled_from(["s", "t", "u"])
PROMPTS = st.sampled_from([(Text(text="abc"),), (Text(text="abd"),), (ChatMessage(role="user", content="hi"),)])
LONG = os.environ.get("GUESSAHEAD_LONG") == "1"
AFTER: dict[type, set[type]] = {
    Accepted: {Started, Done, Error},
    Started: {Progress, Done, Error},
    Progress: {Progress, Tokens, Done, Error},
    Tokens: {Tokens, Done, Error},
    Done: set(),
    Error: set(),
    TokenIds: set(),
}
"""What may follow a reply of one operation."""


class DriverMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.engine = EngineTwin()
        self.driver = Driver(
            self.engine,
            self.reply,
            limits=ScheduleLimits(queue=4),
            sessions=SessionLimits(per_client=2, total=3),
        )
        self.now = 0.0
        self.names = 0
        self.last: dict[OpKey, Any] = {}
        self.sent: set[OpKey] = set()
        self.cancels: dict[OpKey, OpKey] = {}
        self.alive = False
        self.begun = False
        self.full = False

    def reply(self, client: str, op: str, message: Any) -> None:
        key = OpKey(client, op)
        if isinstance(message, Acknowledged):
            target = self.cancels.pop(key, None)
            assert not message.found or target is None or isinstance(self.last.get(target), Done | Error | TokenIds)
            return
        assert key in self.sent
        previous = self.last.get(key)
        assert previous is None or type(message) in AFTER[type(previous)], f"{message} after {previous}"
        assert previous is not None or isinstance(message, Accepted | Error | TokenIds)
        self.last[key] = message

    def name(self) -> str:
        self.names += 1
        return str(self.names)

    def submit(self, client: str, message: SlotOperation | Tokenize) -> None:
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

    @rule(client=CLIENTS, prompt=PROMPTS)
    def tokenize(self, client: str, prompt: Any) -> None:
        self.submit(client, Tokenize(prompt=prompt))

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

    @rule()
    def time_passes(self) -> None:
        self.now += 0.6
        self.driver.tick(self.now)

    # --- the engine ---------------------------------------------------------------------------------------

    @precondition(lambda self: not self.alive)
    @rule()
    def ready(self) -> None:
        self.alive = True
        self.driver.engine_said(self.engine.ready(), self.now)

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
        elif isinstance(running, Encode):
            self.driver.engine_said(self.engine.encoded(), self.now)
        else:
            self.driver.engine_said(self.engine.end(), self.now)

    @rule(lost=st.sampled_from([True, False, False]))
    def lose(self, lost: bool) -> None:
        if lost:
            self.alive = self.begun = False
            self.engine.die()
            self.driver.engine_lost(self.now)

    @invariant()
    def holds(self) -> None:
        self.driver.scheduler.check()
        self.driver.sessions.check()
        live = {key for key in self.sent if type(self.last.get(key)) not in (Done, Error, TokenIds)}
        assert self.driver.live == len(live)
        assert (self.engine.running is not None) == (self.driver.scheduler.running is not None)

    def teardown(self) -> None:
        """S8: with nothing but endings of the engine, every operation ends, and every cancel is confirmed."""
        if not self.alive:
            self.ready()
        for _ in range(self.driver.live):
            if self.engine.running:
                self.end(failed=False)
        assert self.driver.live == 0
        assert not self.cancels


TestDriver: Any = DriverMachine.TestCase
TestDriver.settings = settings(max_examples=200 if LONG else 60, stateful_step_count=100 if LONG else 40, deadline=None)
