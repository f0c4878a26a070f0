"""The slot serves one operation after the other; what it reuses, stops and reports."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from modeld.backends.base import Ids
from modeld.backends.fake import FakeBackend, Fault
from modeld.engine.messages import Advanced, Begun, Encode, Encoded, Ended, Failed, Generated
from modeld.slot import SlotSettings
from modelwire.messages import ChatMessage, DecodeConfig, Outcome, Reason, Text

MakeBench = Callable[..., Any]
TEN = DecodeConfig(max_tokens=10)
LONG = "the quick brown fox jumps over the lazy dog " * 20


def test_a_run_says_begun_then_chunks_then_tokens_then_its_end(bench: MakeBench) -> None:
    said = bench(chunk=256).run(LONG, decode=TEN)
    kinds = [type(message) for message in said.messages]
    assert kinds == [Begun, *[Advanced] * 3, *[Generated] * 10, Ended]
    assert [m.length for m in said.messages if isinstance(m, Advanced)] == [256, 512, 768]
    assert len(said.ids) == 10
    assert said.ended.reason is Reason.LENGTH
    assert said.ended.length == len(said.prompt_ids) + 9  # the last token was never fed


def test_a_guess_that_is_asked_for_gives_its_first_token_without_a_forward_pass(bench: MakeBench) -> None:
    here = bench()
    guess = here.run(LONG, guess=True, session="anything")
    assert (guess.ended.reason, guess.ids, guess.ended.usage.outcome) == (Reason.PREFILLED, [], Outcome.NONE)
    real = here.run(LONG, decode=TEN)
    usage = real.ended.usage
    assert usage.outcome is Outcome.HIT
    assert usage.reused == usage.guessed == usage.prompt == len(real.prompt_ids)
    assert usage.forward_passes == usage.prefilled == 0
    assert real.ids == bench().run(LONG, decode=TEN).ids
    assert here.tapes() == [("real", "ann/one", real.ended.length)]


def test_a_guess_that_goes_ahead_says_what_would_be_said(bench: MakeBench) -> None:
    """S10: a buffer that was filled ahead is the answer, byte for byte."""
    here = bench()
    ahead = here.run(LONG, guess=True, session="anything", decode=TEN)
    assert (ahead.ended.reason, ahead.ended.usage.outcome) == (Reason.LENGTH, Outcome.NONE)
    assert ahead.ids == bench().run(LONG, decode=TEN).ids
    real = here.run(LONG, decode=TEN)
    assert real.ids == ahead.ids
    assert real.ended.usage.guessed >= len(real.prompt_ids) - 1


def test_s4_a_guess_that_goes_ahead_writes_nothing_behind_a_real_tape_that_it_matches(bench: MakeBench) -> None:
    here = bench()
    real = here.run(LONG, session="one")
    ahead = here.run(LONG, guess=True, session="one", decode=TEN)
    assert ("real", "ann/one", len(real.prompt_ids)) in here.tapes()
    assert ahead.ids == bench().run(LONG, decode=TEN).ids


def test_s7_a_guess_that_goes_ahead_evicts_no_real_tape(bench: MakeBench) -> None:
    here = bench(cells=48)
    here.run("a" * 20, decode=TEN)
    ahead = here.run("b" * 18, guess=True, decode=TEN)
    assert ahead.ended.reason in (Reason.CONTEXT, Reason.LENGTH)
    assert [kind for kind, _, _ in here.tapes()].count("real") == 1


def test_s6_a_guess_that_is_partly_right_saves_its_right_part(bench: MakeBench) -> None:
    here = bench()
    here.run(LONG + "and then?", guess=True)
    real = here.run(LONG + "and now!", decode=TEN)
    assert real.ended.usage.outcome is Outcome.PARTIAL
    assert real.ended.usage.guessed == real.begun.reused == len(LONG + "and ") - LONG.count("th")
    assert real.ids == bench().run(LONG + "and now!", decode=TEN).ids


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


def test_s4_a_discarded_guess_leaves_the_session_as_it_was(bench: MakeBench) -> None:
    here, alone = bench(), bench()
    first = here.run(LONG, decode=TEN)
    alone.run(LONG, decode=TEN)
    here.run(LONG + "something else", guess=True)
    going_on = first.prompt_ids + first.ids
    one, other = here.run("and on", base=going_on, decode=TEN), alone.run("and on", base=going_on, decode=TEN)
    assert (one.ids, one.ended.reason, one.begun) == (other.ids, other.ended.reason, other.begun)


def test_s5_a_stopped_guess_keeps_its_finished_chunks(bench: MakeBench) -> None:
    here = bench(chunk=64, poll_tokens=16, settings=SlotSettings(chunk_floor=32))
    here.flag.after = 12  # checked before each chunk of 32 and twice in it
    guess = here.run(LONG, guess=True)
    assert guess.ended.reason is Reason.PREEMPTED
    assert guess.ended.length == 128
    assert (guess.ended.usage.chunks_finished, guess.ended.usage.chunks_stopped) == (4, 0)
    here.flag.clear()
    assert here.run(LONG, guess=True).begun.reused == 128
    assert here.run(LONG, decode=TEN).ids == bench().run(LONG, decode=TEN).ids


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


def test_a_guess_that_is_stopped_at_once_leaves_no_empty_tape(bench: MakeBench) -> None:
    here = bench()
    here.flag.set()
    assert here.run(LONG, guess=True).ended.length == 0
    assert here.tapes() == []


def test_s9_a_stopped_answer_says_nothing_more(bench: MakeBench) -> None:
    here = bench()
    whole = bench().run("abc", decode=TEN)
    here.flag.after = 6
    said = here.run("abc", decode=TEN)
    assert said.ended.reason is Reason.PREEMPTED
    assert said.ids == whole.ids[: len(said.ids)]
    assert len(said.ids) < 10


def test_s7_a_guess_without_room_ends_and_evicts_no_real_tape(bench: MakeBench) -> None:
    here = bench(context=64, cells=100, sequences=4)
    here.run("a" * 50, session="one")
    here.run("b" * 40, session="two")
    guess = here.run("c" * 30, guess=True)
    assert guess.ended.reason is Reason.CONTEXT
    assert [tape for tape in here.tapes() if tape[0] == "real"] == [("real", "ann/one", 50), ("real", "ann/two", 40)]


def test_a_real_operation_evicts_guesses_first_then_ownerless_then_the_oldest_session(bench: MakeBench) -> None:
    here = bench(context=64, cells=120, sequences=8)
    here.run("a" * 30, session="old")
    here.run("b" * 30, session="new")
    here.run("c" * 20, guess=True)
    here.run("d" * 60, session="other")
    assert [tape[:2] for tape in here.tapes()] == [("real", "ann/new"), ("real", "ann/old"), ("real", "ann/other")]
    here.run("e" * 60, session="last")
    assert [tape[:2] for tape in here.tapes()] == [("real", "ann/last"), ("real", "ann/other")]


def test_an_adopted_guess_leaves_what_the_session_had_more_as_ownerless(bench: MakeBench) -> None:
    here = bench()
    here.run("abcdefgh")
    here.run("abcXYZ", guess=True)
    here.run("abcXYZ!")
    assert here.tapes() == [("ownerless", "ann/one", 8), ("real", "ann/one", 7)]


def test_a_guess_that_is_only_partly_matched_stays_a_guess(bench: MakeBench) -> None:
    here = bench()
    here.run("abcdefgh", guess=True)
    here.run("abcd!")
    assert here.tapes() == [("guess", "ann/one", 8), ("real", "ann/one", 5)]


def test_a_guess_is_not_adopted_by_another_client(bench: MakeBench) -> None:
    here = bench()
    here.run("abcdefgh", guess=True, client="ann")
    assert here.run("abcdefgh", client="bob", decode=TEN).begun.reused == 8
    assert [tape[:2] for tape in here.tapes()] == [("guess", "ann/one"), ("real", "bob/one")]


def test_the_same_guess_again_does_nothing_and_a_longer_one_goes_on_in_place(bench: MakeBench) -> None:
    here = bench()
    here.run("abcdefgh", guess=True)
    assert here.run("abcdefgh", guess=True).ended.usage.forward_passes == 0
    longer = here.run("abcdefghij", guess=True)
    assert longer.begun.reused == 8
    assert here.tapes() == [("guess", "ann/one", 10)]


def test_s11_a_closed_session_leaves_nothing_behind(bench: MakeBench) -> None:
    here = bench()
    here.run("abcdefgh")
    here.run("abcXYZ", guess=True)
    here.run("abcXYZ!")
    here.run("abcXYZ?", guess=True)
    here.run(closed=(("ann", "one"),))
    assert here.tapes() == []
    assert here.backend.free_cells == here.backend.cells


def test_an_overflowing_prompt_is_refused_with_the_numbers(bench: MakeBench) -> None:
    failed = bench(context=32).run("a" * 40, decode=TEN).failed
    assert failed.code == "context_overflow"
    assert failed.numbers == {"prompt": 40, "context": 32, "excess": 8}
    assert "by 8 tokens" in failed.message


def test_an_answer_ends_where_the_context_is_full(bench: MakeBench) -> None:
    said = bench(context=32).run("a" * 30, decode=TEN)
    assert said.ended.reason is Reason.CONTEXT
    assert len(said.ids) == 3  # two that fit, and one more from the last logits


@pytest.mark.parametrize("fork", ["cells", "content"])
def test_no_tokens_asked_for_is_a_prefill(bench: MakeBench, fork: str) -> None:
    said = bench(fork=fork).run("abc", decode=DecodeConfig(max_tokens=0))
    assert (said.ended.reason, said.ended.length, said.ids) == (Reason.PREFILLED, 3, [])


def test_nothing_at_all_is_prefilled_and_cannot_be_answered(bench: MakeBench) -> None:
    here = bench()
    assert here.run().ended.reason is Reason.PREFILLED
    assert here.run(decode=TEN).failed.code == "bad_request"


def test_ids_that_are_not_of_the_vocabulary_are_refused(bench: MakeBench) -> None:
    assert bench().run(base=[1, 2, 70000]).failed.code == "bad_request"
    assert bench().run(base=[-1]).failed.code == "bad_request"


def test_a_bad_parameter_is_refused_before_anything_is_touched(bench: MakeBench) -> None:
    here = bench()
    failed = here.run("abc", decode=DecodeConfig(top_p=float("nan"))).failed
    assert (failed.code, here.tapes(), here.backend.extends) == ("bad_request", [], 0)
    assert "top_p" in failed.message


def test_s12_a_failure_costs_only_the_tape_that_it_hit(bench: MakeBench) -> None:
    here = bench(faults={2: "fail"})
    here.run("abcdefgh")
    failed = here.run("abcdefgh and more", guess=True).failed
    assert (failed.code, failed.retry) == ("engine_failed", True)
    assert here.tapes() == [("real", "ann/one", 8)]
    assert here.run("abcdefgh and more", decode=TEN).ids == bench().run("abcdefgh and more", decode=TEN).ids


def test_no_cells_after_all_evicts_and_tries_again(bench: MakeBench) -> None:
    here = bench()
    here.run("xyz", guess=True)
    here.backend.plan(Fault.CELLS)
    assert here.run("abc", decode=TEN).ended.reason is Reason.LENGTH
    assert here.slot.figures().evicted == 1


def test_no_cells_at_all_is_an_overflow_for_a_request_and_an_early_end_for_a_guess(bench: MakeBench) -> None:
    here = bench()
    here.backend.plan(Fault.CELLS)
    assert here.run("abc", decode=TEN).failed.code == "context_overflow"
    here.backend.plan(Fault.CELLS)
    assert here.run("xyz", guess=True).ended.reason is Reason.CONTEXT


def test_a_refused_trim_starts_again_and_says_so(bench: MakeBench) -> None:
    here = bench(refuse_trim=True)
    here.run("abcdefgh")
    said = here.run("abcdXYZ", decode=TEN)
    usage = said.ended.usage
    assert (usage.reused, usage.prefilled, usage.outcome) == (0, 7, Outcome.COLD)
    assert said.ids == bench().run("abcdXYZ", decode=TEN).ids


def test_a_refused_fork_starts_cold(bench: MakeBench) -> None:
    here = bench(refuse_fork=True, export=False)
    here.run("abcdefgh")
    said = here.run("abcdXYZ", session="two", decode=TEN)
    assert said.begun.reused == 0
    assert said.ids == bench().run("abcdXYZ", decode=TEN).ids


def test_s4_what_cannot_fork_guesses_on_a_copy_of_the_state(bench: MakeBench) -> None:
    here = bench(refuse_fork=True, settings=SlotSettings(parking_least=4))
    here.run("abcdefgh" * 20)
    guess = here.run("abcdefgh" * 20 + "XYZ", guess=True)
    assert (guess.begun.reused, guess.ended.usage.prefilled) == (160, 3)
    assert here.tapes() == [("guess", "ann/one", 163), ("real", "ann/one", 160)]
    assert here.slot.figures().cells_used == 160 + 163
    real = here.run("abcdefgh" * 20 + "XYZ", decode=TEN)
    assert real.ended.usage.outcome is Outcome.HIT
    assert real.ids == bench().run("abcdefgh" * 20 + "XYZ", decode=TEN).ids


def test_times_are_those_of_the_clock(bench: MakeBench) -> None:
    said = bench(token_ms=1, step_ms=10, chunk=64).run("a" * 100, decode=TEN)
    timings = said.ended.timings
    assert timings.prefill == pytest.approx(120)
    assert timings.first_token == pytest.approx(120)
    assert timings.decode == pytest.approx(9 * 11)
    assert timings.total == pytest.approx(219)
    assert timings.chunk == pytest.approx(64 + 64 * 10 / 50, rel=0.2)


def test_a_native_backend_is_served_by_the_same_slot(bench: MakeBench) -> None:
    here = bench(fork="content", chunk=64)
    here.run(LONG, guess=True)
    computed = here.backend.computed
    real = here.run(LONG, decode=TEN)
    assert (real.ended.reason, real.ended.usage.outcome) == (Reason.LENGTH, Outcome.HIT)
    assert real.ended.usage.forward_passes == 1
    assert here.backend.computed - computed < 20 * 16
    assert real.ids == bench(fork="content").run(LONG, decode=TEN).ids
    assert real.ended.length == len(real.prompt_ids) + 9
    here.run("and", base=real.prompt_ids + real.ids, decode=TEN)
    assert here.tapes() == [("real", "ann/one", len(real.prompt_ids) + 10 + 3 + 9)]


def test_what_a_native_backend_gives_in_one_pass_is_accounted_as_accepted(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: from what its steps gave, and not from what was wanted of them."""
    one_by_one = FakeBackend.generate

    def in_threes(self: FakeBackend, sequence: int, tape: Ids, config: DecodeConfig) -> Iterator[list[int]]:
        tokens = [token for step in one_by_one(self, sequence, tape, config) for token in step]
        for at in range(0, len(tokens), 3):
            self.passes += 1
            yield tokens[at : at + 3]

    monkeypatch.setattr(FakeBackend, "generate", in_threes)
    run = bench(fork="content").run("abcd", decode=DecodeConfig(max_tokens=9))
    assert (run.ended.usage.generated, run.ended.usage.accepted) == (9, 6)
    assert (run.ended.drafts.passes, run.ended.drafts.tokens) == (2, 6)


