"""Owns one request as a client of modeld sees it: sent, read to its end, timed."""

import asyncio
import time

from attrs import frozen

from modelwire import Client
from modelwire.client import OperationStream
from modelwire.messages import DecodeConfig, Done, Progress, Prompt, Started, Timings, Tokens, Usage


@frozen(kw_only=True)
class Answered:
    """Times from sending it: `first_token_ms` to its first token (0: there was none), `seen_ms` to its end."""

    first_token_ms: float
    seen_ms: float
    ids: tuple[int, ...]
    text: str
    preempted: bool
    done: Done

    @property
    def usage(self) -> Usage:
        return self.done.usage

    @property
    def timings(self) -> Timings:
        return self.done.timings

    @property
    def step_ms(self) -> float:
        return self.timings.decode / max(1, self.usage.generated - 1)


async def ask(client: Client, session: str, prompt: Prompt, decode: DecodeConfig) -> Answered:
    sent = time.perf_counter()
    return await answered(client.turn(session=session, prefix=prompt, decode=decode), sent)


async def answered(stream: OperationStream, sent: float, begun: asyncio.Event | None = None) -> Answered:
    """Reads an operation to its end. `begun` is set once it is known what it reuses."""
    first, ids, text, preempted = 0.0, list[int](), "", False
    async for reply in stream:
        match reply:
            case Started():
                preempted = reply.preempted is not None
            case Progress() if begun:
                begun.set()
            case Tokens():
                first = first or (time.perf_counter() - sent) * 1000
                ids += reply.ids
                text += reply.text
            case Done():
                seen = (time.perf_counter() - sent) * 1000
                return Answered(
                    first_token_ms=first, seen_ms=seen, ids=tuple(ids), text=text, preempted=preempted, done=reply
                )
    raise RuntimeError("the stream ended without its last message")
