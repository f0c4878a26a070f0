"""What the daemon does with faults of its own; the rest of its life needs real processes."""

import asyncio
import gc
import io
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from modeld.app import _CHECKS, App, CannotServe
from modeld.config import Settings
from modeld.engine.child import UPGRADED
from modeld.engine.messages import EngineGone, Ready, Refused
from modeld.recording import read
from modeld.schedule.journal import replay
from modeld.testing import EngineTwin
from modelwire.messages import Load, Text, Turn
from tests.modeld.engine.scripted import READY, Nursery


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def app(runtime: Path, lines: list[str]) -> App:
    return App(Settings(socket=f"ipc://{runtime}/modeld.sock", backend="fake"), announce=lines.append)


async def test_a_model_is_announced_once_and_not_after_a_restart(app: App, lines: list[str]) -> None:
    ready: Ready = EngineTwin().ready()
    for message in (ready, EngineGone(epoch=1, reason="exited"), ready):
        app._engine_said(message)
    [line] = lines
    assert line.startswith("modeld: serving twin (Q4_0, exact) on ipc:///")


async def test_who_started_the_daemon_hears_at_once_that_somebody_stops_it(app: App, lines: list[str]) -> None:
    """In intentd's keeper stands the same line: the endpoint goes seconds later."""
    app._signalled(signal.SIGTERM)
    assert lines == ["modeld: stopping"]
    assert app._stop.is_set()


async def test_a_model_that_is_refused_ends_the_daemon(app: App) -> None:
    app._engine_said(Refused(message="not a GGUF file"))
    assert app._stop.is_set()
    assert str(app._fault) == "not a GGUF file"


async def test_s13_a_model_that_was_ready_and_is_refused_later_does_not_end_the_daemon(app: App) -> None:
    for message in (EngineTwin().ready(), EngineGone(epoch=1, reason="exited"), Refused(message="no room")):
        app._engine_said(message)
    assert not app._stop.is_set()
    assert app._driver.state == "unloaded"


@pytest.mark.parametrize("loads", [False, True])
async def test_a_daemon_that_was_upgraded_while_it_ran_ends_with_a_failure_so_that_the_new_one_is_started(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, loads: bool
) -> None:
    """S8. No engine would serve it any more, whatever model it had and whoever asks."""
    nursery = Nursery()
    replies: list[Any] = []
    monkeypatch.setattr("modeld.app.FAREWELL_S", 0.0)
    monkeypatch.setattr(app._engine, "_start_child", nursery.start)
    monkeypatch.setattr(app._driver, "_reply", lambda client, op, message: replies.append(message))
    monkeypatch.setattr(app, "_announce", lambda line: nursery.news.set())
    running = asyncio.create_task(app.run())
    try:
        await nursery.until(lambda: len(nursery.children) == 1)
        nursery.children[0].says(READY)
        await nursery.until(lambda: app._announced)
        (other := tmp_path / "other").touch()
        asked = Load(model=str(other)) if loads else Turn(session="s", prefix=(Text(text="a"),))
        app._driver.submit("ann", "1", asked, 0.0)
        if not loads:
            nursery.children[0].dies()
        await nursery.until(lambda: len(nursery.children) == 2)
        nursery.children[1].end = UPGRADED
        nursery.children[1].dies()
        with pytest.raises(CannotServe, match=r"^modeld was upgraded while it ran: start it again$"):
            await asyncio.wait_for(running, 5)
        assert len(nursery.children) == 2
        assert (replies[-1].code, replies[-1].retry) == ("stopping", True)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_internal_fault_ends_the_daemon_and_its_story_is_in_the_log(
    app: App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a bug")

    private = "words of a prompt"
    app._driver.submit("ann", "1", Turn(session=private, lane=private, prefix=(Text(text=private),)), 0.0)
    monkeypatch.setattr(app._driver, "engine_said", fail)
    app._engine_said(EngineTwin().ready())
    assert isinstance(app._fault, CannotServe)
    assert "ValueError" in str(app._fault)
    left = Path(app._endpoint.removeprefix("ipc://")).with_name("modeld.fault.jsonl")
    assert str(left) in str(app._fault)
    assert replay(next(read(left))) is None
    assert '"op":"1"' in left.read_text()
    assert private not in left.read_text() + caplog.text
    assert "a bug" in caplog.text


async def test_s8_a_supervisor_that_fails_ends_the_daemon(app: App) -> None:
    """Nobody would start an engine any more, and every operation would wait for ever."""

    async def fail() -> None:
        raise ValueError("a bug")

    app._engine._supervise(fail())
    await asyncio.wait_for(app._stop.wait(), 5)
    assert "ValueError" in str(app._fault)


@pytest.mark.filterwarnings("error")
async def test_a_stop_in_the_start_leaves_nothing_unawaited(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async def start() -> None:
        app._stop.set()

    monkeypatch.setattr(app._engine, "start", start)
    monkeypatch.setattr(app._engine, "close", lambda: asyncio.sleep(0))
    await app.run()
    gc.collect()


@pytest.mark.parametrize(("backend", "says"), [("fake", "no such script"), ("llamacpp", "no such model file")])
async def test_a_file_that_is_not_there_unloads_nothing(
    runtime: Path, backend: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(Settings(socket=f"ipc://{runtime}/modeld.sock", backend=backend), announce=print)
    monkeypatch.setattr(app._engine, "load", pytest.fail)
    replies: list[Any] = []
    monkeypatch.setattr(app._driver, "_reply", lambda client, op, message: replies.append(message))
    app._engine_said(EngineTwin().ready())
    app._driver.submit("ann", "l", Load(model=str(runtime / "none.gguf")), 0.0)
    [error] = replies
    assert error.code == "bad_request"
    assert says in error.message
    assert app._driver.state == "idle"


async def test_s2_a_drive_that_says_nothing_holds_up_nobody(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    back = threading.Event()
    monkeypatch.setitem(_CHECKS, "fake", lambda _: back.wait(20))
    app = App(Settings(socket=f"ipc://{runtime}/modeld.sock", backend="fake"), announce=print)
    monkeypatch.setattr(app._engine, "load", pytest.fail)
    replies: list[Any] = []
    monkeypatch.setattr(app._driver, "_reply", lambda client, op, message: replies.append(message))
    app._engine_said(EngineTwin().ready())
    app._driver.submit("ann", "l", Load(model="/drive/model"), 0.0)
    back.set()
    [error] = replies
    assert (error.code, error.retry) == ("not_ready", True)
    assert "/drive/model did not answer" in error.message


async def test_a_wanted_model_that_is_refused_ends_nothing(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []
    monkeypatch.setattr(app._engine, "load", asked.append)
    app._engine_said(EngineTwin().ready())
    bad = tmp_path / "bad.gguf"
    bad.touch()
    app._driver.submit("ann", "l", Load(model=str(bad)), 0.0)
    app._engine_said(Refused(message="not a GGUF file"))
    assert asked == [str(bad), None]
    assert not app._stop.is_set()


async def test_nobody_who_hears_that_the_model_is_loaded_does_not_end_the_daemon(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever started it may have left meanwhile, with the terminal or the pipe."""

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    app = App(Settings(socket=f"ipc://{runtime}/modeld.sock", backend="fake"))
    monkeypatch.setattr("sys.stderr", Gone())
    app._engine_said(EngineTwin().ready())
    assert app._fault is None
