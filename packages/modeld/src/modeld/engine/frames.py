"""Owns how messages lie in the byte stream between front and engine: a length of four bytes, then the message."""

import asyncio
import struct
from collections.abc import Iterator
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
    return Codec(KINDS, max_bytes=MAX_FRAME_BYTES, max_items=MAX_ITEMS)


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


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next frame; None at the end of the stream, also where it ends inside a frame."""
    try:
        return await reader.readexactly(_length(await reader.readexactly(_LENGTH.size)))
    except asyncio.IncompleteReadError:
        return None


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


def _length(head: bytes) -> int:
    (length,) = _LENGTH.unpack(head)
    if length > MAX_FRAME_BYTES:
        raise FrameFault(f"a frame of {length} bytes; the limit is {MAX_FRAME_BYTES}")
    return int(length)
