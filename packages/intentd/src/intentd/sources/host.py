"""Owns looking at the machine: what of memory, processor, battery or cool it lacks, in words. It decides nothing.

Looking can take milliseconds, so `HostWatch` does it in a worker thread, and tells of changes alone. What a machine
cannot tell (a container without sensors, a driver's odd figure) counts as nothing that it lacks.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import psutil

from intentd.workers import NoThread, TookTooLong, Workers

log = logging.getLogger(__name__)

EVERY_S = 5.0
LEAST_MEMORY, LEAST_MEMORY_SHARE = 512 * 1024 * 1024, 0.05
LEAST_BATTERY_PERCENT = 25
HOT_CELSIUS = 95.0
"""For a sensor that does not say itself what is too hot."""


def lack(max_load: float, host: Any = psutil) -> str | None:
    """Why the machine should be left alone; None where it can spare something. `max_load` is for each processor."""
    return (
        _seen("memory", _memory, host)
        or _seen("load", partial(_load, max_load=max_load), host)
        or _seen("battery", _battery, host)
        or _seen("heat", _heat, host)
    )


_blind = set[str]()


def _seen(name: str, look: Callable[[Any], str | None], host: Any) -> str | None:
    try:
        return look(host)
    except Exception as fault:  # psutil's own: it reads what kernels and drivers write
        if name not in _blind:
            _blind.add(name)
            log.warning("the machine's %s cannot be seen: %s: %s", name, type(fault).__name__, fault)
        return None


def _memory(host: Any) -> str | None:
    memory = host.virtual_memory()
    if memory.available < min(LEAST_MEMORY, memory.total * LEAST_MEMORY_SHARE):
        return f"memory is short: {memory.available // 2**20} MiB are left"
    return None


def _load(host: Any, max_load: float) -> str | None:
    load = host.getloadavg()[0] / (host.cpu_count() or 1)
    return f"the machine is busy: a load of {load:.1f} for each processor" if load > max_load else None


def _battery(host: Any) -> str | None:
    battery = getattr(host, "sensors_battery", lambda: None)()
    if battery is None or battery.power_plugged is not False or battery.percent >= LEAST_BATTERY_PERCENT:
        return None
    return f"the battery is low: {battery.percent:.0f} %"


def _heat(host: Any) -> str | None:
    sensors: dict[str, Any] = getattr(host, "sensors_temperatures", dict)()
    for name, readings in sensors.items():
        for reading in readings:
            limit = reading.high if reading.high and reading.high > 40 else HOT_CELSIUS
            if reading.current >= limit:
                return f"the machine is hot: {name} at {reading.current:.0f} °C"
    return None


class HostWatch:
    """Tells `changed` what the machine lacks, at the start and whenever that changes."""

    def __init__(self, look: Callable[[], str | None], changed: Callable[[str | None], None]) -> None:
        self._look = look
        self._changed = changed
        self._told: str | None = None
        self._looks = Workers(1, EVERY_S)

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            with contextlib.suppress(TookTooLong, NoThread):  # a driver may hang: what was seen last holds
                seen = await self._looks.do(self._look, place="sensors")
                if _kind(seen) != _kind(self._told):
                    self._changed(seen)
                self._told = seen
            await asyncio.sleep(EVERY_S)


def _kind(words: str | None) -> str | None:
    """Without the figure, which changes all the time."""
    return words and words.partition(":")[0]
