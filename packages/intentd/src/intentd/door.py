"""Owns intentd's socket: makes events and questions of messages, and answers back. It plans and guesses nothing.

What is known of wrapped commands is in `runs`.
"""

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from attrs import define, field

from intentd.completer import Completer
from intentd.editor_clients import EditorClients
from intentd.limits import Limits
from intentd.messages import (
    INTENTD,
    Ask,
    Closed,
    CommandFinished,
    CommandQuiet,
    CommandStarted,
    Complete,
    CompletionUsed,
    DaemonStatus,
    EditorOpened,
    GetOffers,
    GetPrompt,
    Offer,
    Offers,
    Pause,
    Shown,
    ShownPrompt,
)
from intentd.plan.desks import Desks
from intentd.plan.offers import Intent, OfferBook, Offering
from intentd.questions import asked_for, has_opted_out
from intentd.runs import READ_S, Runs
from intentd.sources.mounts import drive
from intentd.speculator import Speculator
from intentd.upkeep import kept_up
from intentd.workers import NoThread, TookTooLong, Workers
from intentd.workspace import Workspace, standing
from modelwire.errors import DaemonUnreachable, EndpointError, ErrorCode, WireError
from modelwire.logs import told
from modelwire.messages import (
    PROTOCOL_VERSION,
    Accepted,
    Acknowledged,
    Beat,
    Cancel,
    Done,
    Error,
    GetStatus,
    Hello,
    Reason,
    Welcome,
)
from modelwire.protocol import NOBODY
from modelwire.router import Router

log = logging.getLogger(__name__)

BEAT_MS = 1000
SILENCE_MS = 3 * BEAT_MS
LOOK_S = 2.0
"""So long somebody who asks waits for a look at the files of a workspace, before all for whether it has opted out."""
LIST_S, SHOW_S = 4.0, 10.0
"""So long offers and a prompt wait for the output of a command that has just ended: who asks does not wait for ever."""
MAX_MESSAGE = 200
"""Of what a tool said so many characters are listed."""
Seen = TypeVar("Seen")


