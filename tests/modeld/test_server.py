"""The translation between envelopes and the driver, with a door and an engine in memory."""

import asyncio
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
import zmq
from attrs import define, evolve, field

from modeld.about import BEAT_MS, SILENCE_MS, About
from modeld.confirmations import Confirmations
from modeld.driver import Driver
from modeld.engine.messages import EngineUnloaded
from modeld.server import KNOCK_S, Server
from modeld.testing import EngineTwin
from modelwire.codec import Envelope
from modelwire.messages import (
    Acknowledged,
    Beat,
    Cancel,
    Close,
    Describe,
    Description,
    Done,
    Error,
    Exactness,
    GetStatus,
    Hello,
    Load,
    Reason,
    Status,
    StoryTold,
    TellStory,
    Text,
    Turn,
    Unload,
    Welcome,
)
from modelwire.protocol import MODELD
from modelwire.router import Router


@define(eq=False)
class DoorTwin:
    """What `Router` is to the server."""

    sent: list[tuple[str, str, Any]] = field(factory=list)
    silent_clients: list[str] = field(factory=list)
    idle_clients: list[str] = field(factory=list)
    forgotten: list[str] = field(factory=list)
    arriving: "asyncio.Queue[tuple[str, Envelope] | None]" = field(factory=asyncio.Queue)

    async def serve(self, take: Callable[[str, Envelope], None]) -> None:
        while (arrived := await self.arriving.get()) is not None:
            take(*arrived)

    def send(self, client: str, op: str, message: Any) -> None:
        self.sent.append((client, op, message))

    def silent(self, now: float, after_ms: float) -> list[str]:
        return {SILENCE_MS: self.silent_clients, 1000 * KNOCK_S: self.idle_clients}[after_ms]

    def forget(self, client: str) -> None:
        self.forgotten.append(client)


@define(eq=False)
class House:
    door: DoorTwin = field(factory=DoorTwin)
    engine: EngineTwin = field(factory=EngineTwin)
    now: float = 100.0
    driver: Driver = field(init=False)
    server: Server = field(init=False)

    def __attrs_post_init__(self) -> None:
        about = About(message_bytes=1000, sessions=64, queue=8, started=90.0, instance="me")
        self.driver = Driver(self.engine, self.door.send)
        self.server = Server(
            self.door, self.driver, about, clock=lambda: self.now, engine_pid=lambda: 7, problem=lambda: "it is ill"
        )

    def load(self) -> None:
        self.driver.engine_said(self.engine.ready(), self.now)

    def ask(self, op: str, message: Any) -> list[Any]:
        """The replies that came at once."""
        before = len(self.door.sent)
        self.server.handle("ann", Envelope(op, message))
        return [reply for _, to, reply in self.door.sent[before:] if to == op]


@pytest.fixture
def house() -> House:
    house = House()
    house.load()
    return house


LOAD = Load(model="/drive/model.gguf")


def turn(**fields: Any) -> Turn:
    return Turn(session="s", prefix=(Text(text="abc"),), **fields)


def test_hello_is_answered_with_the_instance_and_the_beat() -> None:
    [welcome] = House().ask("1", Hello())
    assert isinstance(welcome, Welcome)
    assert (welcome.instance, welcome.server, welcome.beat_ms) == ("me", "modeld", BEAT_MS)


def test_a_model_that_is_not_loaded_is_described_by_an_error_that_a_retry_helps() -> None:
    house = House()
    [error] = house.ask("1", Describe())
    assert isinstance(error, Error)
    assert (error.code, error.retry) == ("not_ready", True)
    house.load()
    [description] = house.ask("2", Describe())
    assert isinstance(description, Description)
    assert (description.model.name, description.limits.context, description.limits.queue) == ("twin", 4096, 8)


def test_status_is_answered_in_every_state(house: House) -> None:
    house.ask("1", turn())
    [status] = house.ask("2", GetStatus())
    assert isinstance(status, Status)
    assert (status.state, status.engine_pid, status.uptime_s, status.model) == ("busy", 7, 10.0, "twin")
    assert status.problem == "it is ill"
    assert status.figures["operations_total"] == 1


def test_a_beat_is_not_answered(house: House) -> None:
    assert house.ask("1", Beat()) == []


