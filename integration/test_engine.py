"""The engine as a real process behind its supervisor: it dies, hangs, is refused, and leaves nothing behind."""

import asyncio
import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from integration.served import hit
from modeld.engine.config import EngineConfig
from modeld.engine.messages import (
    Begun,
    Ended,
    EngineGone,
    Failed,
    FromEngine,
    FromSupervisor,
    Generated,
    Ready,
    Refused,
    Run,
)
from modeld.engine.patience import Patience
from modeld.engine.supervisor import Supervisor
from modelwire.messages import DecodeConfig, Reason, Text
from tests.descriptors import descriptors

BOUND_S = 30
LOAD_S = 120


class Engine:
    """A supervisor and what it told."""

    def __init__(self, config: EngineConfig, **bounds: float) -> None:
        self._told: asyncio.Queue[FromEngine | FromSupervisor] = asyncio.Queue()
        self.supervisor = Supervisor(config, self._told.put_nowait, patience=Patience(**bounds))  # type: ignore[arg-type]

    async def next(self) -> FromEngine | FromSupervisor:
        return await asyncio.wait_for(self._told.get(), BOUND_S)

    async def until(self, *kinds: type) -> list[FromEngine | FromSupervisor]:
        """Everything up to the first message of one of these kinds."""
        told = [await self.next()]
        while not isinstance(told[-1], kinds):
            told.append(await self.next())
        return told

    async def run(self, text: str = "hello", **options: Any) -> list[FromEngine | FromSupervisor]:
        self.send(text, **options)
        return await self.until(Ended, Failed, EngineGone)

    def send(self, text: str = "hello", **options: Any) -> None:
        run = Run(client="c", session="s", guess=False, prompt=(Text(text=text),))
        self.supervisor.send(evolve(run, **options))

    def nothing_more(self) -> bool:
        return self._told.empty()


Start = Callable[..., Any]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    async with contextlib.AsyncExitStack() as closing:

        async def begin(script: dict[str, Any] | None = None, *, config: Any = None, **bounds: float) -> Engine:
            engine = Engine(config or EngineConfig(backend="fake", fake=json.dumps(script or {})), **bounds)
            closing.push_async_callback(engine.supervisor.close)
            await engine.supervisor.start()
            return engine

        yield begin


