"""The vocabulary of an OpenVINO folder, with a tokenizer of words: which tokens are special, and that text is none."""

import re
from types import SimpleNamespace
from typing import Any

from modeld.backends.gap import FAMILIES, gap_tokens
from modeld.backends.openvino.vocabulary import OpenVinoVocabulary

QWEN = FAMILIES[0]
END = "<|im_end|>"
WORDS = [END, *QWEN, *map(chr, range(32, 127))]


class Tokenizer:
    """As the library's; like Qwen's it takes the end of an answer alone for special."""

    def get_vocab(self) -> dict[bytes, int]:
        return {word.encode(): token for token, word in enumerate(WORDS)}

    def get_eos_token_id(self) -> int:
        return WORDS.index(END)

    def get_original_chat_template(self) -> str:
        return ""

    def encode(self, text: str, add_special_tokens: bool = True) -> Any:
        words = re.findall("|".join(map(re.escape, WORDS)), text)
        return SimpleNamespace(input_ids=SimpleNamespace(data=[[WORDS.index(word) for word in words]]))

    def decode(self, each: list[list[int]], skip_special_tokens: bool) -> list[str]:
        hidden = {END} if skip_special_tokens else set()
        return ["".join(WORDS[token] for token in ids if WORDS[token] not in hidden) for ids in each]


def test_tokens_around_a_gap_are_special_where_a_tokenizer_counts_them_as_text() -> None:
    vocabulary = OpenVinoVocabulary(Tokenizer(), len(WORDS))
    assert set(vocabulary.special) == {END, *QWEN}
    assert gap_tokens(vocabulary.special, "qwen2.5-coder") == QWEN
    assert vocabulary.piece(vocabulary.special[QWEN[2]]) == b""


def test_a_text_that_spells_one_does_not_become_it() -> None:
    vocabulary = OpenVinoVocabulary(Tokenizer(), len(WORDS))
    text = f"a {QWEN[2]} b {END}"
    ids = vocabulary.tokenise(text)
    assert not set(ids) & set(vocabulary.special.values())
    assert b"".join(map(vocabulary.piece, ids)) == text.encode()
