"""Verdicts are kept by what they depend on."""

from pathlib import Path

import pytest

from modeld.models import verdicts
from modelwire.messages import Exactness

FOUND = Exactness(verdict="approximate", largest_difference=0.5, differing_tokens=0.01)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUESSAHEAD_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_a_verdict_is_recalled_for_the_same_model_and_build_alone() -> None:
    verdicts.remember(("model", "exact", "build"), FOUND)
    assert verdicts.recall(("model", "exact", "build")) == FOUND
    assert verdicts.recall(("model", "exact", "other build")).verdict == "untested"


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"verdict": 1, "more": 2}'])
def test_a_damaged_one_counts_as_none(cache: Path, content: str) -> None:
    verdicts.remember(("a",), FOUND)
    (file,) = (cache / "exactness").iterdir()
    file.write_text(content)
    assert verdicts.recall(("a",)) == Exactness()
