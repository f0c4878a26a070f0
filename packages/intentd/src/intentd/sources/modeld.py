"""Owns the modeld that intentd starts because an editor wants one and none is there; it ends with intentd."""

import asyncio
import contextlib
import ctypes
import logging
import math
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from functools import partial
from io import FileIO

from modelwire.endpoint import is_tcp
from modelwire.errors import DaemonUnreachable, EndpointError, why
from modelwire.link import probe

log = logging.getLogger(__name__)

CHECK_S = 1.0
FIRST_RETRY_S, LAST_RETRY_S = 2.0, 60.0
LASTS_S = 60.0
"""One that has served for so long is followed by another at once when it dies."""
STOP_S = 10.0
LAST_WORD_S = 1.0
"""So long one that has ended may have its last line read: its engine, which may hang, has the same pipe."""
MAX_LINE = 300
_BY_HAND = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""What ends one that somebody wants ended; modeld itself makes of them a status."""
_ENDED_BY_HAND = frozenset({0, *(status for number in _BY_HAND for status in (-number, 128 + number))})
STOPPED = "modeld was stopped: it is started again for the next editor, or by 'modeld serve'"
_STOPS = "modeld: stopping"
"""Its line as soon as somebody stops it; it may be there for seconds after that."""
_prctl = ctypes.CDLL(None).prctl  # found here: between fork and exec nothing may be looked for
_PR_SET_PDEATHSIG = 1


class ModeldKeeper:
    """`problem` says why there is none, where it was wanted and could not be started."""

    def __init__(self, endpoint: str, argv: tuple[str, ...] | None = None) -> None:
        self.problem = ""
        self._endpoint = endpoint
        self._argv = argv or (sys.executable, "-P", "-m", "modeld", "serve", "--socket", endpoint)
        self._wanted = asyncio.Event()
        self._serving_since, self._stops, self._last = math.inf, False, ""

    def want(self, wanted: bool) -> None:
        """Whether an editor is there that wants one. What runs is left alone; what is reached over TCP is not ours."""
        if not wanted:
            self._wanted.clear()
        elif not is_tcp(self._endpoint):
            self._wanted.set()

    async def run(self) -> None:
        """Until it is cancelled. One that somebody has stopped is not started again before an editor comes anew."""
        delay = FIRST_RETRY_S
        while True:
            await self._wanted.wait()
            if self._is_there():
                self.problem, delay = "", FIRST_RETRY_S
                await asyncio.sleep(CHECK_S)
            elif await self._serve():
                delay = FIRST_RETRY_S
            else:
                await asyncio.sleep(delay)
                delay = min(delay * 2, LAST_RETRY_S)

    def _is_there(self) -> bool:
        try:
            probe(self._endpoint, "modeld")
        except (DaemonUnreachable, EndpointError):
            return False
        return True

    async def _serve(self) -> bool:
        """Starts one and waits for its end; whether the next one need not wait."""
        async with contextlib.AsyncExitStack() as pipe:
            try:
                lines, theirs = await pipe.enter_async_context(_pipe())
                process = await self._start(theirs)
            except (OSError, RuntimeError) as fault:  # no program, descriptor, process or thread
                self.problem = f"modeld could not be started: {why(fault)}"
                return False
            return await self._serve_by(process, lines)

    async def _start(self, theirs: FileIO) -> Process:
        with theirs:
            return await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=theirs,
                start_new_session=True,
                preexec_fn=partial(_end_with, os.getpid()),
            )

    async def _serve_by(self, process: Process, lines: asyncio.StreamReader) -> bool:
        log.info("started modeld, pid %d", process.pid)
        self._serving_since, self._stops, self._last = math.inf, False, ""
        reading = asyncio.create_task(self._read(lines))
        try:
            await process.wait()
            await asyncio.wait([reading], timeout=LAST_WORD_S)
        finally:
            reading.cancel()
            await _end(process)
        status = process.returncode or 0
        self._tell_end(status)
        return status in _ENDED_BY_HAND or time.monotonic() - self._serving_since >= LASTS_S

    def _tell_end(self, status: int) -> None:
        if status in _ENDED_BY_HAND:
            if not self._stops:
                self._wanted.clear()
            self.problem = "" if self._wanted.is_set() else STOPPED
            log.info("%s", STOPPED)
            return
        ended = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        self.problem = f"modeld {ended}{self._last and ': '}{self._last}"
        log.warning("%s", self.problem)

    async def _read(self, lines: asyncio.StreamReader) -> None:
        """Whether it says that it serves or stops, and its last line behind that. Who comes while it stops is new."""
        while not lines.at_eof():
            with contextlib.suppress(ValueError):  # a line that is far too long is dropped as it comes
                line = await lines.readline()
                said = line.decode(errors="replace").strip()[:MAX_LINE]
                if self._serving_since == math.inf and "serving" in said:
                    self._serving_since, self._last, self.problem = time.monotonic(), "", ""
                elif said == _STOPS:
                    self._stops = True
                    self._wanted.clear()
                else:
                    self._last = said or self._last


@contextlib.asynccontextmanager
async def _pipe() -> AsyncIterator[tuple[asyncio.StreamReader, FileIO]]:
    """(what is read, what is written to). Asyncio's own pipe to a process keeps its end unseen while others have that.

    Raises `OSError`.
    """
    reading, writing = os.pipe()
    ours, theirs = FileIO(reading, "r"), FileIO(writing, "w")
    lines = asyncio.StreamReader()
    with theirs:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), ours)
        try:
            yield lines, theirs
        finally:
            transport.close()


def _end_with(parent: int) -> None:
    """In the process that becomes modeld: the kernel ends it when `parent` dies, however that comes."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)


async def _end(process: Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
