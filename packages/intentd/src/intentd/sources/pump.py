"""Owns the copying of a command's output from where we read it to where it belongs, byte for byte.

It knows nothing of processes or signals. Each pump has a thread of its own, so that a reader who is slow blocks
the command's output, as without us, and nothing else.
"""

import contextlib
import errno
import fcntl
import os
import select
import struct
import termios
import threading
import time
from collections.abc import Callable, Sequence

CHUNK_BYTES = 64 * 1024
TOGETHER_BYTES = 8 * 1024
QUIET_MS = 50
"""A terminal hands output over a moment after it was written; so long we wait once the command has ended."""
PATIENCE_MS = 250
"""And no longer than this in all, where what the command leaves behind goes on printing."""
_TERMINAL_HOLDS_BYTES = 64 * 1024
"""More than a terminal ever holds of what was written: what comes behind that the command has not printed."""
_SETTLED_MS, _SETTLE_S = 20, 0.5


class Pump:
    """Copies `source` to `target` until its end, or until the command has ended and all that it printed is copied."""

    def __init__(
        self,
        source: int,
        target: int,
        seen: Callable[[bytes], None],
        *,
        terminal: bool,
        write: Callable[[int, bytes], bool] | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self.left_open = False
        self.fault: OSError | None = None
        """Why output was lost, where it was; a reader who has left is no fault."""
        self._seen = seen
        self._terminal = terminal
        self._write = write or write_all
        self._copied = 0
        self._over = False
        self._ended, self._end = os.pipe()
        self._copying = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="pump", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """The command has ended: copies what is left. A reader who does not read can hold this up, as without us."""
        self._over = True
        os.close(self._end)
        self._thread.join()
        os.close(self._ended)

    def settle(self) -> None:
        """While the command is stopped: waits until all that it wrote is shown, or nobody takes it for a while."""
        watch = select.poll()
        watch.register(self.source, select.POLLIN)
        deadline = time.monotonic() + _SETTLE_S
        while self._thread.is_alive() and time.monotonic() < deadline:
            if not watch.poll(_SETTLED_MS if self._terminal else 0):
                if self._copying.acquire(timeout=_SETTLE_S):
                    self._copying.release()
                return
            time.sleep(0.001)

    def _run(self) -> None:
        watch = select.poll()
        watch.register(self.source, select.POLLIN)
        watch.register(self._ended, select.POLLIN)
        while self._ended not in dict(watch.poll()):
            with self._copying:
                if not self._copy():
                    return
        watch.unregister(self._ended)
        self._copy_rest(watch)

    def _copy_rest(self, watch: select.poll) -> None:
        """What the command printed before it ended. Its children may hold the source open, and print on for ever."""
        last = self._copied + (_TERMINAL_HOLDS_BYTES if self._terminal else _waiting_bytes(self.source))
        quiet_ms, patience_ms = QUIET_MS if self._terminal else 0, float(PATIENCE_MS)
        while True:
            before = time.monotonic()
            events = dict(watch.poll(quiet_ms)).get(self.source, 0)
            patience_ms -= (time.monotonic() - before) * 1000
            at_end = events & select.POLLHUP  # nobody can print any more
            if not at_end and (not events or self._copied >= last or patience_ms < 0):
                self.left_open = True
                return
            if not self._copy():
                return

    def _copy(self) -> bool:
        """Copies what is there, of a pipe a chunk; false at the end of the source, or where the target is gone."""
        more = True
        while more:
            data, more = read_much(self.source) if self._terminal else (read(self.source), False)
            more = more and not self._over
            if data and (self._give(data) or self._terminal):  # a terminal that is gone comes as a signal
                self._seen(data)
                self._copied += len(data)
            elif data is not None:
                if not self._terminal:
                    os.close(self.source)  # so that the command, too, sees that nobody reads
                return False
        return True

    def _give(self, data: bytes) -> bool:
        try:
            return self._write(self.target, data)
        except OSError as fault:
            self.fault = None if self._terminal else fault
            return False


def _waiting_bytes(pipe: int) -> int:
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]  # type: ignore[no-any-return]


def relay(pumps: Sequence[Pump]) -> None:
    """Copies on for what outlives the command (its background children) until they have closed their ends."""
    sources = {pump.source: pump.target for pump in pumps}
    watch = select.poll()
    for source in sources:
        watch.register(source, select.POLLIN)
    while sources:
        for source, _ in watch.poll():
            data = read(source)
            if data == b"" or (data and not _relayed(sources[source], data)):
                watch.unregister(source)
                os.close(source)
                del sources[source]


def _relayed(target: int, data: bytes) -> bool:
    try:
        return write_all(target, data)
    except OSError as fault:
        complain(fault)
        return False


def complain(fault: OSError) -> None:
    """Says on standard error that output was lost; where that is full too, nobody can be told."""
    with contextlib.suppress(OSError):
        os.write(2, f"intentd: cannot write the output: {fault.strerror}\n".encode())


def read(fd: int) -> bytes | None:
    """A chunk, b"" at the end, None where there is nothing now."""
    try:
        return os.read(fd, CHUNK_BYTES)
    except BlockingIOError:
        return None
    except OSError as fault:
        if fault.errno == errno.EIO:  # how a terminal says that its other side is closed
            return b""
        raise


def read_much(fd: int) -> tuple[bytes | None, bool]:
    """As `read`, of a terminal that does not block, and whether there is likely more.

    It hands over a few KiB at a time, however much there is. A few such pieces are written at once. To wait for more
    leaves the outer terminal idle: 100 MB took 1.4 times as long.
    """
    data = read(fd)
    if not data:
        return data, False
    parts, room = [data], TOGETHER_BYTES - len(data)
    while room > 0:
        data = read(fd)
        if not data:
            return b"".join(parts), False
        parts.append(data)
        room -= len(data)
    return b"".join(parts), True


def write_all(fd: int, data: bytes) -> bool:
    """Writes all of it, also where the descriptor does not block; false where its reader has left.

    Any other fault (a full disk, a file at its size limit) is raised: the bytes are lost.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            select.select([], [fd], [])
        except BrokenPipeError:
            return False
    return True
