"""Owns `intentd run`: one wrapped command from its start to the same end as without us, and the report of it.

Its pieces: `monitor` is the process between, `pty` the terminals, `pump` the output, `report` tells the daemon. The
command waits until all of them are imported, so they keep to what is quick to import (no attrs).
"""

import contextlib
import os
import select
import signal
from collections.abc import Sequence
from typing import NamedTuple, NoReturn, Protocol

from intentd.sources import monitor
from intentd.sources.pty import TerminalPair, outer_terminal
from intentd.sources.pump import Pump, complain, relay
from intentd.sources.signals import (
    FORWARDED,
    TO_COMMAND,
    end_like,
    forget_signals,
    signal_others,
    stop_like,
    wake_on_signals,
)
from intentd.sources.tail import Tail

_NEEDS_TERMINAL = {signal.SIGTTIN, signal.SIGTTOU}
_ANY_TERMINAL = os.makedev(5, 0)
LOST_OUTPUT = 1
"""The exit status where the command ended well and its output could not be written."""


class Reporter(Protocol):
    """Tells somebody of the command. Neither call may take time or raise."""

    def started(self, argv: Sequence[str], tail: Tail) -> None: ...

    def finished(self, status: int, total: int) -> None: ...


class Outlets(NamedTuple):
    """Our standard descriptors by what they are."""

    closed: frozenset[int]
    terminals: tuple[int, ...]
    """Those on the same terminal as the first of them."""
    others: tuple[int, ...]
    """Those on another terminal: the command gets them as they are."""
    pipes: tuple[int, ...]
    """Output descriptors that are no terminals; only the first where both are the same open file."""
    shared: bool

    @property
    def interactive(self) -> bool:
        """Else others in the pipeline may want the keys: they are the command's only once it asks for them."""
        return {0, 1} <= set(self.terminals)

    @classmethod
    def take(cls) -> "Outlets":
        closed = frozenset(fd for fd in (0, 1, 2) if not _is_open(fd))
        for _ in closed:  # so that no descriptor of ours gets such a number
            os.open(os.devnull, os.O_RDWR)
        terminals = tuple(fd for fd in (0, 1, 2) if fd not in closed and os.isatty(fd))
        others = tuple(fd for fd in terminals if not _same_terminal(fd, terminals[0]))
        outputs = tuple(fd for fd in (1, 2) if fd not in closed and fd not in terminals)
        terminals = tuple(fd for fd in terminals if fd not in others)
        shared = len(outputs) == 2 and os.path.samestat(os.fstat(1), os.fstat(2))
        return cls(closed, terminals, others, outputs[:1] if shared else outputs, shared)


def run(argv: Sequence[str], reporter: Reporter) -> NoReturn:
    """Runs the command and ends as it does: with its exit status, or by its signal."""
    outlets = Outlets.take()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    outer = outer_terminal(outlets.terminals)
    pair = None if outer is None else TerminalPair(outer, shared=not outlets.interactive)
    command = Command(argv, outlets, pair)
    try:
        command.start(frozenset(mask))
        reporter.started(argv, command.tail)
        status = command.attend(frozenset(mask))
    finally:
        command.leave_terminal()
    reporter.finished(status, command.tail.total)
    if command.complain() and status == 0:
        os._exit(LOST_OUTPUT)
    end_like(status)