@define(eq=False)
class Door:
    """Serves `endpoint` with the given pieces. `title_of` names an offer for people; `problems` are for status."""

    endpoint: str
    offers: OfferBook
    speculator: Speculator
    runs: Runs
    title_of: Callable[[Offering], str]
    problems: Callable[[], tuple[str, ...]]
    desks: Desks = field(factory=Desks)
    wants_modeld: Callable[[bool], None] = lambda wanted: None
    limits: Limits = field(factory=Limits)
    instance: str = field(factory=lambda: uuid.uuid4().hex[:12])
    _answers: dict[tuple[str, str], asyncio.Task[None]] = field(factory=dict)
    _chores: set[asyncio.Task[None]] = field(factory=set)
    _started: float = field(factory=time.monotonic)
    _used: float = field(factory=time.monotonic)
    """When somebody was last seen at work; what is short lies between two looks of `left_alone`."""
    _paused_at_start: bool = field(init=False)
    _looks: Workers = field(factory=lambda: Workers(4, LOOK_S))
    _router: Router = field(init=False)
    _editors: EditorClients = field(init=False)
    _completer: Completer = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._paused_at_start = self.speculator.paused
        self._router = Router(
            self.endpoint,
            INTENTD.codec(),
            INTENTD,
            on_gone=self._gone,
            outbox_bytes=self.limits.buffer_mb * 2**20,
            max_clients=self.limits.clients,
        )
        self._editors = EditorClients(self.desks, self._send, self.speculator.poke, self.wants_modeld, self._opted_out)
        self._completer = Completer(self.speculator, self.speculator.planner)

    async def open(self) -> None:
        """Raises `EndpointError`."""
        await self._router.start()

    async def serve(self) -> None:
        """Until it is cancelled or closed."""
        watching = asyncio.create_task(kept_up(self._watch_silence))
        try:
            await self._router.serve(lambda client, envelope: self._take(client, envelope.op, envelope.message))
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def left_alone(self, seconds: float) -> None:
        """Returns when no editor and no wrapped command was there and nothing was asked for so long.

        `pause` holds until `resume`, and the next daemon would not know of it.
        """
        self._used = time.monotonic()
        while time.monotonic() - self._used < seconds:
            await asyncio.sleep(min(seconds / 4, BEAT_MS / 1000))
            told = self.speculator.paused != self._paused_at_start
            if len(self._editors) or self._answers or self._chores or len(self.runs) or told:
                self._used = time.monotonic()

    async def close(self) -> None:
        """Ends what is being answered, with a word to those who wait."""
        ends = list(self._answers.values())
        for client, op in list(self._answers):
            self._send(client, op, Error(code=ErrorCode.STOPPING, message="intentd is stopping", retry=True))
        for task in [*ends, *self._chores]:
            task.cancel()
        await asyncio.gather(*ends, *self._chores, return_exceptions=True)
        await self._router.close()

    # --- messages -----------------------------------------------------------------------------------------------

    def _take(self, client: str, op: str, message: object) -> None:
        """A fault of ours in one message is logged and answered; the others go on."""
        if not isinstance(message, Hello | Beat):
            self._used = time.monotonic()
        try:
            self._handle(client, op, message)
        except WireError as fault:
            self._send(client, op, _error(fault))
        except Exception as fault:
            self._has_failed(client, op, fault)

    def _has_failed(self, client: str, op: str, fault: Exception) -> None:
        log.error("a message could not be handled:\n%s", told(fault))
        self._send(client, op, Error(code=ErrorCode.INTERNAL, message="intentd failed at this; its log says how"))

    def _handle(self, client: str, op: str, message: object) -> None:
        match message:
            case Beat():
                return
            case Hello():
                self._send(client, op, self._welcome())
            case CommandStarted():
                self._command_started(client, op, message)
            case CommandQuiet():
                self._chore(client, op, self._command_quiet(client, op, message))
            case CommandFinished():
                self._chore(client, op, self._command_finished(client, op, message))
            case Ask():
                self._begin(client, op, self._asked(message))
            case Complete():
                self._begin(client, op, self._completer.complete(client, message))
            case CompletionUsed():
                self._completer.used(message)
                self._send(client, op, Acknowledged(found=True))
            case EditorOpened():
                self._editors.opened(client, op, message)
            case Shown():
                self._chore(client, op, self._editors.shown(client, op, message))
            case Closed():
                self._editors.closed(client, op, message)
            case Cancel(target=target):
                self._chore(client, op, self._cancel(client, op, target))
            case GetOffers(cwd=cwd):
                self._chore(client, op, self._list_offers(client, op, cwd))
            case Pause(paused=paused):
                changed, self.speculator.paused = self.speculator.paused != paused, paused
                self.speculator.poke()
                self._send(client, op, Acknowledged(found=changed))
            case GetPrompt():
                self._chore(client, op, self._show_prompt(client, op, message))
            case GetStatus():
                self._chore(client, op, self._tell_status(client, op))

    def _command_started(self, client: str, op: str, message: CommandStarted) -> None:
        self.limits.check("commands", len(self.runs))
        replaced = self.runs.start(client, op, message)
        self._count_runs()
        if replaced is not None:
            self._send(client, replaced, Done(reason=Reason.CANCELLED))
        self._send(client, op, Accepted())

    async def _command_quiet(self, client: str, op: str, message: CommandQuiet) -> None:
        found = await self.runs.quiet(client, message)
        self._count_runs()
        self._send(client, op, Acknowledged(found=found))

    async def _command_finished(self, client: str, op: str, message: CommandFinished) -> None:
        try:
            started = await self.runs.finish(client, message)
        finally:
            self._count_runs()
        if started is None:
            self._send(client, op, Error(code=ErrorCode.BAD_REQUEST, message="this command was never announced"))
            return
        self._send(client, started, Done(reason=Reason.END))
        self._send(client, op, Acknowledged(found=True))

    async def _list_offers(self, client: str, op: str, cwd: str) -> None:
        root, out = await self._look(partial(standing, cwd), cwd)
        await self.runs.taken_in(root, LIST_S)
        await asyncio.gather(self._forget_opted_out(), self._withdraw_outdated(root))
        found = tuple(map(self._offer, self.offers.of(root)))
        self._send(client, op, Offers(offers=found, problem=has_opted_out(root) if out else ""))

    def _begin(self, client: str, op: str, replies: AsyncGenerator[object, None]) -> None:
        if (client, op) in self._answers:
            # Under its own id it would end the one that is being answered.
            self._send(client, NOBODY, Error(code=ErrorCode.DUPLICATE_OP, message=f"operation {op} is being answered"))
            return
        self.limits.check("questions", len(self._answers))
        task = asyncio.get_running_loop().create_task(self._answer(client, op, replies))
        self._answers[client, op] = task
        task.add_done_callback(lambda _: self._answers.pop((client, op), None))  # it may never have begun

    async def _asked(self, message: Ask) -> AsyncGenerator[object, None]:
        about, intent = await self._about(message)
        async with contextlib.aclosing(self.speculator.answer(about, intent)) as replies:
            async for reply in replies:
                yield reply

    async def _about(self, message: Ask | GetPrompt) -> tuple[Offering, Intent]:
        """What a question is about. Raises `WireError`."""
        if isinstance(message, Ask) and message.view is not None:  # an editor asks about what it shows
            root = message.view.workspace
            out = await self._opted_out(root)
        else:
            root, out = await self._look(partial(standing, message.cwd), message.cwd)
            await self.runs.taken_in(root, READ_S if isinstance(message, Ask) else SHOW_S)
        return asked_for(message, self.offers, root, opted_out=out)

    async def _answer(self, client: str, op: str, said: AsyncGenerator[object, None]) -> None:
        try:
            async with contextlib.aclosing(said) as replies:
                async for reply in replies:
                    self._send(client, op, reply)
        except (WireError, DaemonUnreachable, EndpointError) as fault:
            self._send(client, op, _error(fault))
        except Exception as fault:
            self._has_failed(client, op, fault)

    async def _show_prompt(self, client: str, op: str, message: GetPrompt) -> None:
        offering, intent = await self._about(message)
        turn = await self.speculator.turn(offering, intent)
        self._send(client, op, ShownPrompt(offer=offering.id, messages=turn.messages, doubt=self.speculator.doubt))

    async def _cancel(self, client: str, op: str, target: str) -> None:
        """Acknowledged once no token will follow (S9)."""
        task = self._answers.get((client, target))
        left = task is None and self._editors.cancelled(client, target)
        if task:
            if not task.cancelling():  # another would end the word to modeld that the first one has it send
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._send(client, target, Done(reason=Reason.CANCELLED))
        self._send(client, op, Acknowledged(found=task is not None or left))

    # --- who is there -------------------------------------------------------------------------------------------

    def _gone(self, client: str) -> None:
        """Nobody waits for the answers any more, and its commands will never be heard of again."""
        for (owner, _), task in self._answers.items():
            if owner == client:
                task.cancel()
        self._editors.gone(client)
        if self.runs.forget(client):
            self._count_runs()

    async def _watch_silence(self) -> None:
        while True:
            await asyncio.sleep(BEAT_MS / 1000)
            self._part_from_silent()

    def _part_from_silent(self) -> None:
        """One that was only stopped reads afterwards that its operations have ended (S8)."""
        says = f"this client said nothing for {SILENCE_MS / 1000:g} s: its operations were ended, ask again"
        for client in self._router.silent(time.monotonic(), SILENCE_MS):
            self._gone(client)
            self._router.end(client, Error(code=ErrorCode.OVERLOADED, message=says, retry=True))
            self._router.forget(client)

    def _count_runs(self) -> None:
        self.speculator.commands_running = self.runs.running
        self.speculator.poke()

    # --- words --------------------------------------------------------------------------------------------------

    def _send(self, client: str, op: str, message: object) -> None:
        self._router.send(client, op, message)

    def _chore(self, client: str, op: str, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._see_to(client, op, work))
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)
        task.add_done_callback(lambda _: work.close())  # where it is cancelled before its first step
        return task

    async def _see_to(self, client: str, op: str, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except WireError as fault:
            self._send(client, op, _error(fault))
        except Exception as fault:
            self._has_failed(client, op, fault)

    def _welcome(self) -> Welcome:
        return Welcome(
            protocol=PROTOCOL_VERSION,
            server="intentd",
            version=version("intentd"),
            instance=self.instance,
            beat_ms=BEAT_MS,
        )

    def _offer(self, offering: Offering) -> Offer:
        return Offer(
            id=offering.id,
            number=offering.number,
            trigger=offering.failure.trigger,
            title=self.title_of(offering),
            workspace=offering.workspace,
            warm=self.speculator.is_warm(offering),
            line=offering.line,
            message=offering.failure.message.partition("\n")[0][:MAX_MESSAGE],
        )

    async def _forget_opted_out(self) -> None:
        await asyncio.gather(*map(self._forget_if_opted_out, {offering.workspace for offering in self.offers.all()}))

    async def _forget_if_opted_out(self, workspace: str) -> None:
        with contextlib.suppress(WireError):
            if await self._opted_out(workspace):
                self.offers.forget(workspace)
                self.speculator.poke()

    async def _opted_out(self, workspace: str) -> bool:
        """Raises `WireError`."""
        return await self._look(Workspace(Path(workspace)).opted_out, workspace)

    async def _withdraw_outdated(self, workspace: str) -> None:
        """Also those that nobody prepares."""
        look = partial(self.speculator.planner.outdated, self.offers.of(workspace))
        with contextlib.suppress(WireError):
            for offering in await self._look(look, workspace):
                self.speculator.withdraw(offering)

    async def _look(self, look: Callable[[], Seen], place: str) -> Seen:
        """Never in the event loop: a file system may be mute. Raises `WireError` with words for the person."""
        try:
            return await self._looks.do(look, place=drive(place))
        except TookTooLong:
            why = f"the drive of {place} does not answer: try again when it does"
        except NoThread:
            why = "intentd can start no more threads: try again later"
        raise WireError(ErrorCode.NOT_READY, why, retry=True)

    async def _tell_status(self, client: str, op: str) -> None:
        await self._forget_opted_out()
        self._send(client, op, self._status())

    def _status(self) -> DaemonStatus:
        return DaemonStatus(
            state=self.speculator.state,
            reason=self.speculator.reason,
            instance=self.instance,
            modeld=self.speculator.endpoint,
            modeld_reachable=self.speculator.reachable,
            offers=tuple(map(self._offer, self.offers.all())),
            uptime_s=time.monotonic() - self._started,
            figures={
                **self.speculator.figures,
                **self.speculator.progress,
                "commands_running": self.runs.running,
                "editors": len(self._editors),
            },
            triggers=self.speculator.ledger.figures(time.monotonic()),
            problems=self.problems(),
        )


def _error(fault: Exception) -> Error:
    if isinstance(fault, WireError):
        return Error(code=fault.code, message=fault.message, retry=fault.retry, numbers=fault.numbers)
    return Error(code=ErrorCode.NOT_READY, message=str(fault), retry=True)
