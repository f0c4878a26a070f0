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
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from intentd.sources.tail import Tail

DELIVERY_MS = 100
"""So long a finished command may wait for its report to arrive; after that the report goes on alone."""
UNKNOWN_STATUS = -1
"""For `finished`, where nobody knows how the command ended."""
_ALONE_S = 3.0
_CONNECT_S = 2.0
_MOST_FDS = 1 << 20
_END = struct.Struct("!iQ")


class DoorReporter:
    """Reports to the intentd at `endpoint` (None: the configured one), if there is one."""

    def __init__(self, endpoint: str | None) -> None:
        self._endpoint = endpoint
        self._channel: socket.socket | None = None

    def started(self, argv: Sequence[str], tail: Tail) -> None:
        with contextlib.suppress(OSError):
            ours, theirs = socket.socketpair()
            if os.fork() == 0:
                _become_reporter(self._endpoint, tuple(argv), tail, theirs)
            theirs.close()
            ours.setblocking(False)
            self._channel = ours

    def finished(self, status: int, total: int) -> None:
        if self._channel is None:
            return
        with contextlib.suppress(OSError):
            self._channel.send(_END.pack(status, total))
            select.select([self._channel], [], [], DELIVERY_MS / 1000)  # readable at its end: delivered or given up


def _become_reporter(flag: str | None, argv: tuple[str, ...], tail: Tail, channel: socket.socket) -> NoReturn:
    """Lets go of everything that is the command's, then reports. Nothing that happens here can show."""
    try:
        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.closerange(3, channel.fileno())
        os.closerange(channel.fileno() + 1, min(os.sysconf("SC_OPEN_MAX"), _MOST_FDS))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

        import asyncio

        from intentd.config import load
        from modelwire.endpoint import check_endpoint

        endpoint = load({"socket": flag}).socket
        if check_endpoint(endpoint).is_socket():
            asyncio.run(_report(endpoint, argv, tail, channel))
    finally:
        os._exit(0)


async def _report(endpoint: str, argv: tuple[str, ...], tail: Tail, channel: socket.socket) -> None:
    import asyncio

    from intentd.messages import INTENTD, CommandFinished, CommandStarted
    from modelwire.client import Connection

    channel.setblocking(False)
    run = uuid.uuid4().hex
    words = tuple(os.fsencode(word).decode(errors="replace") for word in argv)
    async with Connection(endpoint, INTENTD, name="run", timeout=_CONNECT_S) as door:
        door.start(CommandStarted(run=run, argv=words, cwd=bytes(Path.cwd()).decode(errors="replace")))
        data = await asyncio.get_running_loop().sock_recv(channel, _END.size)
        if len(data) < _END.size:
            return  # the wrapper was killed; the daemon sees that we leave
        status, total = _END.unpack(data)
        code = os.waitstatus_to_exitcode(status) if status != UNKNOWN_STATUS else None
        finished = CommandFinished(
            run=run,
            exit=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            output=tail.read(total),
            total=total,
        )
        async with asyncio.timeout(_ALONE_S):
            await door.ask(finished)
        channel.close()
