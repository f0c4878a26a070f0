"""Owns what signals do to the wrapper's own process and its process group. It knows no terminals and no command."""

import contextlib
import os
import resource
import signal
from collections.abc import Callable, Iterable
from typing import NoReturn

OF_KEYS = {signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP}
TO_GROUP = {*OF_KEYS, signal.SIGHUP, signal.SIGWINCH, signal.SIGCONT}
"""What a terminal sends, it sends to the whole group."""
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS, signal.SIGTRAP}
_OURS = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTTIN, signal.SIGTTOU, *_FAULTS}
"""What nobody can forward, or what is said to this process alone."""
FORWARDED = {number for number in signal.valid_signals() if number not in _OURS}
_IGNORED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}
_GIVEN = (FORWARDED | {signal.SIGCHLD}) - _IGNORED_BY_PYTHON
ENDS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)
"""What ends a job by a key, its terminal or `kill`."""
_HARMLESS = {signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH, signal.SIGURG}


def has_strangers(group: int, user: int) -> bool:
    """Whether it has a process of another user, which `user` may not signal. (A terminal may.)

    It may have one where nobody says, or where others' processes are hidden (proc(5), hidepid), as the first is then.
    """
    if user == 0:
        return False
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir("/proc")  # noqa: PTH208 - pathlib is slow to import
    if "1" not in names:
        return True
    for name in filter(str.isdigit, names):
        with contextlib.suppress(OSError):
            if os.getpgid(int(name)) == group and os.stat(f"/proc/{name}").st_uid != user:  # noqa: PTH116 - as above
                return True
    return False


def ignored() -> frozenset[int]:
    """What a command is to ignore because we do. Before any other call of this module."""
    return frozenset(number for number in _GIVEN if signal.getsignal(number) is signal.SIG_IGN)


def as_given(ignores: frozenset[int]) -> None:
    """Signals do what they did before the interpreter and we changed them."""
    for number in (*FORWARDED, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN if number in ignores else signal.SIG_DFL)


def wake_on_signals() -> int:
    """From now on the numbers of forwarded signals can be read from the returned descriptor.

    Those that we ignored are, too: the command may have a handler of its own.
    """
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in FORWARDED - _IGNORED_BY_PYTHON:
        signal.signal(number, _noted)
    return woken


def _noted(*_: object) -> None:
    """The wakeup descriptor has the number."""


def forget_signals(leave: Callable[[], None], ignores: frozenset[int]) -> None:
    """There is nobody left to forward to: from here on a signal is for us. One that ends us lets us `leave` first."""

    def end(number: int, _: object) -> None:
        leave()
        end_like(number)

    signal.set_wakeup_fd(-1)
    for number in FORWARDED - _IGNORED_BY_PYTHON - ignores:
        signal.signal(number, signal.SIG_DFL if number in _HARMLESS else end)
    for ignored_one in ignores:
        signal.signal(ignored_one, signal.SIG_IGN)


def outlast_keys(mask: Iterable[int]) -> None:
    """In a process that stays for what the command left behind: it ends with a session or a job, not by a key."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def signal_others(number: int) -> None:
    """Sends it to everybody else in our process group."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        os.killpg(0, number)
    finally:
        signal.signal(number, before)


def stop_like(number: int, *, group: bool) -> None:
    """Stops this process (or its job, as Ctrl-Z would) and returns when it is continued."""
    before = signal.getsignal(number)
    if number != signal.SIGSTOP:
        signal.signal(number, signal.SIG_DFL)
    if group:
        os.killpg(0, number)
    else:
        os.kill(os.getpid(), number)
    if number != signal.SIGSTOP:
        signal.signal(number, before)


def end_like(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        os._exit(128 + number)  # as process 1 of a container it cannot end by a signal: what shells say then
    os._exit(os.waitstatus_to_exitcode(status))
