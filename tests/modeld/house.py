"""A driver with an engine in memory, for tests of what happens between them."""

from typing import Any

from attrs import define, field

from modeld.driver import Driver
from modeld.engine.messages import Run
from modeld.flight import Asked
from modeld.housekeeping import IdleTimes
from modeld.schedule import ScheduleLimits
from modeld.schedule.journal import Listener
from modeld.sessions import SessionLimits
from modeld.testing import EngineTwin, as_text
from modelwire.messages import ChatMessage, Done, EnsurePrefix, Error, PrefillSuffix, Prompt, Text, Turn


@define(eq=False)
class House:
    """A driver with its engine; the replies are kept by (client, op)."""

    engine: EngineTwin = field(factory=EngineTwin)
    replies: list[tuple[str, str, Any]] = field(factory=list)
    now: float = 0.0
    limits: ScheduleLimits | None = None
    session_limits: SessionLimits | None = None
    idle: IdleTimes | None = None
    also: Listener | None = None
    driver: Driver = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.driver = Driver(
            self.engine,
            self.reply,
            limits=self.limits,
            sessions=self.session_limits,
            also=self.also,
            idle=self.idle,
        )

    def reply(self, client: str, op: str, message: Any) -> None:
        self.replies.append((client, op, message))

    def of(self, op: str, client: str = "ann") -> list[Any]:
        return [message for to, name, message in self.replies if (to, name) == (client, op)]

    def words(self, op: str, client: str = "ann") -> list[str]:
        return [type(message).__name__ for message in self.of(op, client)]

    def done(self, op: str, client: str = "ann") -> Done:
        [last] = [message for message in self.of(op, client) if isinstance(message, Done)]
        assert last is self.of(op, client)[-1]
        assert isinstance(last, Done)
        return last

    def error(self, op: str, client: str = "ann") -> Error:
        last = self.of(op, client)[-1]
        assert isinstance(last, Error)
        return last

    def submit(self, op: str, message: Asked, client: str = "ann") -> None:
        self.driver.submit(client, op, message, self.now)
        self.check()

    def say(self, *messages: Any) -> None:
        for message in messages:
            self.driver.engine_said(message, self.now)
            self.check()

    def run(self, answer: str = "") -> None:
        """The running operation from its beginning to its natural end."""
        self.say(self.engine.begin(), self.engine.advance())
        if answer:
            self.say(self.engine.generate(answer))
        self.say(self.engine.end())

    def lose_engine(self) -> None:
        self.engine.die()
        self.driver.engine_lost(self.now)
        self.check()

    def contents(self, session: str = "s", client: str = "ann") -> str:
        found = self.driver.sessions.find(client, session)
        assert found
        return as_text(found.contents.ids)

    def last_run(self) -> Run:
        last = self.engine.sent[-1]
        assert isinstance(last, Run)
        return last

    def check(self) -> None:
        self.driver.scheduler.check()
        self.driver.sessions.check()


def text(content: str) -> Prompt:
    return (Text(text=content),)


def chat(*contents: str) -> Prompt:
    return tuple(ChatMessage(role="user", content=content) for content in contents)


def prefix(content: str, session: str = "s", *, speculative: bool = False) -> EnsurePrefix:
    return EnsurePrefix(session=session, prompt=text(content), speculative=speculative)


def suffix(content: str, session: str = "s", *, speculative: bool = False) -> PrefillSuffix:
    return PrefillSuffix(session=session, prompt=text(content), speculative=speculative)


def turn(content: str, session: str = "s", *, speculative: bool = False, lane: str | None = None) -> Turn:
    return Turn(session=session, prefix=text(content), speculative=speculative, lane=lane)
