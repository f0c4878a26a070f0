"""What sessions stand for after operations, through the driver and an in-memory engine."""

import pytest

from modeld.confirmations import Confirmations
from modeld.sessions import SessionLimits
from modeld.testing import as_text
from modelwire.errors import ErrorCode
from modelwire.messages import (
    Acknowledged,
    Decode,
    DecodeConfig,
    EnsurePrefix,
    PrefillSuffix,
    Reason,
    Turn,
)
from tests.modeld.house import House, chat, prefix, suffix, turn


@pytest.fixture
def house() -> House:
    house = House()
    house.say(house.engine.ready())
    return house


def test_a_prefix_a_suffix_and_a_decode_make_one_text(house: House) -> None:
    house.submit("1", prefix("abc"))
    house.run()
    house.submit("2", suffix("de"))
    house.run()
    house.submit("3", Decode(session="s"))
    assert as_text(house.last_run().base) == "abcde"
    assert house.last_run().prompt == ()
    house.run("fg")
    assert house.contents() == "abcdefg"
    assert [house.done(op).head for op in "123"] == [3, 5, 7]


def test_operations_may_be_sent_without_waiting_for_each_other(house: House) -> None:
    house.submit("1", prefix("abc"))
    house.submit("2", suffix("de"))
    house.submit("3", Decode(session="s"))
    house.run()
    house.run()
    house.run("fg")
    assert house.contents() == "abcdefg"


def test_a_turn_starts_its_session_anew(house: House) -> None:
    for op in "12":
        house.submit(op, turn("abc"))
        house.run("x")
    assert house.contents() == "abcx"


def test_a_conversation_is_sent_whole_and_goes_on_with_the_answer(house: House) -> None:
    house.submit("1", Turn(session="s", prefix=chat("hi")))
    assert house.last_run().complete
    house.run("hello")
    assert house.contents() == "user:hi;assistant:hello"
    house.submit("2", PrefillSuffix(session="s", prompt=chat("why")))
    house.run()
    house.submit("3", Decode(session="s"))
    house.run("so")
    assert house.contents() == "user:hi;assistant:hello;user:why;assistant:so"


def test_a_chat_prefix_is_opened_for_the_answer_only_by_the_decode(house: House) -> None:
    house.submit("1", EnsurePrefix(session="s", prompt=chat("hi")))
    house.run()
    assert house.contents() == "user:hi;"
    house.submit("2", Decode(session="s"))
    house.run("yo")
    assert house.contents() == "user:hi;assistant:yo"


def test_a_second_decode_goes_on_with_the_same_answer(house: House) -> None:
    house.submit("1", Turn(session="s", prefix=chat("hi"), decode=DecodeConfig(max_tokens=2)))
    house.run("he")
    house.submit("2", Decode(session="s"))
    house.run("llo")
    house.submit("3", PrefillSuffix(session="s", prompt=chat("why")))
    house.run()
    assert house.contents() == "user:hi;assistant:hello;user:why;assistant:"


def test_a_cancelled_prefill_leaves_the_head_at_the_last_resident_token(house: House) -> None:
    house.submit("1", prefix("abc"))
    house.run()
    house.submit("2", suffix("defg"))
    house.say(house.engine.begin(), house.engine.advance(5))
    house.driver.cancel("ann", "c", "2", 0.0)
    house.say(house.engine.end())
    assert (house.done("2").reason, house.done("2").head) == (Reason.CANCELLED, 5)
    assert house.contents() == "abcde"


def test_a_cancelled_decode_leaves_the_head_at_the_last_sent_token(house: House) -> None:
    house.submit("1", turn("abc"))
    house.say(house.engine.begin(), house.engine.advance(), house.engine.generate("d"))
    house.driver.cancel("ann", "c", "1", 0.0)
    house.say(house.engine.generate("e"), house.engine.end())
    assert house.contents() == "abcde"


def test_half_a_chat_message_is_no_message(house: House) -> None:
    house.submit("1", Turn(session="s", prefix=chat("hi")))
    house.run("yo")
    house.submit("2", PrefillSuffix(session="s", prompt=chat("a long question")))
    house.say(house.engine.begin(), house.engine.advance(len("user:hi;assistant:yo;user:a lo")))
    house.driver.cancel("ann", "c", "2", 0.0)
    house.say(house.engine.end())
    house.submit("3", PrefillSuffix(session="s", prompt=chat("b")))
    house.run()
    assert house.contents() == "user:hi;assistant:yo;user:b;assistant:"


def test_sessions_and_clients_see_nothing_of_each_other(house: House) -> None:
    """S11."""
    house.submit("1", prefix("secret"))
    house.run()
    house.submit("1", Decode(session="s"), client="bob")
    assert house.error("1", "bob").code == ErrorCode.BAD_REQUEST
    house.submit("2", Decode(session="other"))
    assert house.error("2").code == ErrorCode.BAD_REQUEST


def test_the_engine_is_told_which_sessions_gave_way(house: House) -> None:
    house = House(session_limits=SessionLimits(per_client=2, total=3))
    house.say(house.engine.ready())
    for op, name in enumerate(["a", "b", "c"]):
        house.submit(str(op), prefix("x", name))
        house.run()
    assert house.last_run().closed == (("ann", "a"),)
    house.submit("d", Decode(session="a"))
    assert "gave way" in house.error("d").message


def test_a_closed_session_is_empty_and_what_runs_in_it_ends_first(house: House) -> None:
    """S9."""
    house.submit("1", turn("abc"))
    house.say(house.engine.begin(), house.engine.advance(), house.engine.generate("d"))
    house.driver.close("ann", "x", "s", 0.0)
    assert house.of("x") == []
    house.say(house.engine.end())
    assert house.replies[-2][1:] == ("1", house.done("1"))
    assert house.replies[-1] == ("ann", "x", Acknowledged(found=True))
    house.submit("2", Decode(session="s"))
    assert house.error("2").code == ErrorCode.BAD_REQUEST
    house.submit("3", prefix("z"))
    assert house.last_run().closed == (("ann", "s"),)


def test_a_close_that_cannot_be_confirmed_closes_nothing_and_can_be_tried_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.submit("1", turn("abc"))
    house.submit("2", Decode(session="s"))
    with monkeypatch.context() as patch:
        patch.setattr(Confirmations, "full", True)
        house.driver.close("ann", "x", "s", 0.0)
        house.driver.cancel("ann", "y", "1", 0.0)
    assert [house.error(op).code for op in "xy"] == [ErrorCode.OVERLOADED] * 2
    assert not house.engine.stop_set
    assert house.driver.sessions.clients == {"ann"}
    house.driver.close("ann", "z", "s", 0.0)
    house.run()
    assert house.of("z") == [Acknowledged(found=True)]


def test_closing_everything_ends_all_operations_of_the_client_only(house: House) -> None:
    house.submit("1", turn("abc"))
    house.submit("2", turn("abc", "t"))
    house.submit("1", turn("abc"), client="bob")
    house.driver.close("ann", "x", None, 0.0)
    assert house.words("2")[-1] == "Done"
    assert house.of("x") == []  # S9: one of them has not ended yet
    house.say(house.engine.begin(), house.engine.end())
    assert house.of("x") == [Acknowledged(found=True)]
    assert {house.done(op).reason for op in "12"} == {Reason.CANCELLED}
    assert house.words("1", "bob") == ["Accepted", "Started"]
    house.driver.close("ann", "y", None, 0.0)
    assert house.of("y") == [Acknowledged(found=False)]