def _alive(pid: int) -> bool:
    """Whether a process runs; one that has ended but was not reaped by its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def _gone(pid: int) -> bool:
    for _ in range(BOUND_S * 100):
        if not _alive(pid):
            return True
        await asyncio.sleep(0.01)
    return False


async def test_a_run_goes_out_and_its_story_comes_back_in_order(start: Start) -> None:
    engine = await start()
    assert isinstance(await engine.next(), Ready)
    told = await engine.run(decode=DecodeConfig(max_tokens=3))
    kinds = [type(message) for message in told]
    assert kinds[0] is Begun
    assert set(kinds[1:-1]) == {Generated}
    assert kinds[-1] is Ended


@pytest.mark.parametrize(("fault", "reason"), [("crash", "exited with status 70"), ("abort", "was ended by SIGABRT")])
async def test_an_engine_that_dies_in_a_run_is_replaced(start: Start, fault: str, reason: str) -> None:
    """S8, S13."""
    engine = await start({"faults": {"2": fault}})
    await engine.until(Ready)
    await engine.run("first")
    told = await engine.run("second, and other")
    assert told[-1] == EngineGone(epoch=1, reason=reason)
    await engine.until(Ready)
    assert isinstance((await engine.run("second, and other"))[-1], Ended)
    assert engine.supervisor.epoch == 2


async def test_an_engine_that_hangs_in_a_run_is_killed_and_replaced(start: Start) -> None:
    """S8."""
    engine = await start({"faults": {"1": "hang"}}, first=0.2)
    await engine.until(Ready)
    told = await engine.run()
    assert told[-1] == EngineGone(epoch=1, reason="was silent for too long and was ended by SIGKILL")
    await engine.until(Ready)


@pytest.mark.parametrize("moment", ["load", "idle", "prefill", "fork", "decode"])
async def test_an_engine_that_is_frozen_is_killed_and_replaced(start: Start, moment: str) -> None:
    """S8: when an idle one is, shows at the next operation."""
    script = {"token_ms": 2, "poll_tokens": 1, "chunk": 16, "step_ms": 20}
    engine = await start(script, first=3.0, silence=3.0, chunks=1, load=60.0 if moment != "load" else 3.0)
    if moment == "load":
        hit(engine.supervisor.pid, signal.SIGSTOP)
        assert isinstance(await engine.next(), EngineGone)
        return
    await engine.until(Ready)
    if moment == "fork":
        await engine.run("one two three")
    if moment in ("prefill", "fork"):
        engine.send("one two three" * 20, guess=moment == "fork")
        await engine.until(Begun)
    if moment == "decode":
        engine.send(decode=DecodeConfig(max_tokens=1000))
        await engine.until(Generated)
    hit(engine.supervisor.pid, signal.SIGSTOP)
    if moment == "idle":
        engine.send()
    gone = (await engine.until(EngineGone))[-1]
    assert gone == EngineGone(epoch=1, reason="was silent for too long and was ended by SIGKILL")
    await engine.until(Ready)
    assert isinstance((await engine.run())[-1], Ended)


def _takes_all_memory_but_its_own(pid: int) -> None:
    size = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
    resource.prlimit(pid, resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))


async def test_an_engine_without_memory_ends_and_is_replaced(start: Start) -> None:
    """S8, S13: the limit is the process's, so that the next one has memory again."""
    engine = await start({"context": 10_000_000, "cells": 10_000_000})
    await engine.until(Ready)
    _takes_all_memory_but_its_own(engine.supervisor.pid)
    engine.send(base=bytes(40_000_000))
    assert isinstance((await engine.until(Ended, Failed, EngineGone))[-1], EngineGone)
    await engine.until(Ready)
    assert isinstance((await engine.run())[-1], Ended)


async def test_an_engine_that_is_killed_while_idle_is_replaced(start: Start) -> None:
    engine = await start()
    await engine.until(Ready)
    first = engine.supervisor.pid
    hit(first)
    assert isinstance((await engine.until(EngineGone))[-1], EngineGone)
    await engine.until(Ready)
    assert engine.supervisor.pid != first
    assert isinstance((await engine.run())[-1], Ended)


async def test_the_stop_flag_ends_a_run_in_the_middle_of_a_chunk(start: Start) -> None:
    """S2: were it not honoured, this run would take an hour."""
    engine = await start({"token_ms": 15000.0, "poll_tokens": 1, "chunk": 256, "faults": {}})
    await engine.until(Ready)
    engine.supervisor.set_stop()
    told = await engine.run("x" * 240)
    assert isinstance(told[-1], Ended)
    assert told[-1].reason is Reason.PREEMPTED
    engine.supervisor.clear_stop()


async def test_a_stop_that_came_late_does_not_outlive_its_engine(start: Start) -> None:
    engine = await start({"faults": {"1": "crash"}})
    await engine.until(Ready)
    engine.send()
    engine.supervisor.set_stop()
    await engine.until(EngineGone, Ended)
    if engine.supervisor.epoch == 1 and engine.supervisor.pid:
        engine.supervisor.clear_stop()
    else:
        await engine.until(Ready)
        assert "set=False" in repr(engine.supervisor._flag)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (EngineConfig(backend="fake", fake='{"load_error": "no such model; get one"}'), "no such model; get one"),
        (EngineConfig(backend="fake", fake="{"), "line 1"),
        (EngineConfig(model="/no/such/model.gguf"), "no such model file: /no/such/model.gguf"),
        (EngineConfig(model="/"), "is a directory"),
    ],
)
async def test_what_cannot_be_served_is_refused_and_not_tried_again(
    start: Start, config: EngineConfig, says: str
) -> None:
    engine = await start(config=config)
    refused = await engine.next()
    assert isinstance(refused, Refused)
    assert says in refused.message
    assert "\n" not in refused.message
    assert await _gone(engine.supervisor.pid)
    assert engine.nothing_more()


