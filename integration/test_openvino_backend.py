"""The OpenVINO backend with the packaged model: what it shares with every backend, and what is its own."""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve

from modeld.backends.base import Ids, StopFlag
from modeld.backends.contract import CONTRACT, Subject
from modeld.backends.flag import LocalFlag
from modeld.backends.llamacpp.quantiser import quantise
from modeld.backends.openvino import OpenVinoBackend, load, model_folder
from modeld.backends.openvino.loading import OpenVinoSettings
from modeld.backends.openvino.reference import Reference
from modeld.models.packaged import packaged
from modeld.models.requantised import requantised
from modelwire.messages import DecodeConfig

SETTINGS = OpenVinoSettings(context=1280, extra_cells=256, sequences=4, threads=1, chunk=128)
TEXT = Path(argparse.__file__).read_text()


class Borrowed:
    """One loaded backend for many checks, each with its own stop flag; closing it does nothing."""

    def __init__(self, backend: OpenVinoBackend, flag: "Switchable") -> None:
        self._backend, self._flag = backend, flag

    def lend(self, flag: StopFlag) -> OpenVinoBackend:
        self._flag.now = flag
        backend = self._backend
        for sequence in range(backend.sequences):
            backend.drop(sequence)
        backend.close = lambda: None  # type: ignore[method-assign]
        return backend


class Switchable:
    """A stop flag that reads another one."""

    def __init__(self) -> None:
        self.now: StopFlag = LocalFlag()

    @property
    def address(self) -> int:
        return self.now.address

    def is_set(self) -> bool:
        return self.now.is_set()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GUESSAHEAD_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield requantised(packaged(), quantise)


@pytest.fixture(scope="module")
def borrowed(model: Path) -> Iterator[Borrowed]:
    flag = Switchable()
    backend = load(model, SETTINGS, flag)
    yield Borrowed(backend, flag)
    OpenVinoBackend.close(backend)


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_openvino_holds_to_the_contract(borrowed: Borrowed, check: Callable[[Subject], None]) -> None:
    check(Subject(make=borrowed.lend))


# --- copying ahead beside the prefix cache ----------------------------------------------------------------


@pytest.fixture(scope="module")
def copying(model: Path) -> Iterator[tuple[OpenVinoBackend, LocalFlag]]:
    flag = LocalFlag()
    backend = load(model, evolve(SETTINGS, lookup=True), flag)
    yield backend, flag
    backend.close()


@pytest.fixture(scope="module")
def reference(model: Path) -> Reference:
    digest = model_folder.digest(model)
    return Reference(model_folder.converted(model, digest), digest, SETTINGS, 600)


def _prompts(backend: OpenVinoBackend) -> list[Ids]:
    """They share beginnings, end within blocks and at their ends, and repeat themselves, so that much is copied."""
    ids = np.array(backend.vocabulary.tokenise(TEXT)[:600], np.int32)
    stem, one, other = ids[:130], ids[200:262], ids[300:345]
    return [
        np.concatenate(parts)
        for parts in (
            (stem, one, one[:9]),
            (stem, other, other[:9]),
            (stem, one, one[:30]),
            (stem, stem[:30]),
            (stem, one, other, one[:20]),
            (stem[:96], stem[:32]),
        )
    ]


def test_s6_copying_ahead_never_makes_the_prefix_cache_give_something_wrong(
    copying: tuple[OpenVinoBackend, LocalFlag], reference: Reference
) -> None:
    """S6, D1: prompts in turns, some stopped while drafts were in them, against a pipeline that sees each for the first
    time. Tokens are the same, and so is the probability of each, to the last bit."""
    backend, flag = copying
    prompts = _prompts(backend)
    expected = [reference.answer(prompt, 24) for prompt in prompts]
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(prompts)), 3))
    accepted = 0
    for turn, number in enumerate(order):
        prompt, sequence = prompts[number], turn % backend.sequences
        backend.drop(sequence)
        _fill(backend, sequence, prompt)
        config = DecodeConfig(max_tokens=24, speculative_ngram=(None, 0, 2)[turn % 3])
        steps = backend.generate(sequence, prompt, config)
        if turn % 4 == 3:  # stopped in the middle of a draft
            next(steps)
            next(steps)
            flag.set()
            list(steps)
            flag.clear()
            continue
        said = list(steps)
        accepted += sum(len(step) - 1 for step in said)
        tokens = tuple(token for step in said for token in step)
        assert tokens == expected[number].tokens[: len(tokens)], f"turn {turn}, prompt {number}"
        assert tuple(backend.scores) == pytest.approx(expected[number].scores[: len(tokens)], abs=0, rel=0)
    assert accepted > 20, "hardly anything was copied, so hardly anything was tested"


def _fill(backend: OpenVinoBackend, sequence: int, tape: Ids) -> None:
    for end in range(64, len(tape) + 64, 64):
        assert not backend.extend(sequence, tape[:end], end - 64, 0).stopped
