"""The cached Q4_0 version of a model."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from modeld.backends.base import LoadError
from modeld.models import cache
from modeld.models.requantised import requantised


class CountingQuantiser:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, source: Path, target: Path) -> None:
        self.calls += 1
        target.write_bytes(b"GGUF small " + source.read_bytes())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "Model.Q4_1.gguf"
    path.write_bytes(b"GGUF\3\0\0\0 weights")
    return path


def test_it_is_made_once(source: Path) -> None:
    quantiser = CountingQuantiser()
    first = requantised(source, quantiser)
    assert requantised(source, quantiser) == first
    assert quantiser.calls == 1
    assert first.name.startswith("Model-")
    assert first.name.endswith("-Q4_0.gguf")


def test_another_source_of_the_same_name_gets_another_file(source: Path) -> None:
    first = requantised(source, CountingQuantiser())
    source.write_bytes(b"GGUF\3\0\0\0 better weights")
    assert requantised(source, CountingQuantiser()) != first


def test_a_truncated_file_is_made_again(source: Path) -> None:
    quantiser = CountingQuantiser()
    target = requantised(source, quantiser)
    whole = target.read_bytes()
    target.write_bytes(whole[:5])
    assert requantised(source, quantiser).read_bytes() == whole
    assert quantiser.calls == 2


@pytest.mark.parametrize("damage", [b"not a model".ljust(24), None])
def test_a_file_of_the_right_size_that_is_damaged_is_made_again(source: Path, damage: bytes | None) -> None:
    """One byte is enough, also where the file's times do not show it."""
    quantiser = CountingQuantiser()
    target = requantised(source, quantiser)
    whole, times = target.read_bytes(), target.stat()
    target.write_bytes(damage.ljust(len(whole))[: len(whole)] if damage else whole[:-3] + b"?" + whole[-2:])
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert requantised(source, quantiser).read_bytes() == whole
    assert quantiser.calls == 2


def test_a_file_whose_completion_was_not_noted_is_made_again(source: Path) -> None:
    quantiser = CountingQuantiser()
    requantised(source, quantiser).with_suffix(".sha256").unlink()
    requantised(source, quantiser)
    assert quantiser.calls == 2


def test_two_at_once_make_it_once(source: Path) -> None:
    entered, counting = threading.Barrier(2), CountingQuantiser()

    def both() -> Path:
        entered.wait(10)
        return requantised(source, counting)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(both), pool.submit(both)
        assert first.result(10) == second.result(10)
    assert counting.calls == 1


def test_a_failure_leaves_nothing_and_does_not_stop_the_next_try(source: Path, cache_folder: Path) -> None:
    def fails(source: Path, target: Path) -> None:
        target.write_bytes(b"half")
        raise LoadError("cannot requantise")

    with pytest.raises(LoadError, match="cannot requantise"):
        requantised(source, fails)
    assert [path.suffix for path in (cache_folder / "models").iterdir()] == [".lock"]
    assert requantised(source, CountingQuantiser()).exists()


def test_what_a_killed_process_left_is_cleared_away(source: Path) -> None:
    target = requantised(source, CountingQuantiser())
    left = target.with_suffix(".999999.part")
    left.write_bytes(b"half")
    target.unlink()
    requantised(source, CountingQuantiser())
    assert not left.exists()


def test_a_full_disk_is_said(source: Path) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(LoadError, match="No space left on device; free some space or set GUESSAHEAD_CACHE_DIR"):
        requantised(source, full)


def test_a_cache_that_cannot_be_made_is_said(source: Path, cache_folder: Path) -> None:
    cache_folder.write_bytes(b"in the way")
    with pytest.raises(LoadError, match=r"cannot make the cache folder .*set GUESSAHEAD_CACHE_DIR"):
        requantised(source, CountingQuantiser())


def test_waiting_for_another_process_has_a_bound(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_LOCK_S", 0.0)
    monkeypatch.setattr(cache, "_taken", lambda descriptor: False)
    with pytest.raises(LoadError, match="another process"):
        requantised(source, CountingQuantiser())


def test_a_cache_that_cannot_be_written_is_named_with_what_to_do(source: Path, cache_folder: Path) -> None:
    made = requantised(source, CountingQuantiser())
    made.unlink()
    made.with_suffix(".lock").unlink()
    made.with_suffix(".lock").mkdir()  # no file can be opened there, by anybody
    with pytest.raises(LoadError, match=f"cannot write to the cache folder {made.parent}: .*GUESSAHEAD_CACHE_DIR"):
        requantised(source, CountingQuantiser())
