"""When an engine is gone: what is told, when another one is started, when a model is given up."""

import asyncio
from typing import cast

import pytest

from modeld.engine.child import UPGRADED
from modeld.engine.messages import (
    Begun,
    EngineGone,
    FromEngine,
    FromSupervisor,
    Refused,
    Upgraded,
)
from modeld.engine.patience import CrashLoop, Patience
from modeld.engine.supervisor import Supervisor
from tests.modeld.engine.scripted import ENDED, READY, RUN, Nursery, Start, ready


async def test_after_a_death_a_new_epoch_begins(start: Start, nursery: Nursery) -> None:
    """S13."""
    supervisor = await start()
    (await ready(nursery)).dies()
    await ready(nursery, 2)
    assert nursery.told == [READY, EngineGone(epoch=1, reason="exited with status 0"), READY]
    assert supervisor.epoch == 2
    assert nursery.children[0].buried


async def test_s3_a_stop_that_was_meant_for_a_lost_engine_does_not_reach_the_next_one(
    start: Start, nursery: Nursery
) -> None:
    """What it measures while it loads would be stopped."""
    supervisor = await start()
    child = await ready(nursery)
    assert supervisor._flag is not None
    supervisor.set_stop()
    child.dies()
    await ready(nursery, 2)
    assert not supervisor._flag.is_set()


async def test_no_message_of_an_older_epoch_is_told(start: Start, nursery: Nursery) -> None:
    supervisor = await start(first=0.01)
    old = await ready(nursery)
    supervisor.send(RUN)
    await nursery.until(lambda: isinstance(nursery.told[-1], EngineGone))
    old.says(ENDED)
    await ready(nursery, 2)
    nursery.children[1].says(Begun(ids=b"", reused=0))
    await nursery.until(lambda: Begun(ids=b"", reused=0) in nursery.told)
    assert ENDED not in nursery.told


async def test_refused_is_told_and_nothing_is_tried_again(start: Start, nursery: Nursery) -> None:
    supervisor = await start()
    nursery.children[0].says(Refused(message="no such model"))
    nursery.children[0].dies()
    await asyncio.wait_for(supervisor._task, 5)
    assert nursery.told == [Refused(message="no such model")]
    assert len(nursery.children) == 1


async def test_an_engine_that_keeps_dying_while_it_loads_is_given_up(start: Start, nursery: Nursery) -> None:
    supervisor = await start(loads=3)
    for epoch in (1, 2, 3):
        await nursery.until(lambda epoch=epoch: len(nursery.children) >= epoch)  # type: ignore[misc]
        nursery.children[epoch - 1].dies()
    await asyncio.wait_for(supervisor._task, 5)
    assert [type(told) for told in nursery.told] == [EngineGone] * 3 + [Refused]


async def test_a_model_that_was_ready_before_is_never_given_up(start: Start, nursery: Nursery) -> None:
    """S13: memory that is short for an hour must not end the daemon."""
    supervisor = await start(loads=3)
    (await ready(nursery)).dies()
    for epoch in range(2, 8):
        await nursery.until(lambda epoch=epoch: len(nursery.children) >= epoch)  # type: ignore[misc]
        nursery.children[epoch - 1].dies()
    await ready(nursery, 8)
    assert not any(isinstance(told, Refused) for told in nursery.told)
    supervisor.load("another")
    for epoch in (9, 10, 11):
        await nursery.until(lambda epoch=epoch: len(nursery.children) >= epoch)  # type: ignore[misc]
        nursery.children[epoch - 1].dies()
    await nursery.until(lambda: isinstance(nursery.told[-1], Refused))


