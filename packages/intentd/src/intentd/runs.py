"""Owns the wrapped commands that were announced, and taking in what they have printed. It sends nothing to anybody."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
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
from intentd.sources.git import Unanswered, changed
from intentd.sources.mounts import drive
from intentd.workers import NoThread, TookTooLong, Workers
from intentd.workspace import is_gone, standing
from modelwire.logs import told

log = logging.getLogger(__name__)

Failures = tuple[Failure, ...] | None

LOOK_S = 2.0
"""So long a look at the files may take: at where the workspace is, at those that the failures are in (else these stay
whatever becomes of those), and at what was changed."""
READ_S = 30.0
"""So long an output may take to be read."""
MAX_WAITING = 16
"""So many outputs of one workspace may wait to be read: the oldest one goes."""


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


@define(eq=False)
class Taking:
    """An output that is being taken in. `standing` tells the root and whether that has opted out; None where it
    cannot be looked at.
    """

    cwd: str
    standing: asyncio.Task[tuple[str, bool] | None]
    task: asyncio.Task[bool] | None = None
    dropped: bool = False

    @property
    def root(self) -> str | None:
        """As far as it is known."""
        if not self.standing.done() or self.standing.cancelled() or self.standing.exception():
            return None
        told = self.standing.result()
        return told[0] if told else None

    def may_be_of(self, root: str) -> bool:
        """Where its root is not known yet, by what its directory is named."""
        return self.root == root if self.standing.done() else Path(root) in (Path(self.cwd), *Path(self.cwd).parents)


class Runs:
    """The commands that run now. What they leave goes into `offers`."""

    def __init__(self, offers: OfferBook, intake: Intake, planner: Planner) -> None:
        self._offers = offers
        self._intake = intake
        self._planner = planner
        self._runs: dict[tuple[str, str], Run] = {}
        self._taking: list[Taking] = []
        self._workers = Workers(4, READ_S)
        self._looks = Workers(4, LOOK_S)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def running(self) -> int:
        """How many are at work."""
        return sum(not run.waits for run in self._runs.values())

    def start(self, client: str, op: str, message: CommandStarted) -> str | None:
        """The operation of the same command that this one takes the place of: it was announced before."""
        former = self._runs.get((client, message.run))
        self._runs[client, message.run] = Run(client, op, message)
        return former.op if former else None

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

    async def taken_in(self, root: str, within: float) -> None:
        """A question that comes right behind a command of its workspace is about what that has printed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await _over(list(self._taking), root)

    async def _take_in(self, run: Run, message: CommandQuiet | CommandFinished, *, exit: int | None) -> bool:
        """Whether the output said anything."""
        cwd = run.message.cwd
        output = message.output.decode(errors="replace")
        event = CommandEnded(workspace=cwd, cwd=cwd, exit=exit, output=output, argv=run.message.argv)
        cut = message.total > len(message.output)
        read = partial(self._intake.failures, cut=cut, started_ns=run.started_ns)
        run.started_ns = time.time_ns()  # its next cycle begins
        loop = asyncio.get_running_loop()
        taking = Taking(cwd, loop.create_task(self._standing(cwd)))
        taking.task = loop.create_task(self._read(event, read, taking, list(self._taking)))
        self._taking.append(taking)
        try:
            return await taking.task
        except asyncio.CancelledError:
            if not taking.dropped:
                raise
            return False
        except TookTooLong:
            log.error("an output of %d bytes takes too long to read: nothing is offered for it", len(message.output))
            return False
        except Exception as fault:
            log.error("the output of a command could not be read:\n%s", told(fault))
            return False
        finally:
            if not taking.dropped:
                self._taking.remove(taking)

    def _bound(self, root: str) -> None:
        its = [one for one in self._taking if one.root == root]
        for one in its[:-MAX_WAITING]:
            if one.task:
                log.warning("too many outputs of %s wait to be read: the oldest is dropped", root)
                one.dropped = True
                self._taking.remove(one)
                one.task.cancel()

    async def _standing(self, cwd: str) -> tuple[str, bool] | None:
        with suppress(TookTooLong, NoThread, OSError, ValueError, RuntimeError):
            return await self._looks.do(partial(_standing, cwd), place=drive(cwd))
        return None

    async def _read(
        self, event: CommandEnded, read: Callable[[CommandEnded], Failures], taking: Taking, earlier: Sequence[Taking]
    ) -> bool:
        """In worker threads: half a megabyte takes a while to scrub and to read. What ended earlier counts earlier."""
        seen = await taking.standing
        if seen is None:
            log.error("a command's directory cannot be looked at: nothing is offered for it")
            return False
        root, out = seen
        if out:
            self._offers.forget(root)
            return True
        self._bound(root)
        event = evolve(event, workspace=root)
        failures = await self._workers.do(partial(read, event), place=f"output of {root}")
        anchors: dict[Failure, str | None] = {}
        if failures:  # git may hang at what hangs nothing else
            with suppress(TookTooLong, NoThread):
                look = partial(self._planner.anchors, root, failures[:MAX_NEW])
                anchors = await self._looks.do(look, place=f"files of {root}")
            with suppress(TookTooLong, NoThread, Unanswered):
                event = evolve(event, changed=await self._looks.do(partial(changed, root), place=f"git in {root}"))
        await _over(earlier, root)
        self._offers.take(event, failures, anchors)
        log.info("a command said %s failures (exit status %s)", "no" if failures is None else len(failures), event.exit)
        return failures is not None


def _standing(cwd: str) -> tuple[str, bool] | None:
    """None where the directory is gone: whether it had opted out cannot be known, and it is in no other workspace."""
    seen = standing(cwd)
    return None if is_gone(cwd) else seen


async def _over(takings: Sequence[Taking], root: str) -> None:
    """Returns when those of this workspace have been taken in. It waits for no other's drive."""
    if its := [one.standing for one in takings if one.may_be_of(root)]:
        await asyncio.wait(its)
    if ends := [one.task for one in takings if one.task and one.root == root]:
        await asyncio.wait(ends)
