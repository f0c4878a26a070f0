"""Owns how messages lie in the byte stream between front and engine: a length of four bytes, then the message."""

import asyncio
import struct
from collections.abc import Callable, Iterator
from socket import socket
from typing import Any

from modeld.engine.messages import KINDS
from modelwire.codec import Codec

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Above the largest message of the wire with all ids of a long session beside it."""
MAX_ITEMS = MAX_FRAME_BYTES
"""Of one list: whatever a frame has room for. A conversation of many messages has more parts than one on the wire."""
_LENGTH = struct.Struct("<I")


class FrameFault(Exception):
    """The stream holds something that is not a frame; nothing after it can be trusted."""


def codec() -> Codec:
    return Codec(KINDS, brief=KINDS.values(), max_bytes=MAX_FRAME_BYTES, max_items=MAX_ITEMS)


class Numbered:
    """One end's messages, counted in both directions: one that comes twice or is missing is a fault."""

    def __init__(self, codec: Codec, epoch: int) -> None:
        self._codec = codec
        self._epoch = epoch
        self._sent = self._heard = 0

    def encode(self, message: object) -> bytes:
        """Raises `WireError` as the codec does; then it does not count."""
        data = self._codec.encode(f"{self._epoch}.{self._sent + 1}", message)
        self._sent += 1
        return data

    def decode(self, data: bytes) -> Any:
        """Raises `DecodeFault` as the codec does, and `FrameFault` for another message than the next one."""
        envelope = self._codec.decode(data)
        self._heard += 1
        if envelope.op != (due := f"{self._epoch}.{self._heard}"):
            raise FrameFault(f"message {envelope.op} came where {due} was due")
        return envelope.message


def framed(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


class FrameReader(asyncio.Protocol):
    """The front's end of the stream. A frame is handed on in the moment when it is whole: no task wakes up for it."""

    def __init__(self) -> None:
        self._held = bytearray()  # the beginning of a frame
        self._take: Callable[[bytes], None] | None = None
        self._failed = False
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed = asyncio.Event()

    async def hand_on(self, take: Callable[[bytes], None]) -> None:
        """Until the stream ends, also where it ends inside a frame.

        Raises `FrameFault`, what `take` raised, and what `fail` was told; nothing is handed on after that.
        """
        self._take = take
        self.data_received(b"")
        await self._over

    def fail(self, fault: Exception) -> None:
        self._failed = True
        if not self._over.done():
            self._over.set_exception(fault)

    def data_received(self, data: bytes) -> None:
        self._held += data
        if self._take is None:
            return
        try:
            while not self._failed and (frame := self._next()) is not None:
                self._take(frame)
        except Exception as fault:
            self.fail(fault)

    def eof_received(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def connection_lost(self, fault: Exception | None) -> None:
        self.closed.set()
        self.fail(fault) if fault else self.eof_received()

    def _next(self) -> bytes | None:
        held = self._held
        if len(held) < _LENGTH.size or len(held) < (end := _LENGTH.size + _length(held[: _LENGTH.size])):
            return None
        frame = bytes(held[_LENGTH.size : end])
        del held[:end]
        return frame


class Channel:
    """The engine's end: blocking, one thread."""

    def __init__(self, connection: socket, epoch: int) -> None:
        self._connection = connection
        self._stream = connection.makefile("rb")
        self._messages = Numbered(codec(), epoch)

    def send(self, message: object) -> None:
        self._connection.sendall(framed(self._messages.encode(message)))

    def __iter__(self) -> Iterator[object]:
        """Messages until the stream ends. Raises `FrameFault`."""
        while len(head := self._stream.read(_LENGTH.size)) == _LENGTH.size:
            data = self._stream.read(length := _length(head))
            if len(data) < length:
                return
            yield self._messages.decode(data)

    def close(self) -> None:
        self._stream.close()
        self._connection.close()


def _length(head: bytes | bytearray) -> int:
    (length,) = _LENGTH.unpack(head)
    if length > MAX_FRAME_BYTES:
        raise FrameFault(f"a frame of {length} bytes; the limit is {MAX_FRAME_BYTES}")
    return int(length)
