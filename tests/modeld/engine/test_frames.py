"""Messages in a byte stream, from both ends."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any, get_args

import attrs
import msgpack
import pytest

from modeld.engine import messages as engine_messages
from modeld.engine.frames import (
    KNOWN,
    MAX_FRAME_BYTES,
    Channel,
    FrameFault,
    FrameReader,
    Numbered,
    decode,
    framed,
)
from modeld.engine.messages import Begun, DraftFigures, Encode, Encoded, Ended, Failed, Generated, Quit, Ready, Run
from modeld.testing import MODEL
from modelwire.codec import MAX_ITEMS
from modelwire.errors import WireError
from modelwire.messages import ChatMessage, DecodeConfig, Outcome, Reason, Text, Timings, Usage


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.settimeout(5)
    channel = Channel(ours, 7)
    yield channel, theirs
    channel.close()
    theirs.close()


def _examples() -> list[object]:
    return [
        Run(client="c", session="s", guess=True, base=b"\1\0\0\0", prompt=(Text(text="é", special=True),)),
        Run(client="c", session="s", guess=False, decode=DecodeConfig(stop=("x",)), closed=(("c", "old"),)),
        Encode(prompt=(ChatMessage(role="user", content="hi"),), complete=True),
        Begun(ids=b"\0\0\0\0", reused=1),
        Ready(
            backend="fake",
            profile="exact",
            model=MODEL,
            capabilities={"fork": "cells", "rollback": True},
            context=1,
            cells=2,
            load_ms=0.5,
        ),
        Ended(
            reason=Reason.LENGTH,
            length=3,
            usage=Usage(outcome=Outcome.WARM),
            timings=Timings(total=1.5),
            drafts=DraftFigures(by_length=((3, 2, 1),)),
            last=Generated(text="é", ids=(1, 2)),
        ),
        Failed(code="internal", message="no", numbers={"prompt": 1}),
        Quit(),
    ]


@pytest.mark.parametrize("message", _examples(), ids=lambda message: type(message).__name__)
def test_a_message_comes_out_as_it_went_in(message: object, ends: tuple[Channel, socket.socket]) -> None:
    channel, front = ends
    front.sendall(framed(Numbered(7).encode(message)))
    heard = next(iter(channel))
    assert heard == message
    assert repr(heard) == repr(message), "a word of an enumeration equals its text"


async def test_the_front_reads_what_the_engine_sends(ends: tuple[Channel, socket.socket]) -> None:
    channel, front = ends
    transport, reader = await asyncio.get_running_loop().create_connection(FrameReader, sock=front)
    for _ in range(3):
        channel.send(Begun(ids=b"", reused=0))
    channel.close()
    frames: list[bytes] = []
    await asyncio.wait_for(reader.hand_on(frames.append), 5)
    assert [decode(data) for data in frames] == [(f"7.{n}", Begun(ids=b"", reused=0)) for n in (1, 2, 3)]
    transport.close()


async def test_after_a_fault_of_who_takes_them_no_frame_is_handed_on() -> None:
    reader, taken = FrameReader(), list[bytes]()

    def take(data: bytes) -> None:
        taken.append(data)
        raise KeyError("one")

    reader.data_received(framed(b"one") + framed(b"two"))
    with pytest.raises(KeyError, match="one"):
        await reader.hand_on(take)
    reader.data_received(framed(b"three"))
    reader.connection_lost(None)
    assert taken == [b"one"]


@pytest.mark.parametrize("cut", [0, 2, 4, 6])
async def test_a_stream_that_ends_early_ends_quietly_on_both_sides(
    cut: int, ends: tuple[Channel, socket.socket]
) -> None:
    channel, front = ends
    front.sendall(framed(Numbered(7).encode(Quit()))[:cut])
    front.shutdown(socket.SHUT_WR)
    assert list(channel) == []
    reader, frames = FrameReader(), list[bytes]()
    reader.data_received(framed(b"12345678")[:cut])
    reader.connection_lost(None)
    await asyncio.wait_for(reader.hand_on(frames.append), 5)
    assert frames == []


async def test_a_length_beyond_the_limit_is_not_waited_for(ends: tuple[Channel, socket.socket]) -> None:
    head = (MAX_FRAME_BYTES + 1).to_bytes(4, "little")
    channel, front = ends
    front.sendall(head)
    with pytest.raises(FrameFault, match="limit"):
        next(iter(channel))
    reader = FrameReader()
    reader.data_received(head)
    with pytest.raises(FrameFault, match="limit"):
        await reader.hand_on(lambda data: None)


def _field_types(cls: type) -> Iterator[Any]:
    """Those of a class's fields, with what is in a tuple, a mapping or a union."""
    waiting = [field.type for field in attrs.fields(cls)]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += get_args(found)


def test_every_class_of_the_stream_is_known_to_it_and_so_is_every_class_in_one() -> None:
    assert set(engine_messages.KINDS.values()) <= set(KNOWN)
    within = {found for cls in KNOWN for found in _field_types(cls) if attrs.has(found)}
    assert within <= set(KNOWN)


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x01", msgpack.packb(["7.1", {99: []}]), Numbered(7).encode(Quit())[:-1]]
)
def test_what_is_no_message_is_a_fault_that_quotes_nothing(data: bytes) -> None:
    with pytest.raises(FrameFault, match=r"^no message is in it \(\w+\)$"):
        decode(data)


def test_a_message_with_too_few_values_is_a_fault() -> None:
    data = msgpack.packb(["7.1", {KNOWN.index(Begun): [b"ids"]}])
    with pytest.raises(FrameFault, match="ValueError"):
        decode(data)


def test_a_frame_may_hold_a_longer_list_than_the_wire() -> None:
    """Ids of a long text, and a conversation of more messages than one message of the wire has."""
    encoded = Encoded(ids=(7,) * (MAX_ITEMS + 1))
    assert decode(Numbered(1).encode(encoded)) == ("1.1", encoded)


def test_a_message_that_cannot_be_sent_does_not_count(ends: tuple[Channel, socket.socket]) -> None:
    channel, front = ends
    with pytest.raises(WireError):
        channel.send(Begun(ids=bytes(MAX_FRAME_BYTES), reused=0))
    channel.send(Quit())
    messages = Numbered(7)
    assert messages.decode(front.recv(1000)[4:]) == Quit()


def test_the_engine_sees_that_a_message_waits(ends: tuple[Channel, socket.socket]) -> None:
    channel, front = ends
    assert not channel.waits()
    front.sendall(framed(Numbered(7).encode(Quit())))
    assert channel.waits()
    assert next(iter(channel)) == Quit()
    assert not channel.waits()
    front.shutdown(socket.SHUT_WR)
    assert channel.waits()
