"""Owns the look at a model's file before it is loaded: nobody waits long for a drive that sleeps or is gone.

What makes a file a model is the check's business.
"""

import math
import threading
import time
from collections.abc import Callable
from pathlib import Path

from modeld.backends.base import LoadError
from modelwire.errors import ErrorCode, WireError

LONGEST_LOOK_S = 0.1
"""For so long the event loop stands still."""
MOST_LOOKS = 16
"""So many threads may hang in calls that do not end, or have ended without anybody asking again."""
FRESH_S = 60.0
"""For so long what a slow look found may be told: who asks again needs a while, and then files have changed."""


class Looks:
    """The caller waits, so that what it is told stays in order. Each look has a thread of its own: no pool ends while a
    call in it does not, nor does the process.
    """

    def __init__(
        self,
        check: Callable[[Path], None],
        *,
        seconds: float = LONGEST_LOOK_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`check` raises `LoadError` for a file that need not be tried."""
        self._check = check
        self._seconds = seconds
        self._clock = clock
        self._slow: dict[Path, _Look] = {}

    def look(self, path: Path) -> None:
        """Raises `LoadError` as the check does, and `WireError` where nothing answers in time.

        Such a look goes on. What it finds is told the next time, once, where that look is too slow as well: else a slow
        drive were so each time.
        """
        before = self._slow.pop(path, None)
        look = before if before is not None and before.is_alive() else self._begin(path)
        if look.is_alive():
            self._slow[path] = look
            if before is None or self._clock() - before.ended > FRESH_S:
                says = f"{path} did not answer within {self._seconds} s: if its drive was asleep, try again in a moment"
                raise WireError(ErrorCode.NOT_READY, says, retry=True)
            look = before
        if look.fault:
            raise look.fault

    def _begin(self, path: Path) -> "_Look":
        if len(self._slow) >= MOST_LOOKS:
            self._forget_one()
        look = _Look(self._check, path, self._clock)
        try:
            look.start()
        except RuntimeError:
            says = f"{path} cannot be looked at: the machine has no room for a thread; try again"
            raise WireError(ErrorCode.NOT_READY, says, retry=True) from None
        look.join(self._seconds)
        return look

    def _forget_one(self) -> None:
        """Of those that ended and that nobody has asked for again, the one that was asked for longest ago."""
        ended = next((path for path, look in self._slow.items() if not look.is_alive()), None)
        if ended is None:
            says = f"{MOST_LOOKS} other files do not answer: try again when their drives are connected"
            raise WireError(ErrorCode.NOT_READY, says, retry=True)
        del self._slow[ended]


class _Look(threading.Thread):
    def __init__(self, check: Callable[[Path], None], path: Path, clock: Callable[[], float]) -> None:
        super().__init__(name="look", daemon=True)
        self._check, self._path, self._clock = check, path, clock
        self.fault: LoadError | None = None
        self.ended = -math.inf

    def run(self) -> None:
        try:
            self._check(self._path)
        except LoadError as raised:
            self.fault = raised
        except Exception as raised:
            self.fault = LoadError(f"{self._path} cannot be looked at ({type(raised).__name__})")
        self.ended = self._clock()
