"""Owns where derived model files live: the user's cache directory. It knows nothing of what is in them."""

import os
from pathlib import Path

from platformdirs import user_cache_path

from modeld.backends.base import LoadError

VARIABLE = "GUESSAHEAD_CACHE_DIR"


def folder(name: str) -> Path:
    """A folder of the cache, made owner-only where it is new. Raises `LoadError` where that fails."""
    root = Path(os.environ.get(VARIABLE) or user_cache_path("guessahead", appauthor=False))
    path = root / name
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as fault:
        raise LoadError(
            f"cannot make the cache folder {path}: {fault.strerror}; set {VARIABLE} to a folder that can be written"
        ) from None
    return path


def write_aside(path: Path, data: bytes) -> None:
    """Replace a small file as a whole: a reader sees the old one or the new one."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        aside.write_bytes(data)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
