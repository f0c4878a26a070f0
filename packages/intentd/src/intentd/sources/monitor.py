"""Owns the process between us and the command: it leads the session of the pseudo-terminal and waits for the command.

The command gets a process group of its own under the monitor, so that the terminal's Ctrl-C and Ctrl-Z mean for it what
they mean under a shell. The monitor has one too: where the wrapper's group is killed, it lives to end the command. It
copies no bytes.
"""

import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
import termios
from typing import NamedTuple, NoReturn

from intentd.sources.descriptors import keep_only
from intentd.sources.execution import NOT_EXECUTABLE, Launch, become
from intentd.sources.signals import as_given

_REPORT = struct.Struct("!ii")
_STOPS_TERMINAL = {signal.SIGTTOU, signal.SIGTTIN}
_WAKE_MS = 20
_FOREGROUND, _BACKGROUND, _NO_GROUND = b"f", b"b", b"n"
_LEND, _TAKE = b"l", b"t"


class Report(NamedTuple):
    """A wait status of the command. The first report has none: it brings the pid."""

    pid: int
    status: int | None


class Monitor:
    """Our end of the channel to the monitor."""

    def __init__(self, pid: int, channel: socket.socket, gate: int) -> None:
        self.pid = pid
        self._channel = channel
        self._gate = gate

    def fileno(self) -> int:
        return self._channel.fileno()

    def report(self) -> Report | None:
        """Blocks for the next report; None where the monitor is gone."""
        data = _receive(self._channel, _REPORT.size)
        if len(data) < _REPORT.size:
            return None
        pid, status = _REPORT.unpack(data)
        return Report(pid, None if status < 0 else status)

    def release(self) -> None:
        """Until now the command waits, and there is nothing of it yet."""
        with contextlib.suppress(OSError):  # somebody has killed it, as its status will say
            os.write(self._gate, b"!")
        os.close(self._gate)

    def give_up(self) -> None:
        """Instead of `release`: there will be no command."""
        os.close(self._gate)
        self.wait()

    def resume(self, *, foreground: bool) -> None:
        """After a report of a stop: lets the command run on."""
        self._order(_FOREGROUND if foreground else _BACKGROUND)

    def resume_without_terminal(self) -> None:
        """As `resume`. From then on the terminal is no session's, and its end says nothing to the command."""
        self._order(_NO_GROUND)

    def lend_terminal(self, lent: bool) -> None:
        """In the background, for a moment: to the command, and back."""
        self._order(_LEND if lent else _TAKE)

    def _order(self, order: bytes) -> None:
        with contextlib.suppress(OSError):
            self._channel.sendall(order)

    def wait(self) -> None:
        self._channel.close()
        os.waitpid(self.pid, 0)


def start(launch: Launch) -> Monitor:
    """Forks the monitor, which forks the command. Either may fail; the monitor then ends without a report.

    The command begins when it is released.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # or nobody learns how a child ended
    ours, theirs = socket.socketpair()
    gate, opened = os.pipe()
    pid = os.fork()
    if pid:
        theirs.close()
        os.close(gate)
        return Monitor(pid, ours, opened)
    try:
        ours.close()
        os.close(opened)
        _monitor(launch, theirs, gate)
    finally:
        os._exit(1)


def _monitor(launch: Launch, channel: socket.socket, gate: int) -> NoReturn:
    if launch.slave is not None:
        os.setsid()
        fcntl.ioctl(launch.slave, termios.TIOCSCTTY, 0)
    else:
        os.setpgid(0, 0)
    pid = os.fork()
    if pid == 0:
        try:
            channel.close()  # where the monitor ends before it has reported, that is to be seen
            _command(launch, gate)
        finally:
            os._exit(NOT_EXECUTABLE)
    with contextlib.suppress(OSError):  # whichever of us two comes first
        os.setpgid(pid, pid)
    woken, wake = _wake_on_children()
    _let_signals_pass(pid)
    keep_only([channel.fileno(), woken, wake, *([] if launch.slave is None else [launch.slave])])
    channel.sendall(_REPORT.pack(pid, -1))
    status = _Attendance(launch, channel, pid).until_end(woken)
    if launch.slave is not None:  # our exit hangs up on the foreground group: let that be us, not what the command left
        _give_terminal(launch.slave, os.getpgrp())
    _report(channel, pid, status)
    os._exit(0)


def _wake_on_children() -> tuple[int, int]:
    """From now on the first descriptor can be read when a child has ended or stopped; the other is to stay open."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return woken, wake


