"""Owns the socket at which a daemon serves: bytes in, envelopes out, and messages to clients that may be slow or gone.

It knows nothing of operations: what a message means is the daemon's business. Everything happens on one event loop.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Self

import zmq
from attrs import define, field
from zmq.auth.asyncio import AsyncioAuthenticator

from modelwire.codec import MAX_MESSAGE_BYTES, Codec, DecodeFault, Envelope
from modelwire.endpoint import Claim, is_tcp, tcp_address
from modelwire.errors import EndpointError, ErrorCode, WireError
from modelwire.keys import Keys, Pair
from modelwire.messages import Beat, Error
from modelwire.outbox import Outbox
from modelwire.protocol import NOBODY, Protocol

log = logging.getLogger(__name__)

OUTBOX_BYTES = 8 * 1024 * 1024
MAX_CLIENTS = 1024
RETRY_S = 0.01
LOOK_S = 2.0
"""So often somebody asks who is silent, at least."""
LINGER_MS = 500
_SEND_HWM = 128
_RECEIVE_HWM = 64
_TOGETHER = 16
"""So many messages do not wait for the loop's turn, nor does one that ends an operation."""
_POLLIN = int(zmq.POLLIN)
_LAST = int(zmq.NOBLOCK)
_FIRST = _LAST | int(zmq.SNDMORE)


@define(eq=False)
class _Peer:
    """A client as far as the socket knows it.

    `open_ops` are those that were asked for and have not ended. `abandoned`: it was too slow; only its outbox is sent.
    """

    name: str
    identity: bytes
    heard: float
    outbox: Outbox
    open_ops: dict[str, None] = field(factory=dict)
    abandoned: bool = False


