"""Owns the digest that tells one model file from another: over its size and every byte, remembered between starts."""

import contextlib
import hashlib
import json
from pathlib import Path

from modeld.backends.base import LoadError
from modeld.models import cache, gguf


def fingerprint(path: Path) -> str:
    """64 hex digits. Raises `LoadError` for a file that cannot be read.

    Reading gigabytes takes seconds, so the digest is kept in the cache for as long as size, inode and modification time
    stay the same. Without a cache that can be written it is computed every time.
    """
    total = hashlib.sha256()
    for part in gguf.parts(path):
        try:
            total.update(_digest(part.resolve()))
        except OSError as fault:
            raise LoadError(f"cannot read {part}: {fault.strerror}; check the file and its disk") from None
    return total.hexdigest()


def _digest(path: Path) -> bytes:
    state = path.stat()
    seen = [state.st_size, state.st_ino, state.st_mtime_ns]
    note = _note(path)
    if (known := _recall(note, seen)) is not None:
        return known
    with path.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").digest()
    digest = hashlib.sha256(state.st_size.to_bytes(8, "little") + content).digest()
    if note is not None:
        with contextlib.suppress(OSError):
            cache.write_aside(note, json.dumps({"seen": seen, "digest": digest.hex()}).encode())
    return digest


def _note(path: Path) -> Path | None:
    try:
        return cache.folder("fingerprints") / f"{hashlib.sha256(bytes(path)).hexdigest()[:32]}.json"
    except LoadError:
        return None


def _recall(note: Path | None, seen: list[int]) -> bytes | None:
    """The remembered digest; None where there is none, it is of another state of the file, or it is damaged."""
    if note is None:
        return None
    try:
        kept = json.loads(note.read_bytes())
        digest = bytes.fromhex(kept["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return digest if kept.get("seen") == seen and len(digest) == 32 else None
