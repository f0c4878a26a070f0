"""A scripted child in place of an engine process, and where such children come from, for tests of the supervisor."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from modeld.engine.child import Child
from modeld.engine.config import EngineConfig
from modeld.engine.frames import FrameReader, Numbered, framed
from modeld.engine.messages import (
    Ended,
    FromEngine,
    FromSupervisor,
    Quit,
    Ready,
    Run,
    Save,
)
from modeld.testing import MODEL
from modelwire.messages import Reason, Timings, Usage

READY = Ready(
    backend="fake",
    profile="exact",
    model=MODEL,
    capabilities={},
    context=4096,
    cells=1,
    load_ms=0.0,
)
SAVE = Save(client="c", place="p", ids=b"")
RUN = Run(client="c", session="s", guess=False)
ENDED = Ended(reason=Reason.PREFILLED, length=0, usage=Usage(), timings=Timings())


class ScriptedChild:
    """Stands for a process. `says` speaks for it; it obeys `Quit` and dies when killed, unless it is not mortal."""

    def __init__(self, epoch: int, model: str | None) -> None:
        self.epoch = epoch
        self.model = model
        self.pid = 1000 + epoch
        self.reader = FrameReader()
        self._messages = Numbered(epoch)
        self.heard: list[object] = []
        self.buried = False
        self.killed = False
        self.obeys = self.mortal = True
        self.end = "exited with status 0"

    def says(self, *messages: object) -> None:
        for message in messages:
            self.reader.data_received(self.frame(message))

    def frame(self, message: object) -> bytes:
        """The next one."""
        return framed(self._messages.encode(message))

    def dies(self) -> None:
        self.reader.eof_received()

    def write(self, data: bytes) -> None:
        self.heard.append(self._messages.decode(data))
        if self.obeys and isinstance(self.heard[-1], Quit):
            self.dies()

    def kill(self) -> None:
        if not self.killed:
            self.killed = True
            if self.mortal:
                self.dies()

    async def bury(self, grace: float) -> str:
        self.buried = True
        return "was ended by SIGKILL" if self.killed else self.end


class Nursery:
    """Makes the children, and keeps what the supervisor told. The next starts fail with what is in `full`."""

    def __init__(self) -> None:
        self.children: list[ScriptedChild] = []
        self.told: list[FromEngine | FromSupervisor] = []
        self.news = asyncio.Event()
        self.full: list[Exception] = []

    async def start(self, config: EngineConfig, epoch: int, flag: int) -> Child:
        if self.full and self.children:
            raise self.full.pop()
        self.children.append(ScriptedChild(epoch, config.model))
        self.news.set()
        return cast(Child, self.children[-1])

    def listen(self, message: FromEngine | FromSupervisor) -> None:
        self.told.append(message)
        self.news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds():
                self.news.clear()
                await self.news.wait()


Start = Callable[..., Any]


async def ready(nursery: Nursery, epoch: int = 1) -> ScriptedChild:
    """The child of an epoch, once it has said that it is ready."""
    await nursery.until(lambda: len(nursery.children) >= epoch)
    before = len(nursery.told)
    nursery.children[epoch - 1].says(READY)
    await nursery.until(lambda: READY in nursery.told[before:])
    return nursery.children[epoch - 1]
