"""The test of exactness finds what is inexact, yields at once, and leaves tapes alone."""

import weakref
from collections.abc import Callable
from typing import Any

import pytest

from modeld.backends.base import BackendError, Ids, Scored
from modeld.backends.fake import FakeBackend
from modeld.engine.messages import Failed
from modeld.slot import SlotSettings
from modeld.slot.draft.lengths import LIMIT, UNTILED
from modeld.slot.exactness import DEPTH, ExactnessTest
from modelwire.messages import DecodeConfig

MakeBench = Callable[..., Any]
LOOKS = 100
"""At the stop flag: enough for the longest part, too few for all of them."""
SAMPLE = SlotSettings(sample=" ".join(f"word {n * 7919 % 1009}" for n in range(400)))


def test_a_backend_that_keeps_cells_in_order_is_exact(bench: MakeBench) -> None:
    probed = bench(settings=SAMPLE).slot.probe()
    assert (probed.finished, probed.exactness.verdict) == (True, "exact")
    assert probed.exactness.largest_difference == probed.exactness.differing_tokens == 0


def test_one_that_does_not_is_approximate_and_says_by_how_much(bench: MakeBench) -> None:
    found = bench(settings=SAMPLE, in_order=False).slot.probe().exactness
    assert found.verdict == "approximate"
    assert found.largest_difference > 0
    assert 0 < found.differing_tokens < 1


@pytest.mark.parametrize("rows", [3, 1 + UNTILED, 1 + LIMIT])
def test_d1_a_wider_batch_that_computes_otherwise_is_found(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Up to as many rows as drafts have."""
    here = bench(settings=SAMPLE)
    right = FakeBackend.logits

    def wide(self: FakeBackend, row: int) -> Any:
        return right(self, row) + (0.5 if len(self._rows) == rows else 0)

    monkeypatch.setattr(FakeBackend, "logits", wide)
    assert here.slot.probe().exactness.largest_difference == pytest.approx(0.5)


def test_s3_it_is_stopped_anywhere_and_goes_on_later(bench: MakeBench) -> None:
    here, times = bench(settings=SAMPLE, poll_tokens=64), 0
    here.run("abcd", decode=DecodeConfig(max_tokens=3))
    before = here.tapes()
    while True:
        here.flag.clear()
        here.flag.after = LOOKS
        probed = here.slot.probe()
        here.slot.check()
        here.backend.check()
        assert here.tapes() == before
        assert here.backend.free_cells == here.slot.shelf.free_cells
        if probed.finished:
            break
        assert probed.exactness.verdict == "untested"
        times += 1
    assert times >= 2
    assert probed.exactness.verdict == "exact"


def test_what_was_stopped_counts_once(bench: MakeBench) -> None:
    whole = bench(settings=SAMPLE, in_order=False).slot.probe().exactness
    here = bench(settings=SAMPLE, in_order=False, poll_tokens=64)
    while not (probed := here.slot.probe()).finished:
        here.flag.clear()
        here.flag.after = LOOKS
    assert probed.exactness == whole


def test_it_keeps_no_more_rows_than_it_compares_to(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a large vocabulary each is a megabyte."""
    kept = list[weakref.ref[Ids]]()
    most, bits = 0, ExactnessTest._bits

    def counted(self: ExactnessTest, row: int) -> Ids:
        nonlocal most
        made = bits(self, row)
        kept.append(weakref.ref(made))
        most = max(most, sum(one() is not None for one in kept))
        return made

    monkeypatch.setattr(ExactnessTest, "_bits", counted)
    assert bench(settings=SAMPLE).slot.probe().finished
    assert most <= 1 + 1 + UNTILED + 2


def test_s7_it_takes_no_place_from_anybody(bench: MakeBench) -> None:
    """Where the cells are lacking, that is said."""
    here = bench(settings=SAMPLE, cells=1500)
    here.run("abcd" * 200, guess=True)
    probed = here.slot.probe()
    assert (probed.finished, probed.stopped) == (False, False)
    assert "free KV cells, and 700 are free" in probed.exactness.reason
    assert here.tapes() == [("guess", "ann/one", 800)]


def test_tapes_on_all_sequences_do_not_keep_it_waiting_for_ever(bench: MakeBench) -> None:
    """S7: guesses take every sequence within minutes, and keep it."""
    here = bench(settings=SAMPLE, sequences=3)
    for letter in "abc":
        here.run(letter * 20, guess=True)
    before = here.tapes()
    assert here.slot.probe().exactness.verdict == "exact"
    assert here.tapes() == before
    assert len(before) == 3


def test_a_library_that_fails_in_it_costs_no_tape_and_the_finished_parts_stay(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = bench(settings=SAMPLE)
    here.run("the long conversation")
    before, load = here.tapes(), here.backend.load

    def fails(*arguments: object) -> None:
        raise BackendError("it has no room for a copy")

    monkeypatch.setattr(here.backend, "load", fails)
    assert isinstance(here.slot.probe(), Failed)
    here.slot.check()
    here.backend.check()
    assert (here.tapes(), here.backend.free_cells) == (before, here.slot.shelf.free_cells)
    monkeypatch.setattr(here.backend, "load", load)
    computed = here.backend.computed
    assert here.slot.probe().exactness.verdict == "exact"
    assert here.backend.computed - computed < 2 * DEPTH


def test_what_gives_no_logits_is_held_against_answers_to_what_was_never_seen(bench: MakeBench) -> None:
    """S4, D1"""
    here = bench(settings=SAMPLE, fork="content")
    probed = here.slot.probe()
    assert (probed.finished, probed.exactness.verdict) == (True, "exact")
    assert here.tapes() == []


def test_without_answers_to_hold_it_against_the_question_stays_open(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = bench(settings=SAMPLE, fork="content")

    def fails(*arguments: object) -> None:
        raise BackendError("no memory for a second pipeline")

    monkeypatch.setattr(FakeBackend, "reference", fails)
    probed = here.slot.probe()
    assert (probed.finished, probed.exactness.verdict) == (True, "untested")


def test_s3_an_answer_that_comes_short_is_no_stop(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The front would be told of a stop that it has not asked for."""
    here = bench(settings=SAMPLE, fork="content")
    monkeypatch.setattr(FakeBackend, "generate", lambda *request: iter([[97]]))
    assert isinstance(here.slot.probe(), Failed)


def test_an_answer_that_differs_from_one_to_what_was_never_seen_is_found(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = bench(settings=SAMPLE, fork="content")
    honest = FakeBackend._answer

    def other_tokens(self: FakeBackend, tape: Ids, tokens: int) -> Scored:
        answer = honest(self, tape, tokens)
        return Scored(tokens=(*answer.tokens[:5], answer.tokens[5] + 1, *answer.tokens[6:]), scores=answer.scores)

    monkeypatch.setattr(FakeBackend, "_answer", other_tokens)
    exactness = here.slot.probe().exactness
    assert exactness.verdict == "approximate"
    assert exactness.differing_tokens == pytest.approx(1 / 6)
