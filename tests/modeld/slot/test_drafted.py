"""Drafted is undrafted (D1, D2): any drafts, right or wrong, change nothing but the number of passes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modeld.backends.base import Ids
from modeld.backends.fake_vocabulary import SIZE
from modeld.slot import slot as module
from modeld.slot.draft import Costs, Lengths, NoDrafts, PromptLookup
from modeld.slot.sampling import Sampler
from modelwire.messages import DecodeConfig

MakeBench = Callable[..., Any]
FLAT = {1: 0.01, 32: 0.011}

configs = st.builds(
    DecodeConfig,
    max_tokens=st.integers(1, 40),
    temperature=st.sampled_from((0.0, 0.0, 0.7, 3.0)),
    top_k=st.sampled_from((0, 1, 5, 40)),
    top_p=st.sampled_from((1.0, 0.9, 0.3)),
    min_p=st.sampled_from((0.0, 0.1)),
    repeat_penalty=st.sampled_from((1.0, 1.4, 0.8)),
    repeat_last_n=st.sampled_from((0, 3, 64)),
    seed=st.integers(0, 5),
    stop=st.sampled_from(((), ("ab",), ("éa", "bb", "a😀"))),
)
scripts = st.fixed_dictionaries(
    {
        "alphabet": st.sampled_from(("ab", "a", "abé😀", "😀")),
        "end_one_in": st.sampled_from((0, 0, 6, 20)),
        "context": st.sampled_from((24, 60, 500)),
        "chunk": st.sampled_from((2, 7, 64)),
        "in_order": st.just(True),
    }
)
prompts = st.text("ab é😀", min_size=1, max_size=20).filter(lambda text: len(text.encode()) <= 24)


class Told(NoDrafts):
    """Drafts the answer as told, with the tokens at `wrong` places of it changed, `most` at once."""

    def __init__(self, says: Sequence[int], prompt: int, wrong: frozenset[int], most: int) -> None:
        self.says, self.prompt, self.wrong, self.most = says, prompt, wrong, most

    def propose(self, history: Ids, limit: int) -> Sequence[int]:
        at = len(history) - self.prompt
        known = enumerate([*self.says[at:], 258, 97, 98][: min(limit, self.most)], at)
        return [(token + (place in self.wrong)) % SIZE for place, token in known]


class Streams:
    """The random streams of the requests, and how often each was drawn from."""

    def __init__(self) -> None:
        self.samplers: list[Sampler] = []

    def __call__(self, config: DecodeConfig) -> Sampler:
        self.samplers.append(Sampler(config))
        return self.samplers[-1]

    @property
    def states(self) -> list[Any]:
        return [sampler._random.bit_generator.state for sampler in self.samplers]


def everything(here: Any, said: Any, streams: Streams) -> tuple[Any, ...]:
    """All that a request gave and left, but for the passes that it took."""
    [tape] = here.slot.shelf.tapes
    ended, kept = said.ended, tape.kept
    return (
        *(said.text, said.ids, ended.reason, ended.length, ended.usage.generated, ended.usage.prefilled),
        *(tape.ids.tolist(), kept.length, kept.logits.tobytes(), here.slot.shelf.free_cells),
        streams.states[-1],
    )


@given(prompts, configs, scripts, st.frozensets(st.integers(0, 40), max_size=12), st.integers(0, 12))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_d1_whatever_is_drafted_everything_is_as_without(
    bench: MakeBench, prompt: str, config: DecodeConfig, script: dict[str, Any], wrong: frozenset[int], most: int
) -> None:
    streams = Streams()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Sampler", streams)
        here = bench(**script)
        plain = here.run(prompt, decode=config)
        expected = everything(here, plain, streams)
        told = Told(plain.ids, len(plain.prompt_ids), wrong, most)
        for drafters in (told, PromptLookup(Lengths(Costs.measured(FLAT)))):
            there = bench(**script, drafters=drafters)
            drafted = there.run(prompt, decode=config)
            assert everything(there, drafted, streams) == expected
            there.backend.check()


def test_d2_drafts_that_are_right_save_passes_and_are_counted(bench: MakeBench) -> None:
    here = bench(alphabet="a", drafters=PromptLookup(Lengths(Costs.measured(FLAT))))
    config = DecodeConfig(max_tokens=100, temperature=0.001)
    said = here.run("aaaaaaaaaaaaaaaa", decode=config)
    usage, drafts = said.ended.usage, said.ended.drafts
    assert said.text == "a" * 100
    assert here.backend.extends < 20
    assert (usage.drafted, usage.accepted) == (drafts.drafted, drafts.accepted)
    assert drafts.accepted == 99 - drafts.passes
    assert (drafts.passes, drafts.tokens) == (here.backend.extends - 1, 99)


def test_a_guess_drafts_more_than_its_slow_chunks_hold_and_no_tape_is_lost(bench: MakeBench) -> None:
    """S4, D1: a chunk of it is 16 tokens here, its drafts are longer."""
    here = bench(alphabet="a", token_ms=20, drafters=PromptLookup(Lengths(Costs.measured(FLAT))))
    here.run("a" * 40, session="real", decode=DecodeConfig(max_tokens=1))
    said = here.run("a" * 60, guess=True, decode=DecodeConfig(max_tokens=60))
    assert said.text == "a" * 60
    assert said.ended.usage.accepted > 16
    assert len(here.slot.shelf.tapes) == 2


def test_a_draft_evicts_nothing(bench: MakeBench) -> None:
    """The answer has room beside the other tape; a draft that was thrown away need not have."""
    told = Told([97] * 100, 20, frozenset(), 30)
    here = bench(alphabet="a", cells=70, drafters=told)
    here.run("b" * 40, session="two")
    said = here.run("a" * 20, decode=DecodeConfig(max_tokens=100, stop=("aaaa",)))
    assert here.backend.extends == 3  # two prompts, and one pass for the answer
    assert sorted(len(tape.ids) for tape in here.slot.shelf.tapes) == [said.ended.length, 40]


def test_the_request_can_forbid_drafts(bench: MakeBench) -> None:
    here = bench(alphabet="a", drafters=PromptLookup(Lengths(Costs.measured(FLAT))))
    said = here.run("aaaaaaaa", decode=DecodeConfig(max_tokens=20, speculative_ngram=0))
    assert (said.ended.usage.drafted, here.backend.extends) == (0, 20)


def test_d3_drafts_that_lose_cost_no_more_than_the_probe(bench: MakeBench) -> None:
    """Rows cost almost as much as passes, and copies are right half the time: drafts never pay."""
    script = {"alphabet": "ab", "step_ms": 2.0, "token_ms": 8.0, "context": 2000}
    config = DecodeConfig(max_tokens=600)
    plain = bench(**script)
    said = plain.run("abab", decode=config)
    costs = Costs.measured({1: 0.010, 32: 0.012})  # as wrong as can be
    here = bench(**script, drafters=PromptLookup(Lengths(costs)))
    drafted = here.run("abab", decode=config)
    assert drafted.ids == said.ids
    assert drafted.ended.usage.drafted
    assert here.time <= 1.1 * plain.time


def test_s11_one_client_drafts_nothing_of_another(bench: MakeBench) -> None:
    lookup = PromptLookup(Lengths(Costs.measured(FLAT)))
    here = bench(drafters=lookup)
    here.run("abcdefgh12345", client="ann", guess=True)
    here.run("abcdefgh", client="bob", decode=DecodeConfig(max_tokens=1))
    tape = np.array(here.backend.vocabulary.tokenise("abcdefgh"), np.int32)
    for client, drafts in (("bob", False), ("ann", True)):
        drafter = lookup.of(client)
        drafter.begin(None)
        assert bool(drafter.propose(tape, 8)) == drafts


def test_s11_what_a_client_has_closed_is_forgotten(bench: MakeBench) -> None:
    lookup = PromptLookup(Lengths(Costs.measured(FLAT)))
    here = bench(drafters=lookup)
    here.run("abcdefgh", client="ann", session="one")
    here.run("abcdefgh", client="ann", session="two")
    here.run("b", client="bob", closed=(("ann", "one"),))
    assert len(lookup.of("ann"))
    here.run("b", client="bob", closed=(("ann", "two"),))
    assert not len(lookup.of("ann"))


def test_a_guess_is_known_to_the_drafter_of_who_adopts_it(bench: MakeBench) -> None:
    """What was prefilled before the request costs its steps nothing."""
    lookup = PromptLookup(Lengths(Costs.measured(FLAT)))
    here = bench(drafters=lookup)
    here.run("abcdefgh" * 20, guess=True)
    read = len(lookup.of("ann"))
    assert read == 160
    here.run("abcdefgh" * 20, decode=DecodeConfig(max_tokens=2))
    assert len(lookup.of("ann")) == read + 1


def test_before_the_first_token_that_is_waited_for_nothing_is_read(bench: MakeBench) -> None:
    lookup = PromptLookup(Lengths(Costs.measured(FLAT)))
    here = bench(drafters=lookup, chunk=64)
    here.run("abcdefgh" * 20, decode=DecodeConfig(max_tokens=1))
    assert len(lookup.of("ann")) == 128


def test_drafts_say_nothing_about_the_pace_of_prefill(bench: MakeBench) -> None:
    """The size of a guess's chunks follows from it."""
    lookup = PromptLookup(Lengths(Costs.measured(FLAT)))
    here = bench(alphabet="a", drafters=lookup, token_ms=1.0, step_ms=10.0)
    before = here.run("a" * 200, guess=True).ended.timings.chunk
    said = here.run("a" * 200, decode=DecodeConfig(max_tokens=100))
    assert said.ended.usage.accepted > 50
    assert said.ended.timings.chunk > 0
    assert here.run("a" * 199, guess=True).ended.timings.chunk == before
