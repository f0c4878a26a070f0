"""An editor on a machine where nothing runs: what is missing is started, found again when it dies, and ended."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pygls.exceptions import JsonRpcException
from pytest_lsp import make_test_lsp_client

from tests.intentd.sources.lsp.conftest import Editor

LIMIT_S = 90.0
CODE = "def total(items):\n    return sum(itmes)\n"
DIAGNOSTIC = {
    "range": {"start": {"line": 1, "character": 15}, "end": {"line": 1, "character": 20}},
    "message": "undefined name 'itmes'",
    "severity": 1,
}


@pytest.fixture
async def editor() -> AsyncIterator[Editor]:
    folder = Path(tempfile.mkdtemp(prefix="lsp-"))  # a socket's path is short; pytest's own are not
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GUESSAHEAD", "MODELD"))}
    added = {"GUESSAHEAD_RUNTIME_DIR": str(folder / "r"), "XDG_CONFIG_HOME": str(folder), "MODELD_BACKEND": "fake"}
    (folder / "project").mkdir()
    client = make_test_lsp_client()
    await client.start_io(sys.executable, "-m", "intentd", "lsp", env={**kept, **added, "GUESSAHEAD_MAX_LOAD": "1000"})
    made = Editor(client, folder / "project")
    try:
        async with asyncio.timeout(LIMIT_S):
            await made.start()
            yield made
            await client.shutdown_async(None)
            client.exit(None)
    finally:
        await client.stop()  # type: ignore[no-untyped-call]
        await end(folder / "r" / "intentd.sock.lock")
        shutil.rmtree(folder)


async def end(lock: Path) -> None:
    """Ends the daemon that holds the lock, as its user would, and waits for that."""
    os.kill(pid := holder(lock), signal.SIGTERM)
    await gone(pid)


def holder(lock: Path) -> int:
    return int(lock.read_text())


async def gone(pid: int) -> None:
    """Ended, whether or not whoever started it has looked."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return
            await asyncio.sleep(0.02)


async def explained(editor: Editor, uri: str) -> Any:
    """The answer, as soon as there is somebody who gives one."""
    while True:
        try:
            return await editor.command("intent.explain", uri=uri, diagnostic=DIAGNOSTIC)
        except (JsonRpcException, TimeoutError):
            await asyncio.sleep(0.1)


async def test_what_is_missing_is_started_and_comes_back_and_ends_together(editor: Editor) -> None:
    uri = editor.open("stock.py", CODE)
    assert (await explained(editor, uri))["text"]
    runtime = editor.workspace.parent / "r"
    modeld = holder(runtime / "modeld.sock.lock")
    await end(runtime / "intentd.sock.lock")
    await gone(modeld)  # it ends with the daemon that started it
    assert (await explained(editor, uri))["text"]
    assert not editor.client.messages
