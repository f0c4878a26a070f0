"""The daemon's socket: what comes in is read or answered, what goes out never blocks, slow and gone hurt nobody."""

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import zmq
import zmq.asyncio

from modelwire.codec import MAX_MESSAGE_BYTES, Codec, Envelope
from modelwire.errors import EndpointError
from modelwire.messages import (
    Acknowledged,
    Beat,
    Close,
    Done,
    Error,
    Hello,
    Progress,
    Reason,
    Text,
    TokenIds,
    Tokenize,
    Tokens,
)
from modelwire.protocol import MODELD
from modelwire.router import Router

CODEC = MODELD.codec()
PATIENCE_S = 10


class Raw:
    """A client that is only a socket, so that it can misbehave."""

    def __init__(self, socket: zmq.asyncio.Socket) -> None:
        self.socket = socket

    async def send(self, *frames: bytes) -> None:
        await asyncio.wait_for(self.socket.send_multipart(frames), PATIENCE_S)

    async def say(self, op: str, message: Any) -> None:
        await self.send(CODEC.encode(op, message))

    async def read(self) -> Envelope:
        [data] = await asyncio.wait_for(self.socket.recv_multipart(), PATIENCE_S)
        return CODEC.decode(data)


class Served:
    """A router with a task that collects what comes in."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.requests: asyncio.Queue[tuple[str, Envelope]] = asyncio.Queue()

    async def collect(self) -> None:
        await self.router.serve(lambda client, envelope: self.requests.put_nowait((client, envelope)))

    async def next(self) -> tuple[str, Envelope]:
        return await asyncio.wait_for(self.requests.get(), PATIENCE_S)


@asynccontextmanager
async def serving(endpoint: str, codec: Codec = CODEC, **settings: Any) -> AsyncIterator[Served]:
    async with Router(endpoint, codec, MODELD, **settings) as router:
        served = Served(router)
        task = asyncio.create_task(served.collect())
        yield served
    await asyncio.wait_for(task, PATIENCE_S)  # closing ends `serve`


@asynccontextmanager
async def connected(endpoint: str, count: int = 1, hwm: int = 1000) -> AsyncIterator[list[Raw]]:
    context = zmq.asyncio.Context()
    sockets = [context.socket(zmq.DEALER) for _ in range(count)]
    for socket in sockets:
        socket.set(zmq.RCVHWM, hwm)
        socket.connect(endpoint)
    try:
        yield [Raw(socket) for socket in sockets]
    finally:
        context.destroy(linger=0)


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not met():  # noqa: ASYNC110  (what it waits for happens inside the router, which has no event for it)
            await asyncio.sleep(0)


async def test_requests_come_in_with_their_client_and_replies_go_back_to_it(endpoint: str) -> None:
    async with serving(endpoint) as served, connected(endpoint, 2) as (first, second):
        await first.say("1", Hello(client="a"))
        one, envelope = await served.next()
        assert envelope == Envelope("1", Hello(client="a"))
        await second.say("1", Hello(client="b"))
        two, _ = await served.next()
        assert one != two
        served.router.send(two, "1", Acknowledged(found=True))
        served.router.send(one, "1", Acknowledged(found=False))
        assert await first.read() == Envelope("1", Acknowledged(found=False))
        assert await second.read() == Envelope("1", Acknowledged(found=True))
        assert "2 clients" in repr(served.router)


async def test_a_request_is_read_though_a_reply_took_the_signal_that_told_of_it(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, late = zmq.Socket.send, list[bytes]()

    def send_late(self: zmq.Socket[bytes], data: bytes, flags: int = 0) -> None:
        """Only when the request is there and libzmq was asked about it, so that its descriptor is silent again."""
        if flags & zmq.SNDMORE:
            assert self.poll(timeout=1000 * PATIENCE_S), "the request did not come"
            late.append(data)
        send(self, data, flags)

    async with serving(endpoint) as served, connected(endpoint) as (raw,):
        await raw.say("1", Hello(client="a"))
        client, _ = await served.next()
        await until(lambda: not served.router._due)
        zmq.Socket.shadow(raw.socket.underlying).send(CODEC.encode("2", Beat()))  # without a turn of the loop
        with monkeypatch.context() as patched:
            patched.setattr(zmq.Socket, "send", send_late)
            served.router.send(client, "1", Acknowledged(found=True))
        assert [identity.hex() for identity in late] == [client]
        _, envelope = await served.next()
        assert envelope == Envelope("2", Beat())


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([b""], "malformed"),
        ([b"", CODEC.encode("1", Hello())], "malformed"),
        ([b"garbage"], "malformed"),
        ([b"\xff" * 1000], "malformed"),
        ([CODEC.encode("1", Done(reason=Reason.END))], "bad_request"),
        ([b"\x83\xa1v\x01\xa2op\xa11\xa4kind\xa1x"], "unknown_kind"),
        ([b"\x83\xa1v\x09\xa2op\xa11\xa4kind\xa1x"], "wrong_version"),
        ([b"x" * (CODEC.max_bytes + 1)], "too_large"),
    ],
)
async def test_what_cannot_be_read_is_answered_and_counted_and_serving_goes_on(
    endpoint: str, frames: list[bytes], code: str
) -> None:
    async with serving(endpoint) as served, connected(endpoint) as [client]:
        await client.send(*frames)
        reply = await client.read()
        assert reply.message.code == code
        assert reply.op == ("1" if code in ("bad_request", "unknown_kind", "wrong_version") else "?")
        assert served.router.malformed == 1
        await client.say("2", Hello())
        assert (await served.next())[1].op == "2"


@pytest.mark.parametrize("length", [2**16, 2**17 + 1, MAX_MESSAGE_BYTES - 100])
async def test_what_is_larger_than_this_daemon_takes_ends_its_operation_and_no_other_S8(
    endpoint: str, length: int
) -> None:
    """Whatever its own limit is, it reads and answers all that the protocol lets a client send."""
    async with serving(endpoint, MODELD.codec(2**16)) as served, connected(endpoint) as [client]:
        await client.say("open", Hello())
        name, _ = await served.next()
        await client.say("large", Tokenize(prompt=(Text(text="x" * length),)))
        reply = await client.read()
        assert (reply.op, reply.message.code, reply.message.retry) == ("large", "too_large", False)
        assert "the limit (message_bytes) is 65536" in reply.message.message
        served.router.send(name, "open", Acknowledged(found=True))
        assert await client.read() == Envelope("open", Acknowledged(found=True))


@pytest.mark.parametrize(
    "data",
    [
        CODEC.encode("1", Done(reason=Reason.END)),
        b"\x83\xa1v\x01\xa2op\xa11\xa4kind\xa1x",
        b"\x83\xa1v\x09\xa2op\xa11\xa4kind\xa1x",
        CODEC.encode("1", Tokenize(prompt=(Text(text="x" * 2**16),))),
    ],
    ids=["a reply", "unknown kind", "wrong version", "too large"],
)
async def test_what_cannot_be_read_does_not_end_the_live_operation_whose_id_it_carries_S8(
    endpoint: str, data: bytes
) -> None:
    async with serving(endpoint, MODELD.codec(2**16)) as served, connected(endpoint) as [client]:
        await client.say("1", Hello())
        name, _ = await served.next()
        await client.send(data)
        assert (await client.read()).op == "?"
        served.router.send(name, "1", Progress(reused=0, done=1, total=1))
        served.router.send(name, "1", Done(reason=Reason.END))
        assert await client.read() == Envelope("1", Progress(reused=0, done=1, total=1))
        assert await client.read() == Envelope("1", Done(reason=Reason.END))
        await client.send(data)
        assert (await client.read()).op == "1", "it is free again"


async def test_a_client_that_does_not_read_gets_merged_tokens_and_its_end_and_stalls_nobody(endpoint: str) -> None:
    async with serving(endpoint) as served, connected(endpoint, 2, hwm=4) as (slow, other):
        await slow.say("a", Hello())
        name, _ = await served.next()
        piece, count = "x" * 1000, 5000
        for index in range(count):
            served.router.send(name, "a", Tokens(text=piece, ids=(index,)))
        served.router.send(name, "a", Done(reason=Reason.END))
        assert 0 < served.router.waiting_bytes < 8 * 2**20
        served.router.forget(name)  # it still waits for its end

        await other.say("b", Hello())
        impatient, _ = await served.next()
        served.router.send(impatient, "b", Acknowledged(found=True))
        assert (await other.read()).message == Acknowledged(found=True)

        text, messages = 0, 0
        ids: list[int] = []
        while isinstance(message := (await slow.read()).message, Tokens):
            text += len(message.text)
            ids += message.ids
            messages += 1
        assert (text, ids) == (count * len(piece), list(range(count)))
        assert messages < count
        assert message == Done(reason=Reason.END)
        await until(lambda: served.router.waiting_bytes == 0)


async def test_a_client_that_falls_too_far_behind_is_gone_and_learns_that_its_operations_ended_S8(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelwire.router.RETRY_S", 0.3)  # so that the last request comes before its end is sent
    gone: list[str] = []
    async with (
        serving(endpoint, outbox_bytes=100_000, on_gone=gone.append) as served,
        connected(endpoint, hwm=4) as [slow],
    ):
        for op in ("a", "b"):
            await slow.say(op, Hello())
            name, _ = await served.next()
        while served.router.waiting_bytes < 95_000:
            served.router.send(name, "a", Tokens(text="x" * 1000))
        for _ in range(10):
            served.router.send(name, "a", Tokens(text="x" * 1000))
        served.router.send(name, "b", Done(reason=Reason.END))  # leaves with them, behind the one that was too much
        await until(lambda: gone == [name])
        served.router.send(name, "a", Done(reason=Reason.END))  # too late: it has ended
        assert served.router.waiting_bytes <= 100_000
        before = served.router.last_heard(name)
        await slow.say("late", Hello())
        await until(lambda: served.router.last_heard(name) != before)
        ends: list[tuple[str, str]] = []
        while len(ends) < 3:
            reply = await slow.read()
            if not isinstance(reply.message, Tokens):
                ends.append((reply.op, reply.message.code))
                assert "wait for it (buffer_mb)" in reply.message.message
        assert ends == [("a", "overloaded"), ("b", "overloaded"), ("late", "overloaded")]
        await until(lambda: served.router.last_heard(name) is None)
        await slow.say("c", Hello())
        assert (await served.next())[1].op == "c"
        assert gone == [name]


async def test_a_client_that_left_is_reported_once(endpoint: str) -> None:
    gone: list[str] = []
    async with serving(endpoint, on_gone=gone.append) as served:
        async with connected(endpoint) as [client]:
            await client.say("1", Hello())
            name, _ = await served.next()

        def sends_and_is_gone() -> bool:
            served.router.send(name, "1", Acknowledged(found=True))
            return bool(gone)

        await until(sends_and_is_gone)
        served.router.send(name, "1", Acknowledged(found=True))
        assert gone == [name]
        assert served.router.last_heard(name) is None


async def test_a_client_that_leaves_while_messages_wait_for_it_is_reported_and_its_memory_freed(endpoint: str) -> None:
    gone: list[str] = []
    async with serving(endpoint, on_gone=gone.append) as served:
        async with connected(endpoint, hwm=1) as [client]:
            await client.say("1", Hello())
            name, _ = await served.next()
            while not served.router.waiting_bytes:
                served.router.send(name, "1", Tokens(text="x" * 10_000))
        await until(lambda: bool(gone))
        assert gone == [name]
        assert served.router.waiting_bytes == 0


async def test_silence_is_measured_by_the_clock_that_was_given(endpoint: str) -> None:
    now = 100.0
    async with serving(endpoint, clock=lambda: now) as served, connected(endpoint, 2) as (first, second):
        await first.say("1", Hello())
        one, _ = await served.next()
        now = 102.0
        await second.say("1", Beat())
        two, _ = await served.next()
        assert served.router.last_heard(one) == 100.0
        assert served.router.silent(102.5, 1000) == [one]
        assert served.router.silent(104.0, 1000) == [one, two]
        served.router.forget(one)
        assert served.router.silent(104.0, 1000) == [two]


async def test_time_in_which_nobody_looked_is_nobodys_silence(endpoint: str) -> None:
    """A daemon that was stopped, or starved, has not read yet what its clients said meanwhile."""
    now = 100.0
    async with serving(endpoint, clock=lambda: now) as served, connected(endpoint, 1) as (client,):
        await client.say("1", Hello())
        name, _ = await served.next()
        assert served.router.silent(101.0, 3000) == []
        assert served.router.silent(160.0, 3000) == []
        assert served.router.silent(161.0, 3000) == [name]


async def test_the_client_that_was_silent_longest_makes_room_for_a_new_one(endpoint: str) -> None:
    gone: list[str] = []
    async with serving(endpoint, max_clients=2, on_gone=gone.append) as served, connected(endpoint, 3) as clients:
        names = []
        for client in (clients[0], clients[1], clients[0], clients[2]):
            await client.say("1", Hello())
            names.append((await served.next())[0])
        assert gone == [names[1]]
        error = (await clients[1].read()).message
        assert isinstance(error, Error)
        assert (error.code, error.retry) == ("overloaded", True)
        assert "2 clients are there, the limit (clients)" in error.message


async def test_an_answer_that_is_too_large_becomes_an_error(endpoint: str) -> None:
    async with serving(endpoint) as served, connected(endpoint) as [client]:
        await client.say("1", Hello())
        name, _ = await served.next()
        served.router.send(name, "1", TokenIds(ids=(2**31 - 1,) * 4_000_000))
        reply = (await client.read()).message
        assert isinstance(reply, Error)
        assert reply.code == "too_large"


async def test_between_any_two_requests_of_a_flood_the_loop_turns_for_others(endpoint: str) -> None:
    ticks, seen = 0, list[int]()

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async with Router(endpoint, CODEC, MODELD) as router, connected(endpoint) as [client]:
        ticking = asyncio.create_task(tick())
        for _ in range(500):
            await client.say("1", Beat())
        serving = asyncio.create_task(router.serve(lambda client, envelope: seen.append(ticks)))
        await until(lambda: len(seen) == 500)
        ticking.cancel()
    await asyncio.wait_for(serving, PATIENCE_S)
    assert all(earlier < later for earlier, later in itertools.pairwise(seen))


async def test_a_reply_that_is_none_ends_its_operation_and_takes_no_other_with_it(endpoint: str) -> None:
    async with serving(endpoint) as served, connected(endpoint) as [raw]:
        for op in ("1", "2"):
            await raw.say(op, Hello())
            client, _ = await served.next()
        for op, reply in (("1", object()), ("2", Progress(reused=0, done=0, total=1))):
            served.router.send(client, op, reply)
        first, second = await raw.read(), await raw.read()
        assert (first.op, first.message.code) == ("1", "internal")
        assert second.op == "2"


async def test_an_operation_ends_once_and_nothing_follows_its_end_S8_S9(endpoint: str) -> None:
    """Whoever ends it, and however often. What is said to no operation is said; a later one may have the same id."""
    async with serving(endpoint) as served, connected(endpoint) as [raw]:
        for found in (True, False):
            await raw.say("1", Hello())
            client, _ = await served.next()
            for reply in (
                Acknowledged(found=found),
                Done(reason=Reason.CANCELLED),
                Progress(reused=0, done=0, total=1),
            ):
                served.router.send(client, "1", reply)
        served.router.send(client, "?", Done(reason=Reason.END))
        for op in ("2", "2"):
            await raw.send(CODEC.encode(op, Done(reason=Reason.END)))  # a reply, which no client may send
        said = [await raw.read() for _ in range(5)]
        assert said[:2] == [Envelope("1", Acknowledged(found=True)), Envelope("1", Acknowledged(found=False))]
        assert said[2] == Envelope("?", Done(reason=Reason.END))
        assert [(one.op, one.message.code) for one in said[3:]] == [("2", "bad_request")] * 2


async def test_serving_ends_as_who_takes_the_requests_does_and_nothing_is_handed_on_after_that(endpoint: str) -> None:
    taken: list[str] = []

    def take(client: str, envelope: Envelope) -> None:
        taken.append(envelope.op)
        raise LookupError("not here")

    async with Router(endpoint, CODEC, MODELD) as router, connected(endpoint) as [client]:
        for op in ("1", "2"):
            await client.say(op, Hello())
        with pytest.raises(LookupError, match="not here"):
            await asyncio.wait_for(router.serve(take), PATIENCE_S)
        await asyncio.sleep(0)
        assert taken == ["1"]


async def test_requests_that_came_before_it_was_served_are_not_lost(endpoint: str) -> None:
    async with Router(endpoint, CODEC, MODELD) as router, connected(endpoint) as [client]:
        await client.say("1", Hello())
        await until(lambda: bool(router._socket and router._socket.poll(0)))
        ops: list[str] = []
        serving = asyncio.create_task(router.serve(lambda client, envelope: ops.append(envelope.op)))
        await client.say("2", Hello())
        await until(lambda: ops == ["1", "2"])
    await asyncio.wait_for(serving, PATIENCE_S)
    await asyncio.wait_for(router.serve(lambda client, envelope: None), PATIENCE_S)  # closed: it ends at once


async def test_a_second_router_on_an_endpoint_is_refused_and_the_first_goes_on(endpoint: str) -> None:
    async with serving(endpoint) as served, connected(endpoint) as [client]:
        with pytest.raises(EndpointError, match="already served by pid"):
            await Router(endpoint, CODEC, MODELD).start()
        await client.say("1", Hello())
        assert (await served.next())[1].op == "1"
    async with serving(endpoint):
        pass


async def test_after_a_kill_the_endpoint_can_be_served_again(endpoint: str) -> None:
    source = """
