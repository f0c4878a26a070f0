"""What the machine lacks, from what it says of itself."""

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from intentd.sources import host
from intentd.sources.host import HostWatch, lack
from intentd.workers import NoThread
from modelwire.testing import PATIENCE_S

GIB = 2**30


def machine(**change: Any) -> SimpleNamespace:
    fine: dict[str, Any] = {
        "virtual_memory": lambda: SimpleNamespace(total=16 * GIB, available=8 * GIB),
        "getloadavg": lambda: (3.0, 0.0, 0.0),
        "cpu_count": lambda: 4,
        "sensors_battery": lambda: SimpleNamespace(percent=80, power_plugged=False),
        "sensors_temperatures": lambda: {"coretemp": [SimpleNamespace(current=60.0, high=90.0)]},
    }
    return SimpleNamespace(**{**fine, **change})


def test_a_machine_that_is_fine_lacks_nothing() -> None:
    assert lack(4.0, machine()) is None


@pytest.mark.parametrize("look", [host._memory, lambda machine: host._load(machine, max_load=1e9)])
def test_this_machine_can_be_looked_at(look: Callable[[Any], str | None]) -> None:
    """Each has these two."""
    said = look(psutil)
    assert said is None or said.startswith("memory is short")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"virtual_memory": lambda: SimpleNamespace(total=16 * GIB, available=GIB // 8)}, "memory is short: 128 MiB"),
        ({"getloadavg": lambda: (20.0, 0, 0)}, "busy: a load of 5.0"),
        ({"sensors_battery": lambda: SimpleNamespace(percent=9, power_plugged=False)}, "battery is low: 9 %"),
        (
            {"sensors_temperatures": lambda: {"cpu": [SimpleNamespace(current=99.0, high=None)]}},
            "hot: cpu at 99 °C",
        ),
    ],
)
def test_each_lack_is_said(change: dict[str, Any], word: str) -> None:
    assert word in (lack(4.0, machine(**change)) or "")


@pytest.mark.parametrize(
    "change",
    [
        {"sensors_battery": lambda: None},
        {"sensors_battery": lambda: SimpleNamespace(percent=9, power_plugged=True)},
        {"sensors_temperatures": dict},
        {"sensors_temperatures": lambda: {"odd": [SimpleNamespace(current=30.0, high=0.0)]}},
    ],
)
def test_no_battery_no_sensor_or_a_plug_are_fine(change: dict[str, Any]) -> None:
    assert lack(4.0, machine(**change)) is None


async def test_only_changes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "EVERY_S", 0.0)
    seen = iter([None, "hot: 1", "hot: 2", "low: 1", None])
    told = list[str | None]()
    over = asyncio.Event()

    def look() -> str | None:
        return next(seen, None)

    def changed(words: str | None) -> None:
        told.append(words)
        if words is None:
            over.set()

    watching = asyncio.create_task(HostWatch(look, changed).run())
    async with asyncio.timeout(PATIENCE_S):
        await over.wait()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert told == ["hot: 1", "low: 1", None]


@pytest.mark.parametrize("look", ["virtual_memory", "getloadavg", "sensors_battery", "sensors_temperatures"])
def test_what_cannot_be_seen_is_told_once_and_hides_nothing_else(look: str, caplog: pytest.LogCaptureFixture) -> None:
    """A kernel without /sys/class/power_supply, a container without sensors, no descriptor left."""

    def fails() -> None:
        raise FileNotFoundError(2, "No such file or directory", "/sys/class/power_supply")

    host._blind.clear()
    assert lack(4.0, machine(**{look: fails})) is None
    assert lack(4.0, machine(**{look: fails})) is None
    assert len(caplog.records) == 1
    other = "getloadavg" if look != "getloadavg" else "sensors_battery"
    busy = {
        "getloadavg": lambda: (20.0, 0, 0),
        "sensors_battery": lambda: SimpleNamespace(percent=9, power_plugged=False),
    }
    assert lack(4.0, machine(**{look: fails, other: busy[other]}))


async def test_where_no_thread_can_be_started_or_a_driver_hangs_what_was_seen_last_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host, "EVERY_S", 0.0)
    told: asyncio.Queue[str | None] = asyncio.Queue()
    answers, hangs = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    looks = iter(["hot: 1", NoThread(), "hang", None])

    def look() -> str | None:
        seen = next(looks, None)
        if isinstance(seen, Exception):
            raise seen
        if seen == "hang":
            loop.call_soon_threadsafe(hangs.set)
            answers.wait(PATIENCE_S)
        return seen

    watch = HostWatch(look, told.put_nowait)
    watch._looks._seconds = PATIENCE_S
    watching = asyncio.create_task(watch.run())
    async with asyncio.timeout(PATIENCE_S):
        assert await told.get() == "hot: 1"
        await hangs.wait()
        watch._looks._pieces[-1].expire()  # as where its time is over
        assert await told.get() is None
    answers.set()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
