"""Owns a person's typing rhythm: how long a pause must be to mean that they look rather than type. Time comes in."""

from collections import deque
from statistics import median

from attrs import Factory, define

LEAST_S, MOST_S = 0.04, 0.4
PAUSE_S = 1.0
"""What is longer is no part of typing."""
FEW = 4
UNKNOWN_S = 0.15
FACTOR = 1.5


@define
class Rhythm:
    """Of the last keystrokes."""

    _between: deque[float] = Factory(lambda: deque[float](maxlen=24))
    _last: float | None = None

    def press(self, now: float) -> None:
        if self._last is not None and 0 < now - self._last < PAUSE_S:
            self._between.append(now - self._last)
        self._last = now

    @property
    def rest_s(self) -> float:
        """So long nothing must be typed before it counts as a pause."""
        if len(self._between) < FEW:
            return UNKNOWN_S
        return min(max(FACTOR * median(self._between), LEAST_S), MOST_S)
