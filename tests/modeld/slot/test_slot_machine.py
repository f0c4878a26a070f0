"""Any sequence of requests, stops, faults and closings: every answer is that of a slot that has served nothing else."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from modeld.backends.base import Ids
from modeld.backends.fake import FakeBackend, FakeScript, Fault
from modeld.backends.fake_vocabulary import SIZE
from modeld.backends.flag import LocalFlag
from modeld.engine.messages import Begun, Encode, Encoded, Ended, Failed, FromEngine, Run, Save
from modeld.slot import Slot, SlotSettings
from modeld.slot.draft import Costs, Drafters, Lengths, NoDrafts, PromptLookup
from modeld.slot.tape import Owner, TapeKind
from modeld.testing import generated
from modelwire.messages import DecodeConfig, Reason, Text

LONG = settings.get_current_profile_name() == "long"
STEPS = 20_000
"""What `make test-long` runs at least."""
CLIENTS, SESSIONS = ("ann", "bob"), ("one", "two")
SMALL = FakeScript(context=40, cells=56, sequences=3, chunk=8, piece=4, poll_tokens=2, alphabet="abé", end_one_in=9)
SHAPES = (
    SMALL,
    evolve(SMALL, ubatch=4),
    evolve(SMALL, cells=400, sequences=8, piece=3),
    evolve(SMALL, cells=41, sequences=6),
    evolve(SMALL, cells=40, sequences=1),
    evolve(SMALL, cells=120, sequences=2),
    evolve(SMALL, stop="step"),
    evolve(SMALL, refuse_trim=True),
    evolve(SMALL, refuse_fork=True),
    evolve(SMALL, refuse_fork=True, cells=120, export=False),
    evolve(SMALL, rollback=False, refuse_trim=True),
    evolve(SMALL, fork="content", sequences=4),
)
CONFIGS = st.builds(
    DecodeConfig,
    max_tokens=st.sampled_from((0, 1, 2, 5, 7, 9)),
    temperature=st.sampled_from((0.0, 0.0, 1.5)),
    seed=st.integers(0, 3),
    repeat_penalty=st.sampled_from((1.0, 1.3)),
    stop=st.sampled_from(((), (), ("ab",), ("éa", "bb"))),
)
FAULTS = st.sampled_from((*[None] * 12, Fault.FAIL, Fault.CELLS))
STOPS = st.sampled_from((*[None] * 8, 0, 1, 3, 6, 10, 15))
CLOSED = st.sampled_from((*[()] * 6, (("ann", "one"),), (("bob", "two"), ("ann", "two"))))

PARKING = 3000
"""Two tapes fit, and three short ones."""
FLAT = {1: 0.01, 32: 0.011}
"""Seconds by rows with which drafts pay even if they are seldom right."""


class Recalling(NoDrafts):
    """Drafts what a run of its own would say, wrong where `wrong` says so."""

    def __init__(self) -> None:
        self.says: Sequence[int] = ()
        self.prompt = 0
        self.wrong: Sequence[bool] = ()

    def propose(self, history: Ids, limit: int) -> Sequence[int]:
        known = self.says[len(history) - self.prompt :][:limit]
        wrong = [*self.wrong, *[False] * len(known)]
        return [(token + spoil) % SIZE for token, spoil in zip(known, wrong, strict=False)]


def _slot(
    script: FakeScript,
    flag: LocalFlag,
    drafters: Drafters,
    parking_bytes: int = 0,
    awaited: Callable[[], bool] = lambda: False,
) -> tuple[Slot, FakeBackend]:
    backend = FakeBackend(script, flag)
    ticks = iter(range(10**9))
    slot = Slot(
        backend,
        stop=flag,
        clock=lambda: next(ticks) / 100,
        settings=SlotSettings(chunk_floor=4, guess_chunk_ms=50, parking_least=3, parking_bytes=parking_bytes),
        drafters=drafters,
        awaited=awaited,
    )
    return slot, backend


def _run(slot: Slot, request: Run) -> list[FromEngine]:
    messages: list[FromEngine] = []
    slot.run(request, messages.append)
    ends = [message for message in messages if isinstance(message, Ended | Failed)]
    assert ends == messages[-1:], "exactly one end, and nothing after it"
    return messages


class SlotMachine(RuleBasedStateMachine):
    prompts = Bundle("prompts")
    steps = 0

    @initialize(shape=st.sampled_from(SHAPES), looks_up=st.booleans(), parks=st.booleans(), target=prompts)
    def start(self, shape: FakeScript, looks_up: bool, parks: bool) -> tuple[int, ...]:
        """Parking pays as measured, or always (`parks`): so short a tape is seldom worth it."""
        self.script = shape
        self.checked = 0
        self.flag = LocalFlag()
        self.drafter = Recalling()
        drafters = PromptLookup(Lengths(Costs.measured(FLAT))) if looks_up else self.drafter
        self.awaited = False
        self.slot, self.backend = _slot(evolve(shape), self.flag, drafters, PARKING, lambda: self.awaited)
        if parks:
            self.slot.shelf._parking._rate = lambda: 0.0
        self.total = self.backend.free_cells
        return (97,)

    @rule(
        target=prompts,
        stem=prompts,
        share=st.sampled_from((1.0, 1.0, 0.8, 0.3)),
        more=st.lists(st.sampled_from((97, 98)), max_size=14),
    )
    def write(self, stem: tuple[int, ...], share: float, more: list[int]) -> tuple[int, ...]:
        """A prompt that shares a beginning with another one."""
        return (*stem[: int(len(stem) * share)], *more)[:42] or (97,)

    @rule(
        target=prompts,
        prompt=prompts,
        client=st.sampled_from(CLIENTS),
        session=st.sampled_from(SESSIONS),
        config=st.sampled_from((None, 1, 1, 1)).flatmap(lambda some: CONFIGS if some else st.none()),
        suffix=st.sampled_from(("", "", "a", "bthé", "ababab")),
        stop_after=STOPS,
        fault=FAULTS,
        closed=CLOSED,
        wrong=st.sampled_from(((), (True,), (False, True), (False, False, True))),
        drafts=st.sampled_from((True, True, False)),
        awaited=st.booleans(),
    )
    def ask(self, prompt: tuple[int, ...], wrong: Sequence[bool], drafts: bool, awaited: bool, **how: Any) -> Any:
        """A real request (S4, S6, D1). If the next one is `awaited` at its end, it leaves guesses no room."""
        self.awaited = awaited
        request = self._request(prompt, guess=False, **how)
        expected = self._alone(request)
        self.drafter.says = generated(expected)[1] if drafts else ()
        self.drafter.prompt, self.drafter.wrong = self._length(request), wrong
        messages = self._served(request, **how)
        self._compare(messages, expected, disturbed=how["fault"] is not None)
        said = (*np.frombuffer(request.base, "<i4").tolist(), *generated(messages)[1])
        return said if len(said) <= 42 else multiple()

    @rule(
        prompt=prompts,
        client=st.sampled_from(CLIENTS),
        session=st.sampled_from(SESSIONS),
        suffix=st.sampled_from(("", "a", "bthé", "ababab")),
        config=st.sampled_from((None, None, 1)).flatmap(lambda some: CONFIGS if some else st.none()),
        stop_after=STOPS,
        fault=FAULTS,
        closed=CLOSED,
    )
    def guess(self, prompt: tuple[int, ...], **how: Any) -> None:
        """S5, S7, S10, S12: real tapes stay as they are, here or parked, and what a stopped guess has finished stays.

        A guess that goes ahead says what a real request would, as far as it comes.
        """
        before = self._real_tapes(how["closed"]), self._parked(how["closed"])
        request = self._request(prompt, guess=True, **how)
        messages = self._served(request, **how)
        self._check_kept(*before)
        text, ids = generated(messages)
        if request.decode is not None:
            right_text, right_ids = generated(self._alone(evolve(request, guess=False)))
            assert right_text.startswith(text)
            assert right_ids[: len(ids)] == ids
        elif isinstance(messages[-1], Ended):
            assert messages[-1].reason in (Reason.PREFILLED, Reason.PREEMPTED, Reason.CONTEXT)
            assert not ids

    @rule(prompt=prompts, client=st.sampled_from(CLIENTS), closed=CLOSED)
    def save(self, prompt: tuple[int, ...], client: str, closed: tuple[tuple[str, str], ...]) -> None:
        """A snapshot changes no tape; what is asked later may come from it."""
        before = self._real_tapes(closed)
        ids = np.array(prompt, "<i4").tobytes()
        saved = self.slot.save(Save(client=client, place="snapshot", ids=ids, closed=closed))
        assert self._real_tapes(()) == before
        assert saved.bytes <= self.slot.figures().parked_bytes <= PARKING

    @invariant()
    def the_slot_knows_what_is_resident(self) -> None:
        if not hasattr(self, "slot"):
            return
        self.checked += 1
        self.slot.check()
        self.backend.check()
        if self.backend.capabilities.fork == "cells":
            tapes = {tape.sequence: tape.ids.tolist() for tape in self.slot.shelf.tapes}
            for sequence in range(self.backend.sequences):
                assert list(self.backend.resident(sequence)) == tapes.get(sequence, [])
            assert self.backend.free_cells == self.slot.shelf.free_cells

    def teardown(self) -> None:
        """Everything closed, every cell is free again."""
        if not hasattr(self, "slot"):
            return
        everyone = tuple((client, session) for client in CLIENTS for session in (*SESSIONS, "snapshot"))
        _run(self.slot, Run(client="none", session="none", guess=False, closed=everyone))
        self.slot.check()
        assert self.slot.figures().tapes == self.slot.figures().cells_used == self.slot.figures().parked == 0
        assert self.backend.free_cells == self.total
        type(self).steps += self.checked - 1  # once before the first step

    # --- how ----------------------------------------------------------------------------------------------

    @staticmethod
    def _request(
        prompt: tuple[int, ...],
        *,
        guess: bool,
        client: str,
        session: str,
        suffix: str,
        config: DecodeConfig | None,
        **_: Any,
    ) -> Run:
        parts = (Text(text=suffix),) if suffix else ()
        base = np.array(prompt, "<i4").tobytes()
        return Run(client=client, session=session, guess=guess, base=base, prompt=parts, decode=config)

    def _served(
        self,
        request: Run,
        stop_after: int | None,
        fault: Fault | None,
        closed: tuple[tuple[str, str], ...],
        **_: Any,
    ) -> list[FromEngine]:
        if fault is not None:
            self.backend.plan(fault)
        self.flag.clear()
        self.flag.after = stop_after
        messages = _run(self.slot, evolve(request, closed=closed))
        self.flag.clear()
        self.backend.plan(None)
        self._assert_resident(messages)
        return messages

    def _assert_resident(self, messages: Sequence[FromEngine]) -> None:
        """What an operation says to be resident is on a tape: S5 where it was stopped."""
        end = messages[-1]
        if isinstance(end, Ended) and end.length:
            ids = (self._ids(messages) + generated(messages)[1])[: end.length]
            assert len(ids) == end.length
            assert any(tape.ids[: end.length].tolist() == ids for tape in self.slot.shelf.tapes)

    def _alone(self, request: Run) -> list[FromEngine]:
        slot, _ = _slot(evolve(self.script, refuse_trim=False, refuse_fork=False), LocalFlag(), Recalling())
        return _run(slot, request)

    def _compare(self, messages: Sequence[FromEngine], expected: Sequence[FromEngine], disturbed: bool) -> None:
        end, right = messages[-1], expected[-1]
        text, ids = generated(messages)
        right_text, right_ids = generated(expected)
        assert right_ids[: len(ids)] == ids
        assert right_text.startswith(text)
        if not isinstance(end, Ended):
            assert disturbed or end == right
            return
        assert isinstance(right, Ended)
        if end.reason is Reason.PREEMPTED or disturbed:
            return
        assert (end.reason, text, ids) == (right.reason, right_text, right_ids)
        assert end.usage.reused + end.usage.prefilled == end.usage.prompt == right.usage.prompt
        assert end.usage.guessed <= end.usage.reused

    def _real_tapes(self, but: Sequence[tuple[str, str]]) -> dict[Owner, list[int]]:
        closed = {Owner(*names) for names in but}
        real = [tape for tape in self.slot.shelf.tapes if tape.kind is TapeKind.REAL]
        return {tape.owner: tape.ids.tolist() for tape in real if tape.owner not in closed}

    def _parked(self, but: Sequence[tuple[str, str]]) -> list[list[int]]:
        closed = {Owner(*names) for names in but}
        return [place.ids.tolist() for place in self.slot.shelf._parking if place.owner not in closed]

    def _check_kept(self, real: dict[Owner, list[int]], parked: list[list[int]]) -> None:
        """After a real operation that has left no room, tapes may be parked for a guess."""
        after, places = self._real_tapes(()), self._parked(())
        assert after == {owner: ids for owner, ids in real.items() if owner in after}
        for ids in (*parked, *(ids for owner, ids in real.items() if owner not in after)):
            assert any(place[: len(ids)] == ids for place in places), "it will be missed"

    @staticmethod
    def _ids(messages: Sequence[FromEngine]) -> list[int]:
        begun = messages[0]
        assert isinstance(begun, Begun)
        return [int(token) for token in np.frombuffer(begun.ids, "<i4")]

    def _length(self, request: Run) -> int:
        encoded = self.slot.encode(Encode(prompt=request.prompt))
        assert isinstance(encoded, Encoded)
        return len(request.base) // 4 + len(encoded.ids)


@pytest.mark.timeout(3600 if LONG else 300)
def test_s4_s5_s6_s7_s11_d1_any_sequence_of_operations_leaves_right_tapes() -> None:
    """And right answers; with everything closed, all cells are free."""
    examples, steps = (240, 100) if LONG else (60, 30)
    run_state_machine_as_test(
        SlotMachine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
    assert SlotMachine.steps >= STEPS or not LONG
