"""Owns the pace of the daemon's tests."""

import pytest

from intentd import speculator
from intentd.sources import files


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done every second is done every few milliseconds."""
    monkeypatch.setattr(speculator, "CHECK_S", 0.02)
    monkeypatch.setattr(speculator, "FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(speculator, "LAST_RETRY_S", 0.02)
    monkeypatch.setattr(files, "LOOK_S", 0.2)  # long enough to plan every offer again in between