async def test_pauses_double_up_to_a_limit_and_start_over_after_a_stable_time_or_finished_work(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = []

    async def pause(_: Supervisor, seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(Supervisor, "_pause", pause)
    clock = [0.0]
    monkeypatch.setattr(Supervisor, "_now", lambda _: clock[0])
    await start(pause=0.1, longest_pause=0.5)
    for epoch in range(1, 6):
        (await ready(nursery, epoch)).dies()
    child = await ready(nursery, 6)
    clock[0] = 61.0
    child.dies()
    (await ready(nursery, 7)).dies()
    child = await ready(nursery, 8)
    child.says(ENDED)
    await nursery.until(lambda: ENDED in nursery.told)
    child.dies()
    await ready(nursery, 9)
    assert pauses == [0.1, 0.2, 0.4, 0.5, 0.5, 0.1, 0.2, 0.1]


async def test_a_machine_without_room_for_a_process_is_tried_again(start: Start, nursery: Nursery) -> None:
    await start()
    nursery.full = [OSError(11, "Resource temporarily unavailable"), MemoryError()]
    (await ready(nursery)).dies()
    await ready(nursery, 2)
    gone = [told.reason for told in nursery.told if isinstance(told, EngineGone)]
    assert gone[1:] == ["could not be started", "could not be started"]


async def test_a_listener_that_fails_does_not_end_the_supervision(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = nursery.listen

    def fails(message: FromEngine | FromSupervisor) -> None:
        heard(message)
        raise ValueError("about a prompt")

    monkeypatch.setattr(nursery, "listen", fails)
    await start()
    (await ready(nursery)).dies()
    await ready(nursery, 2)


async def test_engines_that_keep_dying_are_said_with_the_reason_and_the_pause_until_one_works(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(Supervisor, "_now", lambda _: clock[0])
    monkeypatch.setattr(Supervisor, "_pause", _at_once)
    supervisor = await start(pause=0.1)
    assert supervisor.trouble == ""
    (await ready(nursery)).dies()
    await ready(nursery, 2)
    assert supervisor.trouble == "the engine exited with status 0: another one is started"
    for epoch in (2, 3, 4):
        (await ready(nursery, epoch)).dies()
    await ready(nursery, 5)
    assert "4 engines died one after another, the last one exited with status 0" in supervisor.trouble
    assert "a pause of 0.8 s" in supervisor.trouble
    clock[0] = 61.0
    assert supervisor.trouble == ""
    nursery.children[4].dies()
    child = await ready(nursery, 6)
    assert supervisor.trouble
    child.says(ENDED)
    await nursery.until(lambda: ENDED in nursery.told)
    assert supervisor.trouble == ""


async def _at_once(_: Supervisor, seconds: float) -> None:
    pass


async def test_a_message_that_comes_twice_is_told_once_and_ends_its_engine(start: Start, nursery: Nursery) -> None:
    """S8: a second `Ended` would end the next operation."""
    supervisor = await start()
    child = await ready(nursery)
    supervisor.send(RUN)
    frame = child.frame(ENDED)
    child.reader.data_received(frame + frame)
    await nursery.until(lambda: isinstance(nursery.told[-1], EngineGone))
    assert nursery.told[:-1] == [READY, ENDED]
    assert "message 1.2 came where 1.3 was due" in cast(EngineGone, nursery.told[-1]).reason
    await ready(nursery, 2)


async def test_a_message_that_is_lost_ends_its_engine(start: Start, nursery: Nursery) -> None:
    """S8: its operation would wait for ever, or be half an answer."""
    await start()
    child = await ready(nursery)
    child.frame(ENDED)
    child.says(ENDED)
    await nursery.until(lambda: isinstance(nursery.told[-1], EngineGone))
    assert ENDED not in nursery.told


async def test_a_message_may_come_byte_by_byte_and_half_a_message_is_none(start: Start, nursery: Nursery) -> None:
    await start()
    child = await ready(nursery)
    whole, half = child.frame(ENDED), child.frame(ENDED)[:-1]
    for byte in whole + half:
        child.reader.data_received(bytes([byte]))
        await asyncio.sleep(0)
    await nursery.until(lambda: ENDED in nursery.told)
    child.dies()
    await nursery.until(lambda: isinstance(nursery.told[-1], EngineGone))
    assert nursery.told.count(ENDED) == 1


def test_s13_the_pause_stays_at_its_limit_however_many_engines_died() -> None:
    loop = CrashLoop(Patience())
    for _ in range(2000):
        loop.died("exited with status 1", loaded=False)
    assert loop.pause == loop.patience.longest_pause
    assert "2000 engines died" in loop.says()


@pytest.mark.parametrize("fault", [OSError(105, "No buffer space available"), MemoryError(), ConnectionResetError()])
async def test_s13_whatever_keeps_an_engine_from_being_heard_ends_it_and_another_begins(
    start: Start, nursery: Nursery, fault: Exception
) -> None:
    await start()
    child = await ready(nursery)
    child.reader.connection_lost(fault)
    await ready(nursery, 2)
    assert "could not be heard" in cast(EngineGone, nursery.told[1]).reason
    assert child.buried


@pytest.mark.parametrize("after_load", [False, True])
async def test_s8_a_fault_of_the_supervisor_itself_is_said_and_close_ends_all_the_same(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch, after_load: bool
) -> None:
    """Else every operation would wait for ever for an engine that nobody starts."""
    supervisor, faults = await start(), []

    def fail(*_: object, **__: object) -> None:
        raise ValueError("a bug")

    def note(fault: Exception) -> None:
        faults.append(type(fault))
        nursery.news.set()

    monkeypatch.setattr(supervisor, "_on_fault", note)
    if after_load:
        nursery.children[0].says(Refused(message="no"))
        nursery.children[0].dies()
        await asyncio.wait_for(supervisor._task, 5)
        monkeypatch.setattr(supervisor, "_start_child", fail)
        supervisor.load("/good.gguf")
    else:
        monkeypatch.setattr(supervisor, "_mourn", fail)
        nursery.children[0].dies()
    await nursery.until(lambda: faults == [ValueError])
    await supervisor.close()


async def test_an_upgrade_under_a_running_daemon_is_said_at_once_and_no_engine_is_tried_in_vain(
    start: Start, nursery: Nursery
) -> None:
    """Also for a model that was loaded: what is installed now does not understand this process."""
    await start()
    first = await ready(nursery)
    first.dies()
    await nursery.until(lambda: len(nursery.children) == 2)
    nursery.children[1].end = UPGRADED
    nursery.children[1].dies()
    await nursery.until(lambda: nursery.told[-1] == Upgraded())
    assert len(nursery.children) == 2
