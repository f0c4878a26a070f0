"""Owns the first measurement of what batches cost, by their rows. What real steps cost later, `Costs` learns."""

from collections.abc import Callable

import numpy as np

from modeld.backends.base import BackendError, LogitsBackend
from modeld.slot.draft.lengths import TILE

WIDTHS = {1: 5, 2: 3, 4: 2, 8: 2, 16: 2, 32: 1}
"""Rows, and how often they are timed: the least counts, since whatever disturbs makes it longer."""
BUDGET_S = 1.0
"""After so long no batch is begun: what it would cost follows from the ones before."""


def time_widths(backend: LogitsBackend, clock: Callable[[], float], *, tile: bool = False) -> dict[int, float]:
    """Seconds by rows, on the empty sequence 0, which is empty again afterwards. Nothing where it cannot be told.

    `tile`: time the width of a tile, too.
    """
    began, seconds = clock(), dict[int, float]()
    for rows, times in {**WIDTHS, **({TILE: 1} if tile else {})}.items():
        for _ in range(times if rows <= min(backend.chunk, backend.context) else 0):
            if clock() - began > BUDGET_S:
                break
            took = _time(backend, rows, clock)
            if took is None:
                return {}
            seconds[rows] = min(seconds.get(rows, took), took)
    return seconds if min(seconds.values(), default=0.0) > 0 else {}


def _time(backend: LogitsBackend, rows: int, clock: Callable[[], float]) -> float | None:
    """One batch; None where it failed or was stopped."""
    begun = clock()
    try:
        stopped = backend.extend(0, np.zeros(rows, np.int32), 0, rows).stopped
        return None if stopped else clock() - begun
    except BackendError:
        return None
    finally:
        backend.drop(0)
