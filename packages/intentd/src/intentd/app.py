"""Owns the daemon: the one place that builds its pieces, starts them and stops them."""

import asyncio
import contextlib
import logging
import signal
import sys
from importlib.resources import files
from pathlib import Path

from intentd.config import Config, ConfigError
from intentd.door import Door
from intentd.plan.offers import OfferBook, Offering
from intentd.plan.templates import Template, TemplateError, parse
from intentd.plan.turns import PlannedTurn, build
from intentd.speculator import Speculator
from intentd.workspace import Workspace


class App:
    """The daemon's pieces, put together."""

    def __init__(self, config: Config) -> None:
        self.template = load_template("test_failed", config.templates)
        self.offers = OfferBook()
        self.speculator = Speculator(config.modeld, self.turn_of, self.offers.newest)
        self.speculator.paused = not config.guess
        self.door = Door(config.socket, self.offers, self.speculator, self._title_of)
        self._tasks: list[asyncio.Task[None]] = []

    def turn_of(self, offering: Offering, context: int) -> PlannedTurn:
        """For the guess and for the question (S10)."""
        workspace = Workspace(Path(offering.workspace))
        return build(
            offering.trigger, self.template, workspace=offering.workspace, context=context, read=workspace.read
        )

    async def start(self) -> None:
        """Raises `EndpointError`."""
        await self.door.open()
        self._tasks = [asyncio.create_task(self.door.serve()), asyncio.create_task(self.speculator.run())]

    async def stop(self) -> None:
        await self.door.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def broken(self) -> None:
        """Returns when a piece ends that should not; raises what ended it."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    def _title_of(self, offering: Offering) -> str:
        return self.template.fill_title(test=offering.trigger.test)


def load_template(name: str, directory: Path) -> Template:
    """The user's file of that name, else the built-in one. Raises `ConfigError`."""
    theirs = directory / f"{name}.toml"
    try:
        text = theirs.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = files("intentd").joinpath("templates", f"{name}.toml").read_text(encoding="utf-8")
    except (OSError, ValueError) as fault:
        raise ConfigError(f"{theirs} cannot be read: {fault}") from None
    try:
        return parse(name, text)
    except TemplateError as fault:
        raise ConfigError(f"{theirs}: {fault}") from None


def serve(config: Config) -> int:
    """Runs the daemon until SIGINT or SIGTERM."""
    logging.basicConfig(
        stream=sys.stderr, level=config.log_level.upper(), format="intentd: %(levelname)s %(name)s: %(message)s"
    )
    return asyncio.run(_serve(App(config), config.socket))


async def _serve(app: App, endpoint: str) -> int:
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await app.start()
    print(f"intentd: serving at {endpoint}", file=sys.stderr, flush=True)
    waits = [asyncio.create_task(stopping.wait()), asyncio.create_task(app.broken())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if waits[1].done():
            waits[1].result()
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        with contextlib.suppress(asyncio.CancelledError):
            await app.stop()
    return 0
