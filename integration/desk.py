"""Owns a person's machine in a test: the daemons, projects with a failing test, and editors on them.

What was started is stopped in the end. It tests nothing.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from integration.neovim import LIMIT_S, Neovim, person_environment, until
from intentd.messages import INTENTD, DaemonStatus
from modelwire.client import Connection
from modelwire.errors import DaemonUnreachable, WireError
from modelwire.messages import GetStatus

BROKEN = "def add(a, b):\n    return a - b\n"
FIXED = ["def add(a, b):", "    return a + b"]
ANSWER = "The sign is wrong.\n\n```python\ndef add(a, b):\n    return a + b\n```\nThat is all."
LOAD_S = 180.0
FAKE = {"answer": ANSWER, "context": 8192, "cells": 16384}  # its tokens are bytes
TEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
NO_STARTS = "vim.lsp.config('intentd', { cmd = { 'intentd', 'lsp', '--no-autostart' } })"
WRONG = "{ lnum = 1, col = 11, end_lnum = 1, end_col = 16, severity = 1, message = 'adds wrongly', source = 'linter' }"


class Desk:
    """A person's machine: two daemons, projects, editors. What was started is stopped in the end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        runtime = directory / "r"
        runtime.mkdir(mode=0o700)
        tools = str(Path(sys.executable).parent)
        self.environment = {
            **person_environment(),
            "PATH": f"{tools}:{os.environ['PATH']}",
            "GUESSAHEAD_RUNTIME_DIR": str(runtime),
            "GUESSAHEAD_MAX_LOAD": "1000",  # a crowded machine is a machine to test on
            "XDG_CONFIG_HOME": str(directory),
        }
        self._door = f"ipc://{runtime}/intentd.sock"
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._made = 0

    def serve(self, **fake: object) -> None:
        """Both daemons, as far as they are not there."""
        self._serve("modeld", "--backend", "fake", "--fake", json.dumps({**FAKE, **fake}))
        self._serve("intentd")

    def serve_packaged(self) -> None:
        """Both daemons, on the packaged model."""
        self._serve("modeld", "--context", "4096", limit_s=LOAD_S)
        self._serve("intentd")

    def _serve(self, module: str, *words: str, limit_s: float = LIMIT_S) -> None:
        command = [sys.executable, "-m", module, "serve", *words]
        log = self.directory / f"{module}.log"
        with log.open("wb") as out:
            daemon = subprocess.Popen(command, env=self.environment, stdout=out, stderr=out, start_new_session=True)
        self._daemons[module] = daemon
        until(lambda: b"serving" in log.read_bytes() or daemon.poll() is not None, f"{module} does not serve", limit_s)
        assert daemon.poll() is None, log.read_text()

    def kill(self) -> None:
        """Without a word of goodbye."""
        for daemon in self._daemons.values():
            os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait(LIMIT_S)
        self._daemons.clear()

    def end(self, module: str) -> None:
        """One of the two, as its user does it."""
        daemon = self._daemons.pop(module)
        daemon.terminate()
        assert _ends(daemon), f"{module} had to be killed"

    def stop(self) -> None:
        for daemon in reversed(self._daemons.values()):
            daemon.terminate()
        stuck = [name for name, daemon in self._daemons.items() if not _ends(daemon)]
        for started in self._started():
            started.terminate()
            started.wait(LIMIT_S)
        assert not stuck, f"{stuck} had to be killed"

    def _started(self) -> Iterator[psutil.Process]:
        """What serves here and was started by others: intentd, which ends the modeld that it started."""
        lock = Path(f"{self._door.removeprefix('ipc://')}.lock")
        if lock.exists():
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(int(lock.read_text()))
                if process.environ().get("GUESSAHEAD_RUNTIME_DIR") == str(lock.parent):
                    yield process

    def project(self) -> Path:
        """A fresh one, with a function that is wrong and its test."""
        self._made += 1
        project = self.directory / f"p{self._made}"
        project.mkdir()
        for name, text in (("pytest.ini", "[pytest]\n"), ("calc.py", BROKEN), ("test_calc.py", TEST)):
            (project / name).write_text(text)
        return project

    @contextmanager
    def editor(self, kind: str, file: Path, lua: str = NO_STARTS) -> Iterator[Neovim]:
        """With the file open, the language server there and known to intentd. Nothing may have been said in the end."""
        known = self.figure("editors")
        self._made += 1
        home = self.directory / f"e{self._made}"
        home.mkdir()
        neovim = Neovim(kind, home, self.environment, lua)
        try:
            neovim.command(f"edit {file}")
            ready = "local c = vim.lsp.get_clients({ bufnr = 0 })[1]; return c ~= nil and c.initialized == true"
            until(lambda: neovim.lua(ready), "the language server does not start")
            until(lambda: self.figure("editors") > known, "the language server does not find intentd")
            yield neovim
            assert neovim.messages() == ""
        except BaseException:
            print(neovim.messages(), neovim.float(), self.status(), sep="\n")
            raise
        finally:
            neovim.close()
            until(lambda: self.figure("editors") <= known, "an editor that has left is still there")

    def do(self, *words: str, project: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["intentd", *words], cwd=project, env=self.environment, capture_output=True, text=True, timeout=LIMIT_S
        )

    def status(self) -> DaemonStatus:
        async def ask() -> DaemonStatus:
            async with Connection(self._door, INTENTD, name="test", timeout=LIMIT_S) as door:
                status: DaemonStatus = await door.ask(GetStatus())
                return status

        return asyncio.run(ask())

    def figure(self, name: str) -> int:
        """0 where nobody serves."""
        with suppress(DaemonUnreachable, WireError):
            return int(self.status().figures.get(name, 0))
        return 0


def _ends(daemon: subprocess.Popen[bytes]) -> bool:
    """By itself; it is ended otherwise, so that nothing is left behind."""
    try:
        daemon.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait(LIMIT_S)
        return False
    return True


@contextmanager
def furnished() -> Iterator[Desk]:
    """A desk without daemons. A socket's path must be short, and pytest's own directories are not."""
    with tempfile.TemporaryDirectory(prefix="nvim-") as name:
        desk = Desk(Path(name))
        try:
            yield desk
        finally:
            desk.stop()


def diagnose(editor: Neovim) -> None:
    """As another tool in the editor does."""
    editor.lua(f"vim.diagnostic.set(vim.api.nvim_create_namespace('linter'), 0, {{ {WRONG} }})")


def answered(editor: Neovim, text: str = ANSWER) -> str:
    """The footer of the float that shows the whole answer."""
    done = until(lambda: "first token" in (shown := editor.float()).get("footer", "") and shown, "no answer is shown")
    assert done["text"] == text
    return str(done["footer"])