def test_a_question_with_the_id_of_a_live_operation_does_not_end_it(house: House) -> None:
    """S8."""
    house.ask("1", turn())
    assert house.ask("1", GetStatus()) == []
    assert house.door.sent[-1][1] == "?"
    assert house.driver.live == 1


def test_cancel_and_close_reach_the_driver(house: House) -> None:
    house.ask("1", turn())
    house.ask("2", turn())
    assert house.ask("3", Cancel(target="2")) == [Acknowledged(found=True)]
    assert house.ask("4", Close()) == []
    assert house.engine.stop_set


def test_a_fault_of_ours_is_answered_and_the_others_go_on(house: House, caplog: pytest.LogCaptureFixture) -> None:
    house.driver.submit = None  # type: ignore[assignment,method-assign]
    [error] = house.ask("1", turn())
    assert isinstance(error, Error)
    assert error.code == "internal"
    assert "could not be handled" in caplog.text
    assert "abc" not in caplog.text
    assert isinstance(house.ask("2", Hello())[0], Welcome)


def test_a_silent_client_loses_its_operations_and_an_idle_one_nothing(house: House) -> None:
    """S8."""
    house.ask("1", turn())
    house.ask("2", turn())
    house.door.silent_clients = ["ann", "idle"]
    house.server.pass_time(house.now)
    assert house.door.sent[-1][1:] == ("2", house.door.sent[-1][2])
    assert isinstance(house.door.sent[-1][2], Done)
    assert house.engine.stop_set


