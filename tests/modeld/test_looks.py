"""The look at a model's file before it is loaded: bounded, whatever the file lies on."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from modeld.backends.base import LoadError
from modeld.looks import MOST_LOOKS, Looks

PATH = Path("/drive/model.gguf")


@pytest.fixture
def back() -> Iterator[threading.Event]:
    """Set when the drive is back."""
    event = threading.Event()
    yield event
    event.set()


def mute(back: threading.Event) -> Looks:
    def check(_: Path) -> None:
        back.wait(60)

    return Looks(check, seconds=0.01)


async def test_a_drive_that_says_nothing_is_said_and_holds_up_nothing(back: threading.Event) -> None:
    looks = mute(back)
    for _ in range(MOST_LOOKS):
        with pytest.raises(LoadError, match=r"model.gguf does not answer"):
            await looks.look(PATH)
    with pytest.raises(LoadError, match="files do not answer"):
        await looks.look(PATH)
    back.set()
    for thread in looks._threads:
        await asyncio.to_thread(thread.join, 10)
    looks._seconds = 10.0
    await looks.look(PATH)


async def test_what_is_wrong_with_a_file_is_passed_on_and_any_other_fault_is_the_files() -> None:
    def check(path: Path) -> None:
        raise LoadError("no GGUF") if path == PATH else ValueError("about a prompt")

    looks = Looks(check)
    with pytest.raises(LoadError, match="no GGUF"):
        await looks.look(PATH)
    with pytest.raises(LoadError, match=r"other cannot be looked at \(ValueError\)"):
        await looks.look(Path("/other"))


async def test_a_machine_without_room_for_a_thread_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", full)
    with pytest.raises(LoadError, match="try again"):
        await Looks(lambda _: None).look(PATH)
