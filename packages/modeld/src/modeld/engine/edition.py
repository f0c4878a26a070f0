"""Owns what tells this code's edition from another one's: front and engine must be of the same. It compares nothing."""

import os
from hashlib import sha256
from importlib.metadata import version

from attrs import fields

from modeld.engine.config import EngineConfig
from modeld.engine.frames import KNOWN

_SAID = [(cls.__name__, *(field.name for field in fields(cls))) for cls in (EngineConfig, *KNOWN)]
EDITION = f"{version('modeld')} {sha256(repr(_SAID).encode()).hexdigest()[:16]}"
"""As it was when this process was started: what is installed now may be another one."""
OUTDATED = os.EX_PROTOCOL
"""Exit status of an engine whose front is of another edition."""
