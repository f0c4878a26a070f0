"""Owns the daemon of the tests: intentd's own pieces in this process, with a scripted modeld behind them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from intentd import door, planner, runs, speculator, workers
from intentd.app import App
from intentd.config import Config
from intentd.messages import INTENTD, CommandFinished, CommandStarted, DaemonStatus
from intentd.sources import files, git, report
from intentd.sources.lsp import link
from modelwire.client import Connection
from modelwire.messages import GetStatus
from modelwire.testing import PATIENCE_S, ScriptedDaemon

RECORDED = Path(__file__).parent / "recorded"
BOUNDS = (
    *((door, "LOOK_S"), (planner, "BUILD_S"), (planner, "HOLDS_S"), (files, "REACH_S"), (git, "GIT_S")),
    *((door, "LIST_S"), (door, "SHOW_S"), (door, "READ_S"), (runs, "LOOK_S"), (runs, "READ_S")),
    *((speculator, "TIMEOUT_S"), (workers, "LEFT_S")),
    *((report, "_ALONE_S"), (report, "_CONNECT_S"), (link, "CONNECT_S"), (link, "READY_S")),
)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a crowded machine nothing is given up sooner than the tests give up."""
    for module, bound in BOUNDS:
        monkeypatch.setattr(module, bound, PATIENCE_S)


class House:
    """A running intentd with its scripted modeld and a workspace on disk."""

    def __init__(self, app: App, config: Config, modeld: ScriptedDaemon, workspace: Path) -> None:
        self.app = app
        self.config = config
        self.modeld = modeld
        self.workspace = workspace
        self._runs = 0

    def connect(self) -> Connection:
        return Connection(self.config.socket, INTENTD, name="test", timeout=PATIENCE_S)

    async def restart(self) -> None:
        """Another daemon takes the place of this one."""
        await self.app.stop()
        self.app = App(self.config)
        await self.app.start()

    async def command(self, door: Connection, recording: str, *, exit: int = 1) -> None:
        """A wrapped command that printed a recording, from its start to its end."""
        await self.printed(door, (RECORDED / f"{recording}.txt").read_bytes(), exit=exit)

    async def printed(
        self, door: Connection, output: bytes, *, argv: tuple[str, ...] = ("pytest",), exit: int | None = 1
    ) -> None:
        self._runs += 1
        run = f"run-{self._runs}"
        stream = door.start(CommandStarted(run=run, argv=argv, cwd=str(self.workspace)))
        await door.ask(CommandFinished(run=run, exit=exit, signal=None, output=output, total=len(output)))
        await stream.done()

    async def status(self, door: Connection) -> DaemonStatus:
        answer: DaemonStatus = await door.ask(GetStatus())
        return answer

    async def until(self, door: Connection, met: Callable[[DaemonStatus], bool]) -> DaemonStatus:
        """The first status for which `met` holds."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not met(status := await self.status(door)):
                    pass  # each question lets the daemon go on
        except TimeoutError:
            raise AssertionError(f"it never came to that; the last status is {status}") from None
        return status


@pytest.fixture
async def house(tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setattr("intentd.app.lack", lambda _: None)  # of the machine that tests
    workspace = tmp_path / "project"
    for source in (RECORDED / "project").rglob("*.sample"):
        target = workspace / source.relative_to(RECORDED / "project").with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text())
    async with ScriptedDaemon() as modeld:
        config = Config(socket=f"ipc://{runtime}/intentd.sock", modeld=modeld.endpoint, templates=tmp_path / "none")
        app = App(config)
        await app.start()
        made = House(app, config, modeld, workspace)
        try:
            yield made
        finally:
            await made.app.stop()
