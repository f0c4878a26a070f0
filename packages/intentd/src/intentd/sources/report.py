"""Owns telling the daemon of a wrapped command, from a process of its own: the command and its exit never wait for it.

All that takes time happens in that process: reading the settings, looking for the daemon, talking to it. It ends with
the command, or a bounded moment after it; at once where there is no daemon.
"""

import contextlib
import os
import select
import signal
import socket
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from intentd.sources.descriptors import is_ready, keep_only
from intentd.sources.tail import Tail
from intentd.sources.watching import QUIET_S, Cycles, goes_on

if TYPE_CHECKING:
    from intentd.messages import CommandFinished, CommandQuiet, CommandStarted
    from modelwire.client import Connection

DELIVERY_MS = 100
"""So long a finished command may wait for its report to arrive; after that the report goes on alone. It does not wait
where no daemon has been found yet."""
LETTING_GO_MS = 1000
"""And no longer than this for the reporter to close what was the command's, which it does before all else."""
UNKNOWN_STATUS = -1
"""For `finished`, where nobody knows how the command ended."""
NICER = 5
"""So much the command goes before its report: both want a processor at its start."""
_ALONE_S = 3.0
_CONNECT_S = 2.0
_END = struct.Struct("!iQ")
_LET_GO, _FOUND = b"-", b"!"
"""The reporter's words, in this order."""


class DoorReporter:
    """Reports to the intentd at `endpoint` (None: the configured one), if there is one."""

    def __init__(self, endpoint: str | None) -> None:
        self._endpoint = endpoint
        self._channel: socket.socket | None = None

    def started(self, argv: Sequence[str], tail: Tail) -> None:
        with contextlib.suppress(OSError):
            ours, theirs = socket.socketpair()
            self._pid = os.fork()
            if self._pid == 0:
                _become_reporter(self._endpoint, tuple(argv), tail, theirs)
            theirs.close()
            ours.setblocking(False)
            self._channel = ours

    def finished(self, status: int, total: int) -> None:
        if self._channel is None:
            return
        with contextlib.suppress(OSError):
            self._channel.send(_END.pack(status, total))
            if _hear(self._channel, LETTING_GO_MS) and _hear(self._channel, 0):
                _hear(self._channel, DELIVERY_MS)

    def dropped(self) -> None:
        """The command does without: it would find the reporter among its children."""
        if self._channel is None:
            return
        with contextlib.suppress(OSError):
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)


def _hear(channel: socket.socket, timeout_ms: int) -> bytes:
    """The reporter's next word, empty at its end. OSError where there is none in time."""
    is_ready(channel.fileno(), select.POLLIN, timeout_ms)
    return channel.recv(1)


def _become_reporter(flag: str | None, argv: tuple[str, ...], tail: Tail, channel: socket.socket) -> NoReturn:
    """Lets go of everything that is the command's, then reports. Nothing that happens here can show."""
    try:
        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        keep_only([channel.fileno()])
        with contextlib.suppress(OSError):  # a short command may have ended by now
            channel.send(_LET_GO)
        os.nice(NICER)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

        from intentd.where import find_socket
        from modelwire.endpoint import check_endpoint

        endpoint = find_socket(flag)
        if check_endpoint(endpoint).is_socket():
            with contextlib.suppress(OSError):
                channel.send(_FOUND)
            import asyncio

            asyncio.run(_report(endpoint, argv, tail, channel))
    finally:
        os._exit(0)


async def _report(endpoint: str, argv: tuple[str, ...], tail: Tail, channel: socket.socket) -> None:
    import asyncio
    import uuid

    from intentd.messages import INTENTD, CommandFinished, CommandStarted
    from intentd.where import current_directory
    from modelwire.client import Connection

    channel.setblocking(False)
    words = tuple(os.fsencode(word).decode(errors="replace") for word in argv)
    async with Connection(endpoint, INTENTD, name="run", timeout=_CONNECT_S) as door:
        command = CommandStarted(run=uuid.uuid4().hex, argv=words, cwd=current_directory())
        story = _Story(door, command, tail)
        door.start(command)
        data = await story.end(channel, QUIET_S if goes_on(words) else None)
        if len(data) < _END.size:
            return  # the wrapper was killed; the daemon sees that we leave
        status, total = _END.unpack(data)
        code = os.waitstatus_to_exitcode(status) if status != UNKNOWN_STATUS else None
        output, fresh = story.since(total)
        finished = CommandFinished(
            run=command.run,
            exit=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            output=output,
            total=fresh,
        )
        async with asyncio.timeout(_ALONE_S):
            await story.tell(finished)
        channel.close()


class _Story:
    """What was told of one command so far."""

    def __init__(self, door: "Connection", command: "CommandStarted", tail: Tail) -> None:
        self._door = door
        self._command = command
        self._tail = tail
        self._told = 0

    def since(self, total: int) -> tuple[bytes, int]:
        """What was printed since it was told last, as far as it was kept, and how much that was."""
        fresh, self._told = total - self._told, total
        return self._tail.read(total)[-fresh:] if fresh else b"", fresh

    async def end(self, channel: socket.socket, every_s: float | None) -> bytes:
        """Waits for the word that the command has ended; tells the end of every cycle until then."""
        import asyncio

        loop, cycles = asyncio.get_running_loop(), Cycles()
        ending = loop.create_task(loop.sock_recv(channel, _END.size))  # one that is cancelled may have read the word
        while not (await asyncio.wait([ending], timeout=every_s))[0]:
            quiet = cycles.look(self._tail.total)
            if quiet is not None:
                await self._tell_quiet(quiet, cycles.told)
        return ending.result()

    async def _tell_quiet(self, quiet: bool, total: int) -> None:
        from intentd.messages import CommandQuiet
        from modelwire.errors import DaemonUnreachable, WireError

        output, fresh = self.since(total) if quiet else (b"", 0)
        with contextlib.suppress(DaemonUnreachable, WireError):  # a daemon that is busy or away misses a cycle
            await self.tell(CommandQuiet(run=self._command.run, quiet=quiet, output=output, total=fresh))

    async def tell(self, message: "CommandQuiet | CommandFinished") -> None:
        """A daemon that does not know the command has been started since: it hears of it first."""
        from modelwire.errors import ErrorCode, WireError

        try:
            if (await self._door.ask(message)).found:
                return
        except WireError as fault:
            if fault.code not in (ErrorCode.BAD_REQUEST, ErrorCode.DAEMON_LOST):
                raise
        await anext(self._door.start(self._command))
        await self._door.ask(message)
