"""The OpenVINO backend with the packaged model: what it shares with every backend, and what is its own."""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openvino_genai as genai
import pytest
from attrs import evolve

from modeld.backends.base import Ids, LoadError, StopFlag
from modeld.backends.contract import CONTRACT, Subject
from modeld.backends.flag import LocalFlag
from modeld.backends.llamacpp.quantiser import quantise
from modeld.backends.openvino import OpenVinoBackend, load, model_folder
from modeld.backends.openvino.loading import OpenVinoSettings
from modeld.backends.openvino.reference import Reference
from modeld.models.openvino_folder import MODEL
from modeld.models.packaged import packaged
from modeld.models.requantised import requantised
from modeld.slot.native_exactness import NativeExactnessTest
from modelwire.messages import DecodeConfig

SETTINGS = OpenVinoSettings(context=1280, extra_cells=256, sequences=4, threads=1, chunk=128)
TEXT = Path(argparse.__file__).read_text()
CLOSE = 0.001
"""Of logarithms of probabilities: f32 gives a hundredth of that, and another prompt a thousand times as much."""


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
def model() -> Path:
    return requantised(packaged(), quantise)


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
    time. The tokens are the same, and the probability of each is as close as sums in another order are."""
    backend, flag = copying
    prompts = _prompts(backend)
    expected = [reference.answer(prompt, 16) for prompt in prompts]
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(len(prompts)), 2))
    accepted = 0
    for turn, number in enumerate(order):
        prompt, sequence = prompts[number], turn % backend.sequences
        backend.drop(sequence)
        _fill(backend, sequence, prompt)
        config = DecodeConfig(max_tokens=16, speculative_ngram=(None, 0, 2)[turn % 3])
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
        assert tuple(backend.scores) == pytest.approx(expected[number].scores[: len(tokens)], abs=CLOSE)
    assert accepted > 10, "hardly anything was copied, so hardly anything was tested"


def _fill(backend: OpenVinoBackend, sequence: int, tape: Ids) -> None:
    for end in range(64, len(tape) + 64, 64):
        assert not backend.extend(sequence, tape[:end], end - 64, 0).stopped


def test_s4_d1_the_test_of_exactness_finds_no_token_that_differs(
    copying: tuple[OpenVinoBackend, LocalFlag], model: Path
) -> None:
    """In f32, sums in another order differ in their last bits; so it is not called exact, and says by how much."""
    backend, flag = copying
    text = np.array(backend.vocabulary.tokenise(TEXT)[2000:2300], np.int32)
    test = NativeExactnessTest(backend, text)
    flag.set()
    assert not test.run((0, 1))
    flag.clear()
    assert test.run((0, 1))
    assert test.exactness.differing_tokens == 0
    assert test.exactness.largest_difference < CLOSE


# --- a folder in OpenVINO's own form ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packaged model as an exporter leaves it: the graph, the tokenizer, a description."""
    folder = tmp_path_factory.mktemp("exported")
    (folder / "model.gguf").symlink_to(model)
    genai.Tokenizer(folder / "model.gguf", enable_save_ov_model=True)
    digest = model_folder.digest(model)
    for file in model_folder.converted(model, digest).iterdir():
        (folder / file.name).symlink_to(file)
    (folder / "config.json").write_text('{"model_type": "llama", "max_position_embeddings": 8192}')
    return folder


def test_a_folder_serves_the_same_answers_as_the_file_it_was_made_of(folder: Path, borrowed: Borrowed) -> None:
    flag = LocalFlag()
    of_file, of_folder = borrowed.lend(flag), load(folder, SETTINGS, flag)
    try:
        assert of_folder.model.parameters == pytest.approx(of_file.model.parameters, rel=0.1)
        assert (of_folder.model.architecture, of_folder.model.context_trained) == ("llama", 8192)
        assert of_folder.vocabulary.end_ids <= of_file.vocabulary.end_ids  # a file names more that end something
        for name in ("special", "chat_template"):
            assert getattr(of_folder.vocabulary, name) == getattr(of_file.vocabulary, name)
        for text in ("def f(x):\n    return x\r\n", "naïve — 你好 😀", "<|im_start|>user\n", "x = 12345"):
            ids = of_folder.vocabulary.tokenise(text)
            assert b"".join(map(of_folder.vocabulary.piece, ids)).decode() == text
            assert not set(ids) & set(of_folder.vocabulary.special.values())
        prompt = np.array(of_file.vocabulary.tokenise(TEXT)[:90], np.int32)
        said = [list(backend.generate(0, prompt, DecodeConfig(max_tokens=8))) for backend in (of_file, of_folder)]
        assert said[0] == said[1]
    finally:
        of_folder.close()


def test_what_was_made_of_a_model_is_kept_for_its_owner_alone(model: Path, borrowed: Borrowed) -> None:
    """So a second start converts and compiles nothing."""
    digest = model_folder.digest(model)
    made = model_folder.converted(model, digest)
    before = (made / MODEL).stat().st_mtime_ns
    assert model_folder.converted(model, digest) == made
    assert (made / MODEL).stat().st_mtime_ns == before
    compiled = model_folder.compiled(digest)
    assert list(compiled.glob("*.blob"))
    for folder in (made, compiled, made.parent, made.parent.parent):
        assert folder.stat().st_mode & 0o077 == 0, folder


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"device": "GPU", "profile": "fast"}, "--device GPU: modeld has never been run on .*; choose --device CPU"),
        ({"device": "AUTO"}, "--device AUTO: modeld has never been run on .*; choose --device CPU"),
        ({"extra_cells": 10**9}, "a KV cache of .* tokens needs up to .* MB are available: lower --context"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_one_line(model: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(LoadError, match=says) as fault:
        load(model, evolve(SETTINGS, **change), LocalFlag())
    assert "\n" not in str(fault.value)


def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, model: Path) -> None:
    half = tmp_path / "half.gguf"
    half.write_bytes(model.read_bytes()[: 2**24])
    with pytest.raises(LoadError) as fault:
        load(half, SETTINGS, LocalFlag())
    assert "\n" not in str(fault.value)


def test_nothing_is_reported_to_anybody_and_nothing_is_left_in_the_home_folder(tmp_path: Path) -> None:
    script = "import sys, modeld.backends.openvino; sys.exit(sys.modules['openvino_telemetry'] is not None)"
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "HOME": str(tmp_path)}, check=True, timeout=120)
    assert list(tmp_path.iterdir()) == []
