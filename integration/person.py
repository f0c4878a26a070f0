"""Owns a person at a terminal for tests: a project with a failing test, a shell, and the daemons, as real processes."""

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

LIMIT_S = 120.0
FAILING = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


class User:
    """A person with a project, a shell and two daemons; everything that was started is stopped in the end."""

    def __init__(self, directory: Path) -> None:
        self.project = directory / "project"
        self.project.mkdir()
        (self.project / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
        (self.project / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        (self.project / "test_calc.py").write_text(FAILING)
        runtime = directory / "r"
        runtime.mkdir(mode=0o700)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("GUESSAHEAD", "MODELD", "PYTEST"))
        }
        self.environment = {**kept, "GUESSAHEAD_RUNTIME_DIR": str(runtime), "XDG_CONFIG_HOME": str(directory)}
        self.environment["GUESSAHEAD_MAX_LOAD"] = "1000"  # a crowded machine is a machine to test on
        self._daemons: list[subprocess.Popen[bytes]] = []

    def serve(self, module: str, *words: str, variables: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        daemon = subprocess.Popen(
            [sys.executable, "-m", module, "serve", *words],
            env={**self.environment, **(variables or {})},
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._daemons.append(daemon)
        assert daemon.stderr
        assert select.select([daemon.stderr], [], [], LIMIT_S)[0], f"{module} says nothing"
        assert b"serving" in daemon.stderr.readline()
        return daemon

    def do(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "intentd", *words]
        return subprocess.run(
            argv, cwd=self.project, env=self.environment, capture_output=True, text=True, timeout=LIMIT_S, **options
        )

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.do("status", "--json", check=True).stdout)
        return status

    def until(self, met: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + LIMIT_S
        while not met(status := self.status()):
            assert time.monotonic() < deadline, status
        return status

    def stop(self) -> None:
        for daemon in reversed(self._daemons):
            if daemon.poll() is None:
                daemon.terminate()
            try:
                daemon.wait(LIMIT_S)
            finally:
                if daemon.poll() is None:
                    daemon.kill()
                    daemon.wait(LIMIT_S)
                if daemon.stderr:
                    daemon.stderr.close()

    @classmethod
    @contextlib.contextmanager
    def at_work(cls) -> Iterator["User"]:
        directory = Path(tempfile.mkdtemp(prefix="intentd-"))  # a socket's path is short; pytest's own are not
        person = cls(directory)
        try:
            yield person
        finally:
            person.stop()
            shutil.rmtree(directory)


def offered(status: dict[str, Any]) -> bool:
    """Wait for it: the report of a command that is over may still be under way."""
    return bool(status["offers"])


def warm(status: dict[str, Any]) -> bool:
    return offered(status) and status["offers"][0]["warm"]
