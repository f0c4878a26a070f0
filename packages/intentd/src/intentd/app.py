"""Owns the daemon: the one place that builds its pieces, starts them and stops them."""

import asyncio
import contextlib
import logging
import signal
import sys
from functools import partial

from intentd.config import Config, unknown_variables
from intentd.door import Door
from intentd.intake import Intake
from intentd.plan.desks import Desks
from intentd.plan.offers import OfferBook, Offering
from intentd.plan.tools import catalogue
from intentd.planner import Planner, template_name
from intentd.runs import Runs
from intentd.shelf import TemplateShelf
from intentd.sources.host import HostWatch, lack
from intentd.sources.modeld import ModeldKeeper
from intentd.speculator import Speculator
from intentd.upkeep import kept_up
from modelwire import descriptors, logs
from modelwire.logs import told

log = logging.getLogger(__name__)


class App:
    """The daemon's pieces, put together."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._catalogue = catalogue(config.tools)
        self.templates = TemplateShelf(config.templates)
        self.offers = OfferBook()
        self.planner = Planner(self.templates)
        self.desks = Desks()
        self.speculator = Speculator(config.modeld, self.planner, self.offers, self.desks)
        self.speculator.paused = not config.guess
        self.runs = Runs(self.offers, Intake(self._catalogue), self.planner)
        self.keeper = ModeldKeeper(config.modeld)
        self.door = Door(
            config.socket,
            self.offers,
            self.speculator,
            self.runs,
            self._title_of,
            self._problems,
            self.desks,
            self.keeper.want,
            config.limits(),
        )
        self.host = HostWatch(partial(lack, config.max_load), self.speculator.press)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Raises `EndpointError`."""
        await self.door.open()
        for problem in (*self._config.problems(), *self._catalogue.problems):
            log.warning("%s", problem)
        _ = self.templates.problems  # which logs them itself
        watch = self.speculator.watch
        beside = map(kept_up, (self.speculator.run, watch.run, self.host.run, self.keeper.run))
        self._tasks = [asyncio.create_task(service) for service in (self.door.serve(), *beside)]

    async def stop(self) -> None:
        try:
            await self.door.close()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def broken(self) -> None:
        """Returns when a piece ends that should not; raises what ended it."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    def _title_of(self, offering: Offering) -> str:
        name = offering.failure.name[:200]
        try:
            template = self.templates.get(template_name(offering, "explain"))
            return template.fill_title(test=offering.name[:200], tool=offering.failure.tool)
        except Exception as fault:  # of a template: the offer has its own name, and the others theirs
            log.error("an offer could not be named:\n%s", told(fault))
            return name

    def _problems(self) -> tuple[str, ...]:
        kept = (self.keeper.problem,) if self.keeper.problem and not self.speculator.reachable else ()
        return (*kept, *self._config.problems(), *self._catalogue.problems, *self.templates.problems)


def serve(config: Config, *, idle_s: float | None = None) -> int:
    """Runs the daemon until SIGINT, SIGTERM or SIGHUP, or until no editor was there for `idle_s`."""
    logs.set_up("intentd", level=config.log_level, form=config.log_format)
    if unknown := unknown_variables():
        log.warning("%s", unknown)
    sys.setswitchinterval(SWITCH_S)
    descriptors.raise_limit()
    return asyncio.run(_serve(App(config), config.socket, idle_s))


SWITCH_S = 0.0005
"""A question must not wait long for the interpreter while a worker thread looks through a text."""


async def _serve(app: App, endpoint: str, idle_s: float | None) -> int:
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # `nohup intentd serve`
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await app.start()
    print(f"intentd: serving at {endpoint}", file=sys.stderr, flush=True)
    waits = [asyncio.create_task(stopping.wait()), asyncio.create_task(app.broken())]
    if idle_s is not None:
        waits.append(asyncio.create_task(app.door.left_alone(idle_s)))
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
