"""Owns what every test starts from: signals as a terminal gives them, a place for sockets, generated tests."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A background job inherits these ignored, its children with it; then no test could interrupt what it started.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The usual one, and the long one of `make test-long`.
settings.register_profile("usual", deadline=None)
settings.register_profile("long", deadline=None, max_examples=2000, stateful_step_count=100)
settings.load_profile("usual")


@pytest.fixture
def runtime() -> Iterator[Path]:
    """Owner-only and short: a socket's path has a limit that pytest's own directories can exceed."""
    path = Path(tempfile.mkdtemp(prefix="ga-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)  # what a test left may end in this moment
