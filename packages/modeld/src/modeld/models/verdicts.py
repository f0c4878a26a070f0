"""Owns the remembered verdicts of exactness tests, one small file each. It tests nothing."""

import hashlib
import json
from pathlib import Path

from attrs import asdict

from modeld.backends.base import LoadError
from modeld.models.cache import folder, write_aside
from modelwire.messages import Exactness


def _path(key: tuple[str, ...]) -> Path:
    return folder("exactness") / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.json"


def recall(key: tuple[str, ...]) -> Exactness:
    """`key`: all that a verdict depends on. An untested one where there is none, or none that can be read."""
    try:
        return Exactness(**json.loads(_path(key).read_text()))
    except (LoadError, OSError, ValueError, TypeError):
        return Exactness()


def remember(key: tuple[str, ...], exactness: Exactness) -> None:
    """Raises OSError or `LoadError`."""
    write_aside(_path(key), json.dumps(asdict(exactness)).encode())
