"""How long the supervisor waits for an engine that says nothing, or nonsense."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from modeld.engine.messages import (
    Advanced,
    Encode,
    EngineGone,
    FromEngine,
    Probe,
    Probed,
    Probing,
    Refused,
    Saved,
)
from modeld.engine.supervisor import Supervisor
from modelwire.messages import Text
from tests.modeld.engine.scripted import ENDED, RUN, SAVE, Nursery, Start, ready


@pytest.mark.parametrize("work", [RUN, Encode(prompt=(Text(text="x"),)), Probe()])
async def test_an_engine_that_falls_silent_in_its_work_is_killed(start: Start, nursery: Nursery, work: Any) -> None:
    supervisor = await start(first=0.01)
    child = await ready(nursery)
    supervisor.send(work)
    await nursery.until(lambda: isinstance(nursery.told[-1], EngineGone))
    assert isinstance(nursery.told[-1], EngineGone)
    assert "silent for too long" in nursery.told[-1].reason
    assert child.buried


async def test_an_engine_that_never_gets_ready_is_killed(start: Start, nursery: Nursery) -> None:
    await start(load=0.01, loads=1)
    await nursery.until(lambda: any(isinstance(told, Refused) for told in nursery.told))


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


@pytest.mark.parametrize("say", [lambda number: Advanced(length=number), lambda number: Probing(progress=number)])
async def test_the_bound_is_twenty_chunks_where_chunks_are_slow(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch, say: Callable[[int], FromEngine]
) -> None:
    supervisor = await start()
    child = await ready(nursery)
    clock = [0.0]
    base = asyncio.get_running_loop().time()
    monkeypatch.setattr(Supervisor, "_now", lambda _: base + clock[0])
    bounds = []
    supervisor.send(RUN)
    for length, at in enumerate((0.1, 3.0, 3.1), start=1):
        clock[0] = at
        child.says(say(length))
        await nursery.until(lambda length=length: say(length) in nursery.told)  # type: ignore[misc]
        when = supervisor._due
        assert when is not None
        bounds.append(round(when - base - at, 3))
    assert bounds == [10.0, 58.0, 58.0]


async def test_an_engine_that_talks_nonsense_is_killed(start: Start, nursery: Nursery) -> None:
    await start()
    child = await ready(nursery)
    child.reader.data_received(b"\xff\xff\xff\xff")
    await nursery.until(lambda: isinstance(nursery.told[-1], EngineGone))
    assert "unreadable" in cast(EngineGone, nursery.told[-1]).reason
