"""The tokens around a gap: each family's own, all of them or none."""

import pytest

from modeld.backends.gap import CODESTRAL, FAMILIES, gap_tokens

OTHERS = {"<|endoftext|>": 0, "<|im_start|>": 1, "<|im_end|>": 2, "<file_sep>": 3, "<repo_name>": 4}


def having(*texts: str) -> dict[str, int]:
    return OTHERS | {text: 10 + at for at, text in enumerate(texts)}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family[0])
def test_a_family_is_known_by_its_spelling(family: tuple[str, str, str]) -> None:
    assert gap_tokens(having(*family), "a model") == family


def test_a_vocabulary_that_lacks_one_has_none() -> None:
    """The packaged model's has tokens for repositories and files, and none for a gap."""
    assert gap_tokens(OTHERS, "SmolLM2 135M") == ()
    for family in FAMILIES:
        for text in family:
            assert gap_tokens(having(*(one for one in family if one != text)), "a model") == ()


def test_what_a_makers_other_models_never_learnt_is_not_used() -> None:
    mistral = having("[PREFIX]", "[MIDDLE]", "[SUFFIX]")
    assert gap_tokens(mistral, "Codestral-22B-v0.1") == CODESTRAL
    assert gap_tokens(mistral, "Mistral-Nemo-Instruct-2407") == ()
