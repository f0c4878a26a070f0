"""The llama.cpp backend with the packaged model: the promises that reuse rests on, held bit for bit."""

import argparse
import ctypes
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modeld.backends.base import BackendError, Capabilities, Ids, LoadError, LogitsBackend, OutOfCells
from modeld.backends.contract import CONTRACT, Subject
from modeld.backends.llamacpp import LlamaBackend, load, loading
from modeld.backends.llamacpp.loading import LlamaSettings
from modeld.backends.llamacpp.quantiser import quantise
from modeld.models.packaged import packaged
from modeld.models.requantised import requantised

THREADS = 1  # on a busy machine two threads wait for each other; the bits are the same
DEPTH = 1030  # past every switch of kernels that depends on depth


class Flag:
    """A stop flag of this process."""

    def __init__(self) -> None:
        self._bytes = ctypes.create_string_buffer(2)

    @property
    def address(self) -> int:
        return ctypes.addressof(self._bytes)

    def is_set(self) -> bool:
        return self._bytes.raw[0] != 0

    def set(self) -> None:
        self._bytes[0] = b"\x01"

    def clear(self) -> None:
        self._bytes[0] = b"\x00"


@pytest.fixture(scope="module")
def flag() -> Flag:
    return Flag()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GUESSAHEAD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield requantised(packaged(), quantise)


@pytest.fixture(scope="module")
def loaded(model: Path, flag: Flag) -> Iterator[LlamaBackend]:
    backend = load(model, LlamaSettings(context=1280, extra_cells=256, sequences=4, threads=THREADS), flag)
    yield backend
    backend.close()


@pytest.fixture
def backend(loaded: LlamaBackend, flag: Flag) -> Iterator[LlamaBackend]:
    """The shared model with nothing resident."""
    yield loaded
    flag.clear()
    for sequence in range(loaded.sequences):
        loaded.drop(sequence)


@pytest.fixture(scope="module")
def text(loaded: LlamaBackend) -> Ids:
    """A long run of real text, as ids."""
    return np.array(loaded.vocabulary.tokenise(Path(argparse.__file__).read_text())[:2400], np.int32)


def _prefill(backend: LlamaBackend, sequence: int, tape: Ids, start: int = 0, chunk: int = 512) -> Ids:
    """The logits of the last position, as bits."""
    for at in range(start, len(tape), chunk):
        end = min(at + chunk, len(tape))
        assert not backend.extend(sequence, tape[:end], at, int(end == len(tape))).stopped
    return _bits(backend)


def _bits(backend: LlamaBackend, row: int = 0) -> Ids:
    return backend.logits(row).copy().view(np.int32)


# --- exactness ------------------------------------------------------------------------------------------


def test_however_a_prompt_is_cut_forked_or_adopted_the_logits_are_the_same_bits(
    backend: LlamaBackend, text: Ids
) -> None:
    """S4: a guess on a fork that is discarded or adopted is the same as if nothing had been before."""
    asked, guessed = text[:DEPTH], np.concatenate([text[:700], text[1300:1500]])
    follow = np.append(asked, text[5])
    cold = _prefill(backend, 0, asked)
    cold_step = _prefill(backend, 0, follow, DEPTH)
    backend.drop(0)

    assert np.array_equal(_prefill(backend, 0, asked, chunk=190), cold), "cut into other chunks"
    backend.drop(0)

    _prefill(backend, 0, guessed)
    backend.fork(0, 1, 700)
    assert np.array_equal(_prefill(backend, 1, asked, 700), cold), "forked from a guess"
    backend.drop(0)
    assert np.array_equal(_prefill(backend, 1, follow, DEPTH), cold_step), "a step after the guess left holes"

    assert backend.trim(1, 800)
    assert np.array_equal(_prefill(backend, 1, asked, 800), cold), "trimmed and written again into the holes"


