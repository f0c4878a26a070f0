"""Owns the daemon's parts: builds them all, runs them, and stops them whatever happens. It knows not what they do."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from modeld.about import About
from modeld.backends.base import LoadError
from modeld.config import Settings
from modeld.driver import Driver
from modeld.engine.messages import EngineGone, FromEngine, FromSupervisor, Ready, Refused, Upgraded
from modeld.engine.supervisor import Supervisor
from modeld.housekeeping import IdleTimes
from modeld.looks import Looks
from modeld.models import gguf, openvino_folder
from modeld.recording import Recorder, RecordFault, write_segment
from modeld.schedule import ScheduleLimits
from modeld.schedule.board import Board
from modeld.schedule.journal import Entry
from modeld.server import Server
from modeld.sessions import SessionLimits
from modelwire import descriptors
from modelwire.endpoint import is_tcp, runtime_dir, socket_path
from modelwire.errors import EndpointError
from modelwire.protocol import MODELD
from modelwire.router import Router

log = logging.getLogger(__name__)

FAREWELL_S = 3.0
"""How long the running operation may take to end when the daemon stops."""


class CannotServe(Exception):
    """The daemon cannot serve, or cannot go on. The message is one line that says what to do."""


class App:
    """`await App(settings).run()` serves until SIGTERM or SIGINT; the second signal ends the process at once."""

    def __init__(self, settings: Settings, *, announce: Callable[[str], None] | None = None) -> None:
        self._announce = announce or _say
        self._endpoint = settings.endpoint()
        self._record_path = settings.record_path()
        self._recorder: Recorder | None = None
        clock = time.monotonic
        codec = MODELD.codec(settings.message_bytes)
        self._clock = clock
        self._engine = Supervisor(settings.engine(), self._engine_said, on_fault=self._fail_inside)
        self._router = Router(
            self._endpoint,
            codec,
            MODELD,
            clock=clock,
            on_gone=self._client_gone,
            outbox_bytes=settings.buffer_mb * 2**20,
            max_clients=settings.clients,
        )
        self._limits = ScheduleLimits(queue=settings.queue)
        self._driver = Driver(
            self._engine,
            self._router.send,
            limits=self._limits,
            sessions=SessionLimits(
                per_client=settings.sessions, total=4 * settings.sessions, snapshots=settings.snapshots
            ),
            also=self._record,
            model=settings.model_path(),
            idle=IdleTimes(test_after=settings.exactness_after or None, unload_after=settings.unload_after),
            check_model=Looks(_CHECKS[settings.backend]).look,
        )
        about = About(
            message_bytes=codec.max_bytes,
            sessions=settings.sessions,
            snapshots=settings.snapshots,
            queue=settings.queue,
            started=clock(),
        )
        self._server = Server(
            self._router,
            self._driver,
            about,
            clock=clock,
            engine_pid=lambda: self._engine.pid,
            problem=lambda: self._engine.trouble,
        )
        self._stop = asyncio.Event()
        self._heard = asyncio.Event()
        self._signal: int | None = None
        self._fault: Exception | None = None
        self._announced = False

    async def run(self) -> int:
        """The exit status: 0 after SIGTERM, 130 after SIGINT. Raises `EndpointError` and `CannotServe`."""
        descriptors.raise_limit()
        async with AsyncExitStack() as stack:
            await self._startup(stack)
            await self._main_loop()
        if self._fault:
            raise self._fault
        return 130 if self._signal == signal.SIGINT else 0

    async def _startup(self, stack: AsyncExitStack) -> None:
        """The endpoint first: where somebody serves already, no model is loaded."""
        self._take_signals(stack)
        await self._router.start()
        stack.push_async_callback(self._router.close)
        self._open_record(stack)
        try:
            await self._engine.start()
        except OSError as fault:
            raise CannotServe(f"the engine process cannot be started: {fault.strerror}") from None
        stack.push_async_callback(self._engine.close)
        for work in (self._server.serve, self._server.keep_time):
            stack.push_async_callback(_end, asyncio.create_task(self._guard(work)))
        stack.push_async_callback(self._say_farewell)

    def _open_record(self, stack: AsyncExitStack) -> None:
        if self._record_path is None:
            return
        try:
            self._recorder = Recorder(self._record_path, self._limits)
        except RecordFault as fault:
            raise CannotServe(str(fault)) from None
        stack.push_async_callback(asyncio.to_thread, self._recorder.close)

    async def _main_loop(self) -> None:
        await self._stop.wait()

    async def _say_farewell(self) -> None:
        """Ends every operation, and waits a bounded time for the engine to let go of the running one."""
        self._driver.shutdown(self._clock())
        try:
            async with asyncio.timeout(FAREWELL_S):
                while self._driver.live:
                    self._heard.clear()
                    await self._heard.wait()
        except TimeoutError:
            self._driver.engine_lost(self._clock())

    # --- what reaches it from its parts ---------------------------------------------------------------------

    def _engine_said(self, message: FromEngine | FromSupervisor) -> None:
        self._heard.set()
        try:
            self._pass_on(message)
        except Exception as fault:  # the daemon's own state cannot be trusted any more
            self._fail_inside(fault)

    def _pass_on(self, message: FromEngine | FromSupervisor) -> None:
        match message:
            case EngineGone():
                self._driver.engine_lost(self._clock())
            case Refused():
                if not self._driver.refused(message, self._clock()):
                    self._fail(CannotServe(message.message))
            case Upgraded():  # whatever was loaded: nothing but another front can help
                self._fail(CannotServe("modeld was upgraded while it ran: start it again"))
            case _:
                self._driver.engine_said(message, self._clock())
        if isinstance(message, Ready) and not self._announced:
            self._announced = True
            model = message.model
            self._announce(
                f"modeld: serving {model.name} ({model.quantisation}, {message.profile}) on {self._endpoint}"
            )

    def _client_gone(self, client: str) -> None:
        self._driver.client_gone(client, self._clock())

    def _record(self, entry: Entry, board: Callable[[], Board]) -> None:
        if self._recorder:
            self._recorder.add(entry, board)

    def _fail_inside(self, fault: Exception) -> None:
        """The scheduler's last events are left beside the socket: they tell what led here."""
        log.error("modeld failed", exc_info=fault)
        try:
            path = (runtime_dir() / "modeld") if is_tcp(self._endpoint) else socket_path(self._endpoint)
            path = path.with_suffix(".fault.jsonl")
            write_segment(path, self._driver.journal.last())
            left = f"its last events are in {path} (see 'modeld replay')"
        except (RecordFault, EndpointError, OSError) as second:
            left = f"its last events are lost: {second}"
        self._fail(CannotServe(f"an internal error ended modeld ({type(fault).__name__}); the log has it, {left}"))

    def _fail(self, fault: CannotServe) -> None:
        self._fault = self._fault or fault
        self._stop.set()

    async def _guard(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception as fault:
            self._fail_inside(fault)

    def _take_signals(self, stack: AsyncExitStack) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled, number)
            stack.callback(loop.remove_signal_handler, number)

    def _signalled(self, number: int) -> None:
        if self._signal is not None:
            os._exit(128 + number)  # the engine ends with us, the lock is the kernel's
        self._signal = number
        self._stop.set()
        self._announce("modeld: stopping")  # the endpoint goes last: till then nothing else tells


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # whoever started the daemon may have left
        print(line, file=sys.stderr, flush=True)


def _check_script(path: Path) -> None:
    if not path.is_file():
        raise LoadError(f"no such script: {path}; give the file of a fake model")


_CHECKS = {"llamacpp": gguf.check_all, "openvino": openvino_folder.check, "fake": _check_script}


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
