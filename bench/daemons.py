"""Owns the processes that a measurement starts: private sockets, logs, and their end. It measures nothing."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from modelwire import BlockingClient, DaemonUnreachable, WireError

BIN = Path(sys.executable).parent
BUILD = Path("build")
READY_S = 180.0
STOP_S = 10.0
LOG_LINES = 20


class DaemonFailed(Exception):
    """A process that was started did not do what it was started for. The message shows the end of its log."""


@frozen
class Daemon:
    """A running process and where it writes its log."""

    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """Raises `DaemonFailed` if it has ended."""
        if (status := self.process.poll()) is not None:
            raise self.failed(f"ended with status {status}")

    def failed(self, what: str) -> DaemonFailed:
        end = "\n".join(self.log.read_text(errors="replace").splitlines()[-LOG_LINES:])
        return DaemonFailed(f"{self.log.stem} {what}; the end of {self.log}:\n{end}")


@contextmanager
def private_runtime() -> Iterator[Path]:
    """A fresh directory for sockets, and the environment that leads this process and its children there.

    From here on SIGTERM ends this process in good order, so that what it started ends too.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    inherited = {name: os.environ.pop(name, None) for name in ("GUESSAHEAD_MODELD", "GUESSAHEAD_INTENTD")}
    inherited["GUESSAHEAD_RUNTIME_DIR"] = os.environ.get("GUESSAHEAD_RUNTIME_DIR")
    with tempfile.TemporaryDirectory(prefix="guessahead-") as folder:
        os.environ["GUESSAHEAD_RUNTIME_DIR"] = folder
        try:
            yield Path(folder)
        finally:
            del os.environ["GUESSAHEAD_RUNTIME_DIR"]
            os.environ.update({name: value for name, value in inherited.items() if value is not None})


@contextmanager
def daemon(name: str, command: Sequence[str], folder: Path) -> Iterator[Daemon]:
    """Runs a command beside us. It ends with the block, whatever happens; Ctrl-C reaches us alone, and we end it."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield Daemon(process, log)
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until(ready: Callable[[], bool], owner: Daemon, what: str, timeout: float = READY_S) -> None:
    """Asks `ready` again and again, and shows how long it takes. Raises `DaemonFailed` at the bound."""
    started = time.monotonic()
    while not ready():
        owner.check()
        elapsed = time.monotonic() - started
        if elapsed > timeout:
            raise owner.failed(f"did not get there in {timeout:.0f} s ({what})")
        progress(f"{what} … {elapsed:.0f} s")
        time.sleep(0.1)
    progress("")


def model_is_ready() -> bool:
    try:
        with BlockingClient(name="bench", timeout=2) as client:
            return client.status().state == "idle"
    except (DaemonUnreachable, WireError):
        return False


def door_is_open() -> bool:
    """Whether intentd serves."""
    asked = subprocess.run([str(BIN / "intentd"), "status"], capture_output=True, timeout=60, check=False)
    return asked.returncode == 0


def show(text: str) -> None:
    """A step of a long measurement: a line that the next one replaces; a line of its own without a terminal."""
    progress(text) if sys.stdout.isatty() else print(text, flush=True)


def progress(text: str) -> None:
    """A line that the next one replaces; only on a terminal."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)
