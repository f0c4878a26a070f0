"""Owns a llama.cpp vocabulary: text to ids, ids to bytes, which tokens are special. It holds no context."""

import ctypes
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from llama_cpp import llama_cpp as llama
from numpy.typing import NDArray

from modeld.backends.base import BackendError
from modeld.backends.plain_text import tokenise_plain

_CONTROL = llama.LLAMA_TOKEN_ATTR_CONTROL
_USER_DEFINED = llama.LLAMA_TOKEN_ATTR_USER_DEFINED
_GAP = (llama.llama_vocab_fim_pre, llama.llama_vocab_fim_suf, llama.llama_vocab_fim_mid)
_GUARD = "\n"


class LlamaVocabulary:
    """Valid while its model is loaded. Text that is not valid Unicode (lone surrogates) raises `UnicodeEncodeError`."""

    def __init__(self, model: llama.llama_model_p) -> None:
        vocab = llama.llama_model_get_vocab(model)
        if vocab is None:
            raise BackendError("the model has no vocabulary")
        self._vocab = vocab
        self._size = int(llama.llama_vocab_n_tokens(vocab))
        self._special = self._special_tokens()
        self._texts = {token: text for text, token in self._special.items()}
        self._prepend = [llama.llama_vocab_bos(vocab)] if llama.llama_vocab_get_add_bos(vocab) else []
        self._end_ids = frozenset(token for token in range(self._size) if llama.llama_vocab_is_eog(vocab, token))
        template = llama.llama_model_chat_template(model, None)
        self._chat_template = template.decode(errors="replace") if template else None
        self._pieces: dict[int, bytes] = {}

    def __repr__(self) -> str:
        return f"LlamaVocabulary({self._size} tokens, {len(self._special)} special)"

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
        return self._chat_template

    def tokenise(self, text: str) -> Sequence[int]:
        ids = tokenise_plain(
            text, first=self._tokenise, later=self._tokenise_later, special=self._texts, spell=self._spell
        )
        tokens: list[int] = ids.tolist()
        return tokens

    def piece(self, token: int) -> bytes:
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._render(token)
        return known

    def text_of(self, token: int) -> str:
        if not 0 <= token < self._size:
            raise BackendError(f"token {token} is not in the vocabulary of {self._size}")
        return (llama.llama_vocab_get_text(self._vocab, token) or b"").decode(errors="replace")

    def _special_tokens(self) -> dict[str, int]:
        """Control tokens, and user-defined ones but for white space: models spell indentation with those.

        Those around a gap are some, however the file marks them.
        """
        special: dict[str, int] = {}
        gap = {find(self._vocab) for find in _GAP}
        for token in range(self._size):
            attributes = llama.llama_vocab_get_attr(self._vocab, token)
            if attributes & (_CONTROL | _USER_DEFINED) or token in gap:
                text = self.text_of(token)
                if attributes & _CONTROL or text.strip():
                    special.setdefault(text, token)
        return special

    def _tokenise(self, text: str) -> NDArray[np.int32]:
        data = text.encode()
        room = len(data) + 2
        ids = np.empty(room, np.int32)
        target = ids.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        count = llama.llama_tokenize(self._vocab, data, len(data), target, room, False, False)
        if count < 0:
            raise BackendError(f"a text of {len(data)} bytes needs more than {room} tokens")
        return ids[:count]

    def _tokenise_later(self, text: str) -> NDArray[np.int32]:
        """As in the middle of a text: a vocabulary that puts a space before every text must not do so here."""
        if not self._puts_space_first:
            return self._tokenise(text)
        guard, guarded = self._tokenise(_GUARD), self._tokenise(_GUARD + text)
        stands = np.array_equal(guarded[: len(guard)], guard)
        return guarded[len(guard) :] if stands else self._tokenise(text)

    @cached_property
    def _puts_space_first(self) -> bool:
        return self.piece(int(self._tokenise("a")[0])).startswith(b" ")

    def _spell(self, text: str) -> NDArray[np.int32]:
        """A text byte by byte."""
        tokens = [self._byte_tokens.get(byte) for byte in text.encode()]
        if None in tokens:
            raise BackendError("a character of the text is a special token and cannot be spelled otherwise")
        return np.array(tokens, np.int32)

    @cached_property
    def _byte_tokens(self) -> Mapping[int, int]:
        ordinary = (token for token in range(self._size) if token not in self._texts)
        return {piece[0]: token for token in ordinary if len(piece := self.piece(token)) == 1}

    def _render(self, token: int) -> bytes:
        if not 0 <= token < self._size:
            raise BackendError(f"token {token} is not in the vocabulary of {self._size}")
        buffer = ctypes.create_string_buffer(64)
        length = llama.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, False)
        if length < 0:
            buffer = ctypes.create_string_buffer(-length)
            length = llama.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, False)
        return buffer.raw[: max(0, length)]
