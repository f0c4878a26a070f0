"""A completion's prompt as ids: on a made vocabulary of each family with tokens around a gap, in its order, and on a
real one, the packaged model's, with three tokens renamed.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from intentd.plan.inline import prompt_of
from modeld.backends.fake_vocabulary import END_OF_TEXT, SIZE, FakeVocabulary
from modeld.backends.gap import CODESTRAL, FAMILIES, gap_tokens
from modeld.backends.llamacpp.file_text import FileText
from modeld.models.packaged import packaged
from modeld.slot.prompt import Encoder
from modeld.slot.settings import SlotSettings

GAP = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
RENAMED = ("<file_sep>", "<repo_name>", "<issue_comment>")
"""Together as long as those: the rest of the file stays where it is."""


class Made(FakeVocabulary):
    """Bytes, and a family's tokens from SIZE on."""

    def __init__(self, family: tuple[str, ...]) -> None:
        super().__init__(None, bos=True)
        self._own = {text: SIZE + at for at, text in enumerate(filter(None, family))}

    @property
    def special(self) -> Mapping[str, int]:
        return {**super().special, **self._own}


@pytest.mark.parametrize("family", [*FAMILIES, CODESTRAL], ids=lambda family: family[0])
def test_each_familys_tokens_stand_in_its_order(family: tuple[str, str, str]) -> None:
    vocabulary = Made(family)
    gap = gap_tokens(vocabulary.special, "codestral" if family is CODESTRAL else "a model")
    ids = Encoder(vocabulary, SlotSettings()).encode(prompt_of("x = ", "\ny", gap), complete=True).tolist()
    before, behind, middle = SIZE, SIZE + 1, SIZE + 2
    if family is CODESTRAL:
        assert ids == [END_OF_TEXT, behind, *b"\ny", before, *b"x = "]
    else:
        assert ids == [END_OF_TEXT, before, *b"x = ", behind, *b"\ny", middle]


def spelled(text: str) -> bytes:
    """As the file holds it."""
    return len(text).to_bytes(8, "little") + text.encode()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileText]:
    data = packaged().read_bytes()
    for old, new in zip(RENAMED, GAP, strict=True):
        assert data.count(spelled(old)) == 1
        data = data.replace(spelled(old), spelled(new))
    path: Path = tmp_path_factory.mktemp("model") / "gap.gguf"
    path.write_bytes(data)
    read = FileText(path, "0" * 16)
    yield read
    read.close()
    path.unlink()


def test_a_model_says_which_tokens_it_has_around_a_gap(file: FileText) -> None:
    assert (file.description.fim, file.description.fim_tokens) == (True, GAP)


def test_both_sides_stand_between_the_tokens_and_spell_none_themselves(file: FileText) -> None:
    encode = Encoder(file.vocabulary, SlotSettings()).encode
    before, behind, middle = (file.vocabulary.special[text] for text in GAP)
    prefix = "def area(width, height):\n    return "
    suffix = "\n\nprint('<fim_middle>')\n"
    ids = encode(prompt_of(prefix, suffix, GAP), complete=True).tolist()
    tokenise = file.vocabulary.tokenise
    assert ids == [before, *tokenise(prefix), behind, *tokenise(suffix), middle]
    assert ids.count(middle) == 1


def test_the_packaged_model_has_none_and_continues_what_stands_before() -> None:
    plain = FileText(packaged(), "0" * 16)
    try:
        assert (plain.description.fim, plain.description.fim_tokens) == (False, ())
    finally:
        plain.close()
