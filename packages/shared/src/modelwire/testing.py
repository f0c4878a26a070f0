"""Owns a scripted modeld for tests: no model, but a real socket in a directory of its own. It can fail on demand.

It keeps the protocol's promises by default (order of replies, preempted guesses, hits); the script says what it answers
and where it breaks them.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from attrs import Factory, define, frozen

from modelwire.codec import Envelope
from modelwire.messages import (
    Accepted,
    Acknowledged,
    Beat,
    Cancel,
    Close,
    Describe,
    Description,
    Done,
    EnsurePrefix,
    Error,
    Exactness,
    GetStatus,
    Hello,
    Limits,
    ModelDescription,
    Operation,
    Outcome,
    PrefillSuffix,
    Progress,
    Prompt,
    Reason,
    Restore,
    Snapshot,
    SnapshotTaken,
    Started,
    Status,
    Text,
    TokenIds,
    Tokenize,
    Tokens,
    Turn,
    Usage,
    Welcome,
)
from modelwire.protocol import MODELD, Protocol
from modelwire.router import Router

PATIENCE_S = 60.0
"""Every wait of a test ends after so long with an error that says what did not come. It is for crowded machines."""

MODEL = ModelDescription(
    name="scripted",
    architecture="none",
    quantisation="none",
    fingerprint="0" * 16,
    parameters=0,
    vocabulary=256,
    context_trained=4096,
    chat=True,
    fim=False,
)


@frozen
class Recorded:
    """A request as it came."""

    client: str
    op: str
    message: Any


@define
class Script:
    """What a `ScriptedDaemon` answers. Change it at any time; it holds for requests that come later.

    `tokens` is the answer of every generation. `held`: operations wait after `accepted` until `release`. `answers`
    replaces the replies to a class of requests. `drop`: such requests are never answered. `silent_after` and
    `die_after`: an operation stops after so many replies, or the daemon does.
    """

    tokens: Sequence[str] = ("Hello", ", ", "world")
    held: bool = False
    answers: dict[type, Callable[[Any], Sequence[Any]]] = Factory(dict)
    drop: set[type] = Factory(set)
    silent_after: int | None = None
    die_after: int | None = None
    beat_ms: int = 1000
    figures: dict[str, float] = Factory(dict)


@define(eq=False)
class _Held:
    client: str
    op: str
    message: Operation


class ScriptedDaemon:
    """A fake modeld. `endpoint` is where it serves, `requests` what came (without beats), `beats` how many of those."""

    def __init__(self, *, protocol: Protocol = MODELD, script: Script | None = None) -> None:
        self.script = script or Script()
        self.requests: list[Recorded] = []
        self.beats = 0
        self.gone: list[str] = []
        self._directory = Path(tempfile.mkdtemp(prefix="modelwire-"))
        self.endpoint = f"ipc://{self._directory}/{protocol.service}.sock"
        self._protocol = protocol
        self._starts = 0
        self._router: Router | None = None
        self._serving: asyncio.Task[None] | None = None
        self._death: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._dying = asyncio.Lock()
        self._held: list[_Held] = []
        self._guessed: set[tuple[str, Prompt]] = set()

    def __repr__(self) -> str:
        return f"<ScriptedDaemon {self._router!r}, {len(self.requests)} requests, {len(self._held)} held>"

    @property
    def router(self) -> Router:
        assert self._router, "it is not serving"
        return self._router

    @property
    def instance(self) -> str:
        return f"instance-{self._starts}"

    async def start(self) -> None:
        self._starts += 1
        self._router = Router(self.endpoint, self._protocol.codec(), self._protocol, on_gone=self.gone.append)
        await self._router.start()
        self._serving = asyncio.get_running_loop().create_task(self._serve(self._router))

    async def die(self) -> None:
        """Goes away without a word to anybody, with all that was held. `start` brings a new instance."""
        async with self._dying:
            router, self._router, serving, self._serving = self._router, None, self._serving, None
            self._held.clear()
            self._guessed.clear()
            if router:
                await router.close()  # this ends the serving task
            if serving:
                await serving
            self._changed.set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.die()
        shutil.rmtree(self._directory)

    # --- for the test -----------------------------------------------------------------------------------------

    def received(self, cls: type) -> list[Any]:
        """The messages of a class that came so far."""
        return [request.message for request in self.requests if isinstance(request.message, cls)]

    async def wait_for(self, cls: type, count: int = 1) -> list[Any]:
        """Waits until `count` messages of a class (beats too) have come."""
        await self.wait_until(
            lambda: (self.beats if cls is Beat else len(self.received(cls))) >= count, f"{count} {cls.__name__}"
        )
        return self.received(cls)

    async def wait_until(self, met: Callable[[], bool], what: str = "the condition") -> None:
        """Waits until `met()` is true; it is looked at after every request."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not met():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{what} did not come within {PATIENCE_S:g} s; {self!r}") from None

    def release(self) -> None:
        """Lets what is held run, and holds nothing from now on."""
        self.script.held = False
        held, self._held = self._held, []
        for operation in held:
            self._finish(operation)

    def send(self, client: str, op: str, *messages: Any) -> None:
        """Says something out of the script."""
        for message in messages:
            self.router.send(client, op, message)

    # --- serving ------------------------------------------------------------------------------------------------

    async def _serve(self, router: Router) -> None:
        await router.serve(self._take)

    def _take(self, client: str, envelope: Envelope) -> None:
        if isinstance(envelope.message, Beat):
            self.beats += 1
        else:
            self.requests.append(Recorded(client, envelope.op, envelope.message))
            self._answer(client, envelope.op, envelope.message)
        self._changed.set()

    def _answer(self, client: str, op: str, message: Any) -> None:
        if type(message) in self.script.drop:
            return
        if type(message) in self.script.answers:
            replies = self.script.answers[type(message)](message)
        elif isinstance(message, Operation):
            replies = self._operation(_Held(client, op, message))
        else:
            replies = list(self._question(client, message))
        self._say(client, op, replies, isinstance(message, Operation))

    def _say(self, client: str, op: str, replies: Sequence[Any], operation: bool) -> None:
        die_after = self.script.die_after if operation else None
        silent_after = self.script.silent_after if operation else None
        self.send(client, op, *replies[:die_after][:silent_after])
        if die_after is not None:
            self._death = asyncio.get_running_loop().create_task(self.die())

    def _question(self, client: str, message: Any) -> Iterator[Any]:
        match message:
            case Hello():
                yield Welcome(
                    protocol=self._protocol.version,
                    server=self._protocol.service,
                    version="0",
                    instance=self.instance,
                    beat_ms=self.script.beat_ms,
                )
            case Describe():
                yield Description(
                    backend="scripted",
                    profile="exact",
                    model=MODEL,
                    capabilities={"fork": "cells", "rollback": True, "stop": "node", "logits": True},
                    exactness=Exactness(verdict="exact"),
                    limits=Limits(message_bytes=2**24, context=4096, sessions=64, queue=64, silence_ms=3000),
                )
            case GetStatus():
                yield Status(
                    state="busy" if self._held else "idle",
                    instance=self.instance,
                    model=MODEL.name,
                    engine_pid=0,
                    uptime_s=1.0,
                    figures=self.script.figures,
                )
            case Tokenize(prompt=prompt):
                yield TokenIds(ids=_ids(prompt))
            case Cancel(target=target):
                yield Acknowledged(found=self._end_held(client, Reason.CANCELLED, target))
            case Close():
                yield Acknowledged(found=True)
            case Snapshot(session=session):
                yield SnapshotTaken(handle=f"handle of {session}", head=3, bytes=0)
            case _:
                yield Error(code="unknown_kind", message=f"the script has no answer to {type(message).__name__}")

    def _end_held(self, client: str, reason: Reason, target: str | None = None, guesses: bool = False) -> bool:
        ending = [
            held
            for held in self._held
            if held.client == client and (held.op == target or (guesses and held.message.speculative))
        ]
        for held in ending:
            self._held.remove(held)
            self.send(held.client, held.op, Done(reason=reason))
        return bool(ending)

    # --- operations ---------------------------------------------------------------------------------------------

    def _operation(self, operation: _Held) -> list[Any]:
        """Its replies up to where it is held. A real operation preempts the guesses that are held."""
        guess = next((held.op for held in self._held if held.message.speculative), None)
        if not operation.message.speculative:
            self._end_held(operation.client, Reason.PREEMPTED, guesses=True)
        if self.script.held:
            self._held.append(operation)
            return [Accepted()]
        preempted = None if operation.message.speculative else guess
        return [Accepted(), *self._run(operation, preempted)]

    def _finish(self, operation: _Held) -> None:
        self.send(operation.client, operation.op, *self._run(operation, None))

    def _run(self, operation: _Held, preempted: str | None) -> list[Any]:
        message = operation.message
        prompt = _prompt(message)
        total = len(_ids(prompt))
        known = (operation.client, prompt) in self._guessed
        reused = total if known else 0
        outcome = Outcome.NONE if not total or message.speculative else Outcome.HIT if known else Outcome.COLD
        usage = Usage(prompt=total, reused=reused, guessed=reused, prefilled=total - reused, outcome=outcome)
        replies = [Started(queue_ms=0.0, preempted=preempted), Progress(reused=reused, done=total, total=total)]
        if message.speculative:
            self._guessed.add((operation.client, prompt))
        ahead = isinstance(message, Turn) and message.ahead
        if (message.speculative and not ahead) or isinstance(message, EnsurePrefix | PrefillSuffix | Restore):
            return [*replies, Done(reason=Reason.PREFILLED, head=total, usage=usage)]
        tokens = [Tokens(text=text, ids=(index,)) for index, text in enumerate(self.script.tokens)]
        return [*replies, *tokens, Done(reason=Reason.END, head=total + len(tokens), usage=usage)]


def _prompt(message: Operation) -> Prompt:
    if isinstance(message, Turn):
        return (*message.prefix, *message.suffix)
    return message.prompt if isinstance(message, EnsurePrefix | PrefillSuffix) else ()


def _ids(prompt: Prompt) -> tuple[int, ...]:
    """A token is a byte."""
    return tuple("".join(part.text if isinstance(part, Text) else part.content for part in prompt).encode())
