"""What a person does in a real Neovim over the real language server, intentd and modeld: real processes, fake model."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integration.neovim import KINDS, LIMIT_S, Neovim, person_environment, until
from intentd.messages import INTENTD, DaemonStatus
from modelwire.client import Connection
from modelwire.messages import GetStatus

BROKEN = "def add(a, b):\n    return a - b\n"
FIXED = ["def add(a, b):", "    return a + b"]
ANSWER = "The sign is wrong.\n\n```python\ndef add(a, b):\n    return a + b\n```\nThat is all."
FAKE = {"answer": ANSWER, "context": 8192, "cells": 16384}  # its tokens are bytes
TEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
NO_STARTS = "vim.lsp.config('intentd', { cmd = { 'intentd', 'lsp', '--no-autostart' } })"
WRONG = "{ lnum = 1, col = 11, end_lnum = 1, end_col = 16, severity = 1, message = 'adds wrongly', source = 'linter' }"
both = pytest.mark.parametrize("kind", KINDS)


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

    def _serve(self, module: str, *words: str) -> None:
        command = [sys.executable, "-m", module, "serve", *words]
        with (self.directory / f"{module}.log").open("wb") as log:
            daemon = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        self._daemons[module] = daemon
        log_of = self.directory / f"{module}.log"
        until(lambda: b"serving" in log_of.read_bytes() or daemon.poll() is not None, f"{module} does not serve")
        assert daemon.poll() is None, log_of.read_text()

    def kill(self) -> None:
        """Without a word of goodbye."""
        for daemon in self._daemons.values():
            os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait(LIMIT_S)
        self._daemons.clear()

    def stop(self) -> None:
        for daemon in reversed(self._daemons.values()):
            daemon.terminate()
        for daemon in self._daemons.values():
            try:
                daemon.wait(LIMIT_S)
            finally:
                if daemon.poll() is None:
                    os.killpg(daemon.pid, signal.SIGKILL)
                    daemon.wait(LIMIT_S)

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
        return int(self.status().figures.get(name, 0))


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with tempfile.TemporaryDirectory(prefix="nvim-") as name:  # a socket's path must be short
        desk = Desk(Path(name))
        try:
            desk.serve()
            yield desk
        finally:
            desk.stop()


@pytest.fixture
def own_desk() -> Iterator[Desk]:
    """For a test that changes what the daemons do."""
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


@both
def test_a_diagnostic_of_another_tool_is_explained_from_warm_kv_and_mended(desk: Desk, kind: str) -> None:
    """S10"""
    guessed = desk.figure("guesses_finished")
    with desk.editor(kind, desk.project() / "calc.py") as editor:
        diagnose(editor)
        until(lambda: desk.figure("guesses_finished") > guessed, "nothing is guessed")
        editor.command("IntentExplain")
        assert answered(editor).startswith(" hit,")
        editor.press("q")
        until(lambda: not editor.float(), "the float stays")
        editor.command("IntentFix")
        until(lambda: editor.lines("calc.py") == FIXED, "nothing is mended")
        editor.press("qu")
        until(lambda: editor.lines("calc.py") == BROKEN.splitlines(), "the fix cannot be undone")
        editor.command("messages clear")


def warm(desk: Desk, project: Path) -> bool:
    return any(offer.warm for offer in desk.status().offers if offer.workspace == str(project))


@both
def test_a_test_that_failed_in_a_terminal_is_explained_in_the_editor(desk: Desk, kind: str) -> None:
    project = desk.project()
    with desk.editor(kind, project / "calc.py") as editor:
        ran = desk.do("run", "--", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", project=project)
        assert ran.returncode == 1
        until(lambda: warm(desk, project), "nothing is guessed")
        editor.command("IntentExplain")
        assert answered(editor).startswith(" hit,")


def test_two_editors_at_once_get_their_own_answers(desk: Desk) -> None:
    """S11"""
    with desk.editor("0.12", desk.project() / "calc.py") as one, desk.editor("0.11", desk.project() / "calc.py") as two:
        assert desk.figure("editors") == 2
        for editor in (one, two):
            diagnose(editor)
        one.command("IntentExplain")
        answered(one)
        assert not two.float()
        two.command("IntentFix")
        until(lambda: two.lines("calc.py") == FIXED, "nothing is mended")
        assert one.float()["text"] == ANSWER
        two.command("messages clear")
    until(lambda: desk.figure("editors") == 0, "an editor that has left is still there")


def test_a_fix_for_a_text_that_has_changed_since_changes_nothing(own_desk: Desk) -> None:
    own_desk.serve(step_ms=20)
    with own_desk.editor("0.12", own_desk.project() / "calc.py") as editor:
        diagnose(editor)
        editor.command("IntentFix")
        until(lambda: editor.float().get("text"), "no answer begins")
        editor.press("<C-w>pGo# mine<Esc>")
        until(lambda: "changed" in editor.messages(), "nothing is said of it")
        assert editor.lines("calc.py") == [*BROKEN.splitlines(), "# mine"]
        editor.command("messages clear")


def test_an_answer_is_stopped_from_the_editor(own_desk: Desk) -> None:
    """S9"""
    own_desk.serve(step_ms=100)
    with own_desk.editor("0.12", own_desk.project() / "calc.py") as editor:
        diagnose(editor)
        editor.command("IntentExplain")
        until(lambda: editor.float().get("text"), "no answer begins")
        editor.command("IntentStop")
        until(lambda: "first token" in editor.float()["footer"], "it does not stop")
        assert len(editor.float()["text"]) < len(ANSWER)


@both
def test_daemons_that_die_are_missed_in_silence_and_found_again(own_desk: Desk, kind: str) -> None:
    own_desk.serve()
    with own_desk.editor(kind, own_desk.project() / "calc.py") as editor:
        diagnose(editor)
        editor.command("IntentExplain")
        answered(editor)
        editor.press("q")
        own_desk.kill()
        editor.press("Go# on<Esc>")
        until(lambda: editor.lines("calc.py")[-1] == "# on", "the editor is stuck")
        assert editor.messages() == ""
        editor.command("IntentExplain")
        said = until(editor.messages, "nobody says why there is no answer")
        assert said.startswith("intentd: no intentd answers at ")
        editor.command("messages clear")
        own_desk.serve()
        diagnose(editor)
        before = time.monotonic()
        while not editor.float():
            editor.command("IntentExplain")
            until(
                lambda: editor.messages() or "first token" in editor.float().get("footer", ""), "no answer and no word"
            )
            editor.command("messages clear")
            assert time.monotonic() < before + LIMIT_S
        answered(editor)
