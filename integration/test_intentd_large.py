"""A workspace with 200,000 files costs intentd what a small one does."""

import contextlib
import ctypes
import os
import re
from collections.abc import Iterable
from pathlib import Path

from integration.person import PYTEST, User, warm
from intentd.sources.files import MAX_DIRECTORIES

DIRECTORIES, FILES = 2_000, 100
IN_OPEN, IN_ONLYDIR = 0x20, 0x01000000
ROOM_KIB = 32 * 1024
"""What the daemon may need beyond what it has at its start: its tools, templates and prompts."""


class Opened:
    """Hears of everything that is opened in some directories, and of them being listed."""

    def __init__(self, directories: Iterable[Path]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK)
        for directory in directories:
            heard = libc.inotify_add_watch(self._descriptor, os.fsencode(directory), IN_OPEN | IN_ONLYDIR)
            assert heard > 0, os.strerror(ctypes.get_errno())

    def any(self) -> bool:
        try:
            return bool(os.read(self._descriptor, 4096))
        except BlockingIOError:
            return False

    def close(self) -> None:
        os.close(self._descriptor)


def grow(project: Path) -> list[Path]:
    """Fills the project; the directories that were made."""
    directories = [project / "data" / str(number) for number in range(DIRECTORIES)]
    for directory in directories:
        directory.mkdir(parents=True)
        for number in range(FILES):
            os.close(os.open(directory / f"{number}.py", os.O_CREAT | os.O_WRONLY))
    return directories


def watches(pid: int) -> int:
    """How many places a process has the system watch for it."""
    found = 0
    for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):  # it was closed meanwhile
            found += entry.read_text().count("inotify wd:")
    return found


def peak_kib(pid: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


def test_a_workspace_with_200_000_files_is_neither_walked_nor_watched_nor_held() -> None:
    with User.at_work() as user:
        opened = Opened(grow(user.project))
        user.serve("modeld", "--backend", "fake")
        daemon = user.serve("intentd")
        before = peak_kib(daemon.pid)
        user.do("run", "--", *PYTEST, "test_calc.py")
        user.until(warm)
        user.until(lambda _: watches(daemon.pid) > 0)  # it begins in a thread of its own
        assert watches(daemon.pid) <= MAX_DIRECTORIES
        assert peak_kib(daemon.pid) - before < ROOM_KIB
        assert user.do("explain", check=True).stdout
        assert not opened.any(), "something in it was opened"
        (user.project / "data" / "0" / "0.py").read_text()
        assert opened.any()
        opened.close()
