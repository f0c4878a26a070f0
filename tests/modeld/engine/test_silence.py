"""How long the supervisor waits for an engine that says nothing, or nonsense."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from modeld.engine.config import EngineConfig
from modeld.engine.frames import framed
from modeld.engine.messages import (
    Advanced,
    Begun,
    Encode,
    EngineGone,
    FromEngine,
    Generated,
    Probe,
    Probed,
    Probing,
    Ready,
    Refused,
    Saved,
)
from modeld.engine.patience import Pace, Patience
from modeld.engine.supervisor import Supervisor
from modelwire.client import LOAD_S
from modelwire.messages import Text
from tests.modeld.engine.scripted import ENDED, READY, RUN, SAVE, Nursery, Start, ready

CHUNK = EngineConfig().chunk


@pytest.mark.parametrize("work", [RUN, Encode(prompt=(Text(text="x"),)), Probe()])
async def test_an_engine_that_falls_silent_in_its_work_is_killed(start: Start, nursery: Nursery, work: Any) -> None:
    supervisor = await start(first=0.01)
    child = await ready(nursery)
    supervisor.send(work)
    await nursery.until(lambda: isinstance(nursery.told[-1], EngineGone))
    assert isinstance(nursery.told[-1], EngineGone)
    assert "silent for too long" in nursery.told[-1].reason
    assert child.buried


async def test_an_engine_that_never_gets_ready_is_killed_and_its_model_given_up_the_second_time(
    start: Start, nursery: Nursery
) -> None:
    """Nobody can stop a load, and everybody waits for it: five times the longest one are an hour."""
    await start(load=0.01)
    await nursery.until(lambda: any(isinstance(told, Refused) for told in nursery.told))
    assert [type(told) for told in nursery.told] == [EngineGone, EngineGone, Refused]
    assert isinstance(nursery.told[-1], Refused)
    assert "faster disk" in nursery.told[-1].message


async def test_a_model_that_loads_in_time_when_part_of_it_is_in_memory_is_loaded(
    start: Start, nursery: Nursery
) -> None:
    await start(load=0.2)
    await nursery.until(lambda: len(nursery.children) > 1)
    nursery.children[1].says(READY)
    await nursery.until(lambda: len(nursery.told) > 1)
    assert [type(told) for told in nursery.told] == [EngineGone, Ready]


async def test_s13_a_model_that_was_ready_before_is_not_given_up_for_a_load_that_hangs(
    start: Start, nursery: Nursery
) -> None:
    await start(load=0.01, loads=3)
    nursery.children[0].says(READY)
    nursery.children[0].dies()
    await nursery.until(lambda: len(nursery.children) > 4)
    assert not any(isinstance(told, Refused) for told in nursery.told)


@pytest.mark.parametrize(("work", "end"), [(RUN, ENDED), (Probe(), Probed(finished=False)), (SAVE, Saved(bytes=1))])
async def test_an_idle_engine_may_be_silent(start: Start, nursery: Nursery, work: Any, end: Any) -> None:
    supervisor = await start(first=60.0)
    child = await ready(nursery)
    bounds = [supervisor._due]
    supervisor.send(work)
    bounds.append(supervisor._due)
    child.says(end)
    await nursery.until(lambda: end in nursery.told)
    bounds.append(supervisor._due)
    assert [bound is None for bound in bounds] == [True, False, True]


class Watch:
    """A supervisor's clock, and how long it waits for the next word of its engine."""

    def __init__(self, supervisor: Supervisor, nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
        self.supervisor, self.nursery = supervisor, nursery
        self.now, self.base = 0.0, asyncio.get_running_loop().time()
        monkeypatch.setattr(Supervisor, "_now", lambda _: self.base + self.now)

    async def allows_after(self, message: FromEngine, at: float) -> float:
        self.now = at
        self.nursery.children[-1].says(message)
        await self.nursery.until(lambda: self.nursery.told[-1] is not message and self.nursery.told[-1] == message)
        assert self.supervisor._due is not None
        return round(self.supervisor._due - self.base - at, 3)


async def watched(start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> Watch:
    supervisor = await start()
    await ready(nursery)
    watch = Watch(supervisor, nursery, monkeypatch)
    supervisor.send(RUN)
    return watch


@pytest.mark.parametrize(
    "say", [lambda number: Advanced(length=CHUNK * number), lambda number: Probing(progress=number)]
)
async def test_the_bound_is_twenty_chunks_where_chunks_are_slow(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch, say: Callable[[int], FromEngine]
) -> None:
    watch = await watched(start, nursery, monkeypatch)
    bounds = [await watch.allows_after(say(number), at) for number, at in enumerate((0.1, 3.0, 3.1), start=1)]
    assert bounds == [10.0, 58.0, 58.0]


async def test_s13_small_chunks_say_how_long_a_whole_one_may_take_and_a_whole_one_knows_better(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guess's chunk may be 16 tokens. At 27 tokens a second a whole one takes 19 s: that is slow, and healthy."""
    watch = await watched(start, nursery, monkeypatch)
    longest = watch.supervisor._patience.first
    assert await watch.allows_after(Begun(ids=bytes(4 * 3000), reused=100), 0.0) == longest
    assert await watch.allows_after(Advanced(length=116), 0.6) == longest
    assert await watch.allows_after(Advanced(length=116 + CHUNK), 1.6) == 20.0
    assert await watch.allows_after(Advanced(length=132 + CHUNK), 1.9) == 20.0
    assert await watch.allows_after(Generated(text="a", ids=(1,)), 2.9) == 20.0


async def test_s13_a_prompt_of_one_chunk_is_measured_by_its_first_token_and_a_decoding_engine_is_known(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = await watched(start, nursery, monkeypatch)
    await watch.allows_after(Begun(ids=bytes(4 * 100), reused=0), 0.0)
    assert await watch.allows_after(Generated(text="a", ids=(1,)), 0.4) == 10.0
    assert await watch.allows_after(Generated(text="b", ids=(2,)), 0.5) == 10.0
    watch.supervisor.send(RUN)
    assert await watch.allows_after(Begun(ids=bytes(4 * 3000), reused=100), 1.0) == round(20 * 0.4 / 100 * CHUNK, 3)


async def test_an_alarm_that_was_set_for_something_else_ends_no_engine(start: Start, nursery: Nursery) -> None:
    supervisor = await start()
    child = await ready(nursery)
    supervisor.send(RUN)
    supervisor._ring()
    child.says(ENDED)
    await nursery.until(lambda: nursery.told[-1] == ENDED)


def test_a_client_waits_for_a_load_until_it_is_told_why_it_failed() -> None:
    """A model that says nothing is given up after two loads; so may be the one before, to which it goes back."""
    bounds = Patience()
    given_up = bounds.silent_loads * (bounds.load + bounds.quit + bounds.longest_pause)
    assert 2 * given_up < LOAD_S


def test_the_first_chunk_has_longer_where_chunks_are_larger() -> None:
    bounds = [Pace(Patience(), chunk).longest_silence(filling=True) for chunk in (64, 512, 2048)]
    assert bounds == [300.0, 300.0, 1200.0]


@pytest.mark.parametrize("nonsense", [b"\xff\xff\xff\xff", framed(b"nonsense")], ids=["no frame", "no message"])
async def test_an_engine_that_talks_nonsense_is_killed(start: Start, nursery: Nursery, nonsense: bytes) -> None:
    await start()
    child = await ready(nursery)
    child.reader.data_received(nonsense)
    await nursery.until(lambda: isinstance(nursery.told[-1], EngineGone))
    assert "unreadable" in cast(EngineGone, nursery.told[-1]).reason


async def test_time_in_which_this_process_did_not_run_is_nobodys_silence(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine may have been stopped with it (a frozen container, a debugger), so it has a while to say something."""
    watch = await watched(start, nursery, monkeypatch)
    supervisor, patience = watch.supervisor, watch.supervisor._patience.first
    for watch.now in (patience - 1, 10 * patience):
        supervisor._ring()
        assert supervisor._due is not None
        assert supervisor._due > supervisor._now()
    child = nursery.children[-1]
    child.says(ENDED)
    await nursery.until(lambda: ENDED in nursery.told)
    assert not child.buried


@pytest.mark.parametrize("looks_first", [False, True])
async def test_s13_an_answer_in_which_this_process_did_not_run_makes_nobody_wait_longer_for_a_hung_engine(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch, looks_first: bool
) -> None:
    """Ctrl-Z and fg an hour later: no chunk took an hour."""
    watch = await watched(start, nursery, monkeypatch)
    await watch.allows_after(Generated(text="a", ids=(1,)), 1.0)
    assert await watch.allows_after(Generated(text="b", ids=(2,)), 1.5) == 20.0
    watch.now += 3600
    if looks_first:
        watch.supervisor._ring()
    assert await watch.allows_after(Generated(text="c", ids=(3,)), watch.now) == 20.0
    watch.supervisor._ring()
    assert watch.supervisor._due == watch.base + watch.now + 20.0


async def test_s13_work_that_is_sent_after_a_freeze_has_no_longer_than_other_work(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = await watched(start, nursery, monkeypatch)
    nursery.children[-1].says(ENDED)
    await nursery.until(lambda: ENDED in nursery.told)
    watch.now = 3600.0
    watch.supervisor.send(SAVE)
    watch.supervisor._ring()
    assert watch.supervisor._due is not None
    assert watch.supervisor._due - watch.base - watch.now < watch.supervisor._patience.first + 1


async def test_an_engine_that_stays_silent_after_that_is_killed(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = await watched(start, nursery, monkeypatch)
    watch.now = 1000.0
    for _ in range(1000):
        watch.supervisor._ring()
        watch.now += 1.0
        if nursery.children[-1].reader._failed:
            break
    await nursery.until(lambda: isinstance(nursery.told[-1], EngineGone))
    assert 1000 < watch.now < 1010 + watch.supervisor._patience.first


async def test_a_chunk_larger_than_the_context_counts_as_one_of_the_context(nursery: Nursery) -> None:
    """A backend takes no larger one, so an engine that hangs is noticed as soon as with that."""
    supervisor = Supervisor(
        EngineConfig(backend="fake", chunk=10**6), nursery.listen, patience=Patience(), start_child=nursery.start
    )
    await supervisor.start()
    await ready(nursery)
    supervisor.send(RUN)
    assert supervisor._due is not None
    assert supervisor._due - supervisor._now() <= Patience().first * READY.context / 512 + 1
    await supervisor.close()
