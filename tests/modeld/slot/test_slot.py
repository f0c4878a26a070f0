"""The slot serves one operation after the other; what it reuses, stops and reports."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from modeld.backends.fake import FakeBackend
from modeld.engine.messages import Advanced, Begun, Encode, Encoded, Ended, Failed, Generated
from modelwire.messages import ChatMessage, DecodeConfig, Outcome, Reason, Text

MakeBench = Callable[..., Any]
TEN = DecodeConfig(max_tokens=10)
LONG = "the quick brown fox jumps over the lazy dog " * 20


def test_a_run_says_begun_then_chunks_then_tokens_then_its_end(bench: MakeBench) -> None:
    said = bench(chunk=256).run(LONG, decode=TEN)
    kinds = [type(message) for message in said.messages]
    assert kinds == [Begun, *[Advanced] * 3, *[Generated] * 9, Ended]
    assert [m.length for m in said.messages if isinstance(m, Advanced)] == [256, 512, 768]
    assert len(said.ids) == 10
    assert said.ended.reason is Reason.LENGTH
    assert said.ended.length == len(said.prompt_ids) + 9  # the last token was never fed


def test_outcomes_are_cold_then_warm_then_hit(bench: MakeBench) -> None:
    here = bench()
    assert here.run("abc", decode=TEN).ended.usage.outcome is Outcome.COLD
    assert here.run("abcd", decode=TEN).ended.usage.outcome is Outcome.WARM
    again = here.run("abcd", decode=TEN).ended.usage
    assert (again.outcome, again.guessed, again.forward_passes) == (Outcome.HIT, 0, 0)


def test_a_full_match_without_kept_logits_decodes_one_token_again(bench: MakeBench) -> None:
    here = bench()
    here.run("abcdefgh", decode=TEN)
    shorter = here.run("abcdef", decode=TEN)
    usage = shorter.ended.usage
    assert (usage.outcome, usage.reused, usage.prefilled, usage.forward_passes) == (Outcome.HIT, 5, 1, 1)
    assert shorter.ids == bench().run("abcdef", decode=TEN).ids


def test_s6_kept_logits_answer_no_longer_prompt(bench: MakeBench) -> None:
    here = bench()
    first = here.run("abcd", decode=TEN)
    longer = (first.prompt_ids + first.ids)[:8]
    again = here.run(base=longer, decode=TEN)
    assert again.ended.usage.forward_passes == 1
    assert again.ids == bench().run(base=longer, decode=TEN).ids


def test_s6_kept_logits_stay_though_the_library_writes_all_of_them_to_one_place(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, right = bench(), FakeBackend.logits
    place = np.zeros(here.backend.vocabulary.size, np.float32)

    def written(self: FakeBackend, row: int) -> Any:
        place[:] = right(self, row)
        return place

    monkeypatch.setattr(FakeBackend, "logits", written)
    here.run("abcd", guess=True)
    here.run("wxyz", session="two")
    again = here.run("abcd", decode=TEN)
    assert again.ended.usage.forward_passes == 0
    monkeypatch.undo()
    assert again.ids == bench().run("abcd", decode=TEN).ids


def test_a_prefix_that_is_resident_costs_nothing_and_cuts_nothing(bench: MakeBench) -> None:
    here = bench()
    here.run("abcdefgh")
    prefix = here.run("abcd")
    assert (prefix.ended.reason, prefix.ended.length, prefix.ended.usage.forward_passes) == (Reason.PREFILLED, 4, 0)
    assert here.tapes() == [("real", "ann/one", 8)]
    assert here.run("efgh", base=prefix.prompt_ids).begun.reused == 8  # a predicted suffix is found again


def test_one_token_from_kept_logits_writes_nothing_over_the_tail(bench: MakeBench) -> None:
    here = bench()
    first = here.run("abcd", decode=TEN)
    once = here.run("abcd", decode=DecodeConfig(max_tokens=1))
    assert once.ids == first.ids[:1]
    assert here.tapes() == [("real", "ann/one", 13)]


def test_a_chunk_stopped_halfway_keeps_its_finished_micro_batches(bench: MakeBench) -> None:
    here = bench(chunk=256, poll_tokens=16, ubatch=64, token_ms=1)
    here.flag.after = 8
    said = here.run(LONG)
    usage, timings = said.ended.usage, said.ended.timings
    assert (said.ended.reason, said.ended.length, usage.chunks_stopped) == (Reason.PREEMPTED, 64, 1)
    assert (usage.prefilled, usage.chunks_finished, usage.forward_passes) == (64, 0, 1)
    assert timings.stopped_chunk == pytest.approx(112)
    here.flag.clear()
    assert here.run(LONG, decode=TEN).ids == bench().run(LONG, decode=TEN).ids


def test_s9_a_stopped_answer_says_nothing_more(bench: MakeBench) -> None:
    here = bench()
    whole = bench().run("abc", decode=TEN)
    here.flag.after = 6
    said = here.run("abc", decode=TEN)
    assert said.ended.reason is Reason.PREEMPTED
    assert said.ids == whole.ids[: len(said.ids)]
    assert len(said.ids) < 10


@pytest.mark.parametrize("fork", ["cells", "content"])
def test_s2_an_answer_that_is_stopped_before_its_first_token_does_not_begin(bench: MakeBench, fork: str) -> None:
    here = bench(fork=fork)
    here.run("abcdefgh", guess=True)
    here.flag.set()
    said = here.run("abcdefgh", decode=TEN)
    assert (said.ended.reason, said.ids, said.ended.usage.generated) == (Reason.PREEMPTED, [], 0)


def test_a_real_operation_evicts_guesses_first_then_ownerless_then_the_oldest_session(bench: MakeBench) -> None:
    here = bench(context=120, cells=120, sequences=8)
    here.run("a" * 30, session="old")
    here.run("b" * 30, session="new")
    here.run("c" * 20, guess=True)
    here.run("d" * 60, session="other")
    assert [tape[:2] for tape in here.tapes()] == [("real", "ann/new"), ("real", "ann/old"), ("real", "ann/other")]
    here.run("e" * 60, session="last")
    assert [tape[:2] for tape in here.tapes()] == [("real", "ann/last"), ("real", "ann/other")]


def test_s11_a_closed_session_leaves_nothing_behind(bench: MakeBench) -> None:
    here = bench()
    here.run("abcdefgh")
    here.run("abcXYZ", guess=True)
    here.run("abcXYZ!")
    here.run("abcXYZ?", guess=True)
    here.run(closed=(("ann", "one"),))
    assert here.tapes() == []
    assert here.backend.free_cells == here.backend.cells


@pytest.mark.parametrize("fork", ["cells", "content"])
def test_no_tokens_asked_for_is_a_prefill(bench: MakeBench, fork: str) -> None:
    said = bench(fork=fork).run("abc", decode=DecodeConfig(max_tokens=0))
    assert (said.ended.reason, said.ended.length, said.ids) == (Reason.PREFILLED, 3, [])


def test_times_are_those_of_the_clock(bench: MakeBench) -> None:
    said = bench(token_ms=1, step_ms=10, chunk=64).run("a" * 100, decode=TEN)
    timings = said.ended.timings
    assert timings.prefill == pytest.approx(120)
    assert timings.first_token == pytest.approx(120)
    assert timings.decode == pytest.approx(9 * 11)
    assert timings.total == pytest.approx(219)
    assert timings.chunk == pytest.approx(64 + 64 * 10 / 50, rel=0.2)


def test_encode_gives_the_ids_that_a_run_would_see(bench: MakeBench) -> None:
    here = bench(bos=True)
    prompt = (ChatMessage(role="user", content="hi"),)
    encoded = here.slot.encode(Encode(prompt=prompt, complete=True))
    assert isinstance(encoded, Encoded)
    assert list(encoded.ids) == here.run(prompt, complete=True).prompt_ids
    mixed = here.slot.encode(Encode(prompt=(*prompt, Text(text="x"))))
    assert isinstance(mixed, Failed)
    assert mixed.code == "bad_request"


def test_it_shows_its_state(bench: MakeBench) -> None:
    here = bench()
    here.run("abc")
    assert repr(here.slot) == "<Slot on FakeBackend: <Shelf real:3; 4093 of 4096 cells free>>"


def _adopted_over_a_hole(here: Any) -> list[int]:
    """What is said after a session's tape was dropped from below the guess that became it."""
    here.run("y" * 80, session="two")
    here.run("x" * 40, guess=True)
    here.run(closed=(("ann", "two"),))
    ids: list[int] = here.run("x" * 40, decode=TEN).ids
    return ids


