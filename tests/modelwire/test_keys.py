"""Keys: made once, owner-only, let in by name; and over real TCP sockets nobody else gets a byte through."""

import asyncio
import contextlib
import errno
import os
import socket as sockets
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import zmq
import zmq.asyncio

from modelwire.client import Connection
from modelwire.codec import Envelope
from modelwire.errors import DaemonUnreachable, EndpointError
from modelwire.keys import Keys, to_hex
from modelwire.messages import Beat, Hello, Welcome
from modelwire.protocol import MODELD
from modelwire.router import Router

PATIENCE_S = 10
SOME = "ab" * 32
OTHER = "cd" * 32


@pytest.fixture
def keys(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Keys:
    monkeypatch.setenv("GUESSAHEAD_KEYS", str(directory / "keys"))
    return Keys()


@pytest.fixture
def tcp() -> Iterator[str]:
    """Held by a socket that never listens: nobody else is given the port, and libzmq may bind it beside that."""
    with sockets.socket() as held:
        held.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield f"tcp://127.0.0.1:{held.getsockname()[1]}"


@asynccontextmanager
async def serving(endpoint: str) -> AsyncIterator[list[str]]:
    """A daemon that answers `hello`; gives the names of what reached it."""
    heard: list[str] = []

    def answer(client: str, envelope: Envelope) -> None:
        heard.append(type(envelope.message).__name__)
        if isinstance(envelope.message, Hello):
            welcome = Welcome(protocol=1, server="modeld", version="0", instance="1", beat_ms=1000)
            router.send(client, envelope.op, welcome)

    async with Router(endpoint, MODELD.codec(), MODELD) as router:
        task = asyncio.create_task(router.serve(answer))
        yield heard
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# --- the files --------------------------------------------------------------------------------------------


def test_a_pair_is_made_once_and_for_its_owner_alone(keys: Keys) -> None:
    first = keys.own()
    assert keys.own() == first == Keys().own()
    assert stat.S_IMODE(keys.directory.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in keys.directory.iterdir()] == [0o600]
    assert first.secret.decode() not in repr(first)


def test_who_is_let_in_can_be_changed(keys: Keys) -> None:
    keys.allow("ann", SOME)
    keys.allow("ben", OTHER.upper() + "\n")
    keys.allow("ann", OTHER)
    assert keys.allowed() == {"ann": OTHER, "ben": OTHER}
    assert keys.refuse("ann")
    assert not keys.refuse("ann")
    assert keys.allowed() == {"ben": OTHER}


def test_known_daemons_are_listed_by_endpoint(keys: Keys) -> None:
    keys.trust("tcp://[::1]:7411", SOME)
    keys.trust("tcp://a.example:1", OTHER)
    assert keys.daemons() == {"tcp://[::1]:7411": SOME, "tcp://a.example:1": OTHER}
    assert to_hex(keys.daemon("tcp://[::1]:7411")) == SOME


@pytest.mark.parametrize("name", ["", "..", "../ann", "a/b", ".hidden", "a" * 65, "a b", "é"])
def test_a_name_cannot_leave_the_directory(keys: Keys, name: str) -> None:
    with pytest.raises(EndpointError, match="is no name"):
        keys.allow(name, SOME)


@pytest.mark.parametrize("key", ["", "ab" * 31, "ab" * 33, "zz" * 32])
def test_what_is_no_key_is_refused(keys: Keys, key: str) -> None:
    with pytest.raises(EndpointError, match="64 hexadecimal digits"):
        keys.allow("ann", key)


def test_a_directory_that_others_can_read_is_refused(keys: Keys) -> None:
    keys.own()
    keys.directory.chmod(0o755)
    for use in (keys.own, keys.allowed, lambda: keys.trust("tcp://a:1", SOME)):
        with pytest.raises(EndpointError, match="chmod 700"):
            use()
    assert not keys.callback("", b"0" * 40), "a list that others may have changed lets nobody in"


def test_a_broken_key_file_is_said_and_lets_nobody_in(keys: Keys) -> None:
    keys.allow("ann", SOME)
    (keys.directory / "allowed" / "ann").write_bytes(b"\xff\x00")
    with pytest.raises(EndpointError, match="ann holds no key"):
        keys.allowed()
    assert not keys.callback("", b"0" * 40)


@pytest.mark.parametrize("call", ["os.open", "os.write", "pathlib.Path.hardlink_to", "pathlib.Path.replace"])
def test_a_key_that_cannot_be_written_is_said_in_one_line(
    keys: Keys, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    use = (lambda: keys.allow("ann", SOME)) if call.endswith("replace") else keys.own
    with monkeypatch.context() as full:
        full.setattr(call, refuse)
        with pytest.raises(EndpointError, match=r"(own\.secret|ann) \(No space left on device\): .* GUESSAHEAD_KEYS"):
            use()
    assert not [path for path in keys.directory.rglob("*") if path.is_file()], "nothing is left behind"
    use()


def test_keys_that_cannot_be_read_are_said_in_one_line(keys: Keys) -> None:
    keys.allow("ann", SOME)
    (keys.directory / "own.secret").mkdir()
    (keys.directory / "daemons").mkdir(mode=0o700)
    (keys.directory / "daemons" / "a_1").mkdir()
    (keys.directory / "allowed" / "ben").mkdir()
    for use in (keys.own, lambda: keys.daemon("tcp://a:1"), keys.daemons, keys.allowed, lambda: keys.refuse("ben")):
        with pytest.raises(EndpointError, match=r"\(Is a directory\): .* GUESSAHEAD_KEYS"):
            use()


@pytest.mark.parametrize("host", ["*", "0.0.0.0", "[::]"])
async def test_every_address_of_a_machine_is_none_to_connect_to(keys: Keys, host: str) -> None:
    endpoint = f"tcp://{host}:7411"
    for use in (lambda: keys.trust(endpoint, SOME), lambda: keys.daemon(endpoint)):
        with pytest.raises(EndpointError, match=r"name the one to reach, as in tcp://localhost:7411"):
            use()
    with pytest.raises(EndpointError, match="tcp://localhost:7411"):
        async with Connection(endpoint, MODELD):
            pass


@pytest.mark.parametrize("call", ["connect", "get_monitor_socket"])
async def test_a_connection_that_cannot_be_made_is_an_endpoint_error_and_leaves_no_socket(
    keys: Keys, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    made = getattr(zmq.Socket, call)

    def refuse(self: object, what: object) -> object:
        if str(what).startswith("inproc"):  # pyzmq's own, for the monitor
            return made(self, what)
        raise zmq.ZMQError(zmq.EINVAL)

    keys.trust("tcp://localhost:7411", SOME)
    monkeypatch.setattr(zmq.Socket, call, refuse)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(EndpointError, match=r"cannot connect to tcp://localhost:7411 \(Invalid argument\)"):
            async with Connection("tcp://localhost:7411", MODELD):
                pass


# --- over TCP ---------------------------------------------------------------------------------------------


async def test_a_client_that_is_let_in_talks_to_a_daemon_that_it_knows(keys: Keys, tcp: str) -> None:
    own = to_hex(keys.own().public)
    keys.allow("me", own)
    keys.trust(tcp, own)
    async with serving(tcp), Connection(tcp, MODELD, timeout=PATIENCE_S) as client:
        assert client.welcome.server == "modeld"


async def test_a_key_that_is_not_on_the_list_is_refused_and_nothing_of_it_is_read(keys: Keys, tcp: str) -> None:
    keys.trust(tcp, to_hex(keys.own().public))
    async with serving(tcp) as heard:
        with pytest.raises(DaemonUnreachable, match="does it let this key in"):
            async with Connection(tcp, MODELD, timeout=PATIENCE_S):
                pass
    assert heard == []


async def test_a_daemon_that_does_not_own_its_key_gets_nothing(
    keys: Keys, tcp: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.allow("me", to_hex(keys.own().public))
    keys.trust(tcp, to_hex(zmq.curve_keypair()[0]))
    async with serving(tcp) as heard:
        with pytest.raises(DaemonUnreachable):
            async with Connection(tcp, MODELD, timeout=0.5):
                pass
    assert heard == []


async def test_plain_tcp_is_refused(keys: Keys, tcp: str) -> None:
    async with serving(tcp) as heard:
        with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as plain:
            plain.set(zmq.LINGER, 0)
            plain.connect(tcp)
            with contextlib.suppress(zmq.Again):  # where the daemon has refused it by now
                await plain.send(MODELD.codec().encode("1", Beat()), zmq.NOBLOCK)
            assert not await plain.poll(500)
        _, writer = await asyncio.open_connection("127.0.0.1", int(tcp.rpartition(":")[2]))
        writer.write(b"GET / HTTP/1.1\r\n\r\n" * 100)
        await asyncio.wait_for(writer.drain(), PATIENCE_S)
        writer.close()
    assert heard == []


async def test_a_name_that_was_struck_off_cannot_come_back(keys: Keys, tcp: str) -> None:
    own = to_hex(keys.own().public)
    keys.allow("me", own)
    keys.trust(tcp, own)
    async with serving(tcp):
        async with Connection(tcp, MODELD, timeout=PATIENCE_S):
            pass
        keys.refuse("me")
        with pytest.raises(DaemonUnreachable):
            async with Connection(tcp, MODELD, timeout=PATIENCE_S):
                pass


async def test_an_unknown_daemon_is_an_error_that_says_what_to_run(keys: Keys, tcp: str) -> None:
    with pytest.raises(EndpointError, match="modeld keys trust"):
        async with Connection(tcp, MODELD):
            pass


async def test_a_daemon_that_is_not_there_is_unreachable(keys: Keys, tcp: str) -> None:
    keys.trust(tcp, SOME)
    with pytest.raises(DaemonUnreachable, match=tcp):
        async with Connection(tcp, MODELD, timeout=PATIENCE_S):
            pass


async def test_a_port_that_is_taken_is_said(keys: Keys, tcp: str) -> None:
    async with serving(tcp):
        with pytest.raises(EndpointError, match="choose another with --socket"):
            async with serving(tcp):
                pass
