"""An editor on a machine where nothing runs: what is missing is started, found again when it dies, and ended."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import make_test_lsp_client

from intentd.messages import INTENTD, DaemonStatus
from modelwire.client import Connection
from modelwire.errors import DaemonUnreachable
from modelwire.messages import GetStatus
from tests.intentd.sources.lsp.conftest import Editor, process

LIMIT_S = 90.0
CODE = "def total(items):\n    return sum(itmes)\n"
DIAGNOSTIC = {
    "range": {"start": {"line": 1, "character": 15}, "end": {"line": 1, "character": 20}},
    "message": "undefined name 'itmes'",
    "severity": 1,
}


@pytest.fixture
async def folder() -> AsyncIterator[Path]:
    """A person's machine, with a project on it. A daemon that was left is ended."""
    made = Path(tempfile.mkdtemp(prefix="lsp-"))  # a socket's path is short; pytest's own are not
    (made / "project").mkdir()
    try:
        yield made
    finally:
        if serves(lock := made / "r" / "intentd.sock.lock"):
            await end(lock)
        shutil.rmtree(made)


@asynccontextmanager
async def editing(folder: Path, *words: str, **variables: str) -> AsyncIterator[Editor]:
    """An editor on that machine, with `intentd lsp WORDS` behind it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GUESSAHEAD", "MODELD"))}
    added = {"GUESSAHEAD_RUNTIME_DIR": str(folder / "r"), "XDG_CONFIG_HOME": str(folder), "MODELD_BACKEND": "fake"}
    environment = {**kept, **added, "GUESSAHEAD_MAX_LOAD": "1000", **variables}
    client = make_test_lsp_client()
    made = Editor(client, folder / "project")
    async with process(client, words, environment), asyncio.timeout(LIMIT_S):
        await made.start()
        yield made
        await client.shutdown_async(None)


async def end(lock: Path) -> None:
    """Ends the daemon that holds the lock, as its user would, and waits for that."""
    os.kill(pid := holder(lock), signal.SIGTERM)
    await gone(pid)


def serves(lock: Path) -> bool:
    """Whether its daemon lives: the file stays, and somebody else may have the number by now."""
    try:
        return psutil.Process(holder(lock)).environ().get("GUESSAHEAD_RUNTIME_DIR") == str(lock.parent)
    except (FileNotFoundError, psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def holder(lock: Path) -> int:
    return int(lock.read_text())


def locks(folder: Path) -> list[Path]:
    """Of the daemons that there are or were."""
    return list(folder.glob("r/*.lock"))


async def gone(pid: int) -> None:
    """Ended, whether or not whoever started it has looked."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                    return
            except psutil.NoSuchProcess:
                return
            await asyncio.sleep(0.02)


async def explained(editor: Editor, uri: str) -> Any:
    """The answer, as soon as there is somebody who gives one; the editor's own bound is the only one."""
    asked = types.ExecuteCommandParams(command="intent.explain", arguments=[{"uri": uri, "diagnostic": DIAGNOSTIC}])
    while True:
        try:
            return await editor.client.workspace_execute_command_async(asked)
        except JsonRpcException:
            await asyncio.sleep(0.1)


async def status(folder: Path) -> DaemonStatus:
    async with Connection(f"ipc://{folder}/r/intentd.sock", INTENTD, name="test", timeout=LIMIT_S) as door:
        answer: DaemonStatus = await door.ask(GetStatus())
        return answer


async def test_what_is_missing_is_started_and_comes_back_and_ends_together(folder: Path) -> None:
    async with editing(folder) as editor:
        uri = editor.open("stock.py", CODE)
        assert (await explained(editor, uri))["text"]
        modeld = holder(folder / "r" / "modeld.sock.lock")
        await end(folder / "r" / "intentd.sock.lock")
        await gone(modeld)  # it ends with the daemon that started it
        assert (await explained(editor, uri))["text"]
        assert not editor.client.messages


async def test_two_editors_that_start_at_once_share_what_they_started(folder: Path) -> None:
    async with editing(folder) as one, editing(folder) as other:
        uris = [editor.open("stock.py", CODE) for editor in (one, other)]
        answers = await asyncio.gather(*map(explained, (one, other), uris))
        assert all(answer["text"] for answer in answers)
        assert (await status(folder)).figures["editors"] == 2
        assert not one.client.messages
        assert not other.client.messages


async def test_with_no_autostart_nothing_is_started_and_nothing_is_said(folder: Path) -> None:
    async with editing(folder, "--no-autostart") as editor:
        uri = editor.open("stock.py", CODE)
        assert await editor.complete(uri, 1, 11) is None
        assert len(await editor.actions(uri, (1, 0), (1, 4))) > 0
        with pytest.raises(JsonRpcException, match="start it with 'intentd serve"):
            await editor.command("intent.explain", uri=uri, diagnostic=DIAGNOSTIC)
        assert not editor.client.messages
    assert not locks(folder)


async def test_a_modeld_that_cannot_be_started_is_silent_here_and_told_in_the_status(folder: Path) -> None:
    async with editing(folder, MODELD_BACKEND="nonsense") as editor:
        uri = editor.open("stock.py", CODE)
        while True:
            with suppress(DaemonUnreachable):
                if problems := (await status(folder)).problems:
                    break
            await asyncio.sleep(0.1)
        assert "modeld ended with status" in problems[0]
        assert "nonsense" in problems[0]
        assert await editor.complete(uri, 1, 11) is None
        assert not editor.client.messages
