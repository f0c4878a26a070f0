"""A cache directory of its own for every test of model files."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache"
    monkeypatch.setenv("GUESSAHEAD_CACHE_DIR", str(path))
    return path
