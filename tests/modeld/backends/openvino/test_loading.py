"""How a pipeline is opened and a folder's tokenizer judged, without a model."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openvino_genai as genai
import pytest

from modeld.backends.base import LoadError
from modeld.backends.openvino import loading
from modeld.backends.openvino.loading import OpenVinoSettings, open_pipeline
from modeld.models import cache
from modeld.models.openvino_folder import DETOKENIZER, TOKENIZER


def test_a_model_is_compiled_by_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library writes what it compiled where others read it; who comes meanwhile waits, for a bounded time."""
    opened: list[str] = []

    def compile_it(*_: object, properties: dict[str, str], **__: object) -> None:
        opened.append(properties["CACHE_DIR"])
        if len(opened) == 1:
            with pytest.raises(LoadError, match="another process has been holding"):
                open_pipeline(tmp_path, "f" * 16, OpenVinoSettings(), 1)

    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_LOCK_S", 0.0)
    monkeypatch.setattr(loading, "Pipeline", compile_it)
    monkeypatch.setattr(loading, "silent_tokenizer", lambda: None)
    for _ in range(2):
        open_pipeline(tmp_path, "f" * 16, OpenVinoSettings(), 1)
    assert len(opened) == 2


class Tokenizer:
    """As the library's, with a vocabulary of words; `spell` says how its map of them writes one."""

    words = ("def", "return", "naïve", "你好", *map(chr, range(32, 127)), "\n")

    def __init__(self, folder: Path) -> None:
        pass

    def spell(self, word: str) -> str:
        return word

    def get_vocab(self) -> dict[bytes, int]:
        return {self.spell(word).encode(): token for token, word in enumerate(self.words)}

    def get_eos_token_id(self) -> int:
        return -1

    def encode(self, text: str, add_special_tokens: bool = True) -> Any:
        words = re.findall("|".join(map(re.escape, self.words)), text)
        return SimpleNamespace(input_ids=SimpleNamespace(data=[[self.words.index(word) for word in words]]))

    def decode(self, each: list[list[int]], skip_special_tokens: bool) -> list[str]:
        return ["".join(self.words[token] for token in ids) for ids in each]


class LikeSentencePiece(Tokenizer):
    """The library decodes its texts, and hands out the vocabulary as it was before that."""

    def spell(self, word: str) -> str:
        return word.replace(" ", "▁").replace("\n", "<0x0A>")


def test_a_vocabulary_that_is_not_of_bytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer would read like `▁def▁f(x):<0x0A>`, and a stop string "\\n" would never be found."""
    monkeypatch.setattr(genai, "Tokenizer", Tokenizer)
    assert loading._vocabulary(tmp_path, 200).special == {}
    monkeypatch.setattr(genai, "Tokenizer", LikeSentencePiece)
    with pytest.raises(LoadError, match=r"▁f.*<0x0A>.*give the model's GGUF file") as fault:
        loading._vocabulary(tmp_path, 200)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("written", [(), (TOKENIZER,), (TOKENIZER, DETOKENIZER)])
def test_a_tokenizer_that_the_library_cannot_read_is_refused_in_one_line(
    tmp_path: Path, written: tuple[str, ...]
) -> None:
    for name in written:
        (tmp_path / name).write_text("no graph")
    with pytest.raises(LoadError, match=r"the tokenizer of .* cannot be used: .*export it again") as fault:
        loading._vocabulary(tmp_path, 200)
    assert "\n" not in str(fault.value)
