"""A backend that generates by itself is served by the same slot."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from modeld.backends.base import Ids
from modeld.backends.fake import FakeBackend
from modelwire.messages import DecodeConfig, Outcome, Reason

MakeBench = Callable[..., Any]
TEN = DecodeConfig(max_tokens=10)
LONG = "the quick brown fox jumps over the lazy dog " * 20


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


def test_a_request_that_the_library_cannot_do_is_refused_before_its_prompt_is_prefilled(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeBackend, "refusal", lambda self, config, history: f"not after {history} tokens")
    here = bench(fork="content")
    said = here.run("abcd", decode=TEN)
    assert (said.failed.code, said.failed.message) == ("bad_request", "not after 4 tokens")
    assert (here.backend.extends, here.tapes()) == (0, [])
    assert here.run("abcd").ended.reason is Reason.PREFILLED


def test_s2_a_native_answer_ends_with_the_step_in_which_it_was_stopped(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the library does not look at the flag."""

    def deaf(self: FakeBackend, sequence: int, tape: Ids, config: DecodeConfig) -> Iterator[list[int]]:
        self._stop.set()  # type: ignore[attr-defined]
        yield from ([97], [98], [99])

    monkeypatch.setattr(FakeBackend, "generate", deaf)
    said = bench(fork="content").run("abcd", decode=TEN)
    assert (said.ended.reason, said.ids) == (Reason.PREEMPTED, [97])
