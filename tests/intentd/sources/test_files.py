"""Files are watched while somebody wants them, and only those."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from watchfiles import Change

from intentd.sources import files
from intentd.sources.files import MAX_DIRECTORIES, FileWatch
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


@pytest.fixture
async def heard() -> AsyncIterator[Heard]:
    heard = Heard()
    task = asyncio.create_task(heard.watch.run())
    yield heard
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_change_is_told(heard: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LOOK_S", 10 * PATIENCE_S)
    await heard.watch.want(frozenset({str(tmp_path / "a.py")}))
    hearing = asyncio.create_task(heard.again())
    while not hearing.done():  # the watch starts a moment later
        (tmp_path / "a.py").write_text("x")
        await asyncio.wait([hearing], timeout=0.05)
    await hearing


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
    heard: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(files, "awatch", refuse)
    monkeypatch.setattr(files, "LOOK_S", 0.01)
    await heard.watch.want(frozenset({str(tmp_path / "a.py")}))
    await heard.again()
    await heard.again()
    assert "files cannot be watched: no space left" in caplog.text


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
