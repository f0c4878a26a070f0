"""Owns the modeld that intentd starts because an editor wants one and none is there; it ends with intentd."""

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from functools import partial

from modelwire.endpoint import is_tcp
from modelwire.errors import DaemonUnreachable, EndpointError
from modelwire.link import probe

log = logging.getLogger(__name__)

CHECK_S = 1.0
FIRST_RETRY_S, LAST_RETRY_S = 2.0, 60.0
STOP_S = 10.0
MAX_LINE = 300
_prctl = ctypes.CDLL(None).prctl  # found here: between fork and exec nothing may be looked for
_PR_SET_PDEATHSIG = 1


class ModeldKeeper:
    """`problem` says why there is none, where it was wanted and could not be started."""

    def __init__(self, endpoint: str, argv: tuple[str, ...] | None = None) -> None:
        self.problem = ""
        self._endpoint = endpoint
        self._argv = argv or (sys.executable, "-m", "modeld", "serve", "--socket", endpoint)
        self._wanted = asyncio.Event()

    def want(self) -> None:
        """One that is reached over TCP is not ours to start."""
        if not is_tcp(self._endpoint):
            self._wanted.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        await self._wanted.wait()
        delay = FIRST_RETRY_S
        while True:
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
        """Starts one and waits for its end; whether it had served."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=DEVNULL,
                stdout=DEVNULL,
                stderr=PIPE,
                start_new_session=True,
                preexec_fn=partial(_end_with, os.getpid()),
            )
        except OSError as fault:
            self.problem = f"modeld could not be started: {fault.strerror}"
            return False
        log.info("started modeld, pid %d", process.pid)
        try:
            served, last = await self._watch(process)
            await process.wait()
        finally:
            await _end(process)
        self.problem = f"modeld ended with status {process.returncode}: {last}"
        log.warning("%s", self.problem)
        return served

    async def _watch(self, process: Process) -> tuple[bool, str]:
        """(whether it said that it serves, its last line)."""
        assert process.stderr is not None
        served, last = False, ""
        while not process.stderr.at_eof():
            with contextlib.suppress(ValueError):  # a line that is far too long is dropped as it comes
                line = await process.stderr.readline()
                last = line.decode(errors="replace").strip()[:MAX_LINE] or last
                served = served or "serving" in last
                self.problem = "" if served else self.problem
        return served, last


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
