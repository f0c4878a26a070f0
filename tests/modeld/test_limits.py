"""Every limit has a default and a setting, and the error of whoever meets it names it."""

from typing import Any

import pytest

from modeld import config
from modeld.config import ConfigError, Settings
from modeld.schedule import ScheduleLimits
from modeld.sessions import SessionLimits
from modelwire.codec import MAX_MESSAGE_BYTES
from modelwire.errors import WireError
from modelwire.messages import Decode, Restore, Turn
from modelwire.protocol import MODELD
from tests.modeld.house import House, suffix, text, turn


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("message_bytes", MAX_MESSAGE_BYTES),
        ("queue", 64),
        ("sessions", 64),
        ("snapshots", 16),
        ("clients", 1024),
        ("buffer_mb", 8),
    ],
)
def test_a_limit_has_a_default_and_can_be_set(name: str, default: int) -> None:
    assert getattr(Settings(), name) == default
    assert getattr(config.load({}, environment={f"MODELD_{name.upper()}": "65536"}), name) == 65536
    with pytest.raises(ConfigError, match=f"{name} is .*; it must be a whole number from"):
        config.load({name: "-1"}, environment={})


def test_a_message_may_not_be_longer_than_the_protocol_says() -> None:
    with pytest.raises(ConfigError, match=f"from 65536 to {MAX_MESSAGE_BYTES}"):
        config.load({"message_bytes": MAX_MESSAGE_BYTES + 1}, environment={})


def test_a_message_that_is_too_long_is_told_the_limit_on_both_sides() -> None:
    long = Turn(session="s", prefix=text("x" * 70_000))
    with pytest.raises(WireError, match=r"the limit \(message_bytes\) is 65536"):
        MODELD.codec(65536).encode("1", long)
    with pytest.raises(WireError, match=r"the limit \(message_bytes\) is 65536"):
        MODELD.codec(65536).decode(MODELD.codec().encode("1", long))


def test_a_full_queue_is_named() -> None:
    house = House(limits=ScheduleLimits(queue=1))
    for op in "12":
        house.submit(op, turn("a"))
    assert "1 operations wait already, the limit (queue)" in house.error("2").message


@pytest.mark.parametrize("message", [Decode(session="a"), suffix("more", "a")])
def test_a_session_that_gave_way_is_told_the_limit(message: Any) -> None:
    house = House(session_limits=SessionLimits(per_client=1))
    house.say(house.engine.ready())
    for session in "ab":
        house.submit(session, turn("a", session))
        house.run("x")
    house.submit("1", message)
    assert "gave way to newer ones: the limit is sessions" in house.error("1").message


def test_a_snapshot_that_gave_way_is_told_the_limit() -> None:
    house = House(session_limits=SessionLimits(snapshots=0))
    house.say(house.engine.ready())
    house.submit("1", Restore(session="s", handle="gone"))
    assert house.error("1").numbers["snapshots"] == 0


def test_a_lane_and_a_session_have_short_names() -> None:
    house = House()
    house.submit("1", turn("a", lane="x" * 201))
    assert "a lane's name has at most 200 characters" in house.error("1").message
    house.submit("2", turn("a", session="x" * 201))
    assert "a session's name has 1 to 200 characters" in house.error("2").message
