"""Owns one live connection of a client to one instance of a daemon: its socket, who waits for replies, its liveness.

A link does not come back: when the daemon goes, everything that waits ends with `daemon_lost`. Finding the daemon again
is a new link's business (`client`), so nothing that was meant for one instance can reach the next.
"""

import asyncio
import contextlib
import socket as unix
from collections.abc import Mapping
from typing import Any, Protocol

import zmq
import zmq.asyncio
from zmq.utils.monitor import recv_monitor_message

import modelwire.protocol
from modelwire.codec import Codec, DecodeFault
from modelwire.endpoint import check_endpoint, default_endpoint, is_tcp
from modelwire.errors import DaemonUnreachable, EndpointError, ErrorCode, WireError
from modelwire.keys import Keys
from modelwire.messages import Beat, Hello

MISSED_BEATS = 3
LINGER_MS = 200
_REFUSED_EVENTS = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
_LOST_EVENTS = zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | _REFUSED_EVENTS


class Receiver(Protocol):
    """What waits for the replies to one operation or question."""

    def feed(self, message: Any) -> None: ...

    def fail(self, fault: Exception) -> None: ...


class Answer:
    """Waits for the one reply to a question."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def feed(self, message: Any) -> None:
        if not self.future.done():
            self.future.set_result(message)

    def fail(self, fault: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(fault)
            self.future.exception()  # who asked may be gone: then nobody else looks at it


class Link:
    """A DEALER socket, used by the tasks of this object alone.

    Raises `EndpointError` for an endpoint to which nothing can be connected.
    """

    def __init__(
        self, endpoint: str, protocol: modelwire.protocol.Protocol, codec: Codec, context: zmq.asyncio.Context
    ):
        self._over = False
        self._endpoint = endpoint
        self._protocol = protocol
        self._codec = codec
        self._waiting: dict[str, Receiver] = {}
        self._beat_s = 0.0
        self._beating = asyncio.Event()
        self._heard = False
        self._probes = 0
        self._closing = asyncio.Event()
        self._socket, self._monitor = _sockets(endpoint, _options(endpoint, protocol.service), context)
        self._task = asyncio.get_running_loop().create_task(self._live())

    def __repr__(self) -> str:
        return f"<Link {self._endpoint} {'alive' if self.alive else 'lost'}, {len(self._waiting)} waiting>"

    @property
    def alive(self) -> bool:
        """Whether the daemon is there, as far as ZeroMQ has noticed; its notice may wait for a task of ours."""
        return not self._over and not int(self._monitor.get(zmq.EVENTS)) & zmq.POLLIN

    def begin(self, op: str, message: Any, receiver: Receiver) -> None:
        """Sends a request whose replies go to `receiver`. Raises `WireError` for one that cannot be sent."""
        if self._over:
            raise lost(self._protocol.service)
        self._send(op, message)
        self._waiting[op] = receiver

    def end(self, op: str) -> None:
        """Nobody waits for `op` any more; later replies to it are ignored."""
        self._waiting.pop(op, None)

    def beat_every(self, milliseconds: int) -> None:
        """From now on; until then what waits has a bound of its own."""
        self._beat_s = milliseconds / 1000
        self._beating.set()

    async def close(self) -> None:
        """Ends everything that waits. It is asked to end rather than cancelled: it may be closing already."""
        self._closing.set()
        await asyncio.wait([self._task])

    def say(self, op: str, message: Any) -> None:
        """Sends what nobody waits for an answer to; a daemon that takes nothing does not get it."""
        try:
            self._send(op, message)
        except WireError:
            return

    def _send(self, op: str, message: Any) -> None:
        sending = asyncio.ensure_future(self._socket.send(self._codec.encode(op, message), flags=zmq.NOBLOCK))
        if sending.exception() is not None:  # with NOBLOCK it is done
            raise WireError(
                ErrorCode.OVERLOADED, f"{self._protocol.service} does not take requests: try again later", retry=True
            )

    # --- the link's life --------------------------------------------------------------------------------------

    async def _live(self) -> None:
        """Runs until the daemon is gone or `close` asks; then everything that waits ends and the socket closes."""
        parts = (self._read(), self._watch(), self._beat(), self._closing.wait())
        tasks = [asyncio.ensure_future(part) for part in parts]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await self._drain(tasks[0])
        finally:
            self._lose()
            for task in tasks:
                task.cancel()
            with contextlib.suppress(zmq.ZMQError):  # a context that ends waits for the sockets, whatever they say
                self._socket.disable_monitor()
            self._monitor.close(linger=0)
            self._socket.close()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self) -> None:
        while True:
            self._take(await self._socket.recv_multipart())

    async def _watch(self) -> None:
        await recv_monitor_message(self._monitor)

    async def _drain(self, reader: "asyncio.Future[Any]") -> None:
        """What the daemon sent before it went has arrived: its last words count."""
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        while await self._socket.poll(0):
            self._take(await self._socket.recv_multipart())

    async def _beat(self) -> None:
        """Says `beat` while something waits. A daemon that does not even answer `hello` for three beats is lost."""
        await self._beating.wait()
        missed = 0
        while missed < MISSED_BEATS:
            self._heard = False
            await asyncio.sleep(self._beat_s)
            if not self._waiting or self._heard:
                missed = 0
            else:
                missed += 1
                self._probes += 1
                self.say(f"probe-{self._probes}", Hello())
            if self._waiting:
                self.say("beat", Beat())

    def _take(self, frames: list[bytes]) -> None:
        self._heard = True
        try:
            if len(frames) != 1:
                return
            envelope = self._codec.decode(frames[0])
        except DecodeFault as fault:
            if receiver := self._waiting.pop(fault.op, None):
                receiver.fail(fault)
            return
        ended = type(envelope.message) in self._protocol.terminal
        receiver = self._waiting.pop(envelope.op, None) if ended else self._waiting.get(envelope.op)
        if receiver:
            receiver.feed(envelope.message)

    def _lose(self) -> None:
        self._over = True
        waiting, self._waiting = self._waiting, {}
        for receiver in waiting.values():
            receiver.fail(lost(self._protocol.service))


def lost(service: str) -> WireError:
    return WireError(ErrorCode.DAEMON_LOST, f"{service} went away before it had answered: ask again", retry=True)


def probe(endpoint: str, service: str) -> None:
    """Raises `DaemonUnreachable` where nobody listens, at once; ZeroMQ itself would go on trying.

    Over TCP that takes a while to tell; there it only raises `EndpointError` where the daemon's key is not known.
    """
    if is_tcp(endpoint):
        Keys().daemon(endpoint)
        return
    path = check_endpoint(endpoint)
    try:
        with unix.socket(unix.AF_UNIX, unix.SOCK_STREAM) as trial:
            trial.setblocking(False)
            trial.connect(str(path))
    except BlockingIOError:
        return  # somebody listens, with a full backlog
    except OSError:  # where no descriptor is left, nobody can be reached
        raise unreachable(endpoint, service) from None


def unreachable(endpoint: str, service: str) -> DaemonUnreachable:
    how = f"start it with '{service} serve{_socket_flag(endpoint, service)}'"
    if is_tcp(endpoint):
        how = f"is '{service} serve --socket' running there, and does it let this key in ('modeld keys' prints it)?"
    return DaemonUnreachable(f"no {service} answers at {endpoint}: {how}")


def _socket_flag(endpoint: str, service: str) -> str:
    try:
        return "" if endpoint == default_endpoint(service) else f" --socket {endpoint}"
    except EndpointError:
        return ""


def _sockets(
    endpoint: str, options: Mapping[int, bytes | int], context: zmq.asyncio.Context
) -> tuple[zmq.asyncio.Socket, zmq.asyncio.Socket]:
    """A connected DEALER and its monitor, or none: whoever ends the context waits for each socket that is open."""
    with contextlib.ExitStack() as opened:
        try:
            dealer = context.socket(zmq.DEALER)
            opened.callback(dealer.close)
            for option, value in options.items():
                dealer.set(option, value)
            dealer.set(zmq.LINGER, LINGER_MS)
            # Never again, in practice. -1 would say so plainly, but then ZeroMQ drops what has arrived unread.
            dealer.set(zmq.RECONNECT_IVL, 2**31 - 1)
            monitor = dealer.get_monitor_socket(_LOST_EVENTS)
            opened.callback(monitor.close, linger=0)
            opened.callback(dealer.disable_monitor)
            dealer.connect(endpoint)
        except zmq.ZMQError as fault:
            raise EndpointError(f"cannot connect to {endpoint} ({fault.strerror}): choose another") from None
        opened.pop_all()
    return dealer, monitor


def _options(endpoint: str, service: str) -> Mapping[int, bytes | int]:
    """What the socket needs for this endpoint. Over TCP both sides prove who they are.

    Raises `EndpointError` where the daemon's key is not known, `DaemonUnreachable` where plainly nobody listens.
    """
    if not is_tcp(endpoint):
        probe(endpoint, service)
        return {}
    keys = Keys()
    daemon, own = keys.daemon(endpoint), keys.own()
    return {
        zmq.IPV6: 1,
        zmq.CURVE_SERVERKEY: daemon,
        zmq.CURVE_PUBLICKEY: own.public,
        zmq.CURVE_SECRETKEY: own.secret,
    }
