"""The digest of a model file, and its memory."""

import os
from pathlib import Path

import pytest

from modeld.backends.base import LoadError
from modeld.models.fingerprint import fingerprint


def _model(tmp_path: Path, content: bytes = b"GGUF\3\0\0\0 weights") -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    return path


def test_the_same_content_has_the_same_fingerprint_wherever_it_lies(tmp_path: Path) -> None:
    first = _model(tmp_path)
    second = tmp_path / "other.gguf"
    second.write_bytes(first.read_bytes())
    assert fingerprint(first) == fingerprint(second)
    assert len(fingerprint(first)) == 64


def test_a_changed_byte_changes_the_fingerprint_although_it_was_remembered(tmp_path: Path) -> None:
    path = _model(tmp_path)
    before = fingerprint(path)
    path.write_bytes(path.read_bytes().replace(b"w", b"W"))
    os.utime(path, ns=(0, 1))
    assert fingerprint(path) != before


def test_the_second_time_the_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _model(tmp_path)
    before = fingerprint(path)
    monkeypatch.setattr("hashlib.file_digest", lambda *_: pytest.fail("it was read again"))
    assert fingerprint(path) == before


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"digest": "zz"}', b'{"digest": "00", "seen": []}'])
def test_a_damaged_memory_is_not_believed(tmp_path: Path, cache_folder: Path, damage: bytes) -> None:
    path = _model(tmp_path)
    before = fingerprint(path)
    (note,) = (cache_folder / "fingerprints").iterdir()
    note.write_bytes(damage)
    assert fingerprint(path) == before


def test_without_a_cache_it_is_computed(tmp_path: Path, cache_folder: Path) -> None:
    path = _model(tmp_path)
    before = fingerprint(path)
    cache_folder.rename(tmp_path / "away")
    cache_folder.write_bytes(b"a file where the folder should be")
    assert fingerprint(path) == before


def test_a_file_that_vanished_is_a_load_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="cannot read"):
        fingerprint(tmp_path / "gone.gguf")
