"""The modeld that intentd starts: only where one is wanted and none is there, and it ends with intentd."""

import asyncio
import contextlib
import math
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from intentd.sources import modeld
from intentd.sources.modeld import STOPPED, ModeldKeeper
from modelwire.testing import PATIENCE_S, ScriptedDaemon

LIVE = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
print("serving", file=sys.stderr, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modeld, "CHECK_S", 0.01)
    monkeypatch.setattr(modeld, "FIRST_RETRY_S", 0.01)


@asynccontextmanager
async def keeping(endpoint: str, *argv: str) -> AsyncIterator[ModeldKeeper]:
    keeper = ModeldKeeper(endpoint, argv)
    task = asyncio.create_task(keeper.run())
    try:
        yield keeper
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def serving(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Is set when one is started, instead of that."""
    served = asyncio.Event()

    async def serve(_: ModeldKeeper) -> bool:
        served.set()
        return False

    monkeypatch.setattr(ModeldKeeper, "_serve", serve)
    return served


def counting(monkeypatch: pytest.MonkeyPatch) -> list[ModeldKeeper]:
    """Has one more entry with each that is started."""
    begun, serve = list[ModeldKeeper](), ModeldKeeper._serve

    async def counted(keeper: ModeldKeeper) -> bool:
        begun.append(keeper)
        return await serve(keeper)

    monkeypatch.setattr(ModeldKeeper, "_serve", counted)
    return begun


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if met():
                return
            await asyncio.sleep(0.01)


@pytest.fixture
def endpoint(runtime: Path) -> str:
    return f"ipc://{runtime}/modeld.sock"


async def test_it_starts_when_an_editor_wants_it_and_ends_with_the_daemon(endpoint: str, tmp_path: Path) -> None:
    started = tmp_path / "started"
    async with keeping(endpoint, sys.executable, "-c", LIVE, str(started)) as keeper:
        for _ in range(5):
            await asyncio.sleep(0)
        assert not started.exists()
        keeper.want(True)
        await until(lambda: started.exists() and bool(started.read_text()))
        assert keeper.problem == ""
        os.kill(pid := int(started.read_text()), 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_it_ends_with_a_daemon_that_is_killed(endpoint: str, tmp_path: Path) -> None:
    started = tmp_path / "started"
    daemon = f"""
import asyncio, sys
from intentd.sources.modeld import ModeldKeeper
keeper = ModeldKeeper({endpoint!r}, (sys.executable, "-c", {LIVE!r}, {str(started)!r}))
keeper.want(True)
asyncio.run(keeper.run())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", daemon)
    await until(lambda: started.exists() and bool(started.read_text()))
    process.kill()
    await process.wait()
    pid = int(started.read_text())
    await until(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    """A zombie does not; where nobody is left to reap it, it stays one."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


async def test_one_that_somebody_stops_is_not_started_again_before_an_editor_comes_anew(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, begun = tmp_path / "started", counting(monkeypatch)
    async with keeping(endpoint, sys.executable, "-c", LIVE, str(started)) as keeper:
        for times, number in enumerate((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), 1):
            keeper.want(True)
            await until(lambda: started.exists() and bool(started.read_text()) and not keeper.problem)
            os.kill(int(started.read_text()), number)
            started.unlink()
            await until(lambda: keeper.problem == STOPPED)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(begun) == times


STOPS_SLOWLY = """
import os, pathlib, signal, sys, time
def stop(number, frame):
    print("modeld: stopping", file=sys.stderr, flush=True)
    while not go_on.exists():
        time.sleep(0.01)
    sys.exit(0)
started, go_on = map(pathlib.Path, sys.argv[1:])
signal.signal(signal.SIGTERM, stop)
started.write_text(str(os.getpid()))
print("serving", file=sys.stderr, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("comes", [True, False])
async def test_an_editor_that_comes_while_it_still_stops_has_come_anew(
    endpoint: str, tmp_path: Path, *, comes: bool
) -> None:
    started, go_on = tmp_path / "started", tmp_path / "go_on"
    async with keeping(endpoint, sys.executable, "-c", STOPS_SLOWLY, str(started), str(go_on)) as keeper:
        keeper.want(True)
        await until(lambda: started.exists() and keeper._serving_since < math.inf)
        first = int(started.read_text())
        os.kill(first, signal.SIGTERM)
        await until(lambda: keeper._stops)
        keeper.want(False)
        if comes:
            keeper.want(True)
        go_on.touch()
        if comes:
            await until(lambda: started.read_text() not in {"", str(first)} and keeper._serving_since < math.inf)
            assert keeper.problem == ""
        else:
            await until(lambda: keeper.problem == STOPPED)


async def test_one_that_ends_well_was_stopped_too(endpoint: str) -> None:
    """So modeld answers SIGTERM."""
    async with keeping(endpoint, sys.executable, "-c", "import sys; print('serving', file=sys.stderr)") as keeper:
        keeper.want(True)
        await until(lambda: bool(keeper.problem))
        assert keeper.problem == STOPPED


async def test_where_the_last_editor_has_left_none_is_started(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    served = serving(monkeypatch)
    async with keeping(endpoint) as keeper:
        keeper.want(True)
        keeper.want(False)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not served.is_set()
        keeper.want(True)
        await asyncio.wait_for(served.wait(), PATIENCE_S)


async def test_one_that_dies_is_told_with_its_last_words_and_not_with_its_first(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modeld, "FIRST_RETRY_S", PATIENCE_S)
    for last, told in (("", ""), ("the disk is full", ": the disk is full")):
        words = f"import sys; print('modeld: serving a at b', file=sys.stderr); sys.exit({last!r} or 3)"
        async with keeping(endpoint, sys.executable, "-c", words) as keeper:
            keeper.want(True)
            await until(lambda: "ended" in keeper.problem)
            assert keeper.problem == f"modeld ended with status {1 if last else 3}{told}"


@pytest.mark.parametrize("lasts", [True, False])
async def test_one_that_dies_as_soon_as_it_serves_is_not_followed_by_another_at_once(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, *, lasts: bool
) -> None:
    """To load a model keeps a processor and the disk busy."""
    monkeypatch.setattr(modeld, "FIRST_RETRY_S", PATIENCE_S)
    monkeypatch.setattr(modeld, "LASTS_S", 0.0 if lasts else PATIENCE_S)
    begun = counting(monkeypatch)
    words = "import sys; print('serving', file=sys.stderr, flush=True); sys.exit(1)"
    async with keeping(endpoint, sys.executable, "-c", words) as keeper:
        keeper.want(True)
        await until(lambda: bool(keeper.problem))
        for _ in range(20):
            await asyncio.sleep(0)
        assert (len(begun) > 1) is lasts


async def test_one_that_was_upgraded_while_it_ran_is_followed_by_the_new_one(endpoint: str, tmp_path: Path) -> None:
    """It ends with a failure, which nobody takes for a stop by hand: no editor has to come anew."""
    words = """
import os, pathlib, sys, time
print("modeld: serving", file=sys.stderr, flush=True)
pathlib.Path(sys.argv[1], str(os.getpid())).touch()
if len(os.listdir(sys.argv[1])) == 1:
    sys.exit("modeld: modeld was upgraded while it ran: start it again")
time.sleep(600)
"""
    async with keeping(endpoint, sys.executable, "-c", words, str(tmp_path)) as keeper:
        keeper.want(True)
        await until(lambda: len(list(tmp_path.iterdir())) == 2 and not keeper.problem)


async def test_what_keeps_it_from_starting_is_told(endpoint: str) -> None:
    words = "import sys; sys.exit('modeld: no such model: give --model')"
    async with keeping(endpoint, sys.executable, "-c", words) as keeper:
        keeper.want(True)
        await until(lambda: bool(keeper.problem))
        assert keeper.problem == "modeld ended with status 1: modeld: no such model: give --model"
    async with keeping(endpoint, "/nowhere/modeld") as keeper:
        keeper.want(True)
        await until(lambda: bool(keeper.problem))
        assert keeper.problem == "modeld could not be started: No such file or directory"


async def test_one_whose_engine_stays_is_followed_by_another(endpoint: str, tmp_path: Path) -> None:
    """The engine has its pipe, and may hang in a native call."""
    words = """
import os, pathlib, subprocess, sys
print("serving", file=sys.stderr, flush=True)
pathlib.Path(sys.argv[1], str(os.getpid())).touch()
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
os.kill(os.getpid(), 9)
"""
    async with keeping(endpoint, sys.executable, "-c", words, str(tmp_path)) as keeper:
        keeper.want(True)

        def started() -> list[int]:
            return [int(one.name) for one in tmp_path.iterdir() if one.name.isdecimal()]

        try:
            await until(lambda: len(started()) >= 2)
            assert keeper.problem in ("", "modeld was ended by SIGKILL")
        finally:
            for group in started():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, 9)


async def test_without_a_thread_or_a_descriptor_it_is_tried_again(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object, **__: object) -> None:
        raise fault

    for fault in (RuntimeError("can't start new thread"), OSError(24, "Too many open files")):
        started = tmp_path / type(fault).__name__
        async with keeping(endpoint, sys.executable, "-c", LIVE, str(started)) as keeper:
            with monkeypatch.context() as full:
                full.setattr(os, "pipe", none)
                keeper.want(True)
                await until(lambda: bool(keeper.problem))
                assert keeper.problem in (
                    "modeld could not be started: can't start new thread",
                    "modeld could not be started: Too many open files",
                )
            await until(started.exists)


async def test_a_fault_while_it_serves_is_not_told_as_one_of_its_start(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"

    async def fail(process: asyncio.subprocess.Process) -> None:
        await end(process)
        raise RuntimeError("can't start new thread")

    end = modeld._end
    monkeypatch.setattr(modeld, "_end", fail)
    keeper = ModeldKeeper(endpoint, (sys.executable, "-c", LIVE, str(started)))
    keeper.want(True)
    running = asyncio.create_task(keeper.run())
    await until(lambda: started.exists() and bool(started.read_text()))
    os.kill(int(started.read_text()), 9)
    try:
        await until(lambda: running.done() or bool(keeper.problem))
        assert "could not be started" not in keeper.problem
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_line_that_is_far_too_long_is_passed_over_and_what_comes_behind_it_read(endpoint: str) -> None:
    """A pipe that nobody reads would hold up what modeld logs, and modeld."""
    words = "import sys; sys.stderr.write(1_000_000 * 'x' + '\\n'); sys.exit('modeld: no such model')"
    async with keeping(endpoint, sys.executable, "-c", words) as keeper:
        keeper.want(True)
        await until(lambda: bool(keeper.problem))
        assert keeper.problem == "modeld ended with status 1: modeld: no such model"


async def test_one_that_is_there_is_left_alone(tmp_path: Path) -> None:
    started = tmp_path / "started"
    async with ScriptedDaemon() as daemon, keeping(daemon.endpoint, sys.executable, "-c", LIVE, str(started)) as keeper:
        keeper.want(True)
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not started.exists()
        await daemon.die()
        await until(started.exists)


async def test_one_of_another_machine_is_never_started_here(monkeypatch: pytest.MonkeyPatch) -> None:
    served = serving(monkeypatch)
    async with keeping("tcp://server.test:7411") as keeper:
        keeper.want(True)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not served.is_set()
