"""Owns which commands go on for ever, and when a cycle of one is over. It reads no output."""

import posixpath
from collections.abc import Sequence

QUIET_S = 1.0
"""A cycle is over when nothing was printed for so long (and at most twice as long)."""
_OPTIONS = frozenset({"--watch", "--watchAll", "--watch-all", "--looponfail"})
_WATCHERS = frozenset({"ptw", "pytest-watch", "pytest-watcher", "watchexec", "entr", "nodemon"})


def goes_on(argv: Sequence[str]) -> bool:
    """Whether the words say that the command waits for changes and runs again."""
    words = [posixpath.basename(word) for word in argv]
    if _WATCHERS.intersection(words) or _OPTIONS.intersection(argv):
        return True
    if "tsc" in words:
        return "-w" in argv
    return "vitest" in words and not {"run", "--run", "--watch=false", "--no-watch"}.intersection(argv)


class Cycles:
    """Looks at how many bytes a command has printed, every QUIET_S. `told` were in the cycles before."""

    def __init__(self) -> None:
        self.told = 0
        self.quiet = False
        self._seen = 0

    def look(self, total: int) -> bool | None:
        """True at the end of a cycle, False at the beginning of the next one, else None."""
        still, self._seen = total == self._seen, total
        if still and total > self.told:
            self.told, self.quiet = total, True
            return True
        if self.quiet and total > self.told:
            self.quiet = False
            return False
        return None
