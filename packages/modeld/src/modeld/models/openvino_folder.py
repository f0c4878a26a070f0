"""Owns the question whether a path can be a model for OpenVINO: a folder of its own form, or one GGUF file."""

from pathlib import Path

from modeld.backends.base import LoadError
from modeld.models import gguf

ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""Of GGUF files, so far as the library reads them."""
MODEL, TOKENIZER, DETOKENIZER = "openvino_model.xml", "openvino_tokenizer.xml", "openvino_detokenizer.xml"


def check(path: Path) -> None:
    """Raises `LoadError` with one line for what cannot be a model."""
    if not path.is_dir():
        gguf.check_all(path)
        if len(gguf.parts(path)) > 1:
            raise LoadError(f"{path} is one of several files; OpenVINO reads a single one: merge them first")
        return
    for name in (MODEL, TOKENIZER, DETOKENIZER):
        if not (path / name).is_file():
            raise LoadError(f"{path} has no {name}; give a folder that optimum-intel exported, or a GGUF file")
