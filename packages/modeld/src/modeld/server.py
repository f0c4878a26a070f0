"""Owns the translation between the socket's envelopes and the driver's calls, and the daemon's sense of time.

It decides nothing: questions about the daemon are answered by `about`, everything else is the driver's.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Any, Protocol

from modeld.about import BEAT_MS, SILENCE_MS, About
from modeld.driver import Driver
from modelwire.codec import Envelope
from modelwire.errors import ErrorCode
from modelwire.messages import Beat, Cancel, Close, Describe, Error, GetStatus, Hello, TellStory
from modelwire.protocol import NOBODY

log = logging.getLogger(__name__)

KNOCK_S = 30.0
"""So often those that have sessions and say nothing are looked for."""


class Door(Protocol):
    """The socket as seen from here; `modelwire.router.Router` is one."""

    async def serve(self, take: Callable[[str, Envelope], None]) -> None: ...

    def send(self, client: str, op: str, message: Any) -> None: ...

    def silent(self, now: float, after_ms: float) -> list[str]: ...

    def forget(self, client: str) -> None: ...


class Server:
    """`serve` and `keep_time` run as two tasks of one event loop until they are cancelled or the door closes."""

    def __init__(
        self,
        door: Door,
        driver: Driver,
        about: About,
        *,
        clock: Callable[[], float],
        engine_pid: Callable[[], int],
        problem: Callable[[], str] = str,
    ) -> None:
        """`problem` says what is wrong with the engine, for people; empty where nothing is."""
        self._door = door
        self._driver = driver
        self._about = about
        self._clock = clock
        self._engine_pid = engine_pid
        self._problem = problem
        self._sooner = asyncio.Event()
        self._tick_at = math.inf
        self._knock_at = 0.0
        self._leaving: set[str] = set()
        self._silent: set[str] = set()

    async def serve(self) -> None:
        await self._door.serve(self.handle)

    def handle(self, client: str, envelope: Envelope) -> None:
        """A fault of ours in one request is logged and answered; the others go on."""
        try:
            self._translate(client, envelope.op, envelope.message)
        except Exception:
            log.exception("a %s could not be handled", type(envelope.message).__name__)
            error = Error(code=ErrorCode.INTERNAL, message="modeld failed at this request: see its log")
            self._door.send(client, envelope.op, error)
        self._forget_who_left()
        if self._next_tick(self._clock()) < self._tick_at:
            self._sooner.set()

    def _translate(self, client: str, op: str, message: Any) -> None:
        now = self._clock()
        if isinstance(message, Beat) or self._driver.refuse_live_id(client, op):
            return
        self._leaving.discard(client)
        match message:
            case Hello():
                log.info("client %s calls itself %.60r", client, message.client)
                self._door.send(client, op, self._about.welcome())
            case Describe():
                self._door.send(client, op, self._about.description(self._driver))
            case GetStatus():
                self._door.send(client, op, self._about.status(self._driver, self._engine_pid(), now, self._problem()))
            case Cancel():
                self._driver.cancel(client, op, message.target, now)
            case Close():
                if self._driver.close(client, op, message.session, now) and message.session is None:
                    self._leaving.add(client)
            case TellStory():
                self._door.send(client, op, self._about.story(self._driver, message))
            case _:
                self._driver.submit(client, op, message, now)

    async def keep_time(self) -> None:
        """Lets deadlines pass, and finds clients that fell silent with operations open or are gone."""
        while True:
            now = self._clock()
            self.pass_time(now)
            self._tick_at = self._next_tick(now)
            await self._sleep(self._tick_at - now)

    def pass_time(self, now: float) -> None:
        self._driver.tick(now)
        self._forget_who_left()
        silent = self._driver.busy_clients & set(self._door.silent(now, SILENCE_MS))
        before, self._silent = self._silent, silent
        for client in silent - before:
            log.warning("client %s fell silent: its operations end", client)
            self._driver.client_silent(client, now)
        if now >= self._knock_at:
            self._knock_at = now + KNOCK_S
            self._knock(now)

    def _knock(self, now: float) -> None:
        """An idle client need not say anything. That one is dead shows when something is sent to it: so something is.

        Its sessions would stay for ever, and their tapes leave no room for guesses.
        """
        for client in self._driver.clients & set(self._door.silent(now, 1000 * KNOCK_S)):
            self._door.send(client, NOBODY, self._about.welcome())

    def _forget_who_left(self) -> None:
        """Those that have closed everything, once nothing of them is left and the answer is sent."""
        for client in self._leaving and self._leaving - self._driver.clients:
            self._leaving.discard(client)
            self._door.forget(client)

    def _next_tick(self, now: float) -> float:
        beat, deadline = now + BEAT_MS / 1000, self._driver.scheduler.next_deadline()
        return beat if deadline is None else min(beat, deadline)

    async def _sleep(self, seconds: float) -> None:
        """Ends early when a request came that has an earlier deadline."""
        self._sooner.clear()
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._sooner.wait()
        except TimeoutError:
            pass
