"""How a pipeline is opened, without a model."""

from pathlib import Path

import pytest

from modeld.backends.base import LoadError
from modeld.backends.openvino import loading
from modeld.backends.openvino.loading import OpenVinoSettings, open_pipeline
from modeld.models import cache


def test_a_model_is_compiled_by_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library writes what it compiled where others read it; who comes meanwhile waits, for a bounded time."""
    opened: list[str] = []

    def compile_it(*_: object, properties: dict[str, str], **__: object) -> None:
        opened.append(properties["CACHE_DIR"])
        if len(opened) == 1:
            with pytest.raises(LoadError, match="another process has been holding"):
                open_pipeline(tmp_path, "f" * 16, OpenVinoSettings(), 1)

    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_LOCK_S", 0.0)
    monkeypatch.setattr(loading, "Pipeline", compile_it)
    monkeypatch.setattr(loading, "silent_tokenizer", lambda: None)
    for _ in range(2):
        open_pipeline(tmp_path, "f" * 16, OpenVinoSettings(), 1)
    assert len(opened) == 2