def test_a_native_backend_ends_at_stop_strings_end_tokens_and_the_flag(bench: MakeBench) -> None:
    script = {"fork": "content", "end_one_in": 40}
    whole = bench(**script).run("abcd", decode=DecodeConfig(max_tokens=200))
    assert whole.ended.reason is Reason.END
    stop = whole.text[2:4]
    stopped = bench(**script).run("abcd", decode=DecodeConfig(max_tokens=200, stop=(stop,)))
    assert (stopped.ended.reason, stopped.text) == (Reason.STOP, whole.text[: whole.text.index(stop)])
    here = bench(**script)
    here.flag.after = 6
    assert here.run("abcd", decode=DecodeConfig(max_tokens=200)).ended.reason is Reason.PREEMPTED


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


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [300, pytest.param(30_000, marks=pytest.mark.long)])
def test_after_many_forks_and_discards_all_cells_are_free_again(bench: MakeBench, count: int) -> None:
    here = bench(context=200, cells=300, sequences=5, chunk=64)
    here.run("a" * 60)
    for number in range(count):
        here.run("a" * (number % 60) + "bcdefgh"[: number % 7 + 1] * (1 + number % 9), guess=True)
        if number % 7 == 0:
            here.run("a" * 60 + f"{number % 5}", session="two")
    here.backend.check()
    here.run(closed=(("ann", "one"), ("ann", "two")))
    assert here.tapes() == []
    assert here.backend.free_cells == here.slot.shelf.free_cells == 300
