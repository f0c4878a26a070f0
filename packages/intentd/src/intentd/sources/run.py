"""Owns `intentd run`: one wrapped command from its start to the same end as without us, and the report of it.

Its pieces: `monitor` is the process between, `execution` how a process becomes the command, `pty` the terminals,
`pump` the output, `report` tells the daemon. The command waits until all of them are imported, so they keep to what is
quick to import (no attrs).
"""

import contextlib
import errno
import os
import select
import signal
import termios
import time
from collections.abc import Callable, Container, Sequence
from typing import NoReturn, Protocol

from intentd.sources import monitor
from intentd.sources.descriptors import Outlets, access, cover, of_locked_files
from intentd.sources.execution import Launch, become, environment
from intentd.sources.pty import TerminalPair, outer_terminal
from intentd.sources.pump import Pump
from intentd.sources.signals import (
    ENDS,
    FORWARDED,
    OF_KEYS,
    TO_GROUP,
    as_given,
    end_like,
    forget_signals,
    has_strangers,
    ignored,
    outlast_keys,
    signal_others,
    stop_like,
    wake_on_signals,
)
from intentd.sources.tail import TAIL_BYTES, Tail
from intentd.sources.watching import QUIET_S, goes_on
from intentd.sources.written import Written

_LACKS = (OSError, RuntimeError, MemoryError, termios.error)
"""What is raised where a process, a thread, memory, a descriptor or a terminal cannot be had."""
_NEEDS_TERMINAL = {signal.SIGTTIN, signal.SIGTTOU}
_LENT_S = 1.0
_BESIDE_MS = 50.0
_SAID_WHEN_IT_GOES_ON = {signal.SIGCONT, signal.SIGTSTP}
"""What undoes or is undone by the continuing of a command that has stopped."""


class Reporter(Protocol):
    """Tells somebody of the command. No call may take time or raise."""

    def started(self, argv: Sequence[str], tail: Tail) -> None: ...

    def finished(self, status: int, total: int) -> None: ...

    def dropped(self) -> None:
        """Instead of `finished`: nobody will watch the command, and this process becomes it."""


def run(argv: Sequence[str], reporter: Reporter) -> NoReturn:
    """Runs the command and ends as it does: with its exit status, or by its signal."""
    outlets = Outlets.take()
    mask = frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED))
    bare = Launch(tuple(argv), environment(), outlets.as_they_are, None, False, mask, ignores=ignored())
    command = Command(bare, outlets)
    try:
        command.prepare()
        reporter.started(argv, command.tail)
        command.begin()
    except _LACKS:
        command.leave_terminal()
        reporter.dropped()
        as_given(bare.ignores)  # a signal that has come since is the command's
        become(bare)
    try:
        status = command.attend()
    finally:
        command.leave_terminal()
    reporter.finished(status, command.tail.total)
    end_like(status)


