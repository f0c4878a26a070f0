"""Owns the fixtures of the wire's tests: a short socket directory, a scripted daemon."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from modelwire.testing import ScriptedDaemon


@pytest.fixture
def directory() -> Iterator[Path]:
    """Owner-only and short: a socket's path has a limit that pytest's own directories can exceed."""
    path = Path(tempfile.mkdtemp(prefix="wire-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def endpoint(directory: Path) -> str:
    return f"ipc://{directory}/modeld.sock"


@pytest.fixture
async def daemon() -> AsyncIterator[ScriptedDaemon]:
    async with ScriptedDaemon() as daemon:
        yield daemon
