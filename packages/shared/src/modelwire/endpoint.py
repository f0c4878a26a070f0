"""Owns where a daemon is found and who may be there: paths, their safety, the claim to serve. It knows no messages."""

import fcntl
import os
import re
import stat
import warnings
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from platformdirs import user_runtime_path

from modelwire.errors import EndpointError

MAX_SOCKET_PATH = 107
"""Bytes: `sun_path` on Linux without its final zero."""
_SCHEME = "ipc://"
_TCP = "tcp://"
_ADDRESS = re.compile(r"tcp://(?P<host>[A-Za-z0-9*.-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")

_EVERYWHERE = ("*", "0.0.0.0", "[::]")


def runtime_dir() -> Path:
    """The owner-only directory of the daemons' sockets: GUESSAHEAD_RUNTIME_DIR, else the user's runtime directory.

    It is made if it is missing. Raises `EndpointError` where others could reach into it.
    """
    configured = os.environ.get("GUESSAHEAD_RUNTIME_DIR")
    path = Path(configured) if configured else _platform_runtime_dir()
    if not path.is_absolute():  # the daemons and those who ask them need not stand in the same directory
        raise EndpointError(f"GUESSAHEAD_RUNTIME_DIR is {configured!r}: give it an absolute path")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as fault:
        raise EndpointError(
            f"cannot make {path} ({fault.strerror}): set GUESSAHEAD_RUNTIME_DIR to a directory of your own"
        ) from None
    check_directory(path)
    return path


def default_endpoint(service: str) -> str:
    """GUESSAHEAD_<SERVICE>, else `<service>.sock` in the runtime directory."""
    return os.environ.get(f"GUESSAHEAD_{service.upper()}") or f"{_SCHEME}{runtime_dir() / service}.sock"


def written(endpoint: str) -> str:
    """The endpoint, which need not be there. Raises `EndpointError` for what is not written as one."""
    (tcp_address if is_tcp(endpoint) else socket_path)(endpoint)
    return endpoint


def check_endpoint(endpoint: str) -> Path:
    """Gives the socket's path; raises `EndpointError` for an endpoint that cannot be used safely."""
    path = socket_path(endpoint)
    check_directory(path.parent, ours=str(path.parent) == os.environ.get("GUESSAHEAD_RUNTIME_DIR"))
    return path


def socket_path(endpoint: str) -> Path:
    """Raises `EndpointError` unless `endpoint` is `ipc://` and an absolute path that fits into a socket address."""
    path = Path(endpoint.removeprefix(_SCHEME))
    if not endpoint.startswith(_SCHEME) or not path.is_absolute() or "\0" in endpoint:
        raise EndpointError(f"{endpoint!r} is not an endpoint: write ipc:// and an absolute path, or tcp://HOST:PORT")
    if (length := len(os.fsencode(path))) > MAX_SOCKET_PATH:
        raise EndpointError(
            f"{path} has {length} bytes, a socket's path at most {MAX_SOCKET_PATH}: choose a shorter directory"
        )
    return path


def is_tcp(endpoint: str) -> bool:
    """Whether `endpoint` is reached over TCP, and so only with keys."""
    return endpoint.startswith(_TCP)


def tcp_address(endpoint: str) -> tuple[str, int]:
    """Host and port. Raises `EndpointError` for what is no such endpoint."""
    found = _ADDRESS.fullmatch(endpoint)
    if not found or not 0 < int(found["port"]) < 65536:
        raise EndpointError(f"{endpoint!r:.120} is not an endpoint: write tcp://HOST:PORT, with a port below 65536")
    return found["host"], int(found["port"])


def tcp_peer(endpoint: str) -> tuple[str, int]:
    """Host and port of a daemon to reach. Raises `EndpointError` also for all addresses of a machine at once."""
    host, port = tcp_address(endpoint)
    if host in _EVERYWHERE:
        raise EndpointError(
            f"{endpoint} is every address of a machine, which is for serving: name the one to reach, "
            f"as in tcp://localhost:{port}"
        )
    return host, port


def check_directory(path: Path, *, ours: bool = True) -> None:
    """Raises `EndpointError` unless `path` is a real directory that only its owner, us, can enter.

    `ours`: it is for our files alone, so it may be closed. Another, such as a project, may rightly be open to others.
    """
    try:
        found = path.lstat()
    except OSError as fault:
        raise EndpointError(f"{path}: {fault.strerror}; make it with: mkdir -m 700 {path}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise EndpointError(f"{path} is not a directory but a link or a file: name the directory itself")
    if found.st_uid != os.geteuid():
        raise EndpointError(f"{path} belongs to user {found.st_uid}: choose a directory of your own")
    if mode := stat.S_IMODE(found.st_mode) & 0o077:
        closes = ours and not found.st_mode & stat.S_ISVTX  # /tmp stays as it is, whoever names it
        remedy = f"run chmod 700 {path}" if closes else "choose one of your own, made with mkdir -m 700"
        raise EndpointError(f"{path} is open to others (mode bits {mode:03o}): {remedy}")


def _platform_runtime_dir() -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that XDG_RUNTIME_DIR is not set is no news: the fallback is checked below
        try:
            return user_runtime_path("guessahead", appauthor=False)
        except OSError as fault:
            raise EndpointError(
                f"there is no safe runtime directory ({fault}): set GUESSAHEAD_RUNTIME_DIR to a directory of your own"
            ) from None


def _may_be_removed(path: Path) -> bool:
    """Whether `path` is a socket, or nothing."""
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return True


class Claim:
    """The right to serve an endpoint, held by at most one process of the machine.

    It is a lock on `<socket>.lock` that the kernel releases when the holder dies, however it dies; so a socket file
    without a lock is left over and may be removed. The lock file itself stays: another process may have opened it and
    be about to lock it, and a third one would then make a new file and lock that.
    """

    def __init__(self, endpoint: str) -> None:
        self._socket = check_endpoint(endpoint)
        lock = self._socket.with_name(self._socket.name + ".lock")
        try:
            if not _may_be_removed(self._socket):
                raise EndpointError(
                    f"{self._socket} is there and no socket: move it away or choose another with --socket"
                )
            self._file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                self._take()
            except BaseException:
                os.close(self._file)
                raise
        except OSError as fault:
            raise EndpointError(
                f"cannot hold {lock} ({fault.strerror}): look after its disk and directory, "
                "or choose another with --socket"
            ) from None

    def _take(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise EndpointError(
                f"{_SCHEME}{self._socket} is already served by pid {holder}; stop it or choose another with --socket"
            ) from None
        os.truncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        self._socket.unlink(missing_ok=True)

    def release(self) -> None:
        """Removes the socket, then gives the claim up. Harmless when repeated."""
        if self._file >= 0:
            with suppress(OSError):  # what stays is left over, and removed by the next claim
                if _may_be_removed(self._socket):
                    self._socket.unlink(missing_ok=True)
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<Claim {self._socket} {'held' if self._file >= 0 else 'released'}>"
