"""The supervisor with a scripted child in place of a process: what is told when, restarts, bounds."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from modeld.engine.child import Child
from modeld.engine.config import EngineConfig
from modeld.engine.frames import codec, framed
from modeld.engine.messages import (
    Advanced,
    Begun,
    Encode,
    Ended,
    EngineGone,
    EngineUnloaded,
    FromEngine,
    FromSupervisor,
    Generated,
    Probe,
    Probed,
    Probing,
    Quit,
    Ready,
    Refused,
    Run,
    Save,
    Saved,
)
from modeld.engine.supervisor import Patience, Supervisor
from modelwire.errors import WireError
from modelwire.messages import ModelDescription, Reason, Text, Timings, Usage

READY = Ready(
    backend="fake",
    profile="exact",
    model=ModelDescription(
        name="m",
        architecture="a",
        quantisation="q",
        fingerprint="f",
        parameters=1,
        vocabulary=2,
        context_trained=3,
        chat=True,
        fim=False,
    ),
    capabilities={},
    context=1,
    cells=1,
    load_ms=0.0,
)
SAVE = Save(client="c", place="p", ids=b"")
RUN = Run(client="c", session="s", guess=False)
ENDED = Ended(reason=Reason.PREFILLED, length=0, usage=Usage(), timings=Timings())


class ScriptedChild:
    """Stands for a process. `says` speaks for it; it obeys `Quit` and dies when killed."""

    def __init__(self, epoch: int, model: str | None) -> None:
        self.epoch = epoch
        self.model = model
        self.pid = 1000 + epoch
        self.reader = asyncio.StreamReader()
        self.heard: list[object] = []
        self.buried = False
        self.killed = False
        self.obeys = True

    def says(self, *messages: object) -> None:
        for message in messages:
            self.reader.feed_data(framed(codec().encode(str(self.epoch), message)))

    def dies(self) -> None:
        self.reader.feed_eof()

    def write(self, data: bytes) -> None:
        self.heard.append(codec().decode(data).message)
        if self.obeys and isinstance(self.heard[-1], Quit):
            self.dies()

    def kill(self) -> None:
        if not self.killed:
            self.killed = True
            self.dies()

    async def bury(self, grace: float) -> str:
        self.buried = True
        return "was ended by SIGKILL" if self.killed else "exited with status 0"


class Nursery:
    """Makes the children, and keeps what the supervisor told. `full` makes the next starts fail."""

    def __init__(self) -> None:
        self.children: list[ScriptedChild] = []
        self.told: list[FromEngine | FromSupervisor] = []
        self.news = asyncio.Event()
        self.full = 0

    async def start(self, config: EngineConfig, epoch: int, flag: int) -> Child:
        if self.full and self.children:
            self.full -= 1
            raise OSError(11, "Resource temporarily unavailable")
        self.children.append(ScriptedChild(epoch, config.model))
        self.news.set()
        return cast(Child, self.children[-1])

    def listen(self, message: FromEngine | FromSupervisor) -> None:
        self.told.append(message)
        self.news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds():
                self.news.clear()
                await self.news.wait()


@pytest.fixture
def nursery() -> Nursery:
    return Nursery()


Start = Callable[..., Any]


@pytest.fixture
async def start(nursery: Nursery) -> AsyncIterator[Start]:
    made = []

    async def begin(**bounds: Any) -> Supervisor:
        supervisor = Supervisor(
            EngineConfig(backend="fake"),
            nursery.listen,
            patience=Patience(**{"pause": 0.0, **bounds}),
            start_child=nursery.start,
        )
        made.append(supervisor)
        await supervisor.start()
        return supervisor

    yield begin
    for supervisor in made:
        await supervisor.close()
    assert all(child.buried for child in nursery.children)


async def _ready(nursery: Nursery, epoch: int = 1) -> ScriptedChild:
    """The child of an epoch, once it has said that it is ready."""
    await nursery.until(lambda: len(nursery.children) >= epoch)
    before = len(nursery.told)
    nursery.children[epoch - 1].says(READY)
    await nursery.until(lambda: READY in nursery.told[before:])
    return nursery.children[epoch - 1]


async def test_messages_arrive_in_order(start: Start, nursery: Nursery) -> None:
    supervisor = await start()
    child = await _ready(nursery)
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
    (await _ready(nursery)).dies()
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
    child = await _ready(nursery)
    dead, go = _holds_the_burial(child, monkeypatch)
    child.dies()
    await asyncio.wait_for(dead.wait(), 5)
    assert supervisor.pid == 0
    supervisor.send(RUN)
    assert nursery.told == [READY]
    go.set()
    second = await _ready(nursery, 2)
    assert [type(told) for told in nursery.told] == [Ready, EngineGone, Ready]
    supervisor.send(RUN)
    assert second.heard == [RUN]


@pytest.mark.parametrize("loads", [False, True])
async def test_an_engine_that_has_just_died_is_unloaded_or_exchanged_like_another(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch, loads: bool
) -> None:
    supervisor = await start()
    child = await _ready(nursery)
    dead, go = _holds_the_burial(child, monkeypatch)
    child.dies()
    await asyncio.wait_for(dead.wait(), 5)
    if loads:
        supervisor.load("/other.gguf")
    else:
        supervisor.unload()
    go.set()
    if loads:
        assert (await _ready(nursery, 2)).model == "/other.gguf"
        assert nursery.told == [READY, READY]
    else:
        await nursery.until(lambda: len(nursery.told) > 1)
        assert nursery.told == [READY, EngineUnloaded(epoch=1)]


async def test_after_a_death_a_new_epoch_begins(start: Start, nursery: Nursery) -> None:
    """S13."""
    supervisor = await start()
    (await _ready(nursery)).dies()
    await _ready(nursery, 2)
    assert nursery.told == [READY, EngineGone(epoch=1, reason="exited with status 0"), READY]
    assert supervisor.epoch == 2
    assert nursery.children[0].buried


async def test_no_message_of_an_older_epoch_is_told(start: Start, nursery: Nursery) -> None:
    supervisor = await start(first=0.01)
    old = await _ready(nursery)
    supervisor.send(RUN)
    await nursery.until(lambda: isinstance(nursery.told[-1], EngineGone))
    old.says(ENDED)
    await _ready(nursery, 2)
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


async def test_pauses_double_up_to_a_limit_and_start_over_after_a_stable_time(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = []

    async def pause(_: Supervisor, seconds: float) -> bool:
        pauses.append(seconds)
        return False

    monkeypatch.setattr(Supervisor, "_closed_within", pause)
    clock = [0.0]
    monkeypatch.setattr(Supervisor, "_now", lambda _: clock[0])
    await start(pause=0.1, longest_pause=0.5)
    for epoch in range(1, 6):
        (await _ready(nursery, epoch)).dies()
    child = await _ready(nursery, 6)
    clock[0] = 61.0
    child.dies()
    await _ready(nursery, 7)
    assert pauses == [0.1, 0.2, 0.4, 0.5, 0.5, 0.1]


async def test_a_machine_without_room_for_a_process_is_tried_again(start: Start, nursery: Nursery) -> None:
    await start()
    nursery.full = 2
    (await _ready(nursery)).dies()
    await _ready(nursery, 2)
    gone = [told.reason for told in nursery.told if isinstance(told, EngineGone)]
    assert gone[1:] == ["could not be started", "could not be started"]


@pytest.mark.parametrize("work", [RUN, Encode(prompt=(Text(text="x"),)), Probe()])
async def test_an_engine_that_falls_silent_in_its_work_is_killed(start: Start, nursery: Nursery, work: Any) -> None:
    supervisor = await start(first=0.01)
    child = await _ready(nursery)
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
    child = await _ready(nursery)
    assert supervisor._bound.when() is None
    supervisor.send(work)
    assert supervisor._bound.when() is not None
    child.says(end)
    await nursery.until(lambda: end in nursery.told)
    assert supervisor._bound.when() is None


@pytest.mark.parametrize("say", [lambda number: Advanced(length=number), lambda number: Probing(progress=number)])
async def test_the_bound_is_twenty_chunks_where_chunks_are_slow(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch, say: Callable[[int], FromEngine]
) -> None:
    supervisor = await start()
    child = await _ready(nursery)
    clock = [0.0]
    base = asyncio.get_running_loop().time()
    monkeypatch.setattr(Supervisor, "_now", lambda _: base + clock[0])
    bounds = []
    supervisor.send(RUN)
    for length, at in enumerate((0.1, 3.0, 3.1), start=1):
        clock[0] = at
        child.says(say(length))
        await nursery.until(lambda length=length: say(length) in nursery.told)  # type: ignore[misc]
        when = supervisor._bound.when()
        assert when is not None
        bounds.append(round(when - base - at, 3))
    assert bounds == [10.0, 58.0, 58.0]


async def test_an_engine_that_talks_nonsense_is_killed(start: Start, nursery: Nursery) -> None:
    await start()
    child = await _ready(nursery)
    child.reader.feed_data(b"\xff\xff\xff\xff")
    await nursery.until(lambda: isinstance(nursery.told[-1], EngineGone))
    assert "unreadable" in cast(EngineGone, nursery.told[-1]).reason


async def test_a_listener_that_fails_does_not_end_the_supervision(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = nursery.listen

    def fails(message: FromEngine | FromSupervisor) -> None:
        heard(message)
        raise ValueError("about a prompt")

    monkeypatch.setattr(nursery, "listen", fails)
    await start()
    (await _ready(nursery)).dies()
    await _ready(nursery, 2)


async def test_close_asks_first_and_kills_what_does_not_obey(start: Start, nursery: Nursery) -> None:
    supervisor = await start(quit=0.01)
    child = await _ready(nursery)
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


async def test_close_in_the_pause_before_a_restart_starts_nothing(start: Start, nursery: Nursery) -> None:
    supervisor = await start(pause=3600.0)
    (await _ready(nursery)).dies()
    await nursery.until(lambda: isinstance(nursery.told[-1], EngineGone))
    await asyncio.wait_for(supervisor.close(), 5)
    assert len(nursery.children) == 1


async def test_a_message_above_the_limit_is_the_senders_to_shorten(start: Start, nursery: Nursery) -> None:
    supervisor = await start()
    child = await _ready(nursery)
    with pytest.raises(WireError, match="limit"):
        supervisor.send(Run(client="c", session="s", guess=False, base=bytes(65 * 1024 * 1024)))
    assert child.heard == []


async def test_an_unloaded_engine_has_quit_and_none_is_started_until_one_is_wanted(
    start: Start, nursery: Nursery
) -> None:
    supervisor = await start()
    child = await _ready(nursery)
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
    await _ready(nursery, 2)
    supervisor.send(RUN)
    assert [child.model for child in nursery.children] == [None, None]


async def test_an_engine_that_does_not_quit_is_killed(start: Start, nursery: Nursery) -> None:
    supervisor = await start(quit=0.01)
    child = await _ready(nursery)
    child.obeys = False
    supervisor.unload()
    await nursery.until(lambda: EngineUnloaded(epoch=1) in nursery.told)
    assert child.buried


async def test_another_model_is_loaded_when_the_one_before_is_gone(start: Start, nursery: Nursery) -> None:
    supervisor = await start()
    child = await _ready(nursery)
    supervisor.load("/other.gguf")
    await _ready(nursery, 2)
    assert child.buried
    assert nursery.told == [READY, READY]
    assert nursery.children[1].model == "/other.gguf"
    nursery.children[1].dies()
    await _ready(nursery, 3)
    assert nursery.children[2].model == "/other.gguf"


async def test_after_a_refusal_another_model_can_be_loaded(start: Start, nursery: Nursery) -> None:
    supervisor = await start()
    nursery.children[0].says(Refused(message="no"))
    nursery.children[0].dies()
    await asyncio.wait_for(supervisor._task, 5)
    supervisor.load("/good.gguf")
    await _ready(nursery, 2)
    assert [type(told) for told in nursery.told] == [Refused, Ready]


@pytest.mark.parametrize("dies", [False, True])
async def test_the_listener_may_ask_for_another_model_as_soon_as_one_is_refused(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    heard = nursery.listen

    def listen(message: FromEngine | FromSupervisor) -> None:
        heard(message)
        if isinstance(message, Refused):
            supervisor.load("/good.gguf")

    monkeypatch.setattr(nursery, "listen", listen)
    supervisor = await start(loads=1)
    if not dies:
        nursery.children[0].says(Refused(message="no"))
    nursery.children[0].dies()
    await _ready(nursery, 2)
    assert isinstance(nursery.told[-2], Refused)
    assert nursery.children[1].model == "/good.gguf"


async def test_the_listener_may_ask_for_the_model_again_as_soon_as_it_is_unloaded(
    start: Start, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = nursery.listen

    def listen(message: FromEngine | FromSupervisor) -> None:
        heard(message)
        if isinstance(message, EngineUnloaded):
            supervisor.load(None)

    monkeypatch.setattr(nursery, "listen", listen)
    supervisor = await start()
    await _ready(nursery)
    supervisor.unload()
    await _ready(nursery, 2)


async def test_close_while_nothing_is_loaded_ends_at_once(start: Start, nursery: Nursery) -> None:
    supervisor = await start(quit=3600.0)
    await _ready(nursery)
    supervisor.unload()
    await nursery.until(lambda: EngineUnloaded(epoch=1) in nursery.told)
    await asyncio.wait_for(supervisor.close(), 5)
