"""Owns what a model's KV takes, read from the file's metadata without loading its weights."""

from pathlib import Path

from llama_cpp import llama_cpp as llama

from modeld.backends.llamacpp import loading, vendor_log
from modeld.models import gguf

ELEMENT_BYTES = 2
"""Both profiles keep K and V in types of 16 bits."""


def cell_bytes(path: Path) -> int:
    """Bytes of one KV position over all layers; 0 where the file does not say. Raises `LoadError`."""
    gguf.check_all(path)
    vendor_log.listen()
    model = loading.open_file(path, extra_buffers=False, vocabulary_only=True)
    try:
        kind = loading.metadata(model, "general.architecture")
        layers, embedding, heads, kv_heads, key, value = (
            int(loading.metadata(model, f"{kind}.{name}") or 0)
            for name in (
                "block_count",
                "embedding_length",
                "attention.head_count",
                "attention.head_count_kv",
                "attention.key_length",
                "attention.value_length",
            )
        )
    except ValueError:  # a list, of a model whose layers differ
        return 0
    finally:
        llama.llama_model_free(model)
    width = embedding // heads if heads else 0
    return layers * (kv_heads or heads) * ((key or width) + (value or width)) * ELEMENT_BYTES
