"""Owns the process between us and the command: it leads the session of the pseudo-terminal and waits for the command.

The command gets a process group of its own under the monitor, so that the terminal's Ctrl-C and Ctrl-Z mean for it what
they mean under a shell. The monitor has one too: where the wrapper's group is killed, it lives to end the command. It
copies no bytes.
"""

import contextlib
import errno
import fcntl
import os
import select
import signal
import socket
import stat
import struct
import termios
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from intentd.sources.descriptors import keep_only
from intentd.sources.signals import as_given

_REPORT = struct.Struct("!ii")
NOT_FOUND, NOT_EXECUTABLE = 127, 126
_STOPS_TERMINAL = {signal.SIGTTOU, signal.SIGTTIN}


class Launch(NamedTuple):
    """What to run and on what. `fds` maps 0, 1, 2 to the descriptor to put there, None leaves it closed."""

    argv: tuple[str, ...]
    env: Mapping[bytes, bytes]
    fds: Mapping[int, int | None]
    slave: int | None
    foreground: bool
    mask: frozenset[int]
    ignores: frozenset[int] = frozenset()
    """The signals that the command is to ignore."""


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
        os.write(self._gate, b"!")
        os.close(self._gate)

    def give_up(self) -> None:
        """Instead of `release`: there will be no command."""
        os.close(self._gate)
        self.wait()

    def resume(self, *, foreground: bool) -> None:
        """After a report of a stop: lets the command run on."""
        with contextlib.suppress(OSError):
            self._channel.sendall(b"f" if foreground else b"b")

    def wait(self) -> None:
        self._channel.close()
        os.waitpid(self.pid, 0)


def environment() -> dict[bytes, bytes]:
    """As we were given it: the interpreter may have added LC_CTYPE to its own copy (PEP 538)."""
    try:
        with open("/proc/self/environ", "rb") as stream:  # noqa: PTH123 - pathlib is slow to import
            given = stream.read()
    except OSError:
        return dict(os.environb)
    pairs = (entry.partition(b"=") for entry in given.split(b"\0") if b"=" in entry[1:])
    return {name: value for name, _, value in pairs}


def start(launch: Launch, close: Sequence[int]) -> Monitor:
    """Forks the monitor, which forks the command. `close` are our descriptors that neither may hold.

    Either may fail; the monitor then ends without a report. The command begins when it is released.
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
        for fd in (*close, opened):
            os.close(fd)
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
    status = _attend(launch, channel, pid, woken)
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


def _attend(launch: Launch, channel: socket.socket, pid: int, woken: int) -> int:
    """Reports stops and takes orders until the command ends; its wait status."""
    watch = select.poll()
    watch.register(woken, select.POLLIN)
    watch.register(channel, select.POLLIN)
    while True:
        done, status = os.waitpid(pid, os.WUNTRACED | os.WNOHANG)
        if done and not os.WIFSTOPPED(status):
            return status
        if done:
            _report(channel, pid, status)
        ready = {fd for fd, _ in watch.poll()}
        if woken in ready:
            os.read(woken, 256)
        if channel.fileno() in ready:
            order = _receive(channel, 1)
            if order:
                _resume(launch, pid, order)
            else:
                watch.unregister(channel)
                _wrapper_is_gone(launch, pid)


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
    """The wrapper forwards signals. Only the end of the terminal (our wrapper was killed) comes to us alone."""
    for name in ("INT", "QUIT", "TERM", "TSTP", "TTIN", "TTOU", "USR1", "USR2", "ALRM", "WINCH"):
        signal.signal(signal.Signals[f"SIG{name}"], signal.SIG_IGN)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: _hang_up(pid))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _resume(launch: Launch, pid: int, order: bytes) -> None:
    if launch.slave is not None:
        _give_terminal(launch.slave, pid if order == b"f" else os.getpgrp())
    _kill_group(pid, signal.SIGCONT)


def _wrapper_is_gone(launch: Launch, pid: int) -> None:
    """Somebody killed it, who meant the command."""
    if launch.slave is None:
        _kill_group(pid, signal.SIGKILL)
    else:
        _hang_up(pid)


def _hang_up(pid: int) -> None:
    """One that is stopped for its terminal takes no signal until it goes on, and might stop again before it does."""
    _kill_group(pid, signal.SIGHUP)
    _kill_group(pid, signal.SIGCONT)


def _give_terminal(slave: int, group: int) -> None:
    with contextlib.suppress(OSError):
        os.tcsetpgrp(slave, group)


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


def become(launch: Launch) -> NoReturn:
    """Puts this process as it would be without us (its signals are `as_given`), then it becomes the command."""
    for target, fd in launch.fds.items():
        if fd is None:
            os.close(target)
        elif fd != target:
            os.dup2(fd, target)
    signal.pthread_sigmask(signal.SIG_SETMASK, launch.mask)
    _execute(launch.argv, launch.env)


def _execute(argv: tuple[str, ...], env: Mapping[bytes, bytes]) -> NoReturn:
    try:
        try:
            os.execvpe(argv[0], argv, env)
        except OSError as fault:
            if fault.errno != errno.ENOEXEC:
                raise
            import shutil

            script = shutil.which(argv[0]) or argv[0]  # a script without an interpreter line: as shells do
            os.execve("/bin/sh", ("sh", script, *argv[1:]), env)
    except (OSError, ValueError) as fault:
        status, words = _refusal(argv[0], fault)
        with contextlib.suppress(OSError):
            os.write(2, f"intentd: {argv[0]}: {words}\n".encode(errors="surrogateescape"))
        os._exit(status)


def _refusal(name: str, fault: OSError | ValueError) -> tuple[int, str]:
    number = fault.errno if isinstance(fault, OSError) else errno.EINVAL
    if number in (errno.ENOENT, errno.ENOTDIR):
        return NOT_FOUND, os.strerror(number or 0) if "/" in name else "command not found"
    if "/" in name and _is_directory(name):
        number = errno.EISDIR
    return NOT_EXECUTABLE, os.strerror(number or errno.EINVAL)


def _is_directory(name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name).st_mode)  # noqa: PTH116 - as in `environment`
    except OSError:
        return False
