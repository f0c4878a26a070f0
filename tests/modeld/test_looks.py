"""The look at a model's file before it is loaded: bounded, whatever the file lies on."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from modeld.backends.base import LoadError
from modeld.looks import MOST_LOOKS, Looks
from modelwire.errors import WireError

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


def come_back(looks: Looks, back: threading.Event) -> None:
    back.set()
    for look in looks._slow.values():
        look.join(10)
    looks._seconds = 10.0


def test_a_drive_that_says_nothing_is_said_and_waited_for_by_one_thread_a_file(back: threading.Event) -> None:
    looks = mute(back)
    for _ in range(MOST_LOOKS + 1):
        with pytest.raises(WireError, match=r"model.gguf did not answer within 0.01 s: .* asleep") as caught:
            looks.look(PATH)
        assert caught.value.retry
    assert len(looks._slow) == 1
    come_back(looks, back)
    looks.look(PATH)
    assert not looks._slow


def test_a_file_that_is_always_slow_to_look_at_is_loaded_or_refused_the_second_time() -> None:
    """What a look finds counts once: what it finds wrong is looked at again."""
    gate, faults, looked = threading.Event(), [LoadError("no GGUF")], list[Path]()

    def check(path: Path) -> None:
        gate.wait(60)
        looked.append(path)
        if faults:
            raise faults.pop()

    looks = Looks(check, seconds=0.01)
    for looks_so_far in (1, 2):
        gate.clear()
        with pytest.raises(WireError, match="did not answer"):
            looks.look(PATH)
        gate.set()
        looks._slow[PATH].join(10)
        assert len(looked) == looks_so_far
        gate.clear()
        if looks_so_far == 1:
            with pytest.raises(LoadError, match="no GGUF"):
                looks.look(PATH)
        else:
            looks.look(PATH)
        assert len(looked) == looks_so_far
    gate.set()


def test_what_a_slow_look_found_waits_for_who_asked_while_others_look_elsewhere(back: threading.Event) -> None:
    """But no more of them than may hang."""
    looks, first, second = mute(back), Path("/drive/first"), Path("/drive/second")
    for path in (first, second):
        with pytest.raises(WireError, match="did not answer"):
            looks.look(path)
    back.set()
    for look in looks._slow.values():
        look.join(10)
    back.clear()
    looks.look(second)
    looks.look(first)

    for number in range(2 * MOST_LOOKS):
        with pytest.raises(WireError, match=f"{number} did not answer"):
            looks.look(Path(f"/drive/{number}"))
        back.set()
        looks._slow[Path(f"/drive/{number}")].join(10)
        back.clear()
        assert len(looks._slow) <= MOST_LOOKS


def test_no_more_files_are_waited_for_than_the_limit_says(back: threading.Event) -> None:
    looks = mute(back)
    for number in range(MOST_LOOKS):
        with pytest.raises(WireError, match=f"{number} did not answer"):
            looks.look(Path(f"/drive/{number}"))
    with pytest.raises(WireError, match=f"{MOST_LOOKS} other files do not answer"):
        looks.look(PATH)
    come_back(looks, back)
    looks.look(PATH)


def test_what_is_wrong_with_a_file_is_passed_on_and_any_other_fault_is_the_files() -> None:
    def check(path: Path) -> None:
        raise LoadError("no GGUF") if path == PATH else ValueError("about a prompt")

    looks = Looks(check, seconds=60.0)
    with pytest.raises(LoadError, match="no GGUF"):
        looks.look(PATH)
    with pytest.raises(LoadError, match=r"other cannot be looked at \(ValueError\)"):
        looks.look(Path("/other"))


def test_a_machine_without_room_for_a_thread_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", full)
    with pytest.raises(WireError, match="try again"):
        Looks(lambda _: None).look(PATH)
