"""Owns the live view of a daemon: what its last figures look like beside those before. It asks nobody anything."""

import textwrap
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from modeld.report import duration, verdict
from modelwire.messages import Status

SAMPLES = 60
"""Of the past that is drawn."""
BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = "_.-~=+*#"
"""For a terminal that has no others."""
_DRAWN = (
    ("prefilled", "tokens_prefilled"),
    ("reused", "tokens_reused"),
    ("generated", "tokens_generated"),
    ("operations", "operations_total"),
    ("guesses", "guesses_total"),
)
_NARROWEST = 40
_BESIDE = 36
"""Characters of a row that are no picture."""


class View:
    """One daemon's figures over time. A daemon that was started anew begins a new past."""

    def __init__(self, bars: str = BARS) -> None:
        self._bars = bars
        self._last: tuple[Status, float] | None = None
        self._rates: dict[str, deque[float]] = {name: deque(maxlen=SAMPLES) for _, name in _DRAWN}

    def add(self, status: Status, now: float) -> None:
        """`now` is in seconds of any clock that only goes on."""
        before, self._last = self._last, (status, now)
        if before is None or before[0].instance != status.instance:
            for rates in self._rates.values():
                rates.clear()
            return
        seconds = max(now - before[1], 1e-3)
        for name, rates in self._rates.items():
            rates.append(max(0.0, _of(status, name) - _of(before[0], name)) / seconds)

    def rates(self) -> Mapping[str, float]:
        """What came in a second, by the name of its figure; nothing before the second sample."""
        return {name: rates[-1] for name, rates in self._rates.items() if rates}

    def frame(self, width: int, said: str = "") -> str:
        """What is known now and what is `said` of it, in lines of at most `width` characters."""
        lines = [*self._lines(self._last[0], max(width, _NARROWEST))] if self._last else []
        return "\n".join(line[:width].rstrip() for line in (*lines, *textwrap.wrap(said, max(width, _NARROWEST))))

    def _lines(self, status: Status, width: int) -> Iterator[str]:
        name = status.model or "no model is loaded"
        yield f"{name}    {status.state}    up {duration(status.uptime_s)}    exactness: {verdict(status.exactness)}"
        if status.problem:
            yield from textwrap.wrap(f"problem: {status.problem}", width)
        yield ""
        yield from self._of_memory(status, width)
        yield ""
        room = min(SAMPLES, max(0, width - _BESIDE))
        yield f"{'':10} {'a second':>9} {'in all':>13}  the last {room}"[:width]
        for label, figure in _DRAWN:
            rates = self._rates[figure]
            rate = f"{rates[-1]:,.1f}" if rates else "-"
            yield f"{label:10} {rate:>9} {_of(status, figure):>13,.0f}  {self._drawn([*rates][-room:] if room else [])}"
        yield ""
        yield (
            f"{_of(status, 'hits'):,.0f} hits, {_of(status, 'partials'):,.0f} partial    guesses: "
            f"{_of(status, 'guesses_adopted'):,.0f} adopted, {_of(status, 'guesses_preempted'):,.0f} preempted, "
            f"{_of(status, 'wasted_s'):,.1f} s wasted"
        )
        yield (
            f"drafts: {_of(status, 'tokens_accepted'):,.0f} of {_of(status, 'tokens_drafted'):,.0f} tokens accepted, "
            f"{_of(status, 'tokens_per_pass'):.2f} tokens a pass"
        )

    def _of_memory(self, status: Status, width: int) -> Iterator[str]:
        used, total = _of(status, "cells_used"), _of(status, "cells_total")
        room = min(40, width - 34)
        full = round(room * min(1.0, used / total)) if total else 0
        yield f"{'cells':10} {self._bars[-1] * full}{self._bars[0] * (room - full)}  {used:,.0f} of {total:,.0f}"
        parked = f"; {_of(status, 'parked'):,.0f} parked ({_of(status, 'parked_bytes') / 2**20:,.0f} MB)"
        tapes = f"{_of(status, 'tapes'):,.0f}, {_of(status, 'tapes_guessed'):,.0f} of them guesses"
        yield f"{'tapes':10} {tapes}{parked if _of(status, 'parked') else ''}"
        others = ("sessions", "clients", "queue")
        yield f"{'':10} " + "    ".join(f"{name} {_of(status, name):,.0f}" for name in others)

    def _drawn(self, rates: Sequence[float]) -> str:
        highest = max(rates, default=0.0) or 1.0
        steps = len(self._bars) - 1
        return "".join(self._bars[round(steps * rate / highest)] for rate in rates)


def _of(status: Status, figure: str) -> float:
    """An older or newer daemon may lack one."""
    return status.figures.get(figure, 0.0)
