"""Owns how messages lie in the byte stream between front and engine: a length of four bytes, then the message.

A message is msgpack: its number, its class, the values of its fields. Both ends run the same code, and what a client
sends was checked at the wire, so values are taken as they are: to check each one again costs several times as much.
"""

import asyncio
import select
import struct
from collections.abc import Callable, Iterator, Sequence
from enum import EnumType
from socket import socket
from typing import Any

import attrs
import msgpack

from modeld.engine.messages import KINDS
from modelwire.codec import packed
from modelwire.messages import ChatMessage, DecodeConfig, Exactness, ModelDescription, Text, Timings, Usage

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Above the largest message of the wire with all ids of a long session beside it."""
_READ_BYTES = 64 * 1024
"""Read at once, into a buffer that stays: asyncio's own way asks the system for 256 KiB at every message."""
_LENGTH = struct.Struct("<I")


class FrameFault(Exception):
    """The stream holds something that is not a frame; nothing after it can be trusted."""


_PARTS = (Text, ChatMessage, DecodeConfig, Usage, Timings, ModelDescription, Exactness)
"""What lies in messages without being one."""
KNOWN = (*KINDS.values(), *_PARTS)
_NUMBERS = {cls: number for number, cls in enumerate(KNOWN)}
_NAMES = {cls: tuple(field.name for field in attrs.fields(cls)) for cls in KNOWN}
_ENUMS = {
    cls: [(field.name, field.type) for field in attrs.fields(cls) if isinstance(field.type, EnumType)] for cls in KNOWN
}


def decode(data: bytes) -> tuple[str, Any]:
    """(op, message). Raises `FrameFault`."""
    try:
        op, message = msgpack.unpackb(data, use_list=False, strict_map_key=False, object_pairs_hook=_revived)
        return op, message
    except Exception as fault:  # ValueError, TypeError, msgpack's own: all mean the same, and may quote a prompt
        raise FrameFault(f"no message is in it ({type(fault).__name__})") from None


def _numbered(message: object) -> dict[int, list[Any]]:
    """An object as msgpack has it: a map from its class's number to its values. All other maps have names as keys."""
    cls = type(message)
    return {_NUMBERS[cls]: [getattr(message, name) for name in _NAMES[cls]]}


def _revived(pairs: Sequence[tuple[Any, Any]]) -> Any:
    if len(pairs) != 1 or type(pairs[0][0]) is not int:
        return dict(pairs)
    cls = KNOWN[pairs[0][0]]
    fields = dict(zip(_NAMES[cls], pairs[0][1], strict=True))
    for name, enum in _ENUMS[cls]:
        fields[name] = enum(fields[name])
    return cls(**fields)


class Numbered:
    """One end's messages, counted in both directions: one that comes twice or is missing is a fault."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._packer = msgpack.Packer(default=_numbered, autoreset=True)
        self._sent = self._heard = 0

    def encode(self, message: object) -> bytes:
        """Raises `WireError` as the wire's codec does; then it does not count."""
        numbered = f"{self._epoch}.{self._sent + 1}", message
        data = packed(self._packer, numbered, type(message).__name__, MAX_FRAME_BYTES)
        self._sent += 1
        return data

    def decode(self, data: bytes) -> Any:
        """Raises `FrameFault`, also for another message than the next one."""
        op, message = decode(data)
        self._heard += 1
        if op != (due := f"{self._epoch}.{self._heard}"):
            raise FrameFault(f"message {op} came where {due} was due")
        return message


def framed(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


class FrameReader(asyncio.BufferedProtocol):
    """The front's end of the stream. A frame is handed on in the moment when it is whole: no task wakes up for it."""

    def __init__(self) -> None:
        self._buffer = bytearray(_READ_BYTES)
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

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(self._buffer[:nbytes])

    def data_received(self, data: bytes | bytearray) -> None:
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
        self._messages = Numbered(epoch)
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    def waits(self) -> bool:
        """Whether a message has begun to come, or the stream has ended. The front sends one at a time."""
        return bool(self._poll.poll(0))

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
