"""What can be a model for OpenVINO, judged by its files."""

from pathlib import Path

import pytest

from modeld.backends.base import LoadError
from modeld.models.openvino_folder import DETOKENIZER, MODEL, TOKENIZER, check

GGUF = b"GGUF\x03\x00\x00\x00"


def test_a_folder_with_a_graph_and_a_tokenizer_can_be_one(tmp_path: Path) -> None:
    for name in (MODEL, TOKENIZER, DETOKENIZER):
        (tmp_path / name).touch()
    check(tmp_path)


@pytest.mark.parametrize("missing", [MODEL, TOKENIZER, DETOKENIZER])
def test_a_folder_without_is_refused_with_what_to_give(tmp_path: Path, missing: str) -> None:
    for name in {MODEL, TOKENIZER, DETOKENIZER} - {missing}:
        (tmp_path / name).touch()
    with pytest.raises(LoadError, match=f"has no {missing}; give a folder that optimum-intel exported, or a GGUF"):
        check(tmp_path)


def test_a_gguf_file_can_be_one(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(GGUF)
    check(tmp_path / "a.gguf")


def test_a_file_in_several_parts_is_refused(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"a-0000{number}-of-00002.gguf").write_bytes(GGUF)
    with pytest.raises(LoadError, match="OpenVINO reads a single one"):
        check(tmp_path / "a-00001-of-00002.gguf")


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="no such model file"):
        check(tmp_path / "missing.gguf")
