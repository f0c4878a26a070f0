"""Clients and engines that go, through the driver."""

from typing import Any

import pytest

from modeld.flight import Asked
from modeld.testing import as_text
from modelwire.errors import ErrorCode
from modelwire.messages import (
    Accepted,
    Decode,
    Done,
    Reason,
)
from tests.modeld.house import House, prefix, suffix, turn


@pytest.fixture
def house() -> House:
    house = House()
    house.say(house.engine.ready())
    return house


def test_a_client_that_is_gone_takes_its_operations_and_sessions_with_it(house: House) -> None:
    """S8."""
    house.submit("0", prefix("abc"))
    house.run()
    house.submit("1", turn("abc"))
    house.submit("2", turn("abc", "t"))
    house.submit("1", turn("abc"), client="bob")
    house.driver.client_gone("ann", 0.0)
    house.say(house.engine.begin(), house.engine.end())
    assert {house.done(op).reason for op in "12"} == {Reason.CANCELLED}
    assert house.driver.clients == {"bob"}


def test_a_silent_client_keeps_its_sessions(house: House) -> None:
    house.submit("1", turn("abc"))
    house.run()
    house.submit("2", turn("x", "t"))
    house.driver.client_silent("ann", 0.0)
    house.say(house.engine.begin(), house.engine.end())
    assert house.done("2").reason is Reason.CANCELLED
    assert house.contents() == "abc"


def found_gone_when_told(house: House, kind: type) -> None:
    """The client is found gone by sending it a reply of this kind to operation 1."""
    replies = house.driver._reply

    def reply(client: str, op: str, message: Any) -> None:
        replies(client, op, message)
        if isinstance(message, kind) and op == "1":
            house.driver.client_gone(client, house.now)

    house.driver._reply = reply


def test_a_client_may_be_found_gone_by_a_reply_to_it(house: House) -> None:
    """S8: the event waits until the commands before it are carried out."""
    found_gone_when_told(house, Accepted)
    house.submit("1", turn("abc"))
    assert house.engine.stop_set
    house.say(house.engine.begin(), house.engine.end())
    assert house.words("1")[-1] == "Done"
    assert house.driver.live == 0
    assert house.driver.clients == set()


def test_s8_a_client_found_gone_by_the_end_of_one_operation_leaves_no_session_of_the_next(house: House) -> None:
    """The next one starts all the same: that was decided before."""
    house.submit("1", turn("abc"))
    house.submit("2", turn("xyz", "t"))
    found_gone_when_told(house, Done)
    house.run()
    assert house.engine.stop_set
    house.say(house.engine.begin(), house.engine.end())
    assert house.driver.clients == set()


def test_s3_an_operation_that_could_not_start_is_not_stopped_though_its_client_is_found_gone(house: House) -> None:
    """A stop would be set while nothing runs."""
    house.submit("1", turn("abc"))
    house.submit("2", suffix("d", "empty"))
    found_gone_when_told(house, Done)
    house.run()
    assert house.error("2").code == ErrorCode.BAD_REQUEST
    assert not house.engine.stop_set
    assert house.driver.live == 0


def test_s8_a_fault_in_one_reply_does_not_hold_up_what_comes_later(house: House) -> None:
    replies = house.driver._reply

    def broken(client: str, op: str, message: Any) -> None:
        raise RuntimeError(op)

    house.submit("1", turn("abc"))
    house.driver._reply = broken
    with pytest.raises(RuntimeError):
        house.say(house.engine.end())
    house.driver._reply = replies
    house.submit("2", turn("abc"))
    house.run()
    assert house.done("2").reason is Reason.END


def test_s1_what_an_engine_says_after_an_operation_has_ended_reaches_nobody(house: House) -> None:
    house.submit("1", turn("abc"))
    house.run("d")
    said = list(house.replies)
    house.say(house.engine.generate("e"))
    assert house.replies == said
    assert house.contents() == "abcd"


@pytest.mark.parametrize("again", [Decode(session="s"), suffix("de")])
def test_s13_an_operation_that_runs_again_brings_no_ids_of_the_model_before_to_another(
    house: House, again: Asked
) -> None:
    """The file was replaced while its model was loaded."""
    house.submit("1", prefix("abc"))
    house.run()
    house.submit("2", again)
    house.lose_engine()
    house.say(house.engine.ready(fingerprint="other"))
    assert "of another model" in house.error("2").message
    assert house.engine.running is None


