"""Owns the terminal that the tests of `run` sit at: a real pseudo-terminal with a session of its own."""

import contextlib
import errno
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil
import pytest

DEADLINE_S = 30.0
MUCH_S = 240.0
WRAPPER = (sys.executable, "-m", "intentd", "run", "--")


class Screen:
    """A process on a terminal of its own, as a shell's user sees it: bytes out, keys in, how it ended."""

    def __init__(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str],
        size: tuple[int, int] = (24, 80),
        redirect: Mapping[int, str | int | None] | None = None,
    ) -> None:
        self.seen = b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                self._become(argv, env, size, redirect or {})
            finally:
                os._exit(99)

    @staticmethod
    def _become(
        argv: tuple[str, ...], env: Mapping[str, str], size: tuple[int, int], redirect: Mapping[int, str | int | None]
    ) -> None:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        for fd, target in redirect.items():
            if target is None:
                os.close(fd)
            else:
                os.dup2(
                    target if isinstance(target, int) else os.open(target, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600),
                    fd,
                )
        os.execve(argv[0], argv, env)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def settings(self) -> list[object]:
        return list(termios.tcgetattr(self.master))

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def until(self, text: bytes, since: int = 0) -> None:
        """Reads until `text` was seen (behind `since`)."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.seen[since:]:
            assert time.monotonic() < deadline, f"{text!r} never came; seen {self.seen!r}"
            assert self.read(0.1) is not False, f"ended without {text!r}: {self.seen!r}"

    def end(self) -> tuple[bytes, int]:
        """Everything that was printed, and the wait status."""
        deadline = time.monotonic() + DEADLINE_S
        while self.read(0.1) is not False:
            assert time.monotonic() < deadline, f"it never ended; seen {self.seen!r}"
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                while self.read(1.0):  # at its end at once, where nobody else holds the terminal
                    pass
                self.pid = 0
                return self.seen, status
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return self.seen, status

    def skip(self, count: int) -> None:
        """Reads so many bytes and keeps none of them."""
        deadline = time.monotonic() + MUCH_S
        while count > 0:
            assert time.monotonic() < deadline, f"{count} bytes never came"
            assert self.read(0.1) is not False, f"ended {count} bytes too early"
            count, self.seen = count - len(self.seen), b""
        assert count == 0, f"{-count} bytes too many came"

    def peaks_kib(self) -> list[int]:
        """The most memory that the process and each one below it that still lives ever held."""
        here, peaks = psutil.Process(self.pid), list[int]()
        for one in (here, *here.children(recursive=True)):
            with contextlib.suppress(FileNotFoundError):
                _, known, rest = Path(f"/proc/{one.pid}/status").read_text().partition("VmHWM:")
                peaks += [int(rest.split()[0])] if known else []
        return peaks

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)

    def read(self, timeout: float) -> bool | None:
        """True for something, None for nothing yet, False at the end."""
        if not select.select([self.master], [], [], timeout)[0]:
            return None
        try:
            data = os.read(self.master, 65536)
        except OSError as fault:
            if fault.errno != errno.EIO:
                raise
            return False
        self.seen += data
        return bool(data)


@pytest.fixture
def environment(runtime: Path) -> dict[str, str]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    return {**keep, "TERM": "xterm-256color", "LANG": "C.UTF-8", "GUESSAHEAD_RUNTIME_DIR": str(runtime)}


@pytest.fixture
def open_screen(environment: dict[str, str]) -> Iterator[Callable[..., Screen]]:
    """Starts a process on a new terminal; with `wrapped` behind `intentd run --`."""
    screens: list[Screen] = []

    def start(argv: Sequence[str], *, wrapped: bool, env: Mapping[str, str] | None = None, **options: object) -> Screen:
        full = (*WRAPPER, *argv) if wrapped else tuple(argv)
        screens.append(Screen(full, env={**environment, **(env or {})}, **options))  # type: ignore[arg-type]
        return screens[-1]

    yield start
    for screen in screens:
        screen.close()
