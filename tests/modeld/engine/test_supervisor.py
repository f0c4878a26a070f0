"""The supervisor with a scripted child in place of a process: what is sent and told while all is well, or nearly."""

import asyncio

import pytest

from modeld.engine.messages import (
    Advanced,
    Begun,
    EngineGone,
    EngineUnloaded,
    Generated,
    Ready,
    Run,
)
from modelwire.errors import WireError
from tests.modeld.engine.scripted import ENDED, READY, RUN, Nursery, ScriptedChild, Start, ready


async def test_messages_arrive_in_order(start: Start, nursery: Nursery) -> None:
    supervisor = await start()
    child = await ready(nursery)
    supervisor.send(RUN)
    told = [Begun(ids=b"", reused=0), Advanced(length=1), Generated(text="a", ids=(1,)), ENDED]
    child.says(*told)
    await nursery.until(lambda: ENDED in nursery.told)
    assert nursery.told == [READY, *told]
    assert child.heard == [RUN]
    assert (supervisor.epoch, supervisor.pid) == (1, 1001)


async def test_nothing_can_be_sent_before_ready_nor_after_death(start: Start, nursery: Nursery) -> None:
    supervisor = await start()
    with pytest.raises(RuntimeError, match="before Ready"):
        supervisor.send(RUN)
    (await ready(nursery)).dies()
    await nursery.until(lambda: isinstance(nursery.told[-1], EngineGone))
    with pytest.raises(RuntimeError, match="before Ready"):
        supervisor.send(RUN)


def _holds_the_burial(child: ScriptedChild, monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Set when the child is dead, but nobody was told; and to set for it to go on."""
    dead, go = asyncio.Event(), asyncio.Event()

    async def bury(grace: float) -> str:
        dead.set()
        await asyncio.wait_for(go.wait(), 5)
        child.buried = True
        return "was ended by SIGKILL"

    monkeypatch.setattr(child, "bury", bury)
    return dead, go


async def test_what_is_sent_to_an_engine_that_has_just_died_is_ended_by_its_loss(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S13."""
    supervisor = await start()
    child = await ready(nursery)
    dead, go = _holds_the_burial(child, monkeypatch)
    child.dies()
    await asyncio.wait_for(dead.wait(), 5)
    assert supervisor.pid == 0
    supervisor.send(RUN)
    assert nursery.told == [READY]
    go.set()
    second = await ready(nursery, 2)
    assert [type(told) for told in nursery.told] == [Ready, EngineGone, Ready]
    supervisor.send(RUN)
    assert second.heard == [RUN]


@pytest.mark.parametrize("loads", [False, True])
async def test_an_engine_that_has_just_died_is_unloaded_or_exchanged_like_another(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch, loads: bool
) -> None:
    supervisor = await start()
    child = await ready(nursery)
    dead, go = _holds_the_burial(child, monkeypatch)
    child.dies()
    await asyncio.wait_for(dead.wait(), 5)
    if loads:
        supervisor.load("/other.gguf")
    else:
        supervisor.unload()
    go.set()
    if loads:
        assert (await ready(nursery, 2)).model == "/other.gguf"
        assert nursery.told == [READY, READY]
    else:
        await nursery.until(lambda: len(nursery.told) > 1)
        assert nursery.told == [READY, EngineUnloaded(epoch=1)]


async def test_a_message_above_the_limit_is_the_senders_to_shorten(start: Start, nursery: Nursery) -> None:
    supervisor = await start()
    child = await ready(nursery)
    with pytest.raises(WireError, match="limit"):
        supervisor.send(Run(client="c", session="s", guess=False, base=bytes(65 * 1024 * 1024)))
    assert child.heard == []
