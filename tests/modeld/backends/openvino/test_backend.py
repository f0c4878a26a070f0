"""The backend over a pipeline that is a few dictionaries: what it asks for, what it keeps, what it accounts for."""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, cast

import numpy as np
import pytest
from attrs import define, evolve, field

from modeld.backends.base import Ids, OutOfCells
from modeld.backends.fake_vocabulary import FakeVocabulary
from modeld.backends.flag import LocalFlag
from modeld.backends.openvino.backend import OpenVinoBackend, Sizes
from modeld.backends.openvino.pipeline import BLOCK, Given, NoRoom, Pipeline
from modeld.testing import MODEL
from modelwire.messages import DecodeConfig

CHUNK = 64
SIZES = Sizes(context=512, cells=512, sequences=3, chunk=CHUNK, slack=256)
DESCRIPTION = evolve(MODEL, name="dictionaries", vocabulary=256)


@define
class Dictionaries:
    """A prefix cache of whole blocks, the least recently used of which go, and answers that follow from the prompt."""

    blocks: int
    stop: LocalFlag
    lookup: bool = False
    steps: int = 0
    cache_bytes: int = 0
    stop_at: int = 0
    known: "OrderedDict[bytes, None]" = field(factory=OrderedDict)
    asked: list[int] = field(factory=list)

    def begin(self, tape: Ids, config: Any) -> "Asked":
        self.asked.append(len(tape))
        return Asked(self, tape, config.max_new_tokens)

    def digests(self, tape: Ids) -> list[bytes]:
        ends = range(BLOCK, len(tape) + 1, BLOCK)
        return [blake2b(tape[:end].tobytes(), digest_size=8).digest() for end in ends]

    def recognised(self, tape: Ids) -> int:
        """Whole blocks, and never the last token."""
        count = 0
        for digest in self.digests(tape[:-1]):
            if digest not in self.known:
                break
            self.known.move_to_end(digest)
            count += BLOCK
        return count

    def remember(self, tape: Ids) -> None:
        for digest in self.digests(tape):
            self.known[digest] = None
            self.known.move_to_end(digest)
        while len(self.known) > self.blocks:
            self.known.popitem(last=False)

    def drain(self) -> None:
        pass