class _Attendance:
    """Reports stops and takes orders until the command ends.

    The wrapper stops as the command did. Who then continues or ends the command alone means the wrapper, too.
    """

    def __init__(self, launch: Launch, channel: socket.socket, pid: int) -> None:
        self._launch = launch
        self._channel = channel
        self._pid = pid
        self._alone = False
        self._stopped = False
        self._lent = launch.slave is not None
        """Whether the terminal may be the command's."""
        self._unanswered = 0
        """How many stops the wrapper was told of and has not answered with an order to go on."""

    def until_end(self, woken: int) -> int:
        """The command's wait status."""
        watch = select.poll()
        watch.register(woken, select.POLLIN)
        watch.register(self._channel, select.POLLIN)
        ended = None
        while True:
            ended = self._look() if ended is None else ended
            if ended is not None and not self._unanswered:
                return ended
            wakes = self._unanswered > self._stopped
            if wakes:
                self._wake_wrapper()
            lent = self._stopped and self._lent
            if lent:
                self._take_back()
            ready = {fd for fd, _ in watch.poll(_WAKE_MS if wakes or lent else None)}
            if woken in ready:
                os.read(woken, 256)
            if self._channel.fileno() in ready and not self._take_order():
                watch.unregister(self._channel)
                self._alone, self._lent, self._unanswered = True, False, 0
                if ended is None:  # by SIGKILL: all else is passed on. Who sent it meant the command
                    _kill_group(self._pid, signal.SIGKILL)

    def _look(self) -> int | None:
        """What has become of the command: its wait status where it has ended."""
        done, status = os.waitpid(self._pid, os.WUNTRACED | os.WCONTINUED | os.WNOHANG)
        if not done:
            return None
        self._stopped = os.WIFSTOPPED(status)
        if self._stopped:
            self._unanswered += not self._alone
            _report(self._channel, self._pid, status)
        return None if self._stopped or os.WIFCONTINUED(status) else status

    def _wake_wrapper(self) -> None:
        """Not before it has stopped, or it would miss it; nor twice, or it would pass that on."""
        wrapper = os.getppid()
        if _is_stopped(wrapper):
            with contextlib.suppress(OSError):
                os.kill(wrapper, signal.SIGCONT)

    def _take_back(self) -> None:
        """A shell that sees our wrapper stopped takes the terminal. Then who continues the command alone continues it
        in the background: what it reads stops it again, and not before the next `fg` is it waiting for keys.
        """
        if self._launch.slave is not None and _has_lost_terminal(os.getppid()):
            _give_terminal(self._launch.slave, os.getpgrp())
            self._lent = False

    def _take_order(self) -> bool:
        order = _receive(self._channel, 1)
        if not order:
            return False
        if self._launch.slave is not None and order in (_LEND, _TAKE):
            _give_terminal(self._launch.slave, self._pid if order == _LEND else os.getpgrp())
            return True
        self._unanswered -= 1
        if self._launch.slave is not None:
            if order == _NO_GROUND:
                _give_up_terminal(self._launch.slave)
            self._lent = order == _FOREGROUND
            _give_terminal(self._launch.slave, self._pid if self._lent else os.getpgrp())
        if self._stopped and not self._unanswered:
            self._stopped = False
            _kill_group(self._pid, signal.SIGCONT)
        return True


def _is_stopped(pid: int) -> bool:
    fields = _stat(pid)
    return not fields or fields[0] == b"T"


def _has_lost_terminal(pid: int) -> bool:
    """Whether it has a controlling terminal whose foreground is not its group."""
    fields = _stat(pid)
    return bool(fields) and fields[5] not in (fields[2], b"-1")


def _stat(pid: int) -> list[bytes]:
    """From the state on (proc_pid_stat(5)); empty where nobody says."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:  # noqa: PTH123 - pathlib is slow to import
            return stream.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _receive(channel: socket.socket, count: int) -> bytes:
    """Less than `count` where the other side is gone; one that had not read everything leaves a fault for us."""
    try:
        return channel.recv(count, socket.MSG_WAITALL)
    except OSError:
        return b""


def _report(channel: socket.socket, pid: int, status: int) -> None:
    with contextlib.suppress(OSError):
        channel.sendall(_REPORT.pack(pid, status))


def _let_signals_pass(pid: int) -> None:
    """The wrapper forwards signals. Only the end of the terminal (the person's is gone) comes to us alone."""
    for name in ("INT", "QUIT", "TERM", "TSTP", "TTIN", "TTOU", "USR1", "USR2", "ALRM", "WINCH"):
        signal.signal(signal.Signals[f"SIG{name}"], signal.SIG_IGN)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: _hang_up(pid))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _hang_up(pid: int) -> None:
    """One that is stopped for its terminal takes no signal until it goes on, and might stop again before it does."""
    _kill_group(pid, signal.SIGHUP)
    _kill_group(pid, signal.SIGCONT)


def _give_terminal(slave: int, group: int) -> None:
    with contextlib.suppress(OSError):
        os.tcsetpgrp(slave, group)


def _give_up_terminal(slave: int) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        fcntl.ioctl(slave, termios.TIOCNOTTY)


def _kill_group(group: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, number)


def _command(launch: Launch, gate: int) -> None:
    """In the command's own process."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    if launch.slave is not None and launch.foreground:
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS_TERMINAL)
        _give_terminal(launch.slave, os.getpid())
    as_given(launch.ignores)
    if os.read(gate, 1):
        become(launch)
