"""Owns the answers that stream to an editor: from a question to its end, one at a time. It chooses no questions."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Any, Protocol

from attrs import define, field

from intentd.messages import Ask
from intentd.plan.visible import Visible
from intentd.shown import Focus
from intentd.sources.lsp.link import FAULTS, Link
from modelwire.client import OperationStream
from modelwire.messages import Done, Outcome, Reason, Tokens

FAILED = "failed"
"""The reason of an answer that could not be given, or not to its end."""


class Listener(Protocol):
    """Who shows answers as they come."""

    def begin(self, answer: str, title: str) -> None: ...

    def text(self, answer: str, text: str) -> None: ...

    def end(self, answer: str, reason: str) -> None: ...


@define(eq=False)
class Answer:
    """`focus` is what the daemon said that it is about."""

    id: str
    text: str = ""
    outcome: Outcome = Outcome.NONE
    reason: str = Reason.CANCELLED
    first_token_ms: float = 0.0
    focus: Focus | None = None

    def told(self) -> dict[str, Any]:
        return {
            "answer": self.id,
            "text": self.text,
            "outcome": str(self.outcome),
            "reason": str(self.reason),
            "first_token_ms": round(self.first_token_ms, 3),
        }


@define(eq=False)
class Answers:
    """A question stops the answer before it: nobody reads two at once. It is open while it waits for a daemon, too."""

    link: Link
    _numbers: "itertools.count[int]" = field(factory=lambda: itertools.count(1))
    _open: "dict[str, asyncio.Task[OperationStream]]" = field(factory=dict)

    def __len__(self) -> int:
        return len(self._open)

    async def run(self, question: Ask, title: str, listener: Listener) -> Answer:
        """Until it has ended, in whatever way. Raises `WireError`, `DaemonUnreachable`."""
        began = time.perf_counter()
        answer = Answer(f"answer-{next(self._numbers)}")
        opening = asyncio.get_running_loop().create_task(self._begin(question, list(self._open.values())))
        self._open[answer.id] = opening
        listener.begin(answer.id, title)
        try:
            await asyncio.wait([opening])
            if not opening.cancelled():
                async with opening.result() as stream:
                    await self._read(stream, answer, began, listener)
        except FAULTS:
            answer.reason = FAILED
            raise
        except asyncio.CancelledError:
            await _end(opening)  # its stream may be there, and not taken yet
            raise
        finally:
            self._open.pop(answer.id, None)
            listener.end(answer.id, str(answer.reason))
        return answer

    async def _begin(self, question: Ask, before: "Sequence[asyncio.Task[OperationStream]]") -> OperationStream:
        await asyncio.gather(*map(_end, before))
        return await self.link.start(question)

    async def _read(self, stream: OperationStream, answer: Answer, began: float, listener: Listener) -> None:
        visible = Visible()
        async for reply in stream:
            match reply:
                case Focus():
                    answer.focus = reply
                case Tokens():
                    answer.first_token_ms = answer.first_token_ms or 1000 * (time.perf_counter() - began)
                    self._say(answer, visible.feed(reply.text), listener)
                case Done():
                    self._say(answer, visible.end(), listener)
                    answer.reason, answer.outcome = str(reply.reason), reply.usage.outcome

    @staticmethod
    def _say(answer: Answer, text: str, listener: Listener) -> None:
        if text:
            answer.text += text
            listener.text(answer.id, text)

    async def stop(self, answer: str | None = None) -> bool:
        """Ends an answer, or all of them; they keep what they have said. Whether there was one."""
        wanted = [opening for id, opening in self._open.items() if answer in (None, id)]
        return any(await asyncio.gather(*map(_end, wanted)))


async def _end(opening: "asyncio.Task[OperationStream]") -> bool:
    """Whether it had not ended before."""
    if opening.cancel():
        return True
    try:
        return not opening.cancelled() and await opening.result().cancel()
    except FAULTS:
        return False
