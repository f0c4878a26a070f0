"""Owns the look at a model's file before it is loaded: nobody waits long for a drive whose server is gone.

What makes a file a model is the check's business.
"""

import threading
from collections.abc import Callable
from pathlib import Path

from modeld.backends.base import LoadError

LONGEST_LOOK_S = 0.5
MOST_LOOKS = 16
"""So many threads may hang in calls that do not end."""


class Looks:
    """The caller waits, so that what it is told stays in order. Each look has a thread of its own: no pool ends while a
    call in it does not, nor does the process.
    """

    def __init__(self, check: Callable[[Path], None], *, seconds: float = LONGEST_LOOK_S) -> None:
        """`check` raises `LoadError` for a file that need not be tried."""
        self._check = check
        self._seconds = seconds
        self._hanging: dict[Path, threading.Thread] = {}

    def look(self, path: Path) -> None:
        """Raises `LoadError` as the check does, and where nothing answers in time; again, and at once, while a look at
        the same file still hangs.
        """
        self._hanging = {path: thread for path, thread in self._hanging.items() if thread.is_alive()}
        mute = LoadError(f"{path} does not answer within {self._seconds} s: try again when its drive is connected")
        if path in self._hanging:
            raise mute
        if len(self._hanging) >= MOST_LOOKS:
            raise LoadError(f"{MOST_LOOKS} other files do not answer: try again when their drives are connected")
        found: list[LoadError | None] = []
        thread = threading.Thread(target=lambda: found.append(self._fault(path)), name="look", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            raise LoadError(f"{path} cannot be looked at: the machine has no room for a thread; try again") from None
        thread.join(self._seconds)
        if not found:
            self._hanging[path] = thread
            raise mute
        if found[0]:
            raise found[0]

    def _fault(self, path: Path) -> LoadError | None:
        try:
            self._check(path)
        except LoadError as raised:
            return raised
        except Exception as raised:
            return LoadError(f"{path} cannot be looked at ({type(raised).__name__})")
        return None
