"""Owns the vocabulary of an OpenVINO folder: text to ids, ids to bytes, which tokens are special. It runs no model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modeld.backends.base import BackendError
from modeld.backends.gap import SPELLINGS
from modeld.backends.plain_text import tokenise_plain

_ENDS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<end_of_turn>", "</s>", "<|end|>")
"""Spellings of tokens that end an answer, where they are special tokens of the vocabulary."""


class OpenVinoVocabulary:
    """`tokenizer` is the library's. Special are the tokens that it leaves out of a text when it is told to, and those
    around a gap: Qwen's tokenizer counts them as text."""

    def __init__(self, tokenizer: Any, size: int) -> None:
        self._tokenizer = tokenizer
        self._size = size
        self._bytes: dict[int, bytes] = {token: text for text, token in tokenizer.get_vocab().items()}
        self._texts = self._special_tokens()
        self._special = {text: token for token, text in self._texts.items()}
        end = tokenizer.get_eos_token_id()
        ends = {self._special[text] for text in _ENDS if text in self._special}
        self._end_ids = frozenset(ends | ({end} if end >= 0 else set()))
        self._prepend = self._put_first()

    def __repr__(self) -> str:
        return f"OpenVinoVocabulary({self._size} tokens, {len(self._special)} special)"

    @property
    def size(self) -> int:
        return self._size

    @property
    def special(self) -> Mapping[str, int]:
        return self._special

    @property
    def prepend(self) -> Sequence[int]:
        return self._prepend

    @property
    def end_ids(self) -> frozenset[int]:
        return self._end_ids

    @property
    def chat_template(self) -> str | None:
        return self._tokenizer.get_original_chat_template() or None

    def tokenise(self, text: str) -> Sequence[int]:
        ids = tokenise_plain(text, first=self._encode, later=self._encode, special=self._texts, spell=self._spell)
        tokens: list[int] = ids.tolist()
        return tokens

    def piece(self, token: int) -> bytes:
        self._check(token)
        return b"" if token in self._texts else self._bytes.get(token, b"")

    def text_of(self, token: int) -> str:
        self._check(token)
        return self._texts.get(token) or self._bytes.get(token, b"").decode(errors="replace")

    def _check(self, token: int) -> None:
        if not 0 <= token < self._size:
            raise BackendError(f"token {token} is not in the vocabulary of {self._size}")

    def _encode(self, text: str) -> NDArray[np.int32]:
        if not text:
            return np.empty(0, np.int32)
        ids = self._tokenizer.encode(text, add_special_tokens=False).input_ids.data
        return np.array(ids, np.int32).reshape(-1)

    def _spell(self, text: str) -> NDArray[np.int32]:
        """A text byte by byte."""
        by_bytes = {
            piece: token for token, piece in self._bytes.items() if len(piece) == 1 and token not in self._texts
        }
        tokens = [by_bytes.get(bytes([byte])) for byte in text.encode()]
        if None in tokens:
            raise BackendError("a character of the text is a special token and cannot be spelled otherwise")
        return np.array(tokens, np.int32)

    def _special_tokens(self) -> dict[int, str]:
        known = sorted(self._bytes)
        each = [[token] for token in known]
        shown = self._tokenizer.decode(each, skip_special_tokens=False)
        plain = self._tokenizer.decode(each, skip_special_tokens=True)
        pairs = zip(known, shown, plain, strict=True)
        return {token: text for token, text, without in pairs if text and (not without or text in SPELLINGS)}

    def _put_first(self) -> Sequence[int]:
        """What the tokenizer puts before a text by itself."""
        whole = np.array(self._tokenizer.encode("a").input_ids.data, np.int32).reshape(-1)
        bare = self._encode("a")
        count = len(whole) - len(bare)
        return [int(whole[0])] if count > 0 and whole[0] in self._texts else []
