"""Owns watching files: the directories of those that matter, not the trees they are in. It reads none of them.

Ignored files are never among those that matter, so a build or an installation beside them wakes nobody.
"""

import asyncio
import contextlib
import logging
import os.path
from collections.abc import Callable, Iterable
from pathlib import Path

from watchfiles import Change, awatch

from intentd.workers import NoThread, TookTooLong, Workers

log = logging.getLogger(__name__)

MAX_DIRECTORIES = 64
LOOK_S = 2.0
"""So often somebody looks anyway: a watch starts late, and some file systems tell nothing."""
REACH_S = 2.0
"""A file system that is silent for so long is mute."""
_STEP_MS, _DEBOUNCE_MS = 20, 200


class FileWatch:
    """Calls `changed` when one of the files that are `want`ed may have changed."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._files = frozenset[str]()
        self._directories = frozenset[str]()
        self._restart = asyncio.Event()
        self._looks = Workers(1, REACH_S)

    async def want(self, files: frozenset[str]) -> None:
        """Watches these files from now on, and no others; they need not be there.

        While a file system is mute the directories stay that were watched before.
        """
        self._files = files
        with contextlib.suppress(TookTooLong, NoThread):
            found = await self._there(sorted({str(Path(file).parent) for file in files}))
            directories = frozenset(found[:MAX_DIRECTORIES])
            if directories != self._directories:
                self._directories = directories
                self._restart.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        looking = asyncio.create_task(self._look_anyway())
        try:
            await self._watch_on()
        finally:
            looking.cancel()

    async def _look_anyway(self) -> None:
        """By a clock of its own: files that do not matter change all the time, too."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self._files:
                self._changed()

    async def _watch_on(self) -> None:
        said = ""
        while True:
            self._restart.clear()
            try:
                if there := await self._there(self._directories):
                    await self._watch(there)
                else:
                    await self._restart.wait()
                said = ""
            except Exception as fault:  # the number of watches is bounded, too; anyio wraps what the library raises
                while isinstance(fault, ExceptionGroup):
                    fault = fault.exceptions[0]
                words = str(fault) if isinstance(fault, OSError | RuntimeError) else type(fault).__name__
                if words != said:
                    log.warning("files cannot be watched: %s; they are looked at every %.0f s", words, LOOK_S)
                said = words
                await asyncio.sleep(LOOK_S)

    async def _watch(self, directories: list[str]) -> None:
        watching = awatch(
            *directories,
            watch_filter=self._matters,
            recursive=False,
            debounce=_DEBOUNCE_MS,
            step=_STEP_MS,
            stop_event=self._restart,
            ignore_permission_denied=True,
        )
        async for _ in watching:
            self._changed()

    def _matters(self, _: Change, path: str) -> bool:
        return path in self._files

    async def _there(self, directories: Iterable[str]) -> list[str]:
        """Those that can be reached and watched. Raises `TookTooLong`, `NoThread`."""
        named = list(filter(_is_utf8, directories))
        return await self._looks.do(lambda: list(filter(os.path.isdir, named)), place="watched")


def _is_utf8(name: str) -> bool:
    """The library takes no other."""
    return name == name.encode(errors="ignore").decode()
