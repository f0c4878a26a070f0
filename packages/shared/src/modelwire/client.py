"""Owns a client's side of the wire on asyncio: questions, operations, finding the daemon again. It decides nothing."""

import asyncio
import contextlib
import itertools
from collections import deque
from functools import partial
from types import TracebackType
from typing import Any, Self, cast

import zmq.asyncio

from modelwire.endpoint import default_endpoint
from modelwire.errors import DaemonUnreachable, ErrorCode, WireError
from modelwire.link import Answer, Link, lost, unreachable
from modelwire.messages import (
    Acknowledged,
    Cancel,
    Close,
    Decode,
    DecodeConfig,
    Describe,
    Description,
    Done,
    EnsurePrefix,
    Error,
    GetStatus,
    Hello,
    Load,
    PrefillSuffix,
    Prompt,
    Restore,
    Snapshot,
    SnapshotTaken,
    Status,
    StoryTold,
    TellStory,
    TokenIds,
    Tokenize,
    Tokens,
    Turn,
    Unload,
    Welcome,
)
from modelwire.protocol import MODELD, Protocol

DEFAULT_TIMEOUT = 10.0
LOAD_S = 2700.0
"""Longer than modeld takes to give up a model that says nothing, and the one before as well: only then it says why."""
MERGE_FROM = 64
"""So many unread replies of an operation are kept one by one; what comes after them is merged where it can be."""