class Command:
    """The wrapped command while it lives. `bare` is how it would be started without us."""

    def __init__(self, bare: Launch, outlets: Outlets) -> None:
        self.tail: Tail
        self._bare = bare
        self._outlets = outlets
        self._pair: TerminalPair | None = None
        self._pumps: list[Pump] = []
        self._written: list[Written] = []

    def prepare(self) -> None:
        """Before there is a command: takes what it needs, or raises one of _LACKS."""
        self.tail = Tail()
        self._open_files()
        outer = outer_terminal(self._outlets.terminals)
        if outer is not None:
            self._pair = TerminalPair(outer, shared=not self._outlets.interactive)
        pair = self._pair
        pipes = {fd: os.pipe() for fd in self._outlets.pipes}
        foreground = self._choose_ground()
        fds = self._descriptors({fd: write for fd, (_, write) in pipes.items()})
        launch = self._bare._replace(fds=fds, slave=pair.slave if pair else None, foreground=foreground)
        self._monitor = monitor.start(launch)
        for _, write in pipes.values():
            os.close(write)
        if pair:
            os.close(pair.slave)
        self._reads = {fd: read for fd, (read, _) in pipes.items()}

    def begin(self) -> None:
        """Lets the command begin, or raises one of _LACKS. No process is forked once there are threads."""
        try:
            first = self._monitor.report()
            if first is None:
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            self._pid = first.pid
            self._woken = wake_on_signals()
            self._start_pumps()
        except _LACKS:
            self._monitor.give_up()
            raise
        self._let_go()
        self._monitor.release()

    def _start_pumps(self) -> None:
        for fd, read in self._reads.items():
            self._pumps.append(Pump(read, fd, self.tail.add, terminal=False))
        if pair := self._pair:
            outputs = (fd for fd in self._outlets.terminals if fd > 0 and access(fd) != os.O_RDONLY)
            shown = next(outputs, pair.outer)
            self._pumps.append(Pump(pair.master, shown, self.tail.add, terminal=True, write=pair.write))
        for pump in self._pumps:
            pump.start()

    def attend(self) -> int:
        """Pumps, forwards and waits until the command ends; its wait status."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._bare.mask)
        status = self._loop()
        self._monitor.wait()
        forget_signals(self.leave_terminal, self._bare.ignores)
        self._drain()
        self._read_back()
        return status

    def leave_terminal(self) -> None:
        if self._pair:
            self._pair.leave()

    def _open_files(self) -> None:
        """A file that we may not read is the command's all the same: then nobody reads what it holds."""
        files = self._outlets.files
        same = len(files) == 2 and os.path.samestat(os.fstat(1), os.fstat(2))
        for fd in files[:1] if same else files:
            with contextlib.suppress(OSError):
                self._written.append(Written(fd))
        self._reads_on = bool(self._written) and goes_on(self._bare.argv)

    def _read_back(self) -> None:
        for written in tuple(self._written):
            try:
                self.tail.add(*written.read(TAIL_BYTES))
            except (OSError, MemoryError):  # its file system is gone: the command may do without it, and so do we
                self._written.remove(written)

    def _let_go(self) -> None:
        """What of our own descriptors only the command is to hold: then others see when it lets go of them.

        Not of a file that is locked for the command: the lock would go.
        """
        inherited = self._outlets.inherited
        locked = of_locked_files((0, 1, 2, *inherited))
        with contextlib.suppress(OSError):
            cover(*self._outlets.only_given - locked)
        for fd in set(inherited) - locked:
            with contextlib.suppress(OSError):
                os.close(fd)

    def _choose_ground(self) -> bool:
        if not self._pair:
            return False
        if not self._pair.claim():
            self._pair.enter_background()
        return self._pair.raw

    def _descriptors(self, writes: dict[int, int]) -> dict[int, int | None]:
        """What the command gets as 0, 1 and 2."""
        fds: dict[int, int | None] = {
            0: 0,
            1: writes.get(1),
            2: writes.get(1) if self._outlets.shared else writes.get(2),
        }
        for fd in self._outlets.terminals:
            fds[fd] = self._pair.slave if self._pair else fd
        for fd in (*self._outlets.others, *self._outlets.files):
            fds[fd] = fd
        for fd in self._outlets.closed:
            fds[fd] = None
        return fds

    def _loop(self) -> int:
        while True:
            ready = self._wait()
            if self._reads_on:
                self._read_back()
            if self._woken in ready:
                self._forward_all()
            if self._pair:
                self._pair.succeed()
            if self._pair and self._pair.outer in ready and self._pair.raw:  # what was forwarded may have changed that
                self._pair.take_keys()
            if self._pair and self._pair.master in ready:
                self._give_keys(self._pair)
            if self._monitor.fileno() in ready:
                report = self._monitor.report()
                if report is None or report.status is None:
                    return signal.SIGKILL  # someone killed the monitor, and so the command's terminal
                if not os.WIFSTOPPED(report.status):
                    return report.status
                self._stopped(os.WSTOPSIG(report.status))
            if self._pair and self._pair.hung_up:
                self._hang_up(self._pair)

    def _wait(self) -> set[int]:
        watch = select.poll()
        watch.register(self._woken, select.POLLIN)
        watch.register(self._monitor, select.POLLIN)
        if self._pair:
            keys, room = self._pair.wants()
            if keys:
                watch.register(self._pair.outer, select.POLLIN)
            if room:
                watch.register(self._pair.master, select.POLLOUT)
        return {fd for fd, _ in watch.poll(self._patience_ms())}

    def _patience_ms(self) -> float | None:
        if self._pair and self._pair.is_beside:
            return _BESIDE_MS
        return QUIET_S * 500 if self._reads_on else None

    def _give_keys(self, pair: TerminalPair) -> None:
        """Those that signal do so to all that is in the foreground; the inner terminal knows only of the command."""
        one_job = pair.has_groups(inner=self._pid, outer=os.getpgrp())
        for number in pair.give_keys():
            if one_job:
                self._settle()  # what the command and its terminal say of it stands before what a shell says then
                signal_others(number)

    def _hang_up(self, pair: TerminalPair) -> None:
        """The command's terminal goes, as the person's has gone: its monitor is told, and who reads it."""
        self._pumps.pop().finish()
        pair.restore()
        os.dup2(pair.outer, pair.master, inheritable=False)
        self._pair = None

    def _settle(self) -> None:
        for pump in self._pumps:
            pump.settle()

    def _forward_all(self, *, but: Container[int] = ()) -> list[int]:
        """Returns those that are not forwarded."""
        noted = b""
        with contextlib.suppress(BlockingIOError):
            noted = os.read(self._woken, 256)
        for number in noted:
            if number not in but:
                self._forward(number)
        return [number for number in noted if number in but]

    def _forward(self, number: int) -> None:
        if number == signal.SIGWINCH and self._pair:
            self._pair.copy_size()
            if self._pair.raw:
                return  # the inner terminal says it
        if number == signal.SIGCONT and self._pair:
            if self._pair.raw and self._pair.is_foreground():
                self._pair.enter_foreground()  # whoever had the terminal meanwhile has set it otherwise
            else:
                self._pair.enter_background()  # which of its kinds may have changed
                self._monitor.lend_terminal(False)
        self._kill(number)

    def _kill(self, number: int) -> None:
        pair = self._pair
        with contextlib.suppress(OSError):
            if number not in TO_GROUP:
                os.kill(self._pid, number)
            elif not (pair and not pair.raw and number in OF_KEYS and self._kill_by_terminal(pair, number)):
                os.killpg(self._pid, number)

    def _kill_by_terminal(self, pair: TerminalPair, number: int) -> bool:
        """A terminal signals also what runs as another user (`sudo`). In the background it is lent for that alone: what
        the command asks on it at that moment is not seen.
        """
        if not has_strangers(self._pid, os.geteuid()):
            return False
        sent = False
        self._monitor.lend_terminal(True)
        with contextlib.suppress(OSError):
            if _came(lambda: os.tcgetpgrp(pair.master) == self._pid):
                pair.send(number)
                sent = True
        self._monitor.lend_terminal(False)
        return sent

    def _stopped(self, number: int) -> None:
        """The command has stopped: it wants the terminal and can have it, or we stop as it did, until we may go on."""
        pair = self._pair
        if pair and number in _NEEDS_TERMINAL and pair.is_foreground():
            pair.enter_foreground()
        else:
            self._settle()
            with contextlib.ExitStack() as held:  # what it prints, where others continue it, waits for our terminal
                for pump in self._pumps if pair else ():
                    held.enter_context(pump.held())
                self._stop(number, pair)
        if pair:
            pair.copy_size()
        in_front = pair is not None and pair.raw
        # Before it goes on, lest it stops again and keeps what was sent to it.
        later = self._forward_all(but=_SAID_WHEN_IT_GOES_ON)
        if pair and not in_front and number in _NEEDS_TERMINAL and signal.SIGCONT not in later:
            self._do_without(pair)
        else:
            self._monitor.resume(foreground=in_front)
        if pair and in_front:
            self._await_terminal(pair)
        for number in (*later, *self._forward_all(but={signal.SIGCONT})):
            if number != signal.SIGCONT:  # that has been said with it
                self._forward(number)

    def _await_terminal(self, pair: TerminalPair) -> None:
        """Keys that signal reach nobody while the inner terminal is still the monitor's."""
        _came(lambda: not pair.has_groups(inner=self._monitor.pid, outer=os.getpgrp()))

    def _do_without(self, pair: TerminalPair) -> None:
        """Nobody has continued us: we could not stop, since no shell knows of us any more (an orphaned process group).

        Alone the command would read an error then. The inner terminal gives one only where it is at its end.
        """
        self._monitor.resume_without_terminal()
        _came(lambda: os.tcgetpgrp(pair.master) == 0)
        self._hang_up(pair)

    def _stop(self, number: int, pair: TerminalPair | None) -> None:
        """As the command did; the terminal is the shell's until we may go on."""
        was_raw = pair is not None and pair.raw
        if pair:
            pair.restore()
        self._forward_all()  # who has continued us meanwhile means the command
        stop_like(number, group=number in _NEEDS_TERMINAL or (was_raw and number == signal.SIGTSTP))
        if pair and was_raw and pair.is_foreground():
            pair.enter_foreground()
        elif pair and not pair.claim():
            pair.enter_background()

    def _drain(self) -> None:
        for pump in self._pumps:
            pump.finish()
        left = [pump for pump in self._pumps if pump.left_open]
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
        with contextlib.suppress(OSError):  # without a process for it nobody can stay for what comes
            for pump in left:
                if os.fork() == 0:
                    outlast_keys(mask)
                    pump.relay()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _came(is_there: Callable[[], bool]) -> bool:
    """Waits for what the monitor does within a moment, and no longer than _LENT_S."""
    deadline = time.monotonic() + _LENT_S
    while not is_there() and time.monotonic() < deadline:
        time.sleep(0.001)
    return is_there()
