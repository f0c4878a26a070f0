"""What was found out about a model is kept by all that it depends on."""

from pathlib import Path

import msgpack
import pytest

from modeld.backends.base import Capabilities
from modeld.models import facts
from modelwire.messages import Exactness

FOUND = Exactness(verdict="approximate", largest_difference=0.5, differing_tokens=0.01)
ABLE = Capabilities(fork="cells", rollback=True, stop="step", logits=True, export_state=False)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUESSAHEAD_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_a_fact_is_recalled_for_the_same_model_and_build_alone() -> None:
    facts.remember(FOUND, ("model", "exact", "build"))
    facts.remember(ABLE, ("model", "exact", "build"))
    assert facts.recall(Exactness, ("model", "exact", "build")) == FOUND
    assert facts.recall(Capabilities, ("model", "exact", "build")) == ABLE
    assert facts.recall(Exactness, ("model", "exact", "other build")) is None
    assert facts.recall(Capabilities, ("model", "fast", "build")) is None


@pytest.mark.parametrize("cut", [0, 1, 40, -1])
def test_a_file_that_is_cut_off_counts_as_none(cache: Path, cut: int) -> None:
    facts.remember(FOUND, ("a",))
    (file,) = (cache / "exactness").iterdir()
    file.write_bytes(file.read_bytes()[:cut])
    assert facts.recall(Exactness, ("a",)) is None


@pytest.mark.parametrize(
    "wrong", [{"verdict": "perhaps"}, {"verdict": 1}, {"largest_difference": "x"}, {"kind": "ready"}]
)
def test_one_with_a_wrong_field_counts_as_none(cache: Path, wrong: dict[str, object]) -> None:
    facts.remember(FOUND, ("a",))
    (file,) = (cache / "exactness").iterdir()
    file.write_bytes(msgpack.packb(msgpack.unpackb(file.read_bytes()) | wrong))
    assert facts.recall(Exactness, ("a",)) is None


def test_without_a_cache_that_can_be_made_nothing_is_known(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "file").touch()
    monkeypatch.setenv("GUESSAHEAD_CACHE_DIR", str(cache / "file"))
    assert facts.recall(Exactness, ("a",)) is None
