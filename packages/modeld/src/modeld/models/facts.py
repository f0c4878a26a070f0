"""Owns what was found out about models and is remembered between starts, a small file each. It finds out nothing.

A file that cannot be read, or does not hold what it should in every field, counts as none.
"""

import hashlib
import json
from pathlib import Path
from typing import TypeVar

from modeld.backends.base import Capabilities, LoadError
from modeld.models.cache import folder, write_aside
from modelwire.codec import Codec, DecodeFault
from modelwire.messages import Exactness

Fact = TypeVar("Fact", Exactness, Capabilities)
_NAMES: dict[str, type] = {"exactness": Exactness, "capabilities": Capabilities}
_CODEC = Codec(_NAMES)


def _path(cls: type, key: tuple[str, ...]) -> Path:
    name = next(name for name, known in _NAMES.items() if known is cls)
    return folder(name) / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.msgpack"


def recall(cls: type[Fact], key: tuple[str, ...]) -> Fact | None:
    """`key`: all that the fact depends on. None where nothing is remembered."""
    try:
        fact = _CODEC.decode(_path(cls, key).read_bytes()).message
    except (LoadError, OSError, DecodeFault):
        return None
    return fact if isinstance(fact, cls) else None


def remember(fact: Exactness | Capabilities, key: tuple[str, ...]) -> None:
    """Raises OSError or `LoadError`."""
    write_aside(_path(type(fact), key), _CODEC.encode("fact", fact))