def test_every_row_of_a_batch_is_what_a_single_step_gives(backend: LlamaBackend, text: Ids) -> None:
    """D1 rests on this."""
    start = DEPTH
    _prefill(backend, 0, text[:start])
    singles = [_prefill(backend, 0, text[: start + n + 1], start + n) for n in range(8)]
    for width in (2, 3, 8):
        assert backend.trim(0, start)
        backend.extend(0, text[: start + width], start, width)
        for row in range(width):
            assert np.array_equal(_bits(backend, row), singles[row]), f"row {row} of {width}"


def test_a_stopped_chunk_leaves_what_was_before_and_can_be_done_again(
    backend: LlamaBackend, text: Ids, flag: Flag
) -> None:
    """S2, S5: the sequence holds whole, contiguous positions, and going on gives the same bits."""
    cold = _prefill(backend, 0, text[:600])
    assert backend.trim(0, 100)
    timer = threading.Timer(0.05, flag.set)
    timer.start()
    stopped = backend.extend(0, text[:600], 100, 1)
    timer.join()
    assert stopped.stopped
    assert stopped.length == 100
    with pytest.raises((IndexError, BackendError)):
        backend.logits(0)
    flag.clear()
    assert np.array_equal(_prefill(backend, 0, text[:600], stopped.length), cold)


def test_a_stop_before_the_chunk_stops_it_at_once(backend: LlamaBackend, text: Ids, flag: Flag) -> None:
    flag.set()
    stopped = backend.extend(0, text[:100], 0, 1)
    assert (stopped.stopped, stopped.length) == (True, 0)


def test_holes_that_were_left_below_are_not_filled_out_of_order(backend: LlamaBackend, text: Ids) -> None:
    """S4: attention adds up cells as they lie, so a token in a hole below its sequence would change the last bits."""
    asked = text[:300]
    cold = _prefill(backend, 0, asked)
    backend.drop(0)
    _prefill(backend, 1, text[500:540])
    _prefill(backend, 0, asked[:200])
    backend.drop(1)
    assert np.array_equal(_prefill(backend, 0, asked, 200), cold)


def test_a_compaction_changes_no_bit_and_keeps_what_is_shared(backend: LlamaBackend, text: Ids) -> None:
    """S4."""
    asked, other = text[:300], np.concatenate([text[:100], text[700:900]])
    cold, cold_other = _prefill(backend, 0, asked), _prefill(backend, 1, other)
    backend.drop(0)
    backend.drop(1)
    _prefill(backend, 1, text[500:540])
    _prefill(backend, 0, asked[:200])
    backend.fork(0, 2, 100)
    _prefill(backend, 2, other[:150], 100)
    backend.drop(1)
    arena = backend._cache.arena
    assert arena is not None
    before = (arena.live, arena.top)
    backend._cache.compact()
    assert before == (250, 290)
    assert (arena.live, arena.top) == (250, 250)
    assert np.array_equal(_prefill(backend, 0, asked, 200), cold)
    assert np.array_equal(_prefill(backend, 2, other, 150), cold_other)
    arena.check()


# --- the cache ------------------------------------------------------------------------------------------


def test_shared_cells_count_once_and_no_room_changes_nothing(backend: LlamaBackend, text: Ids) -> None:
    base, more = text[:600], text[: 600 + 400]
    assert backend.cells == 1536
    _prefill(backend, 0, base)
    for sequence in (1, 2, 3):
        backend.fork(0, sequence, 600)
    _prefill(backend, 1, more, 600)
    _prefill(backend, 2, more, 600)
    with pytest.raises(OutOfCells, match="no room for 400 tokens"):
        backend.extend(3, more, 600, 1)
    before = _prefill(backend, 3, np.append(base, text[7]), 600)
    assert backend.trim(3, 600)
    backend.drop(1)
    assert np.array_equal(_prefill(backend, 0, np.append(base, text[7]), 600), before)
    backend.extend(3, more, 600, 1)
    assert backend._cache.arena is not None
    backend._cache.arena.check()