class Command:
    """The wrapped command while it lives."""

    def __init__(self, argv: Sequence[str], outlets: Outlets, pair: TerminalPair | None) -> None:
        self.tail = Tail()
        self._argv = tuple(argv)
        self._outlets = outlets
        self._pair = pair
        self._pumps: list[Pump] = []

    def start(self, mask: frozenset[int]) -> None:
        pipes = {fd: os.pipe() for fd in self._outlets.pipes}
        foreground = self._choose_ground()
        fds = self._descriptors({fd: write for fd, (_, write) in pipes.items()})
        pair = self._pair
        launch = monitor.Launch(self._argv, monitor.environment(), fds, pair.slave if pair else None, foreground, mask)
        ours = [read for read, _ in pipes.values()] + ([pair.master] if pair else [])
        self._monitor = monitor.start(launch, ours)
        for _, write in pipes.values():
            os.close(write)
        for fd, (read, _) in pipes.items():
            self._pumps.append(Pump(read, fd, self.tail.add, terminal=False))
        if pair:
            os.close(pair.slave)
            shown = next((fd for fd in self._outlets.terminals if fd > 0), pair.outer)
            self._pumps.append(Pump(pair.master, shown, self.tail.add, terminal=True, write=pair.write))
        first = self._monitor.report()
        self._pid = first.pid if first else 0

    def attend(self, mask: frozenset[int]) -> int:
        """Pumps, forwards and waits until the command ends; its wait status."""
        for pump in self._pumps:
            pump.start()
        woken = wake_on_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        status = self._loop(woken)
        self._monitor.wait()
        forget_signals(self.leave_terminal)
        self._drain()
        return status

    def complain(self) -> bool:
        """Says which output was lost; whether any was."""
        faults = [pump.fault for pump in self._pumps if pump.fault]
        for fault in faults:
            complain(fault)
        return bool(faults)

    def leave_terminal(self) -> None:
        if self._pair:
            self._pair.leave()

    def _choose_ground(self) -> bool:
        if not self._pair:
            return False
        if self._outlets.interactive and self._pair.is_foreground():
            self._pair.enter_foreground()
        else:
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
        for fd in self._outlets.others:
            fds[fd] = fd
        for fd in self._outlets.closed:
            fds[fd] = None
        return fds

    def _loop(self, woken: int) -> int:
        while True:
            ready = self._wait(woken)
            if woken in ready:
                for number in os.read(woken, 256):
                    self._forward(number)
            if self._pair and self._pair.outer in ready:
                self._pair.take_keys()
            if self._pair and self._pair.master in ready:
                self._give_keys(self._pair)
            if self._pair and self._pair.hung_up:
                self._kill(signal.SIGHUP)
                self._pair.hung_up, self._pair.raw = False, False
            if self._monitor.fileno() in ready:
                report = self._monitor.report()
                if report is None or report.status is None:
                    return signal.SIGKILL  # someone killed the monitor, and so the command's terminal
                if not os.WIFSTOPPED(report.status):
                    return report.status
                self._stopped(os.WSTOPSIG(report.status))

    def _wait(self, woken: int) -> set[int]:
        watch = select.poll()
        watch.register(woken, select.POLLIN)
        watch.register(self._monitor, select.POLLIN)
        if self._pair:
            keys, room = self._pair.wants()
            if keys:
                watch.register(self._pair.outer, select.POLLIN)
            if room:
                watch.register(self._pair.master, select.POLLOUT)
        return {fd for fd, _ in watch.poll()}

    def _give_keys(self, pair: TerminalPair) -> None:
        """Those that signal do so to all that is in the foreground; the inner terminal knows only of the command."""
        one_job = pair.has_groups(inner=self._pid, outer=os.getpgrp())
        for number in pair.give_keys():
            if one_job:
                self._settle()  # what the command and its terminal say of it stands before what a shell says then
                signal_others(number)

    def _settle(self) -> None:
        for pump in self._pumps:
            pump.settle()

    def _forward(self, number: int) -> None:
        if number == signal.SIGWINCH and self._pair:
            self._pair.copy_size()
            if self._pair.raw:
                return  # the inner terminal says it
        if number == signal.SIGCONT and self._pair:
            if not self._pair.raw:
                self._pair.enter_background()  # which of its kinds may have changed
            elif self._pair.is_foreground():
                self._pair.enter_foreground()  # whoever had the terminal meanwhile has set it otherwise
        self._kill(number)

    def _kill(self, number: int) -> None:
        with contextlib.suppress(OSError):
            if number in TO_COMMAND:
                os.kill(self._pid, number)
            else:
                os.killpg(self._pid, number)

    def _stopped(self, number: int) -> None:
        """The command has stopped: it wants the terminal and can have it, or we stop as it did, until we may go on."""
        pair = self._pair
        if pair and number in _NEEDS_TERMINAL and pair.is_foreground():
            pair.enter_foreground()
        else:
            self._settle()
            was_raw = pair is not None and pair.raw
            if pair:
                pair.restore()
            stop_like(number, group=was_raw or number in _NEEDS_TERMINAL)
            if pair and (was_raw or self._outlets.interactive) and pair.is_foreground():
                pair.enter_foreground()
            elif pair:
                pair.enter_background()
        if pair:
            pair.copy_size()
        self._monitor.resume(foreground=pair is not None and pair.raw)

    def _drain(self) -> None:
        for pump in self._pumps:
            pump.finish()
        left = [pump for pump in self._pumps if pump.left_open]
        if left and os.fork() == 0:
            try:
                relay(left)
            finally:
                os._exit(0)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _same_terminal(one: int, other: int) -> bool:
    """/dev/tty is another device, and any terminal: ours, as far as it matters."""
    one_device, other_device = os.fstat(one).st_rdev, os.fstat(other).st_rdev
    return one_device == other_device or _ANY_TERMINAL in (one_device, other_device)
