"""Owns the Q4_0 version of a model in the user's cache: made once, checked on every start, made again when damaged.

Q4_0 is the quantisation whose results are bit-identical however a prompt is cut into batches, and the fastest to
prefill on a CPU.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from modeld.backends.base import LoadError
from modeld.models import cache, gguf
from modeld.models.fingerprint import fingerprint

Quantiser = Callable[[Path, Path], None]
"""Writes the Q4_0 version of the first file to the second; raises `LoadError`."""


def requantised(source: Path, quantise: Quantiser) -> Path:
    """The Q4_0 version of `source`. Two processes at once are safe: one makes it, the other waits and takes it."""
    target = place(source)
    if not _whole(target):
        with cache.locked(target.with_suffix(".lock")):
            if not _whole(target):
                _make(source, target, quantise)
    return target


def place(source: Path) -> Path:
    """Where that version is, or will be. Raises `LoadError` for what is no model."""
    gguf.check(source)
    return cache.folder("models") / f"{source.name.split('.')[0]}-{fingerprint(source)[:16]}-Q4_0.gguf"


def _make(source: Path, target: Path, quantise: Quantiser) -> None:
    aside = target.with_suffix(f".{os.getpid()}.part")
    for left in target.parent.glob(f"{target.stem}.*.part"):  # of a process that was killed: we hold the lock
        left.unlink(missing_ok=True)
    try:
        quantise(source, aside)
        digest = _digest(aside)
        _note(target).unlink(missing_ok=True)
        aside.replace(target)
        cache.write_aside(_note(target), digest)
    except OSError as fault:
        raise LoadError(
            f"cannot write {target}: {fault.strerror}; free some space or set {cache.VARIABLE} to another folder"
        ) from None
    finally:
        aside.unlink(missing_ok=True)


def _whole(target: Path) -> bool:
    """Whether every byte is as it was made: the digest was noted only after the file was complete."""
    try:
        return _note(target).read_bytes() == _digest(target)
    except OSError:
        return False


def _digest(path: Path) -> bytes:
    """Of the content, read anew each time: a disk can change it without a trace in the file's times."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest().encode()


def _note(target: Path) -> Path:
    return target.with_suffix(".sha256")
