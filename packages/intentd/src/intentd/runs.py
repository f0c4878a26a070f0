"""Owns the wrapped commands that were announced, and taking in what they have printed. It sends nothing to anybody."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path

from attrs import define, evolve, field

from intentd.intake import Intake
from intentd.messages import CommandFinished, CommandQuiet, CommandStarted
from intentd.plan.events import CommandEnded
from intentd.plan.offers import MAX_NEW, OfferBook
from intentd.plan.triggers import Failure
from intentd.planner import Planner
from intentd.sources.git import changed
from intentd.workers import NoThread, TookTooLong, Workers
from intentd.workspace import Workspace, root_of
from modelwire.logs import told

log = logging.getLogger(__name__)

Failures = tuple[Failure, ...] | None

LOOK_S = 2.0
"""So long the files may take to be read that the failures are in: else these stay whatever becomes of those."""
READ_S = 30.0
"""So long an output may take to be read."""
TAKE_IN_S = 10.0
"""So long a question waits for the output of a command that has just ended."""


@define(eq=False)
class Run:
    """A wrapped command that has been announced and has not ended. `op` is the operation that lives as long.

    `waits`: it watches files, has told what it found, and nothing has changed since. `told`: its last word.
    """

    client: str
    op: str
    message: CommandStarted
    started_ns: int = field(factory=time.time_ns)
    waits: bool = False
    told: CommandQuiet | None = None


class Runs:
    """The commands that run now. What they leave goes into `offers`."""

    def __init__(self, offers: OfferBook, intake: Intake, planner: Planner) -> None:
        self._offers = offers
        self._intake = intake
        self._planner = planner
        self._runs: dict[tuple[str, str], Run] = {}
        self._taking: dict[asyncio.Task[bool], str] = {}
        self._workers = Workers(2, READ_S)
        self._looks = Workers(2, LOOK_S)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def running(self) -> int:
        """How many are at work."""
        return sum(not run.waits for run in self._runs.values())

    def start(self, client: str, op: str, message: CommandStarted) -> None:
        self._runs[client, message.run] = Run(client, op, message)

    async def quiet(self, client: str, message: CommandQuiet) -> bool:
        """Takes in a cycle, which has no exit status: only where that says something the command is taken to wait."""
        run = self._runs.get((client, message.run))
        if run is None:
            return False
        run.told, run.waits = message, False
        waits = message.quiet and await self._take_in(run, message, exit=None)
        if run.told is message:  # else it has gone on while its output was read
            run.waits = waits
        return True

    async def finish(self, client: str, message: CommandFinished) -> str | None:
        """The operation that has ended with the command; None for one that this client has not announced."""
        run = self._runs.pop((client, message.run), None)
        if run is None:
            return None
        killed = 128 + message.signal if message.signal is not None else None  # as shells say it
        await self._take_in(run, message, exit=message.exit if killed is None else killed)
        return run.op

    def forget(self, client: str) -> bool:
        """Its commands will never be heard of again; whether it had any."""
        its = [key for key in self._runs if key[0] == client]
        for key in its:
            del self._runs[key]
        return bool(its)

    async def taken_in(self, cwd: str) -> None:
        """A question that comes right behind a command of its workspace is about what that has printed."""
        if taking := self._taken_from(root_of(cwd)):
            await asyncio.wait(taking, timeout=TAKE_IN_S)

    def _taken_from(self, root: str) -> list[asyncio.Task[bool]]:
        """What is being taken in of this workspace."""
        return [task for task, workspace in self._taking.items() if workspace == root]

    async def _take_in(self, run: Run, message: CommandQuiet | CommandFinished, *, exit: int | None) -> bool:
        """Whether the output said anything."""
        cwd = run.message.cwd
        output = message.output.decode(errors="replace")
        event = CommandEnded(workspace=root_of(cwd), cwd=cwd, exit=exit, output=output, argv=run.message.argv)
        cut = message.total > len(message.output)
        read = partial(self._intake.failures, event, cut=cut, started_ns=run.started_ns)
        run.started_ns = time.time_ns()  # its next cycle begins
        earlier = self._taken_from(event.workspace)
        task = asyncio.get_running_loop().create_task(self._read(event, read, earlier))
        self._taking[task] = event.workspace
        try:
            return await task
        except TookTooLong:
            log.error("an output of %d bytes takes too long to read: nothing is offered for it", len(message.output))
            return False
        except Exception as fault:
            log.error("the output of a command could not be read:\n%s", told(fault))
            return False
        finally:
            self._taking.pop(task, None)

    async def _read(
        self, event: CommandEnded, read: Callable[[], Failures], earlier: Collection[asyncio.Task[bool]]
    ) -> bool:
        """In a worker thread: half a megabyte takes a while to scrub and to read. What ended earlier counts earlier."""
        if Workspace(Path(event.workspace)).opted_out():
            self._offers.forget(event.workspace)
            return True
        failures = await self._workers.do(read)
        anchors: dict[Failure, str | None] = {}
        if failures:
            look = partial(self._planner.anchors, event.workspace, failures[:MAX_NEW])
            with suppress(TookTooLong, NoThread):
                anchors = await self._looks.do(look)
            event = evolve(event, changed=await asyncio.to_thread(changed, event.workspace))
        if earlier:
            await asyncio.wait(earlier)
        self._offers.take(event, failures, anchors)
        log.info("a command said %s failures (exit status %s)", "no" if failures is None else len(failures), event.exit)
        return failures is not None
