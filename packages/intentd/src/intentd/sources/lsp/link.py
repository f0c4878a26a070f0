"""Owns the language server's connection to the daemon: finds it, starts it, finds it again."""

import asyncio
import contextlib
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from intentd.messages import INTENTD, EditorOpened
from intentd.upkeep import kept_up
from modelwire.client import Connection, OperationStream
from modelwire.errors import DaemonUnreachable, EndpointError, ErrorCode, WireError
from modelwire.link import unreachable

log = logging.getLogger(__name__)

FAULTS = (WireError, DaemonUnreachable, EndpointError)
CONNECT_S = 3.0
FIRST_RETRY_S, LAST_RETRY_S = 0.1, 2.0
READY_S = 10.0
"""So long a question waits for a daemon that is being started."""
START_EVERY_S = 10.0
TELL_AGAIN_S = 2.0
"""So long after it was refused for the moment something is told again, where nothing newer is known."""
MAX_NEWS = 256
IDLE_S = 300
"""A daemon that an editor has started ends so long after the last editor has left."""


class Starter:
    """Starts the daemon where none answers; not more often than makes sense."""

    def __init__(self, endpoint: str, argv: tuple[str, ...] | None = None) -> None:
        serve = (sys.executable, "-P", "-m", "intentd", "serve", "--socket", endpoint, "--idle", str(IDLE_S))
        self._argv = argv or serve
        self._children: list[subprocess.Popen[bytes]] = []
        self._last = float("-inf")

    def __call__(self) -> None:
        """It outlives this editor, since others may use it; who loses the race for the socket ends by itself."""
        self._children = [child for child in self._children if child.poll() is None]
        if time.monotonic() - self._last < START_EVERY_S or self._children:
            return
        self._last = time.monotonic()
        log.info("starting intentd")
        quiet = subprocess.DEVNULL
        try:
            child = subprocess.Popen(self._argv, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        except OSError as fault:  # too many processes, say: later it may work, or another one starts it
            log.warning("intentd could not be started: %s", fault.strerror)
        else:
            self._children.append(child)


class Link:
    """Use it from one event loop. `met` is called whenever a daemon has been found; `start` where there is none."""

    def __init__(self, endpoint: str, *, start: Callable[[], None] | None, met: Callable[[], None]) -> None:
        self.endpoint = endpoint
        self._start = start
        self._met = met
        self._door: Connection | None = None
        self._there = asyncio.Event()
        self._news: dict[str, object] = {}
        self._waiting = asyncio.Event()
        self._said = 0

    @property
    def connected(self) -> bool:
        return self._door is not None

    async def run(self) -> None:
        """Until it is cancelled."""
        delay = FIRST_RETRY_S
        while True:
            try:
                async with Connection(self.endpoint, INTENTD, name="lsp", timeout=CONNECT_S) as door:
                    delay = FIRST_RETRY_S
                    await self._keep(door)
            except FAULTS as fault:
                log.debug("intentd: %s", fault)
                if self._start and isinstance(fault, DaemonUnreachable):
                    self._start()
            await asyncio.sleep(delay)
            delay = min(delay * 2, LAST_RETRY_S)

    async def _keep(self, door: Connection) -> None:
        """As long as the daemon lives: this editor's operation ends with it."""
        async with door.start(EditorOpened(name="lsp", starts_modeld=self._start is not None)) as life:
            await anext(life)
            telling = asyncio.create_task(kept_up(partial(self._tell, door)))
            try:
                self._door = door
                self._there.set()
                self._news.clear()  # they were another daemon's; what holds by now, `met` says
                self._met()
                async for _ in life:
                    pass
            finally:
                self._door = None  # before it is closed: nobody must find one that closes
                self._there.clear()
                telling.cancel()
                await asyncio.gather(telling, return_exceptions=True)

    async def _tell(self, door: Connection) -> None:
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            news, self._news = self._news, {}
            for key, message in news.items():
                try:
                    await door.ask(message)
                except FAULTS as fault:
                    if isinstance(fault, WireError) and fault.retry:  # as where a drive is slow: nobody says it else
                        self._news.setdefault(key, message)
                        asyncio.get_running_loop().call_later(TELL_AGAIN_S, self._waiting.set)

    async def found(self) -> None:
        """Waits for a daemon."""
        await self._there.wait()

    # --- for the server ---------------------------------------------------------------------------------------

    def tell(self, key: str, message: object) -> None:
        """Says it when there is a daemon; what is newer under the same key replaces it."""
        if self._door is not None and (key in self._news or len(self._news) < MAX_NEWS):
            self._news[key] = message
            self._waiting.set()

    def say(self, message: object) -> None:
        """As `tell`, of what nothing replaces."""
        self._said += 1
        self.tell(f"said {self._said}", message)

    async def start(self, message: object) -> OperationStream:
        """Raises `WireError`, `DaemonUnreachable`."""
        return (await self._reach()).start(message)

    async def _reach(self) -> Connection:
        if self._door is None and self._start:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READY_S):
                    await self.found()
        if self._door is None:
            raise WireError(ErrorCode.NOT_READY, str(unreachable(self.endpoint, "intentd")), retry=True)
        return self._door
