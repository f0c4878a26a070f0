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
from collections.abc import Callable, Iterator
from typing import NoReturn

from intentd.sources.descriptors import cover, has_name, is_ready, keep_only

CHUNK_BYTES = 64 * 1024
TOGETHER_BYTES = 8 * 1024
QUIET_MS = 50
"""A terminal hands output over a moment after it was written; so long we wait once the command has ended."""
PATIENCE_MS = 250
"""And no longer than this in all, where what the command leaves behind goes on printing."""
_TERMINAL_HOLDS_BYTES = 64 * 1024
"""More than a terminal ever holds of what was written: what comes behind that the command has not printed."""
_SETTLED_MS, _SETTLE_S = 20, 0.5
_LINGER_MS = 250
"""At its end a command closes all that it had. If it lives for so long after its output's end, it has closed that."""


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
        self._watched = not terminal and not has_name(target)
        """Whether the target can say that nobody will ever read it."""
        self._seen = seen
        self._terminal = terminal
        self._write = write or write_all
        self._copied = 0
        self._over = False
        self._open = True
        self._copying = threading.Lock()
        self._stuck = False
        self._thread = threading.Thread(target=self._run, name="pump", daemon=True)

    def start(self) -> None:
        """OSError or RuntimeError where it cannot."""
        self._ended, self._end = os.pipe()
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
        deadline, self._stuck = time.monotonic() + _SETTLE_S, False
        while self._open and self._thread.is_alive() and not self._stuck:
            quiet = not watch.poll(_SETTLED_MS if self._terminal else 0)
            if quiet and self._copying.acquire(timeout=max(0, deadline - time.monotonic())):
                self._copying.release()
                return
            self._stuck = time.monotonic() >= deadline
            time.sleep(0.001)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """After `settle`: nothing is copied meanwhile, but for what a reader who does not read holds up already."""
        held = self._copying.acquire(timeout=0 if self._stuck else _SETTLE_S)
        try:
            yield
        finally:
            if held:
                self._copying.release()

    def _run(self) -> None:
        watch = select.poll()
        watch.register(self.source, select.POLLIN)
        watch.register(self._ended, select.POLLIN)
        if self._watched:
            watch.register(self.target, 0)
        while self._ended not in (ready := dict(watch.poll())):
            with self._copying:
                if self.target in ready or not self._copy():
                    break
        else:
            watch.unregister(self._ended)
            self._copy_rest(watch)
            return
        if not self._terminal:
            self._let_go()

    def _let_go(self) -> None:
        """So that the command, too, sees that nobody reads, and a reader that nothing more comes."""
        self._open = False
        os.close(self.source)
        watch = select.poll()
        watch.register(self._ended, select.POLLIN)
        if not watch.poll(_LINGER_MS):
            with contextlib.suppress(OSError):
                cover(self.target)

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
                return False
        return True

    def _give(self, data: bytes) -> bool:
        try:
            return self._write(self.target, data)
        except OSError:
            return False

    def relay(self) -> NoReturn:
        """In a process of its own: copies on for what outlives the command (its background children).

        It lets go of all that is not this pump's, and of that as soon as they have closed it or nobody reads it.
        """
        try:
            kept = keep_only((self.source, self.target))
            source, target = kept[self.source], kept[self.target]
            watch = select.poll()
            watch.register(source, select.POLLIN)
            if self._watched or self._terminal:
                watch.register(target, 0)
            while target not in dict(watch.poll()) and _relayed(source, target):
                pass
        finally:
            os._exit(0)


def _waiting_bytes(pipe: int) -> int:
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]  # type: ignore[no-any-return]


def _relayed(source: int, target: int) -> bool:
    """False at the end, and where nobody takes it any more: there is nobody left to tell why."""
    data = read(source)
    try:
        return data != b"" and (data is None or write_all(target, data))
    except OSError:
        return False


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
            is_ready(fd, select.POLLOUT)
        except BrokenPipeError:
            return False
    return True