def test_s4_places_that_became_free_below_a_tape_change_no_answer(bench: MakeBench) -> None:
    expected = bench().run("x" * 40, decode=TEN).ids
    assert _adopted_over_a_hole(bench()) == expected
    assert _adopted_over_a_hole(bench(in_order=False)) != expected  # the fake would show it
    full = bench(context=90, cells=140)  # what is held has to move
    assert _adopted_over_a_hole(full) == expected
    assert full.run("z" * 60, session="three", decode=DecodeConfig(max_tokens=1)).ended.reason is Reason.LENGTH
    assert full.slot.figures().relocated > 0


def test_tidying_waits_until_nobody_waits(bench: MakeBench) -> None:
    """S2: a stopped operation ends at once."""
    here = bench(cells=160, context=64)
    here.run("a" * 50, session="one")
    here.run("b" * 50, session="two")
    here.flag.set()
    assert here.run("c", closed=(("ann", "one"),)).ended.reason is Reason.PREEMPTED
    assert here.slot.figures().relocated == 0
    here.flag.clear()
    here.run("c")
    assert here.slot.figures().relocated == 51


def test_s2_tidying_yields_to_a_request_that_is_there_and_goes_on_after_it(bench: MakeBench) -> None:
    here = bench(cells=160, context=64, piece=10)
    here.run("a" * 50, session="one")
    here.run("b" * 50, session="two")
    here.awaited = True
    here.run("c", guess=True, closed=(("ann", "one"),))
    assert here.slot.figures().relocated == 0
    here.awaited = False
    here.run("c", guess=True)
    assert here.slot.figures().relocated == 51


def test_s2_s5_a_stop_reaches_a_compaction_that_a_guess_wants(bench: MakeBench) -> None:
    here = bench(cells=100, context=90, piece=5, chunk=32)
    here.run("a" * 8, session="one")
    here.run("b" * 60, session="two")
    here.awaited = True  # nothing is tidied
    here.flag.after = 2 + 2 + 3  # two chunks; before the next, the compaction and one piece
    guess = here.run("c" * 40, guess=True, closed=(("ann", "one"),)).ended
    assert (guess.reason, guess.length, here.slot.figures().relocated) == (Reason.PREEMPTED, 32, 5)
    here.flag.clear()
    here.backend.check()
    assert here.run("b" * 60, session="two", decode=TEN).ids == bench().run("b" * 60, decode=TEN).ids
    assert here.run("c" * 40, session="two", decode=TEN).ids == bench().run("c" * 40, decode=TEN).ids
