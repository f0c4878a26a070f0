"""The decode loop: drafted output equals undrafted output, and positions follow the accepted count."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from modeld.backends.base import Ids
from modeld.backends.fake_vocabulary import IM_END
from modeld.slot import SlotSettings
from modeld.slot.draft import NoDrafts
from modeld.slot.generate import Answer
from modelwire.messages import DecodeConfig, Reason

MakeBench = Callable[..., Any]
PROMPT = "some prompt"


class Scripted(NoDrafts):
    """Drafts `says` from where the history stands, with the tokens at `wrong` offsets changed; records what it saw."""

    def __init__(self, says: Sequence[int], wrong: Sequence[int] = (), most: int = 8) -> None:
        self.says, self.wrong, self.most = list(says), set(wrong), most
        self.seen: list[int] = []
        self.limits: list[int] = []

    def propose(self, history: Ids, limit: int) -> Sequence[int]:
        if not limit:
            return ()
        at = len(history) - len(PROMPT)
        self.seen.append(len(history))
        self.limits.append(limit)
        return [t ^ 1 if at + n in self.wrong else t for n, t in enumerate(self.says[at:][: self.most])]


CONFIGS = {
    "greedy": DecodeConfig(max_tokens=40),
    "sampled": DecodeConfig(max_tokens=40, temperature=2.0, seed=5, top_k=12),
    "penalised": DecodeConfig(max_tokens=40, repeat_penalty=1.5, repeat_last_n=8),
}


@pytest.mark.parametrize("wrong", [(), range(40), (5,), (3, 9, 10, 24)], ids=["right", "wrong", "once", "partly"])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_d1_drafts_right_or_wrong_do_not_change_the_output(
    bench: MakeBench, config: DecodeConfig, wrong: Sequence[int]
) -> None:
    plain = bench().run(PROMPT, decode=config)
    here = bench(drafters=Scripted(plain.ids, wrong))
    drafted = here.run(PROMPT, decode=config)
    assert (drafted.text, drafted.ids, drafted.ended.reason) == (plain.text, plain.ids, plain.ended.reason)
    assert here.slot.shelf.tapes[0].ids.tolist() == (plain.prompt_ids + plain.ids)[: drafted.ended.length]


def test_d2_positions_follow_the_accepted_count(bench: MakeBench) -> None:
    plain = bench().run(PROMPT, decode=DecodeConfig(max_tokens=20))
    drafter = Scripted(plain.ids, wrong=(4,), most=6)
    here = bench(drafters=drafter)
    here.run(PROMPT, decode=DecodeConfig(max_tokens=20))
    start = len(PROMPT)
    # 1 from the prefill; 3 of 6 accepted and 1 corrected; 6 of 6 and 1 more, twice; the last one needs no draft.
    assert drafter.seen == [start + 1, start + 5, start + 12]
    assert here.backend.extends == 1 + 4


def test_a_draft_never_goes_beyond_what_may_be_said_or_fits(bench: MakeBench) -> None:
    plain = bench().run(PROMPT, decode=DecodeConfig(max_tokens=30))
    drafter = Scripted(plain.ids, most=100)
    said = bench(drafters=drafter, chunk=16).run(PROMPT, decode=DecodeConfig(max_tokens=30))
    assert said.ids == plain.ids
    assert drafter.limits == [15, 12]
    drafter = Scripted(plain.ids, most=100)
    said = bench(drafters=drafter, context=20).run(PROMPT, decode=DecodeConfig(max_tokens=30))
    assert (said.ids, said.ended.reason) == (plain.ids[: 20 - len(PROMPT) + 1], Reason.CONTEXT)


@pytest.mark.parametrize(("stop", "reason", "said"), [((), Reason.CONTEXT, 6), (("{2}",), Reason.STOP, 4)])
def test_a_draft_of_a_guess_takes_no_more_room_than_single_rows_do(
    bench: MakeBench, stop: tuple[str, ...], reason: Reason, said: int
) -> None:
    """Not that of another guess, and none that is not there: the answer would end early."""
    whole = bench().run(PROMPT, decode=DecodeConfig(max_tokens=40))
    config = DecodeConfig(max_tokens=40, stop=tuple(one.format(*whole.text) for one in stop))
    for drafter in (NoDrafts(), Scripted(whole.ids)):
        here = bench(drafters=drafter, settings=SlotSettings(spare_cells=len(PROMPT) + 5 + 30 * bool(stop)))
        if stop:
            here.run("x" * 30, guess=True, session="other")
        guess = here.run(PROMPT, guess=True, decode=config)
        assert (guess.ids, guess.ended.reason) == (whole.ids[:said], reason)
        assert here.slot.figures().evicted == 0


def test_an_end_token_inside_a_draft_ends_the_answer(bench: MakeBench) -> None:
    plain = bench(end_one_in=12).run(PROMPT, decode=DecodeConfig(max_tokens=200))
    assert plain.ended.reason is Reason.END
    end = 258
    here = bench(end_one_in=12, drafters=Scripted([*plain.ids, end, 97, 98]))
    drafted = here.run(PROMPT, decode=DecodeConfig(max_tokens=200))
    assert (drafted.text, drafted.ids, drafted.ended.reason) == (plain.text, plain.ids, Reason.END)
    assert here.tapes() == [("real", "ann/one", drafted.ended.length)]
    assert drafted.ended.length <= len(PROMPT) + len(plain.ids)


def test_a_stop_string_inside_a_draft_ends_the_answer(bench: MakeBench) -> None:
    whole = bench().run(PROMPT, decode=DecodeConfig(max_tokens=40))
    config = DecodeConfig(max_tokens=40, stop=(whole.text[9:12],))
    plain = bench().run(PROMPT, decode=config)
    drafted = bench(drafters=Scripted(whole.ids, most=40)).run(PROMPT, decode=config)
    assert plain.ended.reason is Reason.STOP
    assert (drafted.text, drafted.ids, drafted.ended.reason) == (plain.text, plain.ids, Reason.STOP)
    assert whole.text.startswith(plain.text)
    assert config.stop[0] not in plain.text


def test_without_rollback_nothing_is_drafted(bench: MakeBench) -> None:
    drafter = Scripted([97] * 50)
    bench(drafters=drafter, rollback=False).run(PROMPT, decode=DecodeConfig(max_tokens=20))
    assert drafter.seen == []


def test_a_refused_rollback_starts_the_tape_again_and_changes_nothing(bench: MakeBench) -> None:
    config = DecodeConfig(max_tokens=20)
    plain = bench().run(PROMPT, decode=config)
    drafted = bench(drafters=Scripted(plain.ids, wrong=(4, 11)), refuse_trim=True).run(PROMPT, decode=config)
    assert (drafted.text, drafted.ids) == (plain.text, plain.ids)


def test_a_draft_that_is_stopped_leaves_only_what_was_said(bench: MakeBench) -> None:
    plain = bench().run(PROMPT, decode=DecodeConfig(max_tokens=30))
    for reads in range(3, 12):
        here = bench(drafters=Scripted(plain.ids, wrong=(6,)), poll_tokens=2, ubatch=2)
        here.flag.after = reads
        said = here.run(PROMPT, decode=DecodeConfig(max_tokens=30))
        here.flag.clear()
        tape = here.slot.shelf.tapes[0].ids.tolist()
        assert tape == (plain.prompt_ids + said.ids)[: len(tape)]
        assert said.ids == plain.ids[: len(said.ids)]
        assert here.run(PROMPT, decode=DecodeConfig(max_tokens=30)).ids == plain.ids


def test_text_is_whole_characters_and_half_a_one_at_the_end_is_left_out(bench: MakeBench) -> None:
    here = bench(alphabet="😀")
    said = here.run(PROMPT, decode=DecodeConfig(max_tokens=10))
    assert said.text == "😀😀"
    assert len(said.ids) == 10


@pytest.mark.parametrize("step", [1, 2, 3])
def test_an_answer_in_parts_says_what_it_says_at_once(bench: MakeBench, step: int) -> None:
    """Also where a part ends inside a character, which then belongs to the next one."""
    whole, here = bench(alphabet="é😀").run(PROMPT, decode=DecodeConfig(max_tokens=24)), bench(alphabet="é😀")
    ids, text = whole.prompt_ids, ""
    while len(ids) < len(whole.prompt_ids) + 24:
        part = here.run(base=ids, decode=DecodeConfig(max_tokens=step))
        ids, text = ids + part.ids, text + part.text
    assert (ids, text) == (whole.prompt_ids + whole.ids, whole.text)


@pytest.mark.parametrize(
    ("before", "said", "text"),
    [
        (b"\xc3", b"\xa9", "é"),
        (b"a\xf0\x9f\x98", b"\x80!", "😀!"),
        (b"\x98\x80\xc3", b"\xa9", "é"),
        (b"\xc3", b"a", "\ufffda"),
        ("é".encode(), b"a", "a"),
        (b"\xff", b"a", "a"),
        ([0xC3, IM_END], b"a", "a"),
        (b"", b"a", "a"),
    ],
)
def test_half_a_character_is_gone_on_with_and_what_was_said_is_not_said_again(
    bench: MakeBench, before: Sequence[int], said: bytes, text: str
) -> None:
    sent: list[Any] = []
    answer = Answer(DecodeConfig(max_tokens=9), bench().backend.vocabulary, sent.append, before)
    for token in said:
        answer.add(token)
    answer.send()
    assert sent[0].text == text


def test_every_message_carries_the_ids_of_its_step_at_once(bench: MakeBench) -> None:
    sent: list[Any] = []
    vocabulary = bench().backend.vocabulary
    answer = Answer(DecodeConfig(max_tokens=4, stop=("ab!",)), vocabulary, sent.append)
    for token in b"xab":
        answer.add(token)
        answer.send()
    assert [(m.text, m.ids) for m in sent] == [("x", (120,)), ("", (97,)), ("", (98,))]
    answer.add(ord("y"))
    answer.send()
    assert (sent[-1].text, answer.reason) == ("aby", Reason.LENGTH)


def test_no_number_for_a_logit_fails_the_operation(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    here = bench()
    monkeypatch.setattr(here.backend, "logits", lambda row: np.full(261, np.nan, np.float32))
    assert here.run(PROMPT, decode=DecodeConfig()).failed.code == "engine_failed"
    monkeypatch.undo()
    assert here.run(PROMPT, decode=DecodeConfig()).ids == bench().run(PROMPT, decode=DecodeConfig()).ids


def test_what_is_held_back_for_a_stop_string_is_said_at_an_end_and_not_after_a_stop(bench: MakeBench) -> None:
    vocabulary = bench().backend.vocabulary
    for reason, says in ((Reason.LENGTH, "xa"), (Reason.CONTEXT, "xa"), (Reason.PREEMPTED, "x")):
        said: list[Any] = []
        answer = Answer(DecodeConfig(max_tokens=9, stop=("ab",)), vocabulary, said.append)
        for token in vocabulary.tokenise("xa"):
            answer.add(token)
        answer.send()
        answer.end(reason)
        answer.send()
        assert "".join(message.text for message in said) == says
