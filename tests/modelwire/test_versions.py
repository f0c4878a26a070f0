"""Clients of an older and of a newer protocol: told so by name, whichever side reads it, and never left waiting."""

import re

import msgpack
import pytest
import zmq.asyncio
from attrs import evolve

from modelwire.client import Connection
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import PROTOCOL_VERSION, GetStatus
from modelwire.protocol import MODELD
from modelwire.testing import PATIENCE_S, ScriptedDaemon

OLDER, NEWER = PROTOCOL_VERSION - 1, PROTOCOL_VERSION + 1


@pytest.mark.parametrize("version", [OLDER, NEWER], ids=["older", "newer"])
async def test_a_client_of_another_version_is_refused_in_words_that_its_user_can_act_on(
    daemon: ScriptedDaemon, version: int
) -> None:
    client = Connection(daemon.endpoint, evolve(MODELD, version=version), timeout=PATIENCE_S)
    with pytest.raises(WireError, match="update the older one") as caught:
        async with client:
            raise AssertionError("it was let in")
    assert caught.value.code == ErrorCode.WRONG_VERSION
    assert {str(version), str(PROTOCOL_VERSION)} <= set(re.findall(r"\d+", caught.value.message))


@pytest.mark.parametrize("version", [OLDER, NEWER], ids=["older", "newer"])
async def test_the_refusal_has_the_operation_and_the_daemons_version(daemon: ScriptedDaemon, version: int) -> None:
    """So a client of any version can find whose answer it is, and the kind that every version has."""
    with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.set(zmq.LINGER, 0)
        socket.connect(daemon.endpoint)
        await socket.send(msgpack.packb({"v": version, "op": "first", "kind": "hello", "unknown": [1]}))
        assert await socket.poll(1000 * PATIENCE_S)
        answer = msgpack.unpackb(await socket.recv())
    assert (answer["v"], answer["op"], answer["kind"]) == (PROTOCOL_VERSION, "first", "error")
    assert answer["code"] == "wrong_version"


async def test_others_are_served_meanwhile(daemon: ScriptedDaemon) -> None:
    async with Connection(daemon.endpoint, MODELD, timeout=PATIENCE_S) as client:
        with pytest.raises(WireError):
            async with Connection(daemon.endpoint, evolve(MODELD, version=NEWER), timeout=PATIENCE_S):
                pass
        assert (await client.ask(GetStatus())).state
