"""Owns the look at a model's file before it is loaded, in a thread with a bound: a drive whose server is gone is mute.

What makes a file a model is the check's business.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from modeld.backends.base import LoadError

LONGEST_LOOK_S = 10.0
MOST_LOOKS = 16
"""So many threads may hang in calls that do not end."""


class Looks:
    """Threads of their own, as no pool ends while a call in it does not, nor does the process."""

    def __init__(self, check: Callable[[Path], None], *, seconds: float = LONGEST_LOOK_S) -> None:
        """`check` raises `LoadError` for a file that need not be tried."""
        self._check = check
        self._seconds = seconds
        self._threads: list[threading.Thread] = []

    async def look(self, path: Path) -> None:
        """Raises `LoadError` as the check does, and where nothing answers in time."""
        self._threads = list(filter(threading.Thread.is_alive, self._threads))
        if len(self._threads) >= MOST_LOOKS:
            raise LoadError(f"{MOST_LOOKS} files do not answer: is their drive connected? Restart modeld when it is")
        found: asyncio.Future[LoadError | None] = asyncio.get_running_loop().create_future()
        thread = threading.Thread(target=self._run, args=(path, found), name="look", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            raise LoadError(f"{path} cannot be looked at: the machine has no room for a thread; try again") from None
        self._threads.append(thread)
        try:
            async with asyncio.timeout(self._seconds):
                fault = await found
        except TimeoutError:
            raise LoadError(f"{path} does not answer: is its drive connected?") from None
        if fault:
            raise fault

    def _run(self, path: Path, found: "asyncio.Future[LoadError | None]") -> None:
        fault: LoadError | None = None
        try:
            self._check(path)
        except LoadError as raised:
            fault = raised
        except Exception as raised:
            fault = LoadError(f"{path} cannot be looked at ({type(raised).__name__})")
        with suppress(RuntimeError):  # the daemon has ended meanwhile
            found.get_loop().call_soon_threadsafe(partial(_settle, found, fault))


def _settle(found: "asyncio.Future[LoadError | None]", fault: LoadError | None) -> None:
    if not found.done():
        found.set_result(fault)
