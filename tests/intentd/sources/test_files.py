"""Files are watched while somebody wants them, and only those."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import anyio.to_thread
import pytest
from watchfiles import Change

from intentd.sources import files
from intentd.sources.files import MAX_DIRECTORIES, FileWatch
from intentd.workers import MAX_LOST_AT
from modelwire.testing import PATIENCE_S


class Heard:
    """A running watch, and how often it has called."""

    def __init__(self) -> None:
        self.watch = FileWatch(self._changed)
        self.calls = 0
        self._called = asyncio.Event()

    def _changed(self) -> None:
        self.calls += 1
        self._called.set()

    async def again(self) -> None:
        self._called.clear()
        async with asyncio.timeout(PATIENCE_S):
            await self._called.wait()


@pytest.fixture(autouse=True)
def _rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks without having been told."""
    monkeypatch.setattr(files, "LOOK_S", 10 * PATIENCE_S)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LOOK_S", 0.01)


async def change(heard: Heard, file: Path) -> None:
    """Until it is told."""
    hearing = asyncio.create_task(heard.again())
    while not hearing.done():  # the watch starts a moment later
        await asyncio.to_thread(file.write_text, "x")
        await asyncio.wait([hearing], timeout=0.05)
    await hearing


@pytest.fixture
async def heard() -> AsyncIterator[Heard]:
    heard = Heard()
    task = asyncio.create_task(heard.watch.run())
    yield heard
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_change_is_told(heard: Heard, tmp_path: Path) -> None:
    await heard.watch.want(frozenset({str(tmp_path / "a.py")}))
    await change(heard, tmp_path / "a.py")


async def test_others_do_not_matter(tmp_path: Path) -> None:
    watch = FileWatch(lambda: None)
    await watch.want(frozenset({str(tmp_path / "a.py")}))
    assert watch._matters(Change.modified, str(tmp_path / "a.py"))
    assert not watch._matters(Change.modified, str(tmp_path / "b.py"))


async def test_the_number_of_directories_is_bounded_and_those_that_are_not_there_take_no_room(tmp_path: Path) -> None:
    watch = FileWatch(lambda: None)
    folders = [tmp_path / f"d{number}" for number in range(MAX_DIRECTORIES + 5)]
    for folder in folders[4:]:
        folder.mkdir()
    await watch.want(frozenset(str(folder / "a.py") for folder in folders))
    assert len(watch._directories) == MAX_DIRECTORIES
    assert watch._directories <= set(map(str, folders[4:]))


async def test_where_nothing_can_be_watched_it_is_looked_at_all_the_same(
    often: None, heard: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(files, "awatch", refuse)
    await heard.watch.want(frozenset({str(tmp_path / "a.py")}))
    for _ in range(5):
        await heard.again()
    assert caplog.text.count("files cannot be watched: no space left") == 1


@pytest.mark.parametrize("fault", [RuntimeError("error in underlying watcher"), ValueError("of a library"), OSError()])
async def test_a_watch_that_fails_is_begun_again(
    often: None, heard: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """Whatever it raises, from within anyio's groups."""
    failed = asyncio.Event()

    def fail(*_: object) -> None:
        asyncio.get_running_loop().call_soon(failed.set)
        raise fault

    with monkeypatch.context() as broken:
        broken.setattr(anyio.to_thread, "run_sync", fail)
        await heard.watch.want(frozenset({str(tmp_path / "a.py")}))
        async with asyncio.timeout(PATIENCE_S):
            await failed.wait()
    monkeypatch.setattr(files, "LOOK_S", 10 * PATIENCE_S)
    await change(heard, tmp_path / "a.py")


async def test_a_folder_whose_name_is_no_utf_8_keeps_no_other_from_being_watched(heard: Heard, tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    os.mkdir(odd)  # noqa: PTH102
    await heard.watch.want(frozenset({f"{odd}/a.py", str(tmp_path / "a.py")}))
    await change(heard, tmp_path / "a.py")


async def test_files_that_do_not_matter_and_change_all_the_time_keep_nobody_from_looking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOOK_S", 0.4)
    heard = Heard()
    await heard.watch.want(frozenset({str(tmp_path / "a.py")}))
    watching = asyncio.create_task(heard.watch.run())
    async with asyncio.timeout(PATIENCE_S):
        while heard.calls < 3:
            (tmp_path / "app.log").write_text("line")
            await asyncio.sleep(0.05)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_a_mute_file_system_costs_few_threads_however_often_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, answers, asked = FileWatch(lambda: None), threading.Event(), 0

    def mute(_: str) -> bool:
        nonlocal asked
        asked += 1
        return answers.wait(PATIENCE_S)

    monkeypatch.setattr(os.path, "isdir", mute)
    watch._looks._seconds = 0.05
    for _ in range(5):
        await watch.want(frozenset({"/mute/a.py"}))
    assert asked == MAX_LOST_AT
    answers.set()


async def test_a_mute_file_system_holds_nothing_up_and_what_was_watched_stays_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = FileWatch(lambda: None)
    await watch.want(frozenset({str(tmp_path / "a.py")}))
    answers, isdir = threading.Event(), os.path.isdir

    def mute(name: str) -> bool:
        return answers.wait(PATIENCE_S) if "mute" in name else isdir(name)

    monkeypatch.setattr(os.path, "isdir", mute)
    watch._looks._seconds = 0.05
    wanting = asyncio.create_task(watch.want(frozenset({"/mute/a.py", str(tmp_path / "a.py")})))
    await asyncio.sleep(0)
    assert not wanting.done()
    await wanting
    assert watch._directories == {str(tmp_path)}
    answers.set()
