"""Owns what the daemon says of itself: welcome, description, status. It changes nothing."""

import uuid
from importlib.metadata import version

from attrs import field, frozen

from modeld.driver import Driver
from modeld.stories import HISTORY
from modelwire.errors import ErrorCode
from modelwire.messages import (
    PROTOCOL_VERSION,
    Description,
    Error,
    Limits,
    Status,
    StoryTold,
    TellStory,
    Welcome,
)

BEAT_MS = 2000
SILENCE_MS = 3 * BEAT_MS


@frozen(kw_only=True)
class About:
    """`instance` is new in every process, so that clients notice a restart."""

    message_bytes: int
    sessions: int
    snapshots: int = 0
    queue: int
    started: float
    instance: str = field(factory=lambda: uuid.uuid4().hex)

    def welcome(self) -> Welcome:
        return Welcome(
            protocol=PROTOCOL_VERSION,
            server="modeld",
            version=version("modeld"),
            instance=self.instance,
            beat_ms=BEAT_MS,
        )

    def description(self, driver: Driver) -> Description | Error:
        ready = driver.ready
        if ready is None:
            message = f"the model is not loaded yet ({driver.state}): ask again"
            return Error(code=ErrorCode.NOT_READY, message=message, retry=True)
        return Description(
            backend=ready.backend,
            profile=ready.profile,
            model=ready.model,
            capabilities=ready.capabilities,
            exactness=driver.exactness,
            limits=Limits(
                message_bytes=self.message_bytes,
                context=ready.context,
                sessions=self.sessions,
                queue=self.queue,
                silence_ms=SILENCE_MS,
                snapshots=self.snapshots,
            ),
        )

    def story(self, driver: Driver, message: TellStory) -> StoryTold | Error:
        lines = driver.stories.tell(message.target, message.client)
        if lines is not None:
            return StoryTold(lines=lines)
        whose = f" of a client {message.client}…" if message.client else ""
        says = f"no operation {message.target or 'at all'}{whose} is remembered: the last {HISTORY} that ended are"
        return Error(code=ErrorCode.BAD_REQUEST, message=says)

    def status(self, driver: Driver, engine_pid: int, now: float, problem: str = "") -> Status:
        figures = driver.figures.as_mapping(
            sessions=len(driver.sessions),
            clients=len(driver.clients),
            queue=driver.scheduler.waiting,
            snapshots=len(driver.sessions.snapshots),
            running=driver.running,
        )
        return Status(
            state=driver.state,
            instance=self.instance,
            model=driver.ready.model.name if driver.ready else "",
            engine_pid=engine_pid,
            uptime_s=now - self.started,
            figures=figures,
            exactness=driver.exactness,
            problem=problem,
        )
