"""What can be told of a model file before a library opens it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from modeld.backends.base import LoadError
from modeld.models import gguf

HEAD = b"GGUF" + (3).to_bytes(4, "little")


def test_a_file_that_begins_like_a_model_passes(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(HEAD + bytes(100))
    gguf.check(path)


def _absent(path: Path) -> None:
    pass


def _text(path: Path) -> None:
    path.write_text("just text")


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _future(path: Path) -> None:
    path.write_bytes(b"GGUF" + (99).to_bytes(4, "little"))


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (_absent, "no such model file"),
        (Path.mkdir, "is a directory"),
        (_text, "not a GGUF file"),
        (_empty, "not a GGUF file"),
        (_future, "GGUF version 99"),
        (_pipe, "not a regular file"),
        (_loop, "no such model file|cannot read"),
    ],
)
def test_what_is_not_a_model_is_refused_in_one_line(tmp_path: Path, make: Callable[[Path], None], says: str) -> None:
    path = tmp_path / "model.gguf"
    make(path)
    with pytest.raises(LoadError, match=says) as refused:
        gguf.check(path)
    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(HEAD)

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(LoadError, match="Permission denied; check the permissions"):
        gguf.check(path)


def test_a_model_in_parts_is_all_of_its_parts(tmp_path: Path) -> None:
    paths = [tmp_path / f"big-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    for path in paths:
        path.write_bytes(HEAD)
    assert gguf.parts(paths[0]) == paths
    assert gguf.parts(tmp_path / "single.gguf") == [tmp_path / "single.gguf"]
    gguf.check_all(paths[0])
    paths[1].unlink()
    with pytest.raises(LoadError, match=r"no such model file: .*00002-of-00003"):
        gguf.parts(paths[0])
