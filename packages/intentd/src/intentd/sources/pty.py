"""Owns the two terminals of a wrapped command: the person's (outer) and the one that the command gets (inner).

It moves settings, sizes and keys between them. It knows nothing of processes or of what the command prints.
"""

import contextlib
import fcntl
import os
import select
import signal
import termios
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from intentd.sources.claim import Claim
from intentd.sources.descriptors import access, is_ready
from intentd.sources.pump import TOGETHER_BYTES, write_all
from intentd.sources.typed_ahead import KEYS_LIMIT, give_quietly, put_back, take_unread

_IFLAG, _OFLAG, _CFLAG, _LFLAG, _CC = 0, 1, 2, 3, 6
_COMMON_LINES = termios.OPOST | termios.ONLCR
_LINES_MASK = (
    _COMMON_LINES | termios.OCRNL | termios.ONOCR | termios.ONLRET | termios.OLCUC | termios.OFILL | termios.TABDLY
)
_LULL_MS = 10
"""To change a terminal takes it half a millisecond: not in each gap of much output."""
_QUOTES = termios.ICANON | termios.IEXTEN
_TIOCSIG = 0x40045436  # which the interpreter does not name; on a few processors it is another number, and refused


def outer_terminal(terminals: Sequence[int]) -> int | None:
    """The person's terminal for reading and writing: the standard one, else the controlling one, if there is any."""
    for fd in terminals:
        if access(fd) == os.O_RDWR:
            return fd
    try:
        return os.open(f"/proc/self/fd/{terminals[0]}" if terminals else "/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        if terminals:
            raise
        return None


def _opened_anew(terminal: int) -> int | None:
    """One that does not block, whoever else has `terminal`. None where it may not be opened (after `su`)."""
    with contextlib.suppress(OSError):
        return os.open(f"/proc/self/fd/{terminal}", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    return None


class TerminalPair:
    """The outer terminal and a new inner one with the same settings and size.

    In the *foreground* the outer one is raw, keys go to the inner one, and the inner one does all processing; but the
    outer one processes what others print, but for the moments in which raw output passes. In the *background* (a job
    with `&`) the outer one stays as it is and does all of it. Where the foreground is *shared* (a pipeline), the keys
    are left to others until the command asks. Of several wrappers in one foreground the first claims it; another
    has it beside that one, once its command asks.
    """

    def __init__(self, outer: int, *, shared: bool) -> None:
        self.outer = outer
        self._shared = shared
        self._outer_lock = threading.RLock()  # a signal's handler may restore what is just being set
        self._lifts = False
        self._lifted = 0
        self._anew = _opened_anew(outer)
        self._claim = Claim(self._anew)
        self._before = termios.tcgetattr(outer)
        self.master, self.slave = os.openpty()
        self._inner = os.ttyname(self.slave)
        os.set_blocking(self.master, False)
        self.copy_size()
        self._copy_settings()
        self._claim.give_up()
        self._settled = False
        self._keys = b""
        self._quoted = False
        self._made_raw = False
        self.raw = False
        self.hung_up = False

    def _copy_settings(self) -> None:
        termios.tcsetattr(self.master, termios.TCSANOW, self._outer_settings())
        self._oflag_hidden = 0
        self._given = termios.tcgetattr(self.master)

    def copy_size(self) -> None:
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(self.outer, termios.TIOCGWINSZ, b"\0" * 8)
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def is_foreground(self) -> bool:
        """Whether the person's keys may be ours. Those of a terminal that does not control us may, once asked for."""
        return self._group_in_front() in (os.getpgrp(), None)

    def _group_in_front(self) -> int | None:
        """None where the terminal controls nobody, or another session."""
        try:
            return os.tcgetpgrp(self.outer)
        except OSError:
            return None

    def claim(self) -> bool:
        """Enters the foreground before the command asks for it, where nobody else can want the keys."""
        if self._shared or self._group_in_front() != os.getpgrp() or not self._claim.take():
            return False
        self.enter_foreground()
        return True

    def _outer_settings(self) -> list[Any]:
        """Those that the person gave it; but what another wrapper has changed nobody knows."""
        settings = termios.tcgetattr(self.outer)
        return settings if settings[_LFLAG] & termios.ICANON or self._claim.take() else _sane(settings)

    def has_groups(self, *, inner: int, outer: int) -> bool:
        """Whether these process groups are the ones that either terminal's keys signal."""
        try:
            return os.tcgetpgrp(self.master) == inner and os.tcgetpgrp(self.outer) == outer
        except OSError:
            return False

    def send(self, number: int) -> None:
        """To those that the inner terminal's keys signal, as such a key does it. OSError where no key does."""
        fcntl.ioctl(self.master, _TIOCSIG, number)

    def enter_foreground(self) -> None:
        """Also of a terminal that is gone: then `take_keys` says so."""
        first, self._settled = not self._settled, True
        if first:  # until now the terminal may have been as its shell's line editor needs it
            with contextlib.suppress(termios.error):
                self._copy_settings()
        self._process_inside(True)
        self._lifts = True
        with self._outer_lock:
            self._claim.take()
            if not self.raw:
                with contextlib.suppress(termios.error):
                    self._made_raw = bool(termios.tcgetattr(self.outer)[_LFLAG] & termios.ICANON)
                    self._before = self._outer_settings()
                self._before[_OFLAG] |= self._lifted
            self._set_outer(_raw(self._before, lifted=self._lifted))
            self.raw = True
        if first:
            self._pass_typed_ahead()

    def _pass_typed_ahead(self) -> None:
        """Hands over what was typed before the keys were the command's: the outer terminal has shown it already."""
        if not is_ready(self.outer, select.POLLIN, 0):
            return
        self.take_keys()
        give_quietly(self._inner, self.give_keys)

    def _put_back(self) -> None:
        """What the command has not read is the next one's, as without us."""
        if self._group_in_front() == os.getpgrp():
            put_back(self.outer, take_unread(self._inner) + self._keys)

    def enter_background(self) -> None:
        """Leaves the keys to others: to the rest of the pipeline, or to the shell where this job has the `&`."""
        self.restore()
        self._lifts = self.is_foreground()
        self._process_inside(self._lifts)

    def write(self, fd: int, data: bytes) -> bool:
        """Writes so that the outer terminal shows `data`, which the inner one has processed already; as `write_all`.

        Common lines are made as they were, for the outer one to process. It is changed only for what cannot come
        out of that, as a raw \\n, and for as long as there is much: to process 100 MB twice takes a quarter longer.
        What others print at that moment is not processed either.
        """
        if not self._lifts:
            return write_all(fd, data)
        try:
            return write_all(fd, self._prepare(data))
        finally:
            if self._lifted and not is_ready(self.master, select.POLLIN, _LULL_MS):
                self._lower()

    def _prepare(self, data: bytes) -> bytes:
        with self._outer_lock, contextlib.suppress(termios.error):
            if self._lifted:
                return data
            settings = termios.tcgetattr(self.outer)
            if not settings[_OFLAG] & termios.OPOST:
                return data
            if len(data) < TOGETHER_BYTES and settings[_OFLAG] & _LINES_MASK == _COMMON_LINES:
                lines = data.replace(b"\r\n", b"\n")
                if len(data) - len(lines) == lines.count(b"\n"):
                    return lines
            self._lifted = termios.OPOST
            settings[_OFLAG] &= ~termios.OPOST
            self._set_outer(settings)
        return data

    def _lower(self) -> None:
        if not self._lifted:
            return
        with self._outer_lock, contextlib.suppress(termios.error):
            if self._lifted:
                settings = termios.tcgetattr(self.outer)
                settings[_OFLAG] |= self._lifted
                self._set_outer(settings)
                self._lifted = 0

    def restore(self) -> None:
        """Puts the outer terminal back as it was, also where output is stuck in it, unless it is another job's now."""
        self._lower()
        self.succeed()
        if self.raw:
            if (self._claim.alone or self._made_raw) and self.is_foreground():  # else another one will do so
                with self._outer_lock:
                    self._set_outer(self._before)
            self.raw = False
        self._claim.give_up()

    def leave(self) -> None:
        """At the command's end: settings that it has changed for good (`stty`) come out, as without us."""
        self.succeed()
        if self.raw:
            with contextlib.suppress(termios.error):
                left = termios.tcgetattr(self.master)
                left[_OFLAG] |= self._oflag_hidden
                if left != self._given:
                    self._before = left
            self._put_back()
        self._lifts = False
        self.restore()
        self._process_inside(False)  # what the command leaves behind may print on

    @property
    def is_beside(self) -> bool:
        """Whether another wrapper has claimed the foreground that we are in."""
        return self.raw and not self._claim.alone

    def succeed(self) -> None:
        """That one may have ended. Whoever is not killed has put the terminal back as it was."""
        if self.is_beside and self._claim.take():
            with contextlib.suppress(termios.error):
                self.raw = not termios.tcgetattr(self.outer)[_LFLAG] & termios.ICANON
            self.enter_foreground()

    def wants(self) -> tuple[bool, bool]:
        """Whether to wait for (keys of the outer terminal, room in the inner one)."""
        return self.raw and not self._keys and not self.hung_up, bool(self._keys)

    def take_keys(self) -> None:
        """Does not wait for them, where others that read the terminal too have had them first.

        Where it could not be opened anew, that is as far as one knows right before reading.
        """
        if self._anew is None and not is_ready(self.outer, select.POLLIN, 0):
            return
        try:
            self._keys = os.read(self.outer if self._anew is None else self._anew, KEYS_LIMIT)
        except BlockingIOError:
            return
        except OSError:
            pass
        self.hung_up = not self._keys

    def give_keys(self) -> list[int]:
        """Hands them over; the signals that the inner terminal makes of them, in order."""
        signals, quote = self._signals()
        try:
            count = os.write(self.master, self._keys)
        except BlockingIOError:
            return []
        except OSError:  # the command is gone
            self._keys = b""
            return []
        given, self._keys = self._keys[:count], self._keys[count:]
        made = []
        for key in given:
            if key in signals and not self._quoted:
                made.append(signals[key])
            self._quoted = key == quote and not self._quoted
        return made

    def _signals(self) -> tuple[dict[int, int], int | None]:
        """The keys that signal now (Ctrl-Z does it by the command, which stops), and the one that quotes the next."""
        try:
            settings = termios.tcgetattr(self.master)
        except termios.error:
            return {}, None
        if not settings[_LFLAG] & termios.ISIG:
            return {}, None
        places = {termios.VINTR: signal.SIGINT, termios.VQUIT: signal.SIGQUIT}
        keys: dict[int, int] = {ord(settings[_CC][place]): number for place, number in places.items()}
        keys.pop(0, None)
        quotes = settings[_LFLAG] & _QUOTES == _QUOTES
        return keys, ord(settings[_CC][termios.VLNEXT]) if quotes else None

    def _process_inside(self, inside: bool) -> None:
        """Only one of the two may turn \\n into \\r\\n: in the background the outer one does."""
        with contextlib.suppress(termios.error):
            settings: list[Any] = termios.tcgetattr(self.master)
            if inside:
                settings[_OFLAG] |= self._oflag_hidden
                self._oflag_hidden = 0
            else:
                self._oflag_hidden |= settings[_OFLAG] & termios.OPOST
                settings[_OFLAG] &= ~termios.OPOST
            termios.tcsetattr(self.master, termios.TCSANOW, settings)

    def _set_outer(self, settings: list[Any]) -> None:
        with contextlib.suppress(termios.error), _no_stop():
            termios.tcsetattr(self.outer, termios.TCSANOW, settings)


def _sane(settings: list[Any]) -> list[Any]:
    """What `_raw` takes away, as terminals mostly have it."""
    sane = list(settings)
    sane[_IFLAG] |= termios.ICRNL | termios.IXON
    sane[_OFLAG] |= termios.OPOST
    sane[_LFLAG] |= termios.ECHO | termios.ICANON | termios.ISIG | termios.IEXTEN
    return sane


def _raw(settings: list[Any], *, lifted: int) -> list[Any]:
    """As `cfmakeraw` (termios(3)) does it, but for what others print."""
    raw = [*settings[:_CC], list(settings[_CC])]
    raw[_IFLAG] &= ~(termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP)
    raw[_IFLAG] &= ~(termios.INLCR | termios.IGNCR | termios.ICRNL | termios.IXON)
    raw[_OFLAG] &= ~lifted
    raw[_LFLAG] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
    raw[_CFLAG] = raw[_CFLAG] & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    raw[_CC][termios.VMIN], raw[_CC][termios.VTIME] = 1, 0
    return raw


@contextlib.contextmanager
def _no_stop() -> Iterator[None]:
    """A background process that changes a terminal is stopped, unless it has blocked that signal."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
