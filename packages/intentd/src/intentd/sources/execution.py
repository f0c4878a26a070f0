"""Owns how a process becomes the command: what that is, on what it runs, and what is said where it cannot be run."""

import contextlib
import errno
import os
import signal
import stat
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

NOT_FOUND, NOT_EXECUTABLE = 127, 126
_PASSED_BY = {errno.EACCES, errno.ENOENT, errno.ENOTDIR, errno.ESTALE, errno.ENODEV, errno.ETIMEDOUT}
"""With these faults the search goes on to the next directory."""


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


def environment() -> dict[bytes, bytes]:
    """As we were given it: the interpreter may have added LC_CTYPE to its own copy (PEP 538)."""
    try:
        with open("/proc/self/environ", "rb") as stream:  # noqa: PTH123 - pathlib is slow to import
            given = stream.read()
    except OSError:
        return dict(os.environb)
    pairs = (entry.partition(b"=") for entry in given.split(b"\0") if b"=" in entry[1:])
    return {name: value for name, _, value in pairs}


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
        _search(argv, env)
    except (OSError, ValueError) as fault:
        status, words = _refusal(argv[0], fault)
        with contextlib.suppress(OSError):
            os.write(2, f"intentd: {argv[0]}: {words}\n".encode(errors="surrogateescape"))
        os._exit(status)


def _search(argv: tuple[str, ...], env: Mapping[bytes, bytes]) -> NoReturn:
    """As execvp(3): the first of that name that is a program is run, also where it has no interpreter line."""
    named = "/" in argv[0]
    folders = [""] if named else os.get_exec_path(env) if argv[0] else []  # type: ignore[arg-type]
    passed: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for folder in folders:
        path = os.path.join(folder, argv[0])  # noqa: PTH118 - as in `environment`
        try:
            os.execve(path, argv, env)
        except OSError as fault:
            if fault.errno == errno.ENOEXEC:
                os.execve("/bin/sh", ("sh", path, *argv[1:]), env)
            if named or fault.errno not in _PASSED_BY:
                raise
            if fault.errno == errno.EACCES:
                passed = fault
    raise passed


def _refusal(name: str, fault: OSError | ValueError) -> tuple[int, str]:
    number = fault.errno if isinstance(fault, OSError) else errno.EINVAL
    if number == errno.ENOENT:
        return NOT_FOUND, os.strerror(errno.ENOENT) if "/" in name else "command not found"
    if "/" in name and _is_directory(name):
        number = errno.EISDIR
    return NOT_EXECUTABLE, os.strerror(number or errno.EINVAL)


def _is_directory(name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name).st_mode)  # noqa: PTH116 - as in `environment`
    except OSError:
        return False
