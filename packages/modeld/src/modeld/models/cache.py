"""Owns where derived model files live: the user's cache directory. It knows nothing of what is in them."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from platformdirs import user_cache_path

from modeld.backends.base import LoadError

VARIABLE = "GUESSAHEAD_CACHE_DIR"
_LOCK_S = 300.0
_LOCK_POLL_S = 0.05


def folder(name: str) -> Path:
    """A folder of the cache, made owner-only where it is new. Raises `LoadError` where that fails."""
    root = Path(os.environ.get(VARIABLE) or user_cache_path("guessahead", appauthor=False))
    path = root / name
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as fault:
        raise unwritable(path, fault, "make") from None
    return path


def write_aside(path: Path, data: bytes) -> None:
    """Replace a small file as a whole: a reader sees the old one or the new one."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        aside.write_bytes(data)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that other processes respect; it goes with the process, so a crash leaves nothing behind.

    Raises `LoadError` where it cannot be had.
    """
    until = time.monotonic() + _LOCK_S
    with _opened(path) as file:
        while not _taken(file.fileno()):
            if time.monotonic() > until:
                raise LoadError(f"another process has been holding {path} for {_LOCK_S:.0f} s; end it and try again")
            time.sleep(_LOCK_POLL_S)
        yield


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("ab")
    except OSError as fault:
        raise unwritable(path.parent, fault) from None


def unwritable(path: Path, fault: OSError, what: str = "write to") -> LoadError:
    return LoadError(
        f"cannot {what} the cache folder {path}: {fault.strerror}; set {VARIABLE} to a folder that can be written"
    )


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