def test_a_client_whose_load_goes_on_is_found_silent_once_for_each_silence(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing stops a load."""
    house.ask("1", LOAD)
    for house.door.silent_clients in (["ann"], ["ann"], [], ["ann"]):
        house.server.pass_time(house.now)
    assert caplog.text.count("fell silent") == 2


def test_an_idle_client_with_sessions_is_said_something_now_and_then_that_is_for_no_operation(house: House) -> None:
    house.ask("1", turn())
    house.driver.engine_said(house.engine.begin(), house.now)
    house.driver.engine_said(house.engine.end(), house.now)
    house.door.sent.clear()
    house.door.idle_clients = ["ann", "without sessions"]
    for _ in range(4):
        house.server.pass_time(house.now)
        house.now += KNOCK_S / 2
    assert [(client, op) for client, op, _ in house.door.sent] == [("ann", "?")] * 2
    assert isinstance(house.door.sent[0][2], Welcome)


async def test_a_client_that_dies_idle_leaves_no_session() -> None:
    """A living one that says as little keeps its own."""
    house = House()
    house.load()
    codec, context = MODELD.codec(), zmq.Context[zmq.Socket[bytes]]()
    with tempfile.TemporaryDirectory(prefix="modeld-") as directory:
        endpoint = f"ipc://{directory}/s"
        router = Router(endpoint, codec, MODELD, clock=lambda: house.now)
        router.on_gone = lambda client: house.driver.client_gone(client, house.now)
        house.driver._reply = router.send
        async with router, asyncio.timeout(10):
            server = Server(router, house.driver, house.server._about, clock=lambda: house.now, engine_pid=lambda: 0)
            task = asyncio.create_task(server.serve())
            clients = [context.socket(zmq.DEALER) for _ in range(2)]
            for number, client in enumerate(clients, 1):
                client.connect(endpoint)
                client.send(codec.encode("1", turn()))
                while len(house.driver.sessions.clients) < number:  # noqa: ASYNC110 - the router has no event for it
                    await asyncio.sleep(0)
                house.driver.engine_said(house.engine.begin(), house.now)
                house.driver.engine_said(house.engine.end(), house.now)
            clients[0].close(linger=0)
            while len(house.driver.sessions.clients) == 2:
                house.now += KNOCK_S
                server.pass_time(house.now)
                await asyncio.sleep(0)
            for _ in range(20):
                house.now += KNOCK_S
                server.pass_time(house.now)
                await asyncio.sleep(0)
            assert len(house.driver.sessions.clients) == 1
        await task
    context.destroy(linger=0)


def test_a_client_that_was_taken_for_gone_begins_anew(house: House) -> None:
    house.ask("1", turn())
    house.driver.client_gone("ann", house.now)
    house.driver.engine_said(house.engine.begin(), house.now)
    house.driver.engine_said(house.engine.end(), house.now)
    assert house.driver.clients == set()
    house.ask("1", turn())
    assert house.driver.clients == {"ann"}


async def test_requests_are_served_until_the_door_closes(house: House) -> None:
    house.door.arriving.put_nowait(("ann", Envelope("1", Hello())))
    house.door.arriving.put_nowait(None)
    await asyncio.wait_for(house.server.serve(), 10)
    assert isinstance(house.door.sent[0][2], Welcome)


async def test_a_deadline_passes_without_any_request(house: House) -> None:
    house.ask("1", turn())
    task = asyncio.create_task(house.server.keep_time())
    await asyncio.sleep(0)
    house.ask("2", turn(deadline_ms=0))
    house.ask("3", turn(deadline_ms=1))
    house.now += 1
    for _ in range(100):
        await asyncio.sleep(0)
    task.cancel()
    ended = {op: message.reason for _, op, message in house.door.sent if isinstance(message, Done)}
    assert ended == {"2": Reason.EXPIRED, "3": Reason.EXPIRED}


def test_a_client_that_leaves_is_forgotten_once_it_has_its_answer(house: House) -> None:
    house.ask("1", turn())
    assert house.ask("2", Close()) == []
    assert house.door.forgotten == []
    house.driver.engine_said(house.engine.begin(), house.now)
    house.driver.engine_said(house.engine.end(), house.now)
    assert house.door.sent[-1] == ("ann", "2", Acknowledged(found=True))
    house.server.pass_time(house.now)
    house.server.pass_time(house.now)
    assert house.door.forgotten == ["ann"]
    assert house.ask("3", Close()) == [Acknowledged(found=False)]
    assert house.door.forgotten == ["ann", "ann"]


def test_a_client_whose_close_was_refused_has_not_left(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.ask("1", LOAD)
    with monkeypatch.context() as patch:
        patch.setattr(Confirmations, "full", True)
        [error] = house.ask("2", Close())
    assert error.code == "overloaded"
    house.load()
    assert house.door.sent[-1] == ("ann", "1", Acknowledged(found=True))
    house.server.pass_time(house.now)
    assert house.door.forgotten == []


def test_a_client_that_closes_one_session_or_goes_on_is_not_forgotten(house: House) -> None:
    house.ask("1", turn())
    house.ask("2", Close(session="s"))
    house.ask("3", Close())
    house.ask("4", Hello())
    house.driver.engine_said(house.engine.begin(), house.now)
    house.driver.engine_said(house.engine.end(), house.now)
    house.server.pass_time(house.now)
    assert house.door.forgotten == []


def test_a_story_is_told_to_whoever_asks_for_it(house: House) -> None:
    house.ask("1", turn())
    house.server.handle("bob", Envelope("9", TellStory(target="1")))
    _, op, told = house.door.sent[-1]
    assert op == "9"
    assert isinstance(told, StoryTold)
    assert told.lines == ("turn 1 of client ann", "0.0 ms accepted", "0.0 ms started")
    [error] = house.ask("2", TellStory(target="77", client="an"))
    assert isinstance(error, Error)
    assert error.code == "bad_request"
    assert "no operation 77 of a client an" in error.message


def test_the_verdict_on_exactness_is_in_description_and_status(house: House) -> None:
    found = Exactness(verdict="approximate", largest_difference=0.25, differing_tokens=0.01)
    house.engine.die()
    house.driver.engine_lost(house.now)
    house.driver.engine_said(evolve(house.engine.ready(), exactness=found), house.now)
    [description], [status] = house.ask("1", Describe()), house.ask("2", GetStatus())
    assert description.exactness == status.exactness == found


def test_an_unloaded_model_is_still_described(house: House) -> None:
    house.ask("1", Unload())
    house.driver.engine_said(EngineUnloaded(epoch=1), house.now)
    [description] = house.ask("2", Describe())
    assert isinstance(description, Description)
    [status] = house.ask("3", GetStatus())
    assert isinstance(status, Status)
    assert status.state == "unloaded"
