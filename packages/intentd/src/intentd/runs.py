"""Owns the wrapped commands that were announced, and taking in what they have printed. It sends nothing to anybody."""

import asyncio
import logging
import time
from functools import partial
from pathlib import Path

from attrs import define, evolve, field

from intentd.intake import Intake
from intentd.messages import CommandFinished, CommandQuiet, CommandStarted
from intentd.plan.events import CommandEnded
from intentd.plan.offers import OfferBook
from intentd.sources.git import changed
from intentd.workers import TookTooLong, Workers
from intentd.workspace import Workspace, root_of
from modelwire.logs import told

log = logging.getLogger(__name__)

READ_S = 30.0
"""So long an output may take to be read."""
TAKE_IN_S = 10.0
"""So long a question waits for the output of a command that has just ended."""


@define(eq=False)
class Run:
    """A wrapped command that has been announced and has not ended. `op` is the operation that lives as long.

    `waits`: it watches files, has told what it found, and nothing has changed since.
    """

    client: str
    op: str
    message: CommandStarted
    started_ns: int = field(factory=time.time_ns)
    waits: bool = False


class Runs:
    """The commands that run now. What they leave goes into `offers`."""

    def __init__(self, offers: OfferBook, intake: Intake) -> None:
        self._offers = offers
        self._intake = intake
        self._runs: dict[tuple[str, str], Run] = {}
        self._taking: dict[asyncio.Task[bool], str] = {}
        self._workers = Workers(2, READ_S)

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
        run.waits = message.quiet and await self._take_in(run, message, exit=None)
        if message.quiet:
            run.started_ns = time.time_ns()
        return True

    async def finish(self, client: str, message: CommandFinished) -> str | None:
        """The operation that has ended with the command; None for one that this client has not announced."""
        run = self._runs.pop((client, message.run), None)
        if run is None:
            return None
        await self._take_in(run, message, exit=message.exit)
        return run.op

    def forget(self, client: str) -> None:
        """Its commands will never be heard of again."""
        for key in [key for key in self._runs if key[0] == client]:
            del self._runs[key]

    async def taken_in(self, cwd: str) -> None:
        """A question that comes right behind a command of its workspace is about what that has printed."""
        root = root_of(cwd)
        if taking := [task for task, workspace in self._taking.items() if workspace == root]:
            await asyncio.wait(taking, timeout=TAKE_IN_S)

    async def _take_in(self, run: Run, message: CommandQuiet | CommandFinished, *, exit: int | None) -> bool:
        """Whether the output said anything."""
        task = asyncio.get_running_loop().create_task(self._read(run, message, exit))
        try:
            self._taking[task] = root_of(run.message.cwd)
            return await task
        except TookTooLong:
            log.error("an output of %d bytes takes too long to read: nothing is offered for it", len(message.output))
            return False
        except Exception as fault:
            log.error("the output of a command could not be read:\n%s", told(fault))
            return False
        finally:
            self._taking.pop(task, None)

    async def _read(self, run: Run, message: CommandQuiet | CommandFinished, exit: int | None) -> bool:
        """In a worker thread: half a megabyte takes a while to scrub and to read."""
        cwd = run.message.cwd
        event = CommandEnded(
            workspace=root_of(cwd),
            cwd=cwd,
            exit=exit,
            output=message.output.decode(errors="replace"),
            argv=run.message.argv,
        )
        if Workspace(Path(event.workspace)).opted_out():
            self._offers.forget(event.workspace)
            return True
        cut = message.total > len(message.output)
        read = partial(self._intake.failures, event, cut=cut, started_ns=run.started_ns)
        failures = await self._workers.do(read)
        if failures:
            event = evolve(event, changed=await asyncio.to_thread(changed, event.workspace))
        self._offers.take(event, failures)
        log.info("a command said %s failures (exit status %s)", "no" if failures is None else len(failures), exit)
        return failures is not None