class Asked:
    """A request: steps of a chunk, then a token a step."""

    def __init__(self, owner: Dictionaries, tape: Ids, tokens: int) -> None:
        self._owner, self._tape, self._left = owner, tape, tokens
        self._done = owner.recognised(tape)

    @property
    def running(self) -> bool:
        return self._left > 0

    def step(self) -> Given:
        owner = self._owner
        owner.steps += 1
        if owner.steps == owner.stop_at:
            owner.stop.set()
        if -(-len(self._tape) // BLOCK) > owner.blocks:
            raise NoRoom("no room")
        self._done = min(self._done + CHUNK, len(self._tape))
        owner.remember(self._tape[: self._done])
        if self._done < len(self._tape):
            return Given(tokens=(), scores=())
        token = int(self._tape.sum()) % 200 + 10
        self._tape = np.append(self._tape, np.int32(token))
        self._left -= 1
        return Given(tokens=(token,), scores=(-float(len(self._tape)),))

    def end(self) -> None:
        pass


Make = Callable[..., tuple[OpenVinoBackend, Dictionaries]]


@pytest.fixture
def make() -> Make:
    def made(blocks: int = SIZES.blocks) -> tuple[OpenVinoBackend, Dictionaries]:
        stop = LocalFlag()
        pipeline = Dictionaries(blocks, stop)
        backend = OpenVinoBackend(
            cast(Pipeline, pipeline),
            description=DESCRIPTION,
            vocabulary=FakeVocabulary(None, False),
            sizes=SIZES,
            device="CPU",
            build="",
            stop=stop,
            reference=lambda tapes, tokens, advanced: None,
            free=lambda: None,
        )
        return backend, pipeline

    return made


def tape(length: int, salt: int = 0) -> Ids:
    return (np.arange(length, dtype=np.int32) * 7 + salt * 31) % 251


def fill(backend: OpenVinoBackend, sequence: int, ids: Ids, start: int = 0) -> int:
    """In chunks; what was computed."""
    computed = 0
    for at in range(start, len(ids), CHUNK):
        extended = backend.extend(sequence, ids[: at + CHUNK], at, 0)
        assert not extended.stopped
        computed += extended.computed or 0
    return computed


def said(backend: OpenVinoBackend, sequence: int, ids: Ids, **config: Any) -> list[int]:
    return [token for step in backend.generate(sequence, ids, DecodeConfig(**config)) for token in step]


def test_a_prompt_goes_in_as_requests_for_ever_longer_beginnings_of_one_step_each(make: Make) -> None:
    """S5"""
    backend, pipeline = make()
    assert fill(backend, 0, tape(200)) == 200
    assert (pipeline.asked, backend.passes) == ([64, 128, 192, 200], 4)


def test_the_first_token_after_a_whole_prompt_takes_no_pass(make: Make) -> None:
    backend, _ = make()
    ids = tape(100)
    fill(backend, 0, ids)
    cold = said(backend, 1, ids, max_tokens=3)
    before = backend.passes
    steps = backend.generate(0, ids, DecodeConfig(max_tokens=3))
    assert [*next(steps)] == cold[:1]
    assert backend.passes == before
    assert [token for step in steps for token in step] == cold[1:]
    assert list(backend.scores) == [-101.0, -102.0, -103.0]


def test_a_fork_and_a_cut_take_the_known_token_along_only_where_it_follows(make: Make) -> None:
    """S6"""
    backend, _ = make()
    ids = tape(100)
    fill(backend, 0, ids)
    backend.fork(0, 1, 100)
    backend.fork(0, 2, 99)
    before = backend.passes
    assert said(backend, 1, ids, max_tokens=1) == said(backend, 0, ids, max_tokens=1)
    assert backend.passes == before
    said(backend, 2, ids[:99], max_tokens=1)
    assert backend.passes == before + 1
    backend.trim(0, 99)
    said(backend, 0, ids[:99], max_tokens=1)
    assert backend.passes == before + 2


def test_a_token_that_is_drawn_by_chance_or_penalised_is_never_the_known_one(make: Make) -> None:
    backend, _ = make()
    ids = tape(100)
    fill(backend, 0, ids)
    before = backend.passes
    said(backend, 0, ids, max_tokens=1, temperature=0.7)
    said(backend, 0, ids, max_tokens=1, repeat_penalty=1.1, repeat_last_n=1000)
    assert backend.passes == before + 2


def test_what_a_block_had_before_a_start_within_it_is_counted_as_computed(make: Make) -> None:
    """The library recognises whole blocks only."""
    backend, _ = make()
    ids = tape(100)
    fill(backend, 0, ids[:70])
    extended = backend.extend(0, ids, 70, 0)
    assert (extended.length, extended.computed) == (100, 100 - 2 * BLOCK)


def test_lost_blocks_show_in_the_number_of_steps_and_are_accounted_for(make: Make) -> None:
    backend, pipeline = make()
    ids = tape(250)
    fill(backend, 0, ids[:192])
    pipeline.known.clear()
    extended = backend.extend(0, ids, 192, 0)
    assert (extended.length, extended.computed) == (250, 250)


def test_a_stop_among_the_steps_of_lost_blocks_ends_it(make: Make) -> None:
    """S2: one step more at most, also where nothing is as it was thought to be."""
    backend, pipeline = make()
    ids = tape(250)
    fill(backend, 0, ids[:192])
    pipeline.known.clear()
    pipeline.stop_at = pipeline.steps + 2
    extended = backend.extend(0, ids, 192, 0)
    assert (extended.length, extended.stopped, pipeline.steps) == (192, True, pipeline.stop_at)


def test_s7_a_kept_tape_loses_nothing_to_tapes_that_come_and_go(make: Make) -> None:
    """The library forgets what was not used for the longest time, whoever holds it."""
    backend, pipeline = make()
    kept = tape(200, salt=1)
    fill(backend, 0, kept)
    for salt in range(2, 60):
        fill(backend, 1, tape(250, salt=salt))
        backend.drop(1)
    assert pipeline.recognised(np.append(kept, np.int32(0))) == 192


def test_s2_a_stop_ends_the_keeping_of_others_too(make: Make) -> None:
    backend, pipeline = make()
    for sequence in (0, 1):
        fill(backend, sequence, tape(120, salt=sequence))
    while backend._residency.oldest(2, CHUNK) is None:
        fill(backend, 2, tape(60, salt=backend.passes))
    pipeline.stop_at = pipeline.steps + 1
    assert backend.extend(2, tape(CHUNK, salt=99), 0, 0).stopped
    assert pipeline.steps == pipeline.stop_at


def test_s2_no_step_for_another_tape_comes_before_a_request_while_there_are_blocks_that_nobody_holds(
    make: Make,
) -> None:
    """A single long answer writes more than what is left over where all cells are held."""
    backend, pipeline = make()
    for sequence in (0, 1):
        fill(backend, sequence, tape(60, salt=sequence))
    said(backend, 2, tape(60, salt=2), max_tokens=SIZES.slack + 50)
    pipeline.asked.clear()
    backend.tidy()
    backend.extend(1, np.append(tape(60, salt=1), tape(30, salt=3)), 60, 0)
    assert pipeline.asked == [90]


def test_s7_what_forks_share_is_counted_once(make: Make) -> None:
    """Otherwise every operation would use them all again."""
    backend, pipeline = make()
    ids = tape(250, salt=1)
    fill(backend, 0, ids)
    for sequence in (1, 2):
        backend.fork(0, sequence, 240)
        fill(backend, sequence, np.append(ids[:240], tape(20, salt=sequence)), 240)
    pipeline.asked.clear()
    backend.tidy()
    backend.extend(2, np.append(ids[:240], tape(50, salt=2)), 260, 0)
    assert pipeline.asked == [290]


def test_s2_tidying_ends_with_the_step_in_which_a_request_came(make: Make) -> None:
    backend, _ = make()
    for sequence in (0, 1):
        fill(backend, sequence, tape(120, salt=sequence))
    while backend._residency.oldest(2, CHUNK) is None:
        fill(backend, 2, tape(60, salt=backend.passes))
    before = backend.passes
    backend.tidy(lambda: backend.passes > before)
    assert backend.passes == before + 1
    for _ in range(2):
        backend.tidy()
        assert backend.passes == before + 2  # the other one, too, and then nothing


def test_a_prompt_without_room_is_told_so(make: Make) -> None:
    backend, _ = make(blocks=1)
    with pytest.raises(OutOfCells):
        backend.extend(0, tape(60), 0, 0)


def test_after_a_stop_an_answer_ends_with_the_step(make: Make) -> None:
    backend, pipeline = make()
    ids = tape(100)
    fill(backend, 0, ids)
    pipeline.stop_at = pipeline.steps + 3
    assert len(said(backend, 0, ids, max_tokens=50)) == 1 + 3