import asyncio, sys
from modelwire import MODELD, Router
async def main():
    async with Router(sys.argv[1], MODELD.codec(), MODELD):
        print("serving", flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-c", source, endpoint, stdout=asyncio.subprocess.PIPE
    )
    assert killed.stdout
    assert await asyncio.wait_for(killed.stdout.readline(), PATIENCE_S) == b"serving\n"
    killed.kill()
    await asyncio.wait_for(killed.wait(), PATIENCE_S)
    async with serving(endpoint) as served, connected(endpoint) as [client]:
        await client.say("1", Close())
        assert (await served.next())[1].message == Close()


async def test_a_socket_that_cannot_be_made_is_an_endpoint_error(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: object, address: str) -> None:
        raise zmq.ZMQError(zmq.EADDRINUSE)

    monkeypatch.setattr(zmq.Socket, "bind", refuse)
    with pytest.raises(EndpointError, match="cannot listen"):
        await Router(endpoint, CODEC, MODELD).start()


async def test_a_router_may_be_closed_behind_a_last_reply(endpoint: str) -> None:
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    async with serving(endpoint) as served, connected(endpoint) as [client]:
        await client.say("1", Hello(client="a"))
        name, _ = await served.next()
        served.router.send(name, "1", Acknowledged(found=True))
        await served.router.close()
        assert (await client.read()).message == Acknowledged(found=True)
    assert faults == []


async def test_cancelling_the_task_that_reads_is_a_cancel_and_not_an_end(endpoint: str) -> None:
    async with Router(endpoint, CODEC, MODELD) as router:
        served = Served(router)
        task = asyncio.create_task(served.collect())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await router.close()
    router.send("00", "1", Acknowledged(found=True))
    assert "closed" in repr(router)
