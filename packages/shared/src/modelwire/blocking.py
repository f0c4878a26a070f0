"""Owns the client for programs without asyncio: the same client, on an event loop in one background thread."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from modelwire.client import DEFAULT_TIMEOUT, LOAD_S, Client, Connection, OperationStream
from modelwire.messages import (
    Decode,
    DecodeConfig,
    Description,
    Done,
    EnsurePrefix,
    PrefillSuffix,
    Prompt,
    Restore,
    SnapshotTaken,
    Status,
    Turn,
    Welcome,
)

_T = TypeVar("_T")
_Connection = TypeVar("_Connection", bound=Connection)


class _Loop:
    """An event loop in a thread. The connection's beats go on while the program does other things."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="modelwire", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Runs it there and waits. An interruption of the wait (Ctrl-C) cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()


class BlockingStream:
    """`OperationStream` without `await`: a plain `for` gives the replies."""

    def __init__(self, stream: OperationStream, loop: _Loop) -> None:
        self._stream = stream
        self._loop = loop

    def __repr__(self) -> str:
        return repr(self._stream)

    @property
    def id(self) -> str:
        return self._stream.id

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        found, reply = self._loop.run(_next(self._stream))
        if not found:
            raise StopIteration
        return reply

    def done(self) -> Done:
        return self._loop.run(self._stream.done())

    def text(self) -> str:
        return self._loop.run(self._stream.text())

    def cancel(self) -> bool:
        return self._loop.run(self._stream.cancel())

    def close(self) -> None:
        self._loop.run(self._stream.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


async def _next(stream: OperationStream) -> tuple[bool, Any]:
    """A coroutine cannot raise StopAsyncIteration across threads; so its end is a value."""
    async for reply in stream:
        return True, reply
    return False, None


class BlockingConnection(Generic[_Connection]):
    """A `Connection` without `await`. Use it in a `with` block."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._background: _Loop | None = None

    def __enter__(self) -> Self:
        self._background = _Loop()
        try:
            self._background.run(self._connection.__aenter__())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        background, self._background = self._background, None
        if background:
            try:
                background.run(self._connection.close())
            finally:
                background.stop()

    @property
    def welcome(self) -> Welcome:
        return self._connection.welcome

    def ask(self, message: Any) -> Any:
        return self._loop.run(self._connection.ask(message))

    def start(self, message: Any) -> BlockingStream:
        async def begin() -> OperationStream:
            return self._connection.start(message)

        return BlockingStream(self._loop.run(begin()), self._loop)

    @property
    def _loop(self) -> _Loop:
        if self._background is None:
            raise RuntimeError("not connected: use it inside 'with'")
        return self._background


class BlockingClient(BlockingConnection[Client]):
    """A client of modeld without `await`."""

    def __init__(self, endpoint: str | None = None, *, name: str = "", timeout: float = DEFAULT_TIMEOUT) -> None:
        super().__init__(Client(endpoint, name=name, timeout=timeout))

    def describe(self) -> Description:
        return self._loop.run(self._connection.describe())

    def status(self) -> Status:
        return self._loop.run(self._connection.status())

    def tokenize(self, prompt: Prompt, *, within: float = LOAD_S) -> tuple[int, ...]:
        return self._loop.run(self._connection.tokenize(prompt, within=within))

    def close_session(self, session: str) -> bool:
        return self._loop.run(self._connection.close_session(session))

    def load(self, model: str | None = None, *, within: float = LOAD_S) -> bool:
        return self._loop.run(self._connection.load(model, within=within))

    def unload(self, *, within: float = LOAD_S) -> bool:
        return self._loop.run(self._connection.unload(within=within))

    def snapshot(self, session: str) -> SnapshotTaken:
        return self._loop.run(self._connection.snapshot(session))

    def story(self, target: str = "", *, client: str = "") -> tuple[str, ...]:
        return self._loop.run(self._connection.story(target, client=client))

    def ensure_prefix(
        self,
        *,
        session: str,
        prompt: Prompt,
        speculative: bool = False,
        lane: str | None = None,
        deadline_ms: int | None = None,
    ) -> BlockingStream:
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
    ) -> BlockingStream:
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
    ) -> BlockingStream:
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
    ) -> BlockingStream:
        return self.start(Decode(session=session, decode=decode or DecodeConfig(), lane=lane, deadline_ms=deadline_ms))

    def turn(
        self,
        *,
        session: str,
        prefix: Prompt,
        suffix: Prompt = (),
        decode: DecodeConfig | None = None,
        speculative: bool = False,
        lane: str | None = None,
        deadline_ms: int | None = None,
    ) -> BlockingStream:
        return self.start(
            Turn(
                session=session,
                prefix=prefix,
                suffix=suffix,
                decode=decode or DecodeConfig(),
                speculative=speculative,
                lane=lane,
                deadline_ms=deadline_ms,
            )
        )