async def test_an_engine_that_dies_at_every_start_is_given_up(start: Start) -> None:
    config = EngineConfig(backend="fake", log_level="NO SUCH LEVEL")
    engine = await start(config=config, pause=0.01, loads=2)
    told = await engine.until(Refused)
    assert [type(message) for message in told] == [EngineGone, EngineGone, Refused]


async def test_ctrl_c_is_not_the_engines_business(start: Start) -> None:
    engine = await start()
    await engine.until(Ready)
    hit(engine.supervisor.pid, signal.SIGINT)
    assert isinstance((await engine.run())[-1], Ended)
    assert os.getpgid(engine.supervisor.pid) != os.getpgid(0)


@pytest.mark.parametrize("when", ["loading", "idle", "busy", "hung"])
async def test_close_leaves_no_process_no_descriptor_and_no_thread(when: str) -> None:
    before, threads = descriptors(), set(threading.enumerate())
    script = {
        "loading": {"load_ms": 3_600_000},
        "idle": {},
        "busy": {"token_ms": 1000, "poll_tokens": 1},
        "hung": {"faults": {"1": "hang"}},
    }[when]
    engine = Engine(EngineConfig(backend="fake", fake=json.dumps(script)), quit=0.5)
    await engine.supervisor.start()
    pid = engine.supervisor.pid
    if when != "loading":
        await engine.until(Ready)
    if when in ("busy", "hung"):
        engine.send("some longer text")
        await engine.until(Begun)
    await asyncio.wait_for(engine.supervisor.close(), BOUND_S)
    assert not _exists(pid)
    assert descriptors() <= before
    assert not set(threading.enumerate()) - threads
    assert engine.nothing_more()


FRONT = """
import asyncio, sys
from modeld.engine.config import EngineConfig
from modeld.engine.messages import Begun, Ready, Run
from modeld.engine.supervisor import Supervisor
from modelwire.messages import Text

async def main():
    begun = asyncio.Event()

    def listen(message):
        if isinstance(message, Ready):
            supervisor.send(Run(client="c", session="s", guess=False, prompt=(Text(text="one two " * 900),)))
        if isinstance(message, Begun):
            begun.set()

    supervisor = Supervisor(EngineConfig.from_json(sys.argv[1]), listen)
    await supervisor.start()
    await begun.wait()
    print(supervisor.pid, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


def _front(config: EngineConfig) -> tuple[subprocess.Popen[str], int]:
    """A front of its own whose engine is in the middle of a prefill, and that engine's pid."""
    front = subprocess.Popen([sys.executable, "-c", FRONT, config.to_json()], stdout=subprocess.PIPE, text=True)
    assert front.stdout is not None
    try:
        assert select.select([front.stdout], [], [], LOAD_S)[0], "no prefill began"
        return front, int(front.stdout.readline())
    except BaseException:
        front.kill()
        front.wait(BOUND_S)
        front.stdout.close()
        raise


async def _dies_with_its_front(config: EngineConfig) -> None:
    front, pid = await asyncio.to_thread(_front, config)
    try:
        assert _alive(pid)
    finally:
        front.kill()
        front.wait(BOUND_S)
        assert front.stdout is not None
        front.stdout.close()
    try:
        assert await _gone(pid)
    finally:
        if _alive(pid):
            hit(pid)


async def test_the_engine_ends_when_its_front_is_killed() -> None:
    """Were it not for that, this engine would work for an hour."""
    script = {"token_ms": 1000, "context": 100_000, "cells": 200_000}
    await _dies_with_its_front(EngineConfig(backend="fake", fake=json.dumps(script)))


async def test_the_engine_ends_when_its_front_is_killed_in_the_middle_of_a_native_prefill() -> None:
    await _dies_with_its_front(EngineConfig(chunk=2048))