class OperationStream:
    """The replies to one operation, in order: iterate over it, or wait for its end with `done` or `text`.

    Iteration yields everything up to and including the terminal message; an `error` is raised as `WireError`. Leaving
    an `async with` block, or `aclose`, cancels what has not ended.
    """

    def __init__(self, op: str, connection: "Connection", protocol: Protocol) -> None:
        self.id = op
        self._connection = connection
        self._protocol = protocol
        self._unread: deque[Any] = deque()
        self._arrived = asyncio.Event()
        self._end: Any = None
        self._fault: Exception | None = None
        self._raised = False

    def __repr__(self) -> str:
        state = "failed" if self._fault else "ended" if self._end else "open"
        return f"<OperationStream {self.id} {state}, {len(self._unread)} unread>"

    @property
    def over(self) -> bool:
        """Whether its end has arrived (there may be unread replies before it)."""
        return self._end is not None or self._fault is not None

    def feed(self, message: Any) -> None:
        """Takes the next reply. For the connection's use."""
        if isinstance(message, Error):
            self.fail(WireError(message.code, message.message, retry=message.retry, numbers=message.numbers))
            return
        if type(message) in self._protocol.terminal:
            self._end = message
        merge = self._protocol.merge.get(type(message))
        if merge and len(self._unread) >= MERGE_FROM and type(self._unread[-1]) is type(message):
            self._unread[-1] = merge([self._unread[-1], message])
        else:
            self._unread.append(message)
        self._arrived.set()

    def fail(self, fault: Exception) -> None:
        """Ends it with `fault`. For the connection's use."""
        self._fault = fault
        self._arrived.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        while not self._unread:
            if self._fault and not self._raised:
                self._raised = True
                raise self._fault
            if self.over:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._unread.popleft()

    async def done(self) -> Done:
        """Waits for the end, discarding what comes before it."""
        async for _ in self:
            pass
        if self._fault:
            raise self._fault
        return cast(Done, self._end)

    async def text(self) -> str:
        """Waits for the end; gives all text that was not read yet."""
        text = [message.text async for message in self if isinstance(message, Tokens)]
        if self._fault:
            raise self._fault
        return "".join(text)

    async def cancel(self) -> bool:
        """Ends the operation; no token follows. False where it had ended before. Its `done` can still be read."""
        if self.over:
            return False
        answer = await self._connection.ask(Cancel(target=self.id))
        return cast(Acknowledged, answer).found

    async def aclose(self) -> None:
        """Cancels it if it has not ended. A daemon that is gone has ended it."""
        if not self.over:
            try:
                await self.cancel()
            except (WireError, DaemonUnreachable):
                pass
            finally:
                self._connection.detach(self.id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.aclose()


class Connection:
    """A client of the daemon at `endpoint`, whatever its protocol.

    When the daemon goes away, everything open ends with `WireError` `daemon_lost`; the next question or operation looks
    for the daemon again. `timeout` (seconds) bounds the wait for an answer to a question.
    """

    def __init__(
        self, endpoint: str | None, protocol: Protocol, *, name: str = "", timeout: float = DEFAULT_TIMEOUT
    ) -> None:
        self.endpoint = endpoint or default_endpoint(protocol.service)
        self._protocol = protocol
        self._codec = protocol.codec()
        self._name = name
        self._timeout = timeout
        self._ops = itertools.count(1)
        self._context: zmq.asyncio.Context | None = None
        self._link: Link | None = None
        self._meeting: Link | None = None
        self._welcome: Welcome | None = None
        self._connecting = asyncio.Lock()
        self._late: dict[str, asyncio.Task[None]] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.endpoint} {self._link or 'not connected'}>"

    @property
    def welcome(self) -> Welcome:
        """What the daemon last said of itself."""
        if self._welcome is None:
            raise RuntimeError("not connected: use it inside 'async with'")
        return self._welcome

    @property
    def connected(self) -> bool:
        """Whether the daemon that last answered is still there, as far as is known."""
        return self._link is not None and self._link.alive

    async def __aenter__(self) -> Self:
        self._context = zmq.asyncio.Context()
        try:
            await self._connected()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends everything that is open; to be cancelled meanwhile does not keep it from that, it takes a moment."""
        ending = asyncio.get_running_loop().create_task(self._end())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):  # who was cancelled must see that
                await ending
            raise

    async def _end(self) -> None:
        late = list(self._late.values())
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        context, self._context = self._context, None  # from here on nobody makes a link
        link, self._link = self._link, None
        if link:
            self._farewell(link)
        for one in (link, self._meeting):
            if one:
                await one.close()
        if context:
            await asyncio.to_thread(context.term)

    def _farewell(self, link: Link) -> None:
        """Says goodbye, in a protocol that has a word for it."""

    # --- questions and operations ---------------------------------------------------------------------------

    async def ask(self, message: Any, *, within: float | None = None) -> Any:
        """The answer to a question. Raises `WireError` for an error, `DaemonUnreachable` when none comes in time.

        `within` (seconds) is for a question that takes its time. One that nobody waits for any more is withdrawn.
        """
        link = await self._connected()
        return await self._ask(link, message, within)

    def start(self, message: Any) -> OperationStream:
        """Sends an operation at once; its fate is in the stream. Raises `WireError` for one that cannot be sent."""
        stream = OperationStream(self._next_op(), self, self._protocol)
        if self._link and self._link.alive:
            self._link.begin(stream.id, message, stream)
        else:
            task = asyncio.get_running_loop().create_task(self._start_late(stream, message))
            task.add_done_callback(partial(self._no_longer_late, stream))
            self._late[stream.id] = task
        return stream

    def detach(self, op: str) -> None:
        """Nobody reads the replies to `op` any more."""
        if task := self._late.pop(op, None):
            task.cancel()
        if self._link:
            self._link.end(op)

    async def _start_late(self, stream: OperationStream, message: Any) -> None:
        try:
            (await self._connected()).begin(stream.id, message, stream)
        except Exception as fault:  # whatever it is, it is the stream's reader who must know
            stream.fail(fault)

    def _no_longer_late(self, stream: OperationStream, task: "asyncio.Task[None]") -> None:
        """A task that is cancelled before its first step runs nothing of itself."""
        self._late.pop(stream.id, None)
        if task.cancelled():
            stream.fail(lost(self._protocol.service))

    async def _ask(self, link: Link, message: Any, within: float | None = None) -> Any:
        op, waiting = self._next_op(), Answer()
        seconds = self._timeout if within is None else within
        link.begin(op, message, waiting)
        try:
            # `wait_for` of Python 3.11 can swallow a cancellation.
            async with asyncio.timeout(seconds):
                answer = await waiting.future
        except TimeoutError:
            raise self._unanswered(link, seconds) from None
        finally:
            link.end(op)
            if waiting.future.cancelled() and link.alive:  # nobody waits: it must not stay queued there
                link.say(self._next_op(), Cancel(target=op))
        if isinstance(answer, Error):
            raise WireError(answer.code, answer.message, retry=answer.retry, numbers=answer.numbers)
        return answer

    def _unanswered(self, link: Link, seconds: float) -> DaemonUnreachable:
        """A daemon that has said `welcome`, and did not fall silent since, need not be started."""
        if link is not self._link or not link.alive:
            return unreachable(self.endpoint, self._protocol.service)
        says = f"is there, but did not answer within {seconds:g} s: it may be busy, ask again later"
        return DaemonUnreachable(f"{self._protocol.service} at {self.endpoint} {says}")

    def _next_op(self) -> str:
        return str(next(self._ops))

    async def _connected(self) -> Link:
        """The live link; a new one where there is none. Raises `DaemonUnreachable`."""
        if self._context is None:
            raise RuntimeError("not connected: use it inside 'async with'")
        async with self._connecting:
            if self._link and self._link.alive:
                return self._link
            if self._link:
                await self._link.close()
            if self._context is None:  # `close` came meanwhile
                raise lost(self._protocol.service)
            link = self._meeting = Link(self.endpoint, self._protocol, self._codec, self._context)
            try:
                welcome = await self._ask(link, Hello(client=self._name))
                if not isinstance(welcome, Welcome) or welcome.beat_ms < 1:
                    raise unreachable(self.endpoint, self._protocol.service)
            except BaseException as fault:
                await link.close()
                if isinstance(fault, WireError) and fault.code == ErrorCode.DAEMON_LOST:
                    raise unreachable(self.endpoint, self._protocol.service) from None
                raise
            finally:
                self._meeting = None
            link.beat_every(welcome.beat_ms)
            self._welcome, self._link = welcome, link
            return link


class Client(Connection):
    """A client of modeld."""

    def __init__(self, endpoint: str | None = None, *, name: str = "", timeout: float = DEFAULT_TIMEOUT) -> None:
        super().__init__(endpoint, MODELD, name=name, timeout=timeout)

    def _farewell(self, link: Link) -> None:
        if link.alive:
            link.say(self._next_op(), Close())

    async def describe(self) -> Description:
        return cast(Description, await self.ask(Describe()))

    async def status(self) -> Status:
        return cast(Status, await self.ask(GetStatus()))

    async def tokenize(self, prompt: Prompt, *, within: float = LOAD_S) -> tuple[int, ...]:
        """The ids of a prompt. It waits its turn as an operation does, and for a model that is being loaded."""
        return cast(TokenIds, await self.ask(Tokenize(prompt=prompt), within=within)).ids

    async def close_session(self, session: str) -> bool:
        """Ends a session; False where there was none."""
        return cast(Acknowledged, await self.ask(Close(session=session))).found

    async def load(self, model: str | None = None, *, within: float = LOAD_S) -> bool:
        """Loads the file `model` (an absolute path), or what was unloaded; False where it is loaded already."""
        return cast(Acknowledged, await self.ask(Load(model=model), within=within)).found

    async def unload(self, *, within: float = LOAD_S) -> bool:
        """Gives the model's memory back until the next operation; False where nothing was loaded."""
        return cast(Acknowledged, await self.ask(Unload(), within=within)).found

    async def snapshot(self, session: str) -> SnapshotTaken:
        """A handle to what the session stands for now; `restore` takes it."""
        return cast(SnapshotTaken, await self.ask(Snapshot(session=session), within=LOAD_S))

    async def story(self, target: str = "", *, client: str = "") -> tuple[str, ...]:
        """What happened to an operation, a line for each thing; of the newest where `target` is empty."""
        return cast(StoryTold, await self.ask(TellStory(target=target, client=client))).lines

    def ensure_prefix(
        self,
        *,
        session: str,
        prompt: Prompt,
        speculative: bool = False,
        lane: str | None = None,
        deadline_ms: int | None = None,
    ) -> OperationStream:
        return self.start(
            EnsurePrefix(session=session, prompt=prompt, speculative=speculative, lane=lane, deadline_ms=deadline_ms)
        )

    def prefill_suffix(
        self,
        *,
        session: str,
        prompt: Prompt,
        speculative: bool = False,
        lane: str | None = None,
        deadline_ms: int | None = None,
    ) -> OperationStream:
        return self.start(
            PrefillSuffix(session=session, prompt=prompt, speculative=speculative, lane=lane, deadline_ms=deadline_ms)
        )

    def restore(
        self,
        handle: str,
        *,
        session: str,
        speculative: bool = False,
        lane: str | None = None,
        deadline_ms: int | None = None,
    ) -> OperationStream:
        return self.start(
            Restore(handle=handle, session=session, speculative=speculative, lane=lane, deadline_ms=deadline_ms)
        )

    def decode(
        self,
        *,
        session: str,
        decode: DecodeConfig | None = None,
        lane: str | None = None,
        deadline_ms: int | None = None,
    ) -> OperationStream:
        return self.start(Decode(session=session, decode=decode or DecodeConfig(), lane=lane, deadline_ms=deadline_ms))

    def turn(
        self,
        *,
        session: str,
        prefix: Prompt,
        suffix: Prompt = (),
        decode: DecodeConfig | None = None,
        speculative: bool = False,
        ahead: bool = False,
        lane: str | None = None,
        deadline_ms: int | None = None,
    ) -> OperationStream:
        return self.start(
            Turn(
                session=session,
                prefix=prefix,
                suffix=suffix,
                decode=decode or DecodeConfig(),
                speculative=speculative,
                ahead=ahead,
                lane=lane,
                deadline_ms=deadline_ms,
            )
        )
