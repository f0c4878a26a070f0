"""The look at a model's file before it is loaded: bounded, whatever the file lies on."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from modeld.backends.base import LoadError
from modeld.looks import FRESH_S, MOST_LOOKS, Looks
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


def ended(looks: Looks, back: threading.Event) -> None:
    """All that were slow have ended; those that begin now are slow."""
    back.set()
    for look in looks._slow.values():
        look.join(10)
    back.clear()


def come_back(looks: Looks, back: threading.Event) -> None:
    ended(looks, back)
    back.set()
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


def test_a_file_that_is_always_slow_to_look_at_is_loaded_or_refused_the_second_time(back: threading.Event) -> None:
    """What a look finds is told once: what it finds wrong is looked at again."""
    faults = [LoadError("no GGUF")]

    def check(_: Path) -> None:
        back.wait(60)
        if faults:
            raise faults.pop()

    looks = Looks(check, seconds=0.01)
    with pytest.raises(WireError, match="did not answer"):
        looks.look(PATH)
    ended(looks, back)
    with pytest.raises(LoadError, match="no GGUF"):
        looks.look(PATH)
    ended(looks, back)
    looks.look(PATH)


@pytest.mark.parametrize("later", ["its drive is awake", "its drive sleeps again"])
def test_what_a_slow_look_found_wrong_is_not_told_of_a_file_that_was_mended_meanwhile(
    back: threading.Event, later: str
) -> None:
    faults, now = [LoadError("no such model file")], [0.0]

    def check(_: Path) -> None:
        back.wait(60)
        if faults:
            raise faults.pop()

    looks = Looks(check, seconds=0.01, clock=lambda: now[0])
    with pytest.raises(WireError, match="did not answer"):
        looks.look(PATH)
    ended(looks, back)
    if later == "its drive is awake":
        come_back(looks, back)
    else:
        now[0] = 2 * FRESH_S
        with pytest.raises(WireError, match="did not answer"):
            looks.look(PATH)
        ended(looks, back)
    looks.look(PATH)


def test_what_a_slow_look_found_waits_for_who_asked_while_others_look_elsewhere(back: threading.Event) -> None:
    """But no more of them than may hang."""
    looks, first, second = mute(back), Path("/drive/first"), Path("/drive/second")
    for path in (first, second):
        with pytest.raises(WireError, match="did not answer"):
            looks.look(path)
    ended(looks, back)
    looks.look(second)
    looks.look(first)

    for number in range(2 * MOST_LOOKS):
        with pytest.raises(WireError, match=f"{number} did not answer"):
            looks.look(Path(f"/drive/{number}"))
        ended(looks, back)
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
