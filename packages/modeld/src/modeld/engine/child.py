"""Owns one engine process from birth to burial, with its socket and its pipe. Why it runs is not its business."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from modeld.engine.config import EngineConfig
from modeld.engine.edition import EDITION, OUTDATED
from modeld.engine.frames import FrameReader, framed
from modelwire import own_path

_POLL_S = 0.005
_BURIAL_S = 5.0
_SPINS = "1000"
"""How long a thread of libgomp spins at a barrier before it sleeps. By default it spins for milliseconds, 1,000 times
a token: beside a test run on the same cores a decode step took 0.5 s, and with this 0.04 s."""


UPGRADED = "is of another version"
"""How an engine ended that was started from what was installed meanwhile."""


class Child:
    """A running engine process. The child exits by itself when `life`, the write end of a pipe, is closed."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: FrameReader,
        transport: asyncio.Transport,
        life: int,
    ) -> None:
        self._process = process
        self.reader = reader
        self._transport = transport
        self._life = life

    @classmethod
    async def start(cls, config: EngineConfig, epoch: int, flag: int) -> "Child":
        """Raises OSError where the machine has no room for a process."""
        with ExitStack() as on_failure:
            ours, theirs = socket.socketpair()
            on_failure.callback(ours.close)
            read_end, life = os.pipe()
            on_failure.callback(os.close, life)
            try:
                process = _spawn(config, epoch, theirs.fileno(), flag, read_end)
            finally:
                theirs.close()
                os.close(read_end)
            on_failure.callback(process.wait)
            on_failure.callback(process.kill)
            transport, reader = await asyncio.get_running_loop().create_connection(FrameReader, sock=ours)
            on_failure.pop_all()
        return cls(process, reader, transport, life)

    @property
    def pid(self) -> int:
        return self._process.pid

    def write(self, data: bytes) -> None:
        self._transport.write(framed(data))

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()

    async def bury(self, grace: float) -> str:
        """Waits `grace` seconds for the end, then kills, and closes everything. Says how the process ended."""
        self._transport.abort()
        try:
            await self.reader.closed.wait()
            if not await self._ended(grace):
                self.kill()
                await self._ended(_BURIAL_S)
        finally:
            self.kill()
            os.close(self._life)
        return _epitaph(self._process.returncode)

    async def _ended(self, seconds: float) -> bool:
        """The socket has told of the end already or will; what is left is the moment until it can be reaped."""
        until = asyncio.get_running_loop().time() + seconds
        while self._process.poll() is None:
            if asyncio.get_running_loop().time() >= until:
                return False
            await asyncio.sleep(_POLL_S)
        return True


def _spawn(config: EngineConfig, epoch: int, connection: int, flag: int, life: int) -> subprocess.Popen[bytes]:
    # -P: no module of the folder that the daemon was started in goes before ours. Its own process group: a Ctrl-C in
    # the terminal is the front's to handle. No backtrace: ggml would start a debugger, and show it what is in memory.
    with _unstoppable_by_terminal():
        return subprocess.Popen(
            [
                *(sys.executable, "-P", "-X", "faulthandler", "-m", "modeld.engine.worker"),
                *(config.to_json(), str(epoch), str(connection), str(flag), str(life), EDITION),
            ],
            stdin=subprocess.DEVNULL,
            pass_fds=(connection, flag, life),
            process_group=0,
            env={"GOMP_SPINCOUNT": _SPINS, **os.environ, **own_path.inherited(), "GGML_NO_BACKTRACE": "1"},
        )


@contextmanager
def _unstoppable_by_terminal() -> Iterator[None]:
    """A process that is started here may always print. With `stty tostop` its group would be stopped at the first line,
    also at a crash's last words. A child inherits the mask from its first instruction on, and its own children do.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _epitaph(code: int | None) -> str:
    if code is None:
        return "does not end"
    if code == OUTDATED:
        return UPGRADED
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"exited with status {code}"