class Router:
    """One ROUTER socket at `endpoint`.

    `on_gone(client)` is called once for a client that left, was too slow or was displaced by newer ones. Clients are
    named by the hexadecimal form of their socket's identity.
    """

    def __init__(
        self,
        endpoint: str,
        codec: Codec,
        protocol: Protocol,
        *,
        clock: Callable[[], float] = time.monotonic,
        on_gone: Callable[[str], None] | None = None,
        outbox_bytes: int = OUTBOX_BYTES,
        max_clients: int = MAX_CLIENTS,
    ) -> None:
        self.endpoint = endpoint
        self.on_gone: Callable[[str], None] = on_gone or (lambda client: None)
        self.malformed = 0
        self._codec = codec
        self._protocol = protocol
        self._clock = clock
        self._outbox_bytes = outbox_bytes
        self._max_clients = max_clients
        self._peers: dict[str, _Peer] = {}
        self._leaving: list[tuple[_Peer, str, Any]] = []
        self._looked: float | None = None
        self._flusher: asyncio.Task[None] | None = None
        self._socket: zmq.Socket[bytes] | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._take: Callable[[str, Envelope], None] | None = None
        self._over: asyncio.Future[None] | None = None  # ends `serve`
        self._due = False
        self._claim: Claim | None = None
        self._authenticator: AsyncioAuthenticator | None = None

    def __repr__(self) -> str:
        state = "serving" if self._socket else "closed"
        return f"<Router {self.endpoint} {state}, {len(self._peers)} clients, {self.waiting_bytes} bytes waiting>"

    async def start(self) -> None:
        """Claims the endpoint and listens. Over TCP only those are let in whose keys are. Raises `EndpointError`."""
        keys = self._keys()
        self._claim = None if keys else Claim(self.endpoint)
        self._context = zmq.Context()
        self._socket = socket = self._context.socket(zmq.ROUTER)
        socket.set(zmq.ROUTER_MANDATORY, 1)
        socket.set(zmq.SNDHWM, _SEND_HWM)
        socket.set(zmq.RCVHWM, _RECEIVE_HWM)
        socket.set(zmq.LINGER, LINGER_MS)
        # What is over our own limit, but not far over the protocol's, is read and answered: where the connection is
        # cut instead, all that its client has open is lost, and it is not told why.
        socket.set(zmq.MAXMSGSIZE, 2 * MAX_MESSAGE_BYTES)
        socket.set(zmq.IPV6, 1)
        if keys:
            self._guard(self._context, socket, keys)
        try:
            socket.bind(self.endpoint)
        except zmq.ZMQError as fault:
            await self.close()
            raise EndpointError(
                f"cannot listen at {self.endpoint} ({fault.strerror}): choose another with --socket"
            ) from None

    def _keys(self) -> Pair | None:
        if not is_tcp(self.endpoint):
            return None
        tcp_address(self.endpoint)
        return Keys().own()

    def _guard(self, context: zmq.Context[zmq.Socket[bytes]], socket: zmq.Socket[bytes], own: Pair) -> None:
        """libzmq asks the authenticator about every connection before it lets a byte of it through."""
        self._authenticator = authenticator = AsyncioAuthenticator(context)
        authenticator.start()
        authenticator.configure_curve_callback("*", Keys())
        socket.curve_publickey, socket.curve_secretkey, socket.curve_server = own.public, own.secret, True

    async def close(self) -> None:
        """Sends what can be sent at once, then closes; `serve` ends. Takes at most `LINGER_MS`."""
        if self._context is None:
            return
        context, socket, self._context, self._socket = self._context, self._socket, None, None
        if self._flusher:
            self._flusher.cancel()
            await asyncio.gather(self._flusher, return_exceptions=True)
        if socket is not None:
            self._leave(socket)
            self._flush(socket)
            asyncio.get_running_loop().remove_reader(socket.fileno())
            self._end_serving()
            socket.close()
        authenticator, self._authenticator = self._authenticator, None
        if authenticator:
            authenticator.stop()
        await asyncio.to_thread(context.term)  # it waits for the linger
        if self._claim:
            self._claim.release()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()

    # --- in -------------------------------------------------------------------------------------------------

    async def serve(self, take: Callable[[str, Envelope], None]) -> None:
        """Hands on every request, with its client, in the moment when it is read: no task wakes up for it.

        What cannot be read is answered and counted here. Ends with `close`, or as `take` does that raises.
        """
        if self._socket is None:
            return
        loop, descriptor = asyncio.get_running_loop(), self._socket.fileno()
        self._take, self._over = take, loop.create_future()
        loop.add_reader(descriptor, self._read_told)
        self._soon()
        try:
            await self._over
        finally:
            self._take = None
            if self._socket is not None:  # else its descriptor may be another one's by now
                loop.remove_reader(descriptor)

    def _soon(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._read_due)

    def _read_due(self) -> None:
        self._due = False
        self._read_one()

    def _read_told(self) -> None:
        """The descriptor tells of changes, most of them none of something to read."""
        if not self._due:
            self._read_one()

    def _read_one(self) -> None:
        """One in each turn of the loop: a flood from one client must not keep it from everything else."""
        if self._socket is None or self._take is None or not _is_readable(self._socket):
            return
        try:
            self._hand_on(self._socket.recv_multipart(zmq.NOBLOCK), self._take)
        except Exception as fault:
            self._end_serving(fault)
        else:
            self._soon()

    def _hand_on(self, frames: list[bytes], take: Callable[[str, Envelope], None]) -> None:
        peer = self._hear(frames[0])
        envelope = self._read(peer, frames[1:])
        if envelope is not None and peer.abandoned:
            self._refuse(peer, envelope)
        elif envelope is not None:
            take(peer.name, envelope)

    def _end_serving(self, fault: Exception | None = None) -> None:
        self._take = None
        if self._over is None or self._over.done():
            return
        if fault:
            self._over.set_exception(fault)
        else:
            self._over.set_result(None)

    def _hear(self, identity: bytes) -> _Peer:
        name = identity.hex()
        peer = self._peers.pop(name, None)
        if peer is None:
            if len(self._peers) >= self._max_clients:
                self._displace(next(iter(self._peers.values())))
            peer = _Peer(name, identity, 0.0, Outbox(self._protocol, self._codec, self._outbox_bytes))
        self._peers[name] = peer  # the last in the dictionary is the one heard last
        peer.heard = self._clock()
        return peer

    def _read(self, peer: _Peer, frames: list[bytes]) -> Envelope | None:
        try:
            if len(frames) != 1:
                raise DecodeFault(ErrorCode.MALFORMED, f"a message is one frame, this has {len(frames)}")
            envelope = self._codec.decode(frames[0])
            if type(envelope.message) not in self._protocol.requests:
                raise DecodeFault(ErrorCode.BAD_REQUEST, "this kind is a reply: a client cannot send it", envelope.op)
        except DecodeFault as fault:
            self.malformed += 1
            # The id of a live operation says nothing: an error that carried it would end that one for the client.
            op = NOBODY if fault.op in peer.open_ops else fault.op or NOBODY
            peer.open_ops[op] = None
            self.send(peer.name, op, Error(code=fault.code, message=fault.message))
            return None
        if not isinstance(envelope.message, Beat):
            peer.open_ops[envelope.op] = None
        return envelope

    def last_heard(self, client: str) -> float | None:
        """When something last came from a client, by the clock; None for one that is not known."""
        peer = self._peers.get(client)
        return peer.heard if peer else None

    def silent(self, now: float, after_ms: float) -> list[str]:
        """The clients of which nothing was heard for `after_ms`, with or without operations; to be asked every second.

        Where nobody asked for longer than LOOK_S, this process did not run (it was stopped, or starved). That time does
        not count: what the clients said in it has not been read yet.
        """
        missed = now - self._looked - LOOK_S if self._looked is not None else 0.0
        self._looked = now
        if missed > 0:
            for peer in self._peers.values():
                peer.heard = min(now, peer.heard + missed)
        return [peer.name for peer in self._peers.values() if (now - peer.heard) * 1000 > after_ms]

    def forget(self, client: str) -> None:
        """Frees what is kept for a client that has left, unless it waits for an answer. It is not reported as gone."""
        if self._socket:
            self._leave(self._socket)
        peer = self._peers.get(client)
        if peer and not peer.outbox:
            del self._peers[client]

    # --- out ------------------------------------------------------------------------------------------------

    @property
    def waiting_bytes(self) -> int:
        """What waits for slow clients, all together."""
        return sum(peer.outbox.size for peer in self._peers.values())

    def send(self, client: str, op: str, message: Any) -> None:
        """Sends with what else is said in this turn of the loop, or keeps for later what a slow client does not take.

        Never blocks; nothing is sent to the gone, nor of an operation that has ended (S8).
        """
        peer = self._peers.get(client)
        if peer is None or peer.abandoned or self._socket is None:
            return
        if op not in peer.open_ops and op != NOBODY:
            return
        if not self._leaving:  # libzmq's thread is woken once for all of them
            asyncio.get_running_loop().call_soon(self._leave, self._socket)
        self._leaving.append((peer, op, message))
        if len(self._leaving) >= _TOGETHER or type(message) in self._protocol.terminal:
            self._leave(self._socket)

    def end(self, client: str, error: Error) -> None:
        """Ends with `error` all that a client has asked for and that has not ended."""
        peer = self._peers.get(client)
        for op in list(peer.open_ops) if peer else ():
            self.send(client, op, error)

    def _encode(self, op: str, message: Any) -> tuple[Any, bytes]:
        try:
            return message, self._codec.encode(op, message)
        except WireError as fault:
            error = Error(code=fault.code, message=fault.message)
        except Exception as fault:  # ours; what leaves with it must not be lost, and somebody waits for an end
            log.error("a %s could not be encoded (%s)", type(message).__name__, type(fault).__name__)
            error = Error(code=ErrorCode.INTERNAL, message="the daemon failed at this reply: see its log")
        return error, self._codec.encode(op, error)

    def _leave(self, socket: zmq.Socket[bytes]) -> None:
        leaving, self._leaving = self._leaving, []
        if not leaving:  # they left before the loop's turn; the socket may be closed since
            return
        for peer, op, message in leaving:
            if not peer.abandoned:
                self._pass_on(socket, peer, op, *self._encode(op, message))
        self._look(socket)

    def _pass_on(self, socket: zmq.Socket[bytes], peer: _Peer, op: str, message: Any, data: bytes) -> None:
        if type(message) in self._protocol.terminal:
            peer.open_ops.pop(op, None)
        if not peer.outbox and (outcome := self._try(socket, peer, data)) != "full":
            if outcome == "gone":
                self._drop(peer)
            return
        if not peer.outbox.push(op, message, len(data)):
            self._abandon(peer, op)
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.get_running_loop().create_task(self._keep_flushing())

    def _try(self, socket: zmq.Socket[bytes], peer: _Peer, data: bytes) -> Literal["sent", "full", "gone"]:
        # The first frame alone decides, so no half is ever sent.
        try:
            socket.send(peer.identity, _FIRST)
            socket.send(data, _LAST)
        except zmq.Again:
            return "full"
        except zmq.ZMQError:
            return "gone"
        return "sent"

    def _look(self, socket: zmq.Socket[bytes]) -> None:
        """To send can take in a change that was of something to read, of which the descriptor does not tell then."""
        if not self._due and _is_readable(socket):
            self._soon()

    async def _keep_flushing(self) -> None:
        while any(peer.outbox for peer in self._peers.values()):
            await asyncio.sleep(RETRY_S)
            if self._socket is None:
                return
            self._flush(self._socket)

    def _flush(self, socket: zmq.Socket[bytes]) -> None:
        for peer in [peer for peer in self._peers.values() if peer.outbox]:
            outcome = "sent"
            while peer.outbox and (outcome := self._try(socket, peer, peer.outbox.head())) == "sent":
                peer.outbox.pop()
            if outcome == "gone":
                self._drop(peer)
            elif not peer.outbox and peer.abandoned:
                del self._peers[peer.name]
        self._look(socket)

    def _abandon(self, peer: _Peer, op: str) -> None:
        """The client is too slow. It keeps what ends its operations; to the daemon it is gone."""
        peer.abandoned = True
        peer.outbox.give_up(self._too_slow(), (*peer.open_ops, op))
        self.on_gone(peer.name)

    def _refuse(self, peer: _Peer, envelope: Envelope) -> None:
        """What it asks meanwhile ends as the rest; more of that than has room is not answered."""
        if not isinstance(envelope.message, Beat):
            error = self._too_slow()
            peer.outbox.push(envelope.op, error, len(self._codec.encode(envelope.op, error)))

    def _too_slow(self) -> Error:
        limit = f"more than {self._outbox_bytes / 2**20:.2g} MB wait for it (buffer_mb)"
        says = f"this client reads too slowly, {limit}: its operations were ended"
        return Error(code=ErrorCode.OVERLOADED, message=says)

    def _displace(self, peer: _Peer) -> None:
        says = f"{self._max_clients} clients are there, the limit (clients): the one silent for longest gave way"
        self.end(peer.name, Error(code=ErrorCode.OVERLOADED, message=says, retry=True))
        self._drop(peer)

    def _drop(self, peer: _Peer) -> None:
        if self._peers.pop(peer.name, None) and not peer.abandoned:
            self.on_gone(peer.name)


def _is_readable(socket: zmq.Socket[bytes]) -> bool:
    """An attempt to read that fails costs many times as much, and nearly every second one would."""
    return bool(int(socket.get(zmq.EVENTS)) & _POLLIN)
