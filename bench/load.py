"""Owns a load of clients on a modeld and the count of what became of every operation. It starts and kills nothing.

The clients are bare sockets, so that a second end of an operation or a token behind it is seen and not swallowed by a
library. What they ask is greedy and short, and the right answers are known beforehand: from the same daemon, at rest.
"""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import zmq
import zmq.asyncio
from attrs import asdict, define, field

from modelwire.client import Client
from modelwire.errors import ErrorCode
from modelwire.messages import (
    Acknowledged,
    Beat,
    Cancel,
    Close,
    DecodeConfig,
    Done,
    Error,
    Prompt,
    Reason,
    Text,
    Tokens,
    Turn,
)
from modelwire.protocol import MODELD

BEAT_S = 1.0
PATIENCE_S = 120.0
"""So long an operation may take before its client cancels it."""
LOST_S = 180.0
"""A question or a cancelled operation that has no end after so long is lost: even a frozen engine is noticed sooner."""
ALLOWED = {ErrorCode.ENGINE_LOST, ErrorCode.OVERLOADED, ErrorCode.NOT_READY}
_FINISHED = {Reason.END, Reason.STOP, Reason.LENGTH}


@define
class Tally:
    """What became of operations. `ends` counts them by reason or error code; the rest should be 0.

    `slow`: it had no end in PATIENCE_S, and ended when it was cancelled: a machine can be too slow for its load.
    `lost`: it did not even then. `doubled`: a second end came. `late`: something came behind the end or a confirmed
    cancel. `wrong`: the answer was not the one from the daemon at rest.
    """

    operations: int = 0
    preempted: int = 0
    ends: Counter[str] = field(factory=Counter)
    slow: int = 0
    lost: int = 0
    doubled: int = 0
    late: int = 0
    wrong: int = 0

    def faults(self) -> dict[str, int]:
        """Everything that should not have happened, by kind."""
        odd = {f"error {code}": count for code, count in self.ends.items() if code in set(ErrorCode) - ALLOWED}
        counts = {"lost": self.lost, "doubled": self.doubled, "late": self.late, "wrong": self.wrong, **odd}
        return {kind: count for kind, count in counts.items() if count}

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ends": dict(sorted(self.ends.items()))}


@define(eq=False)
class _Operation:
    message: Any
    text: str = ""
    ended: bool = False
    cancelled: bool = False
    news: asyncio.Event = field(factory=asyncio.Event)


class BareClient:
    """A DEALER socket. It counts into `tally` whatever comes, also behind an operation's end."""

    def __init__(self, endpoint: str, tally: Tally, answers: Mapping[str, str]) -> None:
        self._endpoint = endpoint
        self._tally = tally
        self._answers = answers
        self._codec = MODELD.codec()
        self._ops = itertools.count(1)
        self._known: dict[str, _Operation] = {}

    async def __aenter__(self) -> Self:
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.set(zmq.LINGER, 0)
        self._socket.connect(self._endpoint)
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._beat())]
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Vanishes without a word, as a client that was killed does."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._socket.close()
        await asyncio.to_thread(self._context.term)

    async def say(self, message: Any) -> _Operation:
        op = str(next(self._ops))
        operation = self._known[op] = _Operation(message)
        await self._socket.send(self._codec.encode(op, message))
        return operation

    async def run(self, turn: Turn, *, cancel_after: float | None = None) -> None:
        """One operation to its end, which is counted."""
        operation = await self.say(turn)
        self._tally.operations += 1
        if cancel_after is not None:
            await self._wait(operation, cancel_after)
            await self.cancel(operation)
        await self._wait(operation, PATIENCE_S)
        if not operation.ended:
            self._tally.slow += 1
            await self.cancel(operation)
            await self._wait(operation, LOST_S)
        self._tally.lost += not operation.ended

    async def cancel(self, operation: _Operation) -> None:
        target = next(op for op, known in self._known.items() if known is operation)
        await self._wait(await self.say(Cancel(target=target)), LOST_S)
        operation.cancelled = True

    async def _wait(self, operation: _Operation, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not operation.ended:
                    operation.news.clear()
                    await operation.news.wait()
        except TimeoutError:
            return

    async def _read(self) -> None:
        while True:
            [data] = await self._socket.recv_multipart()
            envelope = self._codec.decode(data)
            if operation := self._known.get(envelope.op):
                self._take(operation, envelope.message)
                operation.news.set()

    def _take(self, operation: _Operation, message: Any) -> None:
        ends = isinstance(message, Done | Error | Acknowledged)
        if operation.ended:
            self._tally.doubled += ends
            self._tally.late += not ends
        elif isinstance(message, Tokens):
            self._tally.late += operation.cancelled
            operation.text += message.text
        operation.ended = operation.ended or ends
        if isinstance(operation.message, Turn):
            self._count(operation, message)

    def _count(self, operation: _Operation, message: Any) -> None:
        if isinstance(message, Error):
            self._tally.ends[str(message.code)] += 1
        elif isinstance(message, Done):
            self._tally.ends[str(message.reason)] += 1
            self._tally.preempted += message.reason == Reason.PREEMPTED
            right = self._answers[_text_of(operation.message.prefix)]
            if not operation.message.speculative and message.reason in _FINISHED:
                self._tally.wrong += operation.text != right
            else:
                self._tally.wrong += not right.startswith(operation.text)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            await self._socket.send(self._codec.encode("beat", Beat()))


async def answers_at_rest(endpoint: str, prompts: Sequence[str], decode: DecodeConfig) -> dict[str, str]:
    """What the daemon says to each prompt when nothing disturbs it, each in a session of its own."""
    found = {}
    async with Client(endpoint, name="at rest", timeout=LOST_S) as client:
        for number, prompt in enumerate(prompts):
            async with client.turn(session=f"rest-{number}", prefix=_prompt(prompt), decode=decode) as stream:
                found[prompt] = await stream.text()
            await client.close_session(f"rest-{number}")
    return found


async def keep_asking(
    endpoint: str,
    tally: Tally,
    answers: Mapping[str, str],
    decode: DecodeConfig,
    chance: random.Random,
    over: asyncio.Event,
) -> None:
    """One client after another until `over`: real turns, guesses, cancels; now and then it vanishes in the middle."""
    while not over.is_set():
        async with BareClient(endpoint, tally, answers) as client:
            for _ in range(chance.randint(5, 30)):
                if over.is_set():
                    break
                await _ask_something(client, chance, sorted(answers), decode)
            if chance.random() < 0.3 and not over.is_set():
                await client.say(_turn(chance, sorted(answers), decode))  # and leaves with it open
            else:
                await client.say(Close())


async def _ask_something(
    client: BareClient, chance: random.Random, prompts: Sequence[str], decode: DecodeConfig
) -> None:
    cancel_after = chance.choice((None, None, None, chance.uniform(0, 0.3)))
    await client.run(_turn(chance, prompts, decode), cancel_after=cancel_after)


def _turn(chance: random.Random, prompts: Sequence[str], decode: DecodeConfig) -> Turn:
    return Turn(
        session=f"session-{chance.randint(1, 3)}",
        prefix=_prompt(chance.choice(prompts)),
        decode=decode,
        speculative=chance.random() < 0.3,
    )


def _prompt(text: str) -> Prompt:
    return (Text(text=text),)


def _text_of(prompt: Prompt) -> str:
    return "".join(part.text for part in prompt if isinstance(part, Text))
