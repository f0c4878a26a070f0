"""The supervisor ends an engine because it is told to: to close, to unload, to load another model."""

import asyncio
from collections.abc import Callable

import pytest

from modeld.engine.child import Child
from modeld.engine.config import EngineConfig
from modeld.engine.messages import (
    EngineGone,
    EngineUnloaded,
    FromEngine,
    FromSupervisor,
    Generated,
    Quit,
    Ready,
    Refused,
)
from modeld.engine.supervisor import Supervisor
from tests.modeld.engine.scripted import ENDED, READY, RUN, Nursery, Start, ready

Wish = Callable[[Supervisor, type, str | None], None]


@pytest.fixture
def wish(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> Wish:
    """Lets the listener load a model as soon as it hears a message of a class."""

    def listening(supervisor: Supervisor, kind: type, model: str | None) -> None:
        def listen(message: FromEngine | FromSupervisor) -> None:
            nursery.listen(message)
            if isinstance(message, kind):
                supervisor.load(model)

        monkeypatch.setattr(supervisor, "_on_message", listen)

    return listening


async def test_close_asks_first_and_kills_what_does_not_obey(start: Start, nursery: Nursery) -> None:
    supervisor = await start(quit=0.01)
    child = await ready(nursery)
    child.obeys = False
    await supervisor.close()
    assert isinstance(child.heard[-1], Quit)
    assert child.killed
    assert nursery.told == [READY]
    await supervisor.close()


async def test_close_does_not_wait_for_a_model_to_load(start: Start, nursery: Nursery) -> None:
    supervisor = await start(quit=3600.0)
    await asyncio.wait_for(supervisor.close(), 5)
    assert nursery.children[0].killed


@pytest.mark.parametrize("loaded", [False, True])
async def test_close_does_not_wait_for_an_engine_that_no_signal_ends(
    start: Start, nursery: Nursery, loaded: bool
) -> None:
    """The kernel may hold it, in a driver or on a dead drive; the next daemon needs the socket."""
    supervisor = await start(quit=0.01)
    child = await ready(nursery) if loaded else nursery.children[0]
    child.obeys = child.mortal = False
    await asyncio.wait_for(supervisor.close(), 5)
    assert child.killed
    assert child.buried


@pytest.mark.parametrize("last", [ENDED, Generated(ids=(1,), text="a")])
async def test_close_does_not_wait_for_what_an_engine_that_no_signal_ends_said_last(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch, last: object
) -> None:
    """It may lie in the socket still."""
    supervisor = await start(quit=0.01)
    child = await ready(nursery)
    supervisor.send(RUN)
    child.obeys = False
    monkeypatch.setattr(child, "kill", lambda: asyncio.get_running_loop().call_soon(child.says, last))
    await asyncio.wait_for(supervisor.close(), 5)
    assert child.buried
    assert nursery.told == [READY]


async def test_a_load_does_not_wait_for_an_engine_that_no_signal_ends(start: Start, nursery: Nursery) -> None:
    supervisor = await start(quit=0.01)
    nursery.children[0].mortal = False
    supervisor.load("/other.gguf")
    await ready(nursery, 2)


async def test_close_in_the_pause_before_a_restart_starts_nothing(start: Start, nursery: Nursery) -> None:
    supervisor = await start(pause=3600.0)
    (await ready(nursery)).dies()
    await nursery.until(lambda: isinstance(nursery.told[-1], EngineGone))
    await asyncio.wait_for(supervisor.close(), 5)
    assert len(nursery.children) == 1


async def test_an_unloaded_engine_has_quit_and_none_is_started_until_one_is_wanted(
    start: Start, nursery: Nursery
) -> None:
    supervisor = await start()
    child = await ready(nursery)
    supervisor.unload()
    with pytest.raises(RuntimeError):
        supervisor.send(RUN)
    await nursery.until(lambda: EngineUnloaded(epoch=1) in nursery.told)
    assert nursery.told == [READY, EngineUnloaded(epoch=1)]
    assert child.heard == [Quit()]
    assert child.buried
    assert not child.killed
    assert supervisor.pid == 0
    await asyncio.wait_for(supervisor._task, 5)
    supervisor.load(None)
    await ready(nursery, 2)
    supervisor.send(RUN)
    assert [child.model for child in nursery.children] == [None, None]


async def test_an_engine_that_does_not_quit_is_killed(start: Start, nursery: Nursery) -> None:
    supervisor = await start(quit=0.01)
    child = await ready(nursery)
    child.obeys = False
    supervisor.unload()
    await nursery.until(lambda: EngineUnloaded(epoch=1) in nursery.told)
    assert child.buried


async def test_another_model_is_loaded_when_the_one_before_is_gone(start: Start, nursery: Nursery) -> None:
    supervisor = await start()
    child = await ready(nursery)
    supervisor.load("/other.gguf")
    await ready(nursery, 2)
    assert child.buried
    assert nursery.told == [READY, READY]
    assert nursery.children[1].model == "/other.gguf"
    nursery.children[1].dies()
    await ready(nursery, 3)
    assert nursery.children[2].model == "/other.gguf"


async def test_s13_that_an_engine_became_ready_as_another_model_was_wanted_is_not_told(
    start: Start, nursery: Nursery
) -> None:
    """It would be taken for that model."""
    supervisor = await start()
    nursery.children[0].says(READY)
    supervisor.load("/other.gguf")
    await nursery.until(lambda: len(nursery.children) == 2)
    assert nursery.told == []
    await ready(nursery, 2)


async def test_after_a_refusal_another_model_can_be_loaded(start: Start, nursery: Nursery) -> None:
    supervisor = await start()
    nursery.children[0].says(Refused(message="no"))
    nursery.children[0].dies()
    await asyncio.wait_for(supervisor._task, 5)
    supervisor.load("/good.gguf")
    await ready(nursery, 2)
    assert [type(told) for told in nursery.told] == [Refused, Ready]


@pytest.mark.parametrize("dies", [False, True])
async def test_the_listener_may_ask_for_another_model_as_soon_as_one_is_refused(
    start: Start, nursery: Nursery, wish: Wish, dies: bool
) -> None:
    supervisor = await start(loads=1)
    wish(supervisor, Refused, "/good.gguf")
    if not dies:
        nursery.children[0].says(Refused(message="no"))
    nursery.children[0].dies()
    await ready(nursery, 2)
    assert isinstance(nursery.told[-2], Refused)
    assert nursery.children[1].model == "/good.gguf"


async def test_the_listener_may_ask_for_the_model_again_as_soon_as_it_is_unloaded(
    start: Start, nursery: Nursery, wish: Wish
) -> None:
    supervisor = await start()
    wish(supervisor, EngineUnloaded, None)
    await ready(nursery)
    supervisor.unload()
    await ready(nursery, 2)


async def test_close_while_nothing_is_loaded_ends_at_once(start: Start, nursery: Nursery) -> None:
    supervisor = await start(quit=3600.0)
    await ready(nursery)
    supervisor.unload()
    await nursery.until(lambda: EngineUnloaded(epoch=1) in nursery.told)
    await asyncio.wait_for(supervisor.close(), 5)


async def test_s13_a_model_that_was_unloaded_and_always_dies_when_it_is_wanted_again_is_given_up(
    start: Start, nursery: Nursery
) -> None:
    """Who waits for the load is told, though the model was ready once."""
    supervisor = await start(loads=3)
    await ready(nursery)
    supervisor.unload()
    await nursery.until(lambda: EngineUnloaded(epoch=1) in nursery.told)
    supervisor.load(None)
    for epoch in (2, 3, 4):
        await nursery.until(lambda epoch=epoch: len(nursery.children) >= epoch)  # type: ignore[misc]
        nursery.children[epoch - 1].dies()
    await nursery.until(lambda: isinstance(nursery.told[-1], Refused))
    supervisor.load(None)
    await ready(nursery, 5)


@pytest.mark.parametrize("model", ["/other.gguf", None])
async def test_a_load_or_an_unload_in_the_pause_before_a_restart_does_not_wait_for_its_end(
    start: Start, nursery: Nursery, model: str | None
) -> None:
    supervisor = await start(pause=3600.0, longest_pause=3600.0)
    (await ready(nursery)).dies()
    await nursery.until(lambda: isinstance(nursery.told[-1], EngineGone))
    if model is None:
        supervisor.unload()
        await nursery.until(lambda: EngineUnloaded(epoch=1) in nursery.told)
    supervisor.load(model)
    await ready(nursery, 2)
    assert nursery.children[1].model == model


@pytest.mark.parametrize("mortal", [True, False])
@pytest.mark.parametrize("model", ["/other.gguf", None])
async def test_a_load_or_an_unload_while_a_process_is_being_started_counts_and_that_process_does_not(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch, model: str | None, mortal: bool
) -> None:
    supervisor = await start(quit=0.01)
    born, begun = asyncio.Event(), asyncio.Event()

    async def slowly(config: EngineConfig, epoch: int, flag: int) -> Child:
        begun.set()
        await born.wait()
        born_late = await nursery.start(config, epoch, flag)
        nursery.children[-1].mortal = mortal or len(nursery.children) > 2
        return born_late

    child = await ready(nursery)
    monkeypatch.setattr(supervisor, "_start_child", slowly)
    child.dies()
    await asyncio.wait_for(begun.wait(), 5)
    if model is None:
        supervisor.unload()
    else:
        supervisor.load(model)
    born.set()
    if model is None:
        await nursery.until(lambda: EngineUnloaded(epoch=2) in nursery.told)
        assert len(nursery.children) == 2
    else:
        await ready(nursery, 3)
        assert nursery.children[2].model == model
    assert nursery.children[1].killed


async def test_an_unload_where_there_is_no_engine_is_told_and_a_load_may_follow_at_once(
    start: Start, nursery: Nursery, wish: Wish
) -> None:
    supervisor = await start()
    nursery.children[0].says(Refused(message="no"))
    nursery.children[0].dies()
    await asyncio.wait_for(supervisor._task, 5)
    wish(supervisor, EngineUnloaded, "/good.gguf")
    supervisor.unload()
    await ready(nursery, 2)
    assert nursery.children[1].model == "/good.gguf"


async def test_the_listener_may_ask_for_another_model_when_it_hears_of_a_death(
    start: Start, nursery: Nursery, wish: Wish
) -> None:
    """The death was the last one that its model was allowed: nothing is refused all the same."""
    supervisor = await start(loads=1, pause=3600.0)
    wish(supervisor, EngineGone, "/small.gguf")
    nursery.children[0].dies()
    await ready(nursery, 2)
    assert nursery.children[1].model == "/small.gguf"
    assert [type(told) for told in nursery.told] == [EngineGone, Ready]