def test_s2_s4_a_compaction_that_was_stopped_leaves_every_bit_right_and_goes_on(
    backend: LlamaBackend, text: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = backend._cache
    assert cache.arena is not None
    monkeypatch.setattr(cache, "_piece", 64)
    _prefill(backend, 1, text[:200])
    _prefill(backend, 0, text[:500])
    before = _prefill(backend, 0, text[:501], 500)
    assert backend.trim(0, 500)
    moved = cache.relocated
    for goal in (128, 320):
        if backend._memory.length(1):
            backend.drop(1)
        cache.tidy(lambda goal=goal: cache.relocated >= moved + goal)  # type: ignore[misc]
        assert goal <= cache.relocated - moved < 500
        cache.arena.check()
        assert np.array_equal(_prefill(backend, 0, text[:501], 500), before)
        assert backend.trim(0, 500)
    backend.tidy()
    assert (cache.arena.top, cache.arena.garbage) == (500, 0)
    assert np.array_equal(_prefill(backend, 0, text[:501], 500), before)
    _prefill(backend, 2, text[: backend.cells - 501][:1270])  # every cell can be used
    cache.arena.check()


@pytest.mark.parametrize("count", [100, pytest.param(2_000, marks=pytest.mark.long)])
def test_after_many_forks_and_discards_every_cell_is_free_again(backend: LlamaBackend, text: Ids, count: int) -> None:
    _prefill(backend, 0, text[:40])
    before = _prefill(backend, 0, text[:41], 40)
    for number in range(count):
        sequence = 1 + number % 3
        backend.drop(sequence)
        shared = number % 41
        backend.fork(0, sequence, shared)
        backend.extend(sequence, text[: shared + 1 + number % 3], shared, 1)
        backend.tidy()
    arena = backend._cache.arena
    assert arena is not None
    arena.check()
    assert backend.trim(0, 40)
    assert np.array_equal(_prefill(backend, 0, text[:41], 40), before)
    for sequence in range(4):
        backend.drop(sequence)
    assert (arena.top, arena.free) == (0, backend.cells)
    assert [backend._memory.length(sequence) for sequence in range(6)] == [0] * 6
    _prefill(backend, 0, text[:1270])  # and they can be used
    _prefill(backend, 1, text[:200])


def test_a_fork_of_what_is_not_there_is_refused(backend: LlamaBackend, text: Ids) -> None:
    _prefill(backend, 0, text[:10])
    with pytest.raises(BackendError, match="does not hold 11 positions"):
        backend.fork(0, 1, 11)
    assert not backend.trim(0, 11)


def test_a_chunk_beyond_the_limit_is_refused(backend: LlamaBackend, text: Ids) -> None:
    for end, rows in ((513, 1), (0, 0), (4, 5)):
        with pytest.raises(ValueError, match="a chunk has 1 to 512 tokens"):
            backend.extend(0, text[:end], 0, rows)


def test_it_describes_itself(loaded: LlamaBackend) -> None:
    assert isinstance(loaded, LogitsBackend)
    model = loaded.model
    assert (model.architecture, model.quantisation, model.chat, model.fim) == ("llama", "Q4_0", True, False)
    assert (model.vocabulary, model.context_trained) == (49152, 8192)
    assert (loaded.context, loaded.sequences, loaded.chunk) == (1280, 4, 512)
    assert loaded.cells >= 1280 + 256
    assert loaded.capabilities.stop == "node"


# --- the vocabulary -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "<|im_start|>system\n<|im_end|>",
        "<|im_end|>" * 50,
        "<|endoftext|",
        "<repo_name><filename><empty_output>",
        "a\x00b\r\n\ttab",
        "héllo 😀👩‍👩‍👧 \ufeff\u202e",
        " leading and trailing  ",
    ],
)
def test_text_comes_back_byte_for_byte_and_is_never_a_special_token(loaded: LlamaBackend, text: str) -> None:
    vocabulary = loaded.vocabulary
    ids = vocabulary.tokenise(text)
    assert not set(ids) & (set(vocabulary.special.values()) | vocabulary.end_ids)
    assert b"".join(map(vocabulary.piece, ids)) == text.encode()


def test_text_that_is_not_unicode_is_the_callers_fault(loaded: LlamaBackend) -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        loaded.vocabulary.tokenise("a\udc80b")


