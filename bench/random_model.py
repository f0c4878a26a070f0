"""Owns a model file with random weights: of a size that people use, to measure speed where none can be had. It says
nothing that means anything.

The shape is that of Qwen2.5 1.5B with the packaged model's vocabulary, in Q4_0 with the shared embedding in Q6_K, as
llama.cpp quantises. The blocks are drawn, not quantised, which takes seconds: how long a step takes does not depend on
what the weights are.
"""

from pathlib import Path

import numpy as np
from attrs import frozen
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from numpy.typing import NDArray

from modeld.models import cache
from modeld.models.packaged import packaged

_Q4_0_FILE = 2
_SPREAD = 0.02
"""Standard deviation of the weights, about that of a trained model's: no value runs away."""


@frozen(kw_only=True)
class Shape:
    """A decoder of the llama kind; `parameters` are without norms."""

    layers: int = 28
    width: int = 1536
    inner: int = 8960
    heads: int = 12
    kv_heads: int = 2
    context: int = 8192

    @property
    def head(self) -> int:
        return self.width // self.heads

    def matrices(self) -> dict[str, tuple[int, int]]:
        """Of one layer: rows, columns."""
        kv = self.head * self.kv_heads
        return {
            "attn_q": (self.width, self.width),
            "attn_k": (kv, self.width),
            "attn_v": (kv, self.width),
            "attn_output": (self.width, self.width),
            "ffn_gate": (self.inner, self.width),
            "ffn_up": (self.inner, self.width),
            "ffn_down": (self.width, self.inner),
        }

    def parameters(self, vocabulary: int) -> int:
        return self.layers * sum(rows * columns for rows, columns in self.matrices().values()) + vocabulary * self.width


def random_model(shape: Shape | None = None, seed: int = 1) -> Path:
    """In the cache, made where it is not there yet. Raises `LoadError` where the cache cannot be written."""
    shape = shape or Shape()
    path = cache.folder("models") / f"random-{shape.layers}x{shape.width}x{shape.inner}-{seed}-Q4_0.gguf"
    if not path.exists():
        aside = path.with_suffix(".part")
        _write(aside, shape, np.random.default_rng(seed))
        aside.replace(path)
    return path


def _write(path: Path, shape: Shape, random: np.random.Generator) -> None:
    source = GGUFReader(packaged())
    writer = GGUFWriter(path, "llama")
    vocabulary = len(source.fields["tokenizer.ggml.tokens"].data)
    _describe(writer, shape, vocabulary)
    _copy_tokeniser(writer, source)
    embedding = _drawn(random, vocabulary, shape.width, GGMLQuantizationType.Q6_K)
    writer.add_tensor("token_embd.weight", embedding, raw_dtype=GGMLQuantizationType.Q6_K)
    writer.add_tensor("output_norm.weight", np.ones(shape.width, np.float32))
    for layer in range(shape.layers):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", np.ones(shape.width, np.float32))
        for name, (rows, columns) in shape.matrices().items():
            data = _drawn(random, rows, columns, GGMLQuantizationType.Q4_0)
            writer.add_tensor(f"blk.{layer}.{name}.weight", data, raw_dtype=GGMLQuantizationType.Q4_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: GGUFWriter, shape: Shape, vocabulary: int) -> None:
    writer.add_name(f"random weights, {shape.parameters(vocabulary) / 1e9:.1f}B")
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(vocabulary)
    writer.add_rope_dimension_count(shape.head)
    writer.add_file_type(_Q4_0_FILE)


def _copy_tokeniser(writer: GGUFWriter, source: GGUFReader) -> None:
    for name, field in source.fields.items():
        if name.startswith("tokenizer."):
            kind = field.types[0]
            of = field.types[-1] if kind is GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), kind, of)


def _drawn(random: np.random.Generator, rows: int, columns: int, kind: GGMLQuantizationType) -> NDArray[np.uint8]:
    """Random blocks as bytes, shape (rows, bytes of a row), with one scale for all."""
    size, length, at, scale = _BLOCKS[kind]
    blocks = random.integers(0, 256, (rows * columns // size, length), np.uint8)
    blocks[:, at : at + 2] = np.frombuffer(np.float16(scale).tobytes(), np.uint8)
    return blocks.reshape(rows, columns // size * length)


_BLOCKS = {
    # Weights of a block, its bytes, where the scale lies, the scale. It is multiplied by (0 … 15) - 8, or by
    # (0 … 63) - 32 and an int8.
    GGMLQuantizationType.Q4_0: (32, 18, 0, _SPREAD / 4.6),
    GGMLQuantizationType.Q6_K: (256, 210, 208, _SPREAD / (74 * 18.5)),
}
