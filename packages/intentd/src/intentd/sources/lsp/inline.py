"""Owns the completions of an editor: made ahead while the person rests, shown when the editor asks. One a document.

The buffer is here, so that a question is answered from it at once. The daemon makes what is in it.
"""

import asyncio
import time
from collections.abc import Callable

from attrs import define, field

from intentd.messages import Complete, CompletionUsed
from intentd.plan.ahead import FINISHED, Ahead, Spot
from intentd.plan.document import Change
from intentd.plan.visible import Visible
from intentd.sources.lsp.buffers import Buffer
from intentd.sources.lsp.link import FAULTS, Link
from modelwire.messages import Done, Tokens

DEADLINE_MS = 600
"""A completion that comes later than so long after the question is of no use."""


@define(eq=False)
class _Made:
    """A buffer with the task that fills it. `asked`: an editor has asked for it."""

    ahead: Ahead
    guessed: bool
    task: "asyncio.Task[None] | None" = None
    asked: bool = False
    failed: bool = False
    prefilled: int = 0
    seconds: float = 0.0


@define(eq=False)
class Completions:
    """By the uris of their documents."""

    link: Link
    clock: Callable[[], float] = time.monotonic
    _made: dict[str, _Made] = field(factory=dict)
    _asking: dict[str, int] = field(factory=dict)

    def __len__(self) -> int:
        return len(self._made)

    # --- what the person does ---------------------------------------------------------------------------------

    def edited(self, buffer: Buffer, change: Change) -> None:
        """What was made holds as long as the edit is what it says."""
        made = self._made.get(buffer.uri)
        if made is None:
            return
        before = made.ahead.accepted
        holds = made.ahead.follow(buffer.document, change)
        if made.ahead.accepted > before:
            self._tell(CompletionUsed(accepted=1))
        if not holds or (made.ahead.complete and made.ahead.taken == len(made.ahead.text)):
            self.drop(buffer.uri)

    def drop(self, uri: str) -> None:
        made = self._made.pop(uri, None)
        if made is None:
            return
        if made.task is not None:
            made.task.cancel()
        if made.ahead.rejected:
            self._tell(CompletionUsed(rejected=1))
        if made.guessed and not made.asked and not made.failed:  # nobody could ask for what was not made
            self._tell(CompletionUsed(ahead=True, prefilled=made.prefilled, seconds=made.seconds))

    def closed(self, uri: str) -> None:
        self.drop(uri)
        self._asking.pop(uri, None)

    def prepare(self, buffer: Buffer, line: int, character: int) -> None:
        """The person rests at a place: what may follow is made ahead, unless it is there."""
        made = self._made.get(buffer.uri)
        if made is not None and not made.failed and made.ahead.rest(line, character) is not None:
            return
        if self.link.connected:
            self._make(buffer, line, character, ahead=True)

    # --- what the editor asks ---------------------------------------------------------------------------------

    async def ask(self, buffer: Buffer, line: int, character: int) -> str | None:
        """What may follow at the place; None for nothing, or nothing in time, or where a newer question came."""
        version = buffer.document.version
        turn = self._asking[buffer.uri] = self._asking.get(buffer.uri, 0) + 1
        began = self.clock()
        made = self._made.get(buffer.uri)
        if made is None or made.failed or made.ahead.rest(line, character) is None:
            if not self.link.connected:
                return None
            made, outcome = self._make(buffer, line, character, ahead=False), "miss"
        else:
            outcome = "hit" if made.ahead.complete else "partial"
        await self._filled(made, began)
        if made.failed and made.guessed and self._is_now(buffer, version, turn):
            made, outcome = self._make(buffer, line, character, ahead=False), "miss"
            await self._filled(made, began)
        return self._shown(buffer, made, line, character, outcome) if self._is_now(buffer, version, turn) else None

    def _is_now(self, buffer: Buffer, version: int, turn: int) -> bool:
        """I2: neither the text has changed nor has a newer question come."""
        return buffer.document.version == version and self._asking.get(buffer.uri) == turn

    def _shown(self, buffer: Buffer, made: _Made, line: int, character: int, outcome: str) -> str | None:
        if self._made.get(buffer.uri) is not made:
            return None
        rest = made.ahead.rest(line, character)
        if not made.asked and not made.failed:
            made.asked = True
            self._tell(CompletionUsed(outcome=outcome, ahead=made.guessed))
        if not rest:
            return None
        made.ahead.shown = made.ahead.taken
        return rest

    async def _filled(self, made: _Made, began: float) -> None:
        """Until it is complete, or the time is over: then whole lines will do."""
        left = DEADLINE_MS / 1000 - (self.clock() - began)
        if made.task is not None and not made.task.done() and left > 0:
            await asyncio.wait([made.task], timeout=left)

    # --- making -----------------------------------------------------------------------------------------------

    def _make(self, buffer: Buffer, line: int, character: int, *, ahead: bool) -> _Made:
        self.drop(buffer.uri)
        made = self._made[buffer.uri] = _Made(Ahead(Spot.of(buffer.document, line, character)), guessed=ahead)
        message = Complete(
            view=buffer.bare_view(line),
            line=line,
            character=character,
            ahead=ahead,
            deadline_ms=None if ahead else DEADLINE_MS,
        )
        made.task = asyncio.get_running_loop().create_task(self._fill(made, message))
        return made

    async def _fill(self, made: _Made, message: Complete) -> None:
        visible = Visible()
        try:
            async with await self.link.start(message) as stream:
                async for reply in stream:
                    if isinstance(reply, Tokens) and (text := visible.feed(reply.text)):
                        made.ahead.add(text)
                    elif isinstance(reply, Done):
                        self._filled_by(made, reply, visible.end())
        except FAULTS:
            made.failed = True

    @staticmethod
    def _filled_by(made: _Made, done: Done, rest: str) -> None:
        made.prefilled, made.seconds = done.usage.prefilled, (done.timings.prefill + done.timings.decode) / 1000
        if done.reason in FINISHED:
            made.ahead.add(rest)
            made.ahead.finish()
        else:
            made.failed = True

    def _tell(self, message: CompletionUsed) -> None:
        self.link.say(message)