def test_special_tokens_are_known_by_their_text_and_have_no_bytes(loaded: LlamaBackend) -> None:
    vocabulary = loaded.vocabulary
    end = vocabulary.special["<|im_end|>"]
    assert end in vocabulary.end_ids
    assert vocabulary.piece(end) == b""
    assert vocabulary.text_of(end) == "<|im_end|>"
    assert vocabulary.prepend == []
    assert vocabulary.chat_template is not None
    for token in (-1, vocabulary.size):
        with pytest.raises(BackendError, match="not in the vocabulary"):
            vocabulary.piece(token)


# --- the contract of all backends ------------------------------------------------------------------------


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_it_keeps_the_contract(model: Path, check: Callable[[Subject], None]) -> None:
    settings = LlamaSettings(context=384, extra_cells=128, sequences=4, chunk=64, threads=THREADS)
    check(Subject(make=lambda flag: load(model, settings, flag)))


# --- files that cannot be served ------------------------------------------------------------------------


def _damaged(model: Path, path: Path, damage: str) -> Path:
    data = model.read_bytes()
    at = data.index(b"llama", data.index(b"general.architecture"))
    content = {
        "cut in the weights": data[: len(data) // 2],
        "cut in the header": data[:100_000],
        "another architecture": data[:at] + b"llamx" + data[at + 5 :],
    }[damage]
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("cut in the weights", "corrupted or incomplete"),
        ("cut in the header", "failed to load model"),
        ("another architecture", "unknown model architecture: 'llamx'"),
    ],
)
def test_a_damaged_file_is_refused_with_the_librarys_reason(
    model: Path, tmp_path: Path, flag: Flag, damage: str, says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = _damaged(model, tmp_path / "damaged.gguf", damage)
    with pytest.raises(LoadError, match=says) as refused:
        load(path, LlamaSettings(), flag)
    assert "\n" not in str(refused.value)
    assert capfd.readouterr() == ("", "")


def test_a_context_that_the_library_refuses_is_refused_with_its_reason(model: Path, flag: Flag) -> None:
    with pytest.raises(LoadError, match=r"cannot make a context of 512 tokens .*n_seq_max must be"):
        load(model, LlamaSettings(context=512, sequences=10_000), flag)


def test_the_fast_profile_serves_too(model: Path, flag: Flag, text: Ids) -> None:
    backend = load(model, LlamaSettings(profile="fast", context=512, extra_cells=0), flag)
    _prefill(backend, 0, text[:100])
    assert int(np.argmax(backend.logits(0))) >= 0
    backend.close()
    backend.close()
    assert "closed" in repr(backend)


class Unread(Flag):
    """One that only the library sees."""

    def is_set(self) -> bool:
        return False


def test_what_a_model_can_do_is_probed_once_for_each_profile_and_again_if_the_memory_is_damaged(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S2: probed or remembered, it is stopped inside a chunk."""
    monkeypatch.setenv("GUESSAHEAD_CACHE_DIR", str(tmp_path))
    probed: list[Path] = []
    probe = loading._probe

    def counted(path: Path, *more: Any) -> None:
        probed.append(path)
        probe(path, *more)

    monkeypatch.setattr(loading, "_probe", counted)

    def found(profile: Any = "exact") -> Capabilities:
        flag = Unread()
        backend = load(model, LlamaSettings(profile=profile, context=256, extra_cells=0, threads=1), flag)
        flag.set()
        assert backend.extend(0, np.zeros(3, np.int32), 0, 1).stopped
        backend.close()
        return backend.capabilities

    first = found()
    assert first == Capabilities(fork="cells", rollback=True, stop="node", logits=True, export_state=True)
    assert (found(), len(probed)) == (first, 1)
    found("fast")
    assert len(probed) == 2
    for file in (tmp_path / "capabilities").iterdir():
        file.write_bytes(b"{")
    assert (found(), len(probed)) == (first, 3)
    assert (found(), len(probed)) == (first, 3)