def test_s13_a_whole_prompt_runs_again_on_another_model(house: House) -> None:
    house.submit("1", turn("abc"))
    house.lose_engine()
    house.say(house.engine.ready(fingerprint="other"))
    house.run("d")
    assert house.contents() == "abcd"
    assert house.driver.clients == {"ann"}


def test_an_operation_without_a_token_runs_again_silently_when_the_engine_is_lost(house: House) -> None:
    """S13."""
    house.submit("1", prefix("abc"))
    house.run()
    house.submit("2", suffix("de"))
    house.say(house.engine.begin(), house.engine.advance(4))
    house.lose_engine()
    assert house.driver.state == "restarting"
    house.say(house.engine.ready())
    assert as_text(house.last_run().base) == "abc"
    house.run()
    assert house.contents() == "abcde"
    assert house.words("2").count("Started") == 1
    assert house.driver.figures.engine_restarts == 1


def test_an_operation_that_sent_a_token_fails_when_the_engine_is_lost_and_its_session_goes_on(house: House) -> None:
    """S8, S13."""
    house.submit("1", turn("abc"))
    house.say(house.engine.begin(), house.engine.advance(), house.engine.generate("d"))
    house.lose_engine()
    assert (house.error("1").code, house.error("1").retry) == (ErrorCode.ENGINE_LOST, True)
    house.say(house.engine.ready())
    house.submit("2", Decode(session="s"))
    assert as_text(house.last_run().base) == "abcd"


def test_s12_a_guess_that_fails_while_it_waits_is_counted_too() -> None:
    """No engine comes up, so it never starts."""
    house = House()
    house.submit("1", turn("abc", speculative=True))
    for _ in range(3):
        house.lose_engine()
    assert house.error("1").code == ErrorCode.NOT_READY
    assert house.driver.figures.guesses_failed == 1


def test_a_guess_that_is_lost_with_its_engine_is_counted_and_not_run_again(house: House) -> None:
    """S12."""
    house.submit("1", turn("abc", speculative=True))
    house.say(house.engine.begin())
    house.now = 3.0
    house.lose_engine()
    assert house.error("1").code == ErrorCode.ENGINE_LOST
    assert house.driver.figures.guesses_failed == 1
    assert house.driver.figures.wasted_s == 3.0
    house.say(house.engine.ready())
    assert house.engine.running is None


def test_s13_what_a_guess_had_done_when_its_engine_was_lost_stays_wasted(house: House) -> None:
    for op, content in {"1": "ab", "2": "abc"}.items():
        house.submit(op, turn(content, speculative=True))
        house.say(house.engine.begin(), house.engine.advance())
        house.now += 3.0
        if op == "1":
            house.lose_engine()
            house.say(house.engine.ready())
    house.say(house.engine.end())
    house.submit("3", turn("abc"))
    house.say(house.engine.begin(), house.engine.end(guessed=3))
    assert house.driver.figures.wasted_s == 3.0


def test_a_stop_for_a_lost_engine_does_not_reach_the_next_operation(house: House) -> None:
    house.submit("1", turn("abc"))
    house.submit("2", turn("xyz"))
    house.driver.cancel("ann", "c", "1", 0.0)
    house.lose_engine()
    assert house.done("1").reason is Reason.CANCELLED
    house.say(house.engine.ready())
    assert not house.engine.stop_set
    house.run()
    assert house.done("2").reason is Reason.END


def test_when_the_daemon_stops_everything_ends(house: House) -> None:
    """S8."""
    house.submit("1", turn("abc"))
    house.submit("2", turn("abc"))
    house.driver.shutdown(0.0)
    house.say(house.engine.begin(), house.engine.end())
    house.submit("3", turn("abc"))
    assert {house.error(op).code for op in "123"} == {ErrorCode.STOPPING}
    assert house.driver.live == 0
    assert house.driver.state == "stopping"


def test_the_state_says_what_happens() -> None:
    house = House()
    states = [house.driver.state]
    house.say(house.engine.ready())
    states.append(house.driver.state)
    house.submit("1", turn("abc", speculative=True))
    states.append(house.driver.state)
    house.run()
    house.submit("2", turn("abc"))
    states.append(house.driver.state)
    assert states == ["loading", "idle", "guessing", "busy"]


def test_what_happened_is_counted(house: House) -> None:
    house.submit("1", turn("abc"))
    house.run("de")
    figures = house.driver.figures.as_mapping(sessions=1, clients=1, queue=0, snapshots=0)
    assert (figures["operations_total"], figures["tokens_prefilled"], figures["tokens_generated"]) == (1, 3, 2)
    assert (figures["cells_total"], figures["cells_used"]) == (8192, 3)
