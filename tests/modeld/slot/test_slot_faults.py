"""What the slot refuses, and what it does where a library refuses or fails."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from modeld.backends.base import BackendError, Extended, Ids
from modeld.backends.fake import FakeBackend, Fault
from modeld.backends.fake_vocabulary import FakeVocabulary
from modeld.engine.messages import Encode
from modeld.slot.draft import NoDrafts
from modeld.slot.prompt import Encoder
from modelwire.messages import ChatMessage, DecodeConfig, Outcome, Part, Prompt, Reason, Text

MakeBench = Callable[..., Any]
TEN = DecodeConfig(max_tokens=10)


def test_an_overflowing_prompt_is_refused_with_the_numbers(bench: MakeBench) -> None:
    failed = bench(context=32).run("a" * 40, decode=TEN).failed
    assert failed.code == "context_overflow"
    assert failed.numbers == {"prompt": 40, "context": 32, "excess": 8}
    assert "by 8 tokens" in failed.message


@pytest.mark.parametrize("part", [ChatMessage(role="user", content=""), Text(text="a")])
def test_a_prompt_of_more_parts_than_the_context_has_tokens_is_refused_before_it_is_rendered(
    bench: MakeBench, part: Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = bench(context=32)
    rendered: list[Prompt] = []

    def encode(_: Encoder, prompt: Prompt, **__: Any) -> Ids:
        rendered.append(prompt)
        return np.empty(0, np.int32)

    monkeypatch.setattr(Encoder, "encode", encode)
    failed = here.slot.encode(Encode(prompt=(part,) * 33))
    assert (failed.code, rendered) == ("context_overflow", [])
    assert failed.numbers == {"bytes": 33 * 16, "limit": 32 * 16, "context": 32}
    assert "each of its 33 parts counts as 16 at least" in failed.message
    here.slot.encode(Encode(prompt=(part,) * 32))
    assert rendered == [(part,) * 32]


def test_an_answer_ends_where_the_context_is_full(bench: MakeBench) -> None:
    said = bench(context=32).run("a" * 30, decode=TEN)
    assert said.ended.reason is Reason.CONTEXT
    assert len(said.ids) == 3  # two that fit, and one more from the last logits


def test_nothing_at_all_is_prefilled_and_cannot_be_answered(bench: MakeBench) -> None:
    here = bench()
    assert here.run().ended.reason is Reason.PREFILLED
    assert here.run(decode=TEN).failed.code == "bad_request"


def test_a_draft_that_is_not_of_the_vocabulary_fails_as_it_would_in_a_library(bench: MakeBench) -> None:
    class Marks(NoDrafts):
        def propose(self, history: Ids, limit: int) -> Sequence[int]:
            return (-1,)[:limit]

    assert bench(drafters=Marks()).run("abc", decode=TEN).failed.code == "engine_failed"


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


@pytest.mark.parametrize(("length", "stopped"), [(7, False), (9, True), (9, False)])
def test_s6_a_library_that_says_it_did_what_it_was_not_asked_for_has_failed(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch, length: int, stopped: bool
) -> None:
    here = bench()
    monkeypatch.setattr(FakeBackend, "extend", lambda *_: Extended(length=length, stopped=stopped))
    assert here.run("abcdefgh").failed.code == "engine_failed"
    assert here.tapes() == []


def test_no_cells_after_all_evicts_and_tries_again(bench: MakeBench) -> None:
    here = bench()
    here.run("xyz", guess=True)
    here.backend.plan(Fault.CELLS)
    assert here.run("abc", decode=TEN).ended.reason is Reason.LENGTH
    assert here.slot.figures().evicted == 1


def test_no_cells_though_some_are_free_is_the_librarys_fault_and_an_early_end_for_a_guess(bench: MakeBench) -> None:
    """S12. A shorter prompt would not help, another try may."""
    here = bench()
    here.backend.plan(Fault.CELLS)
    failed = here.run("abc", decode=TEN).failed
    assert (failed.code, failed.retry) == ("engine_failed", True)
    assert here.run("abc", decode=TEN).ids == bench().run("abc", decode=TEN).ids
    here.run("real", session="two")
    here.backend.plan(Fault.CELLS)
    assert here.run("xyz", guess=True).ended.reason is Reason.CONTEXT
    assert ("real", "ann/two", 4) in here.tapes()  # S7


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


def test_a_library_that_fails_while_it_tidies_costs_nobody_a_tape(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise BackendError("it could not")

    here = bench()
    here.run("abcdefgh", session="two")
    monkeypatch.setattr(FakeBackend, "tidy", fails)
    assert here.run("abc", decode=TEN).ended.reason is Reason.LENGTH
    assert ("real", "ann/two", 8) in here.tapes()


def test_a_text_that_a_library_cannot_tokenise_costs_nobody_a_tape(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = FakeVocabulary.tokenise

    def picky(self: FakeVocabulary, text: str) -> Sequence[int]:
        if "§" in text:
            raise BackendError("it could not")
        return right(self, text)

    monkeypatch.setattr(FakeVocabulary, "tokenise", picky)
    here = bench()
    here.run("abcdefgh")
    failed = here.slot.encode(Encode(prompt=(Text(text="a § b"),)))
    assert (failed.code, failed.retry) == ("engine_failed", True)
    assert here.tapes() == [("real", "ann/one", 8)]
