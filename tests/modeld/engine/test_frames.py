"""Messages in a byte stream, from both ends."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from modeld.engine import messages as engine_messages
from modeld.engine.frames import MAX_FRAME_BYTES, Channel, FrameFault, FrameReader, Numbered, codec, framed
from modeld.engine.messages import Begun, Encode, Encoded, Quit, Ready, Run
from modeld.testing import MODEL
from modelwire.codec import MAX_ITEMS, Codec
from modelwire.errors import WireError
from modelwire.messages import ChatMessage, DecodeConfig, Text


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
        Quit(),
    ]


@pytest.mark.parametrize("message", _examples(), ids=lambda message: type(message).__name__)
def test_a_message_comes_out_as_it_went_in(message: object, ends: tuple[Channel, socket.socket]) -> None:
    channel, front = ends
    front.sendall(framed(codec().encode("7.1", message)))
    assert next(iter(channel)) == message


async def test_the_front_reads_what_the_engine_sends(ends: tuple[Channel, socket.socket]) -> None:
    channel, front = ends
    transport, reader = await asyncio.get_running_loop().create_connection(FrameReader, sock=front)
    for _ in range(3):
        channel.send(Begun(ids=b"", reused=0))
    channel.close()
    frames: list[bytes] = []
    await asyncio.wait_for(reader.hand_on(frames.append), 5)
    envelopes = [codec().decode(data) for data in frames]
    assert [envelope.op for envelope in envelopes] == ["7.1", "7.2", "7.3"]
    assert envelopes[0].message == Begun(ids=b"", reused=0)
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
    front.sendall(framed(codec().encode("7.1", Quit()))[:cut])
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


def test_every_kind_of_message_has_a_converter() -> None:
    assert set(engine_messages.KINDS) >= {"run", "encode", "quit", "ready", "refused", "ended", "failed"}
    assert isinstance(codec(), Codec)


def test_a_frame_may_hold_a_longer_list_than_the_wire() -> None:
    """Ids of a long text, and a conversation of more messages than one message of the wire has."""
    encoded = Encoded(ids=(7,) * (MAX_ITEMS + 1))
    assert codec().decode(codec().encode("1", encoded)).message == encoded


def test_a_message_that_cannot_be_sent_does_not_count(ends: tuple[Channel, socket.socket]) -> None:
    channel, front = ends
    with pytest.raises(WireError):
        channel.send(Begun(ids=bytes(MAX_FRAME_BYTES), reused=0))
    channel.send(Quit())
    messages = Numbered(codec(), 7)
    assert messages.decode(front.recv(1000)[4:]) == Quit()
