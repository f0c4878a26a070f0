"""Guesses through the driver and an in-memory engine."""

from collections.abc import Callable

import pytest
from attrs import evolve

from modeld.engine.messages import Run
from modeld.runs import digest
from modeld.sessions import SessionLimits
from modeld.testing import as_ids, as_text
from modelwire.errors import ErrorCode
from modelwire.messages import (
    Decode,
    DecodeConfig,
    Prompt,
    Reason,
    SlotOperation,
    Started,
    Tokens,
    Turn,
)
from tests.modeld.house import House, chat, prefix, suffix, text, turn


@pytest.fixture
def house() -> House:
    house = House()
    house.say(house.engine.ready())
    return house


def test_a_guess_changes_nothing_of_its_session(house: House) -> None:
    """S4."""
    house.submit("1", prefix("abc"))
    house.run()
    guesses: list[tuple[str, SlotOperation]] = [
        ("2", turn("zzz", speculative=True)),
        ("3", suffix("de", speculative=True)),
    ]
    for op, guess in guesses:
        house.submit(op, guess)
        assert house.last_run().guess
        assert house.last_run().decode is None
        house.run()
        assert house.done(op).head == 3
    house.submit("4", prefix("zz", speculative=True))
    house.run()
    house.submit("5", suffix("d"))
    assert as_text(house.last_run().base) == "abc"


def test_a_guess_that_goes_ahead_says_its_answer_and_changes_nothing_of_its_session(house: House) -> None:
    """S4, S10."""
    house.submit("1", prefix("abc"))
    house.run()
    house.submit("2", evolve(turn("zzz", speculative=True), ahead=True))
    assert house.last_run().guess
    assert house.last_run().decode == DecodeConfig()
    house.run("said")
    assert [message.text for message in house.of("2") if isinstance(message, Tokens)] == ["said"]
    assert house.done("2").head == 3
    house.submit("3", suffix("d"))
    assert as_text(house.last_run().base) == "abc"


@pytest.mark.parametrize("words", [text, chat])
def test_s10_a_guessed_turn_asks_the_engine_for_what_the_asked_one_does(
    house: House, words: Callable[[str], Prompt]
) -> None:
    asked = Turn(session="s", prefix=words("abc"), suffix=words("de"))
    for op, message in {"1": evolve(asked, speculative=True), "2": asked}.items():
        house.submit(op, message)
        house.run()
    guess, real = house.engine.sent
    assert isinstance(real, Run)
    assert guess == evolve(real, guess=True, decode=None)


def test_s10_guesses_are_the_same_only_where_all_of_their_bytes_are() -> None:
    runs = [
        Run(client="ann", session="s", guess=True, base=base, prompt=prompt)
        for base in (b"", as_ids("a"))
        for prompt in (text("abc"), text("ab") + text("c"), text("a") + text("bc"), text("abtext Falsec"), chat("abc"))
    ]
    assert len({digest(run) for run in runs}) == len(runs)


def test_a_guess_that_goes_ahead_is_no_duplicate_of_one_that_does_not(house: House) -> None:
    house.submit("1", turn("same", speculative=True))
    house.submit("2", evolve(turn("same", speculative=True), ahead=True))
    house.say(house.engine.begin(), house.engine.end())
    assert house.done("1").reason is Reason.PREEMPTED
    house.submit("3", evolve(turn("same", speculative=True), ahead=True))
    assert house.done("3").reason is Reason.DUPLICATE


def test_a_guessed_suffix_goes_on_from_the_guessed_prefix(house: House) -> None:
    house.submit("1", prefix("zz", speculative=True))
    house.run()
    house.submit("2", suffix("y", speculative=True))
    assert as_text(house.last_run().base) == "zz"
    house.run()
    house.submit("3", Decode(session="s"))
    assert house.error("3").code == ErrorCode.BAD_REQUEST


def test_after_a_real_operation_a_guessed_suffix_goes_on_from_its_contents(house: House) -> None:
    house.submit("1", prefix("zz", speculative=True))
    house.run()
    house.submit("2", prefix("abc"))
    house.run()
    house.submit("3", suffix("d", speculative=True))
    assert as_text(house.last_run().base) == "abc"


def test_a_real_operation_preempts_a_guess_and_says_so(house: House) -> None:
    """S2, S3."""
    house.submit("g", turn("guess", speculative=True))
    house.say(house.engine.begin())
    house.submit("1", turn("real"))
    assert house.words("1") == ["Accepted"]
    assert house.engine.stop_set
    house.say(house.engine.end())
    assert house.of("1")[1] == Started(queue_ms=0.0, preempted="g")
    assert house.done("g").reason is Reason.PREEMPTED
    assert house.driver.figures.guesses_preempted == 1


def test_a_preempted_guess_of_another_client_is_not_named(house: House) -> None:
    """S11."""
    house.submit("1", turn("guess", speculative=True))
    house.submit("1", turn("real"), client="bob")
    house.say(house.engine.begin(), house.engine.end())
    assert house.of("1", "bob")[1] == Started(queue_ms=0.0, preempted="?")


def test_two_guesses_with_the_same_bytes_are_one(house: House) -> None:
    house.submit("1", turn("same", speculative=True))
    house.submit("2", turn("same", speculative=True))
    assert house.done("2").reason is Reason.DUPLICATE
    assert not house.engine.stop_set
    house.submit("3", turn("sam", speculative=True))
    assert house.engine.stop_set


def test_s11_a_guess_is_no_duplicate_of_another_clients(house: House) -> None:
    """That it is one would tell what the other client guesses."""
    house.submit("1", turn("same", speculative=True))
    house.submit("1", turn("same", speculative=True), client="bob")
    house.submit("2", turn("same", session="t", speculative=True))
    assert house.words("1", "bob") == ["Accepted", "Done"]
    assert house.done("1", "bob").reason is Reason.SUPERSEDED  # and ann's newest waits
    assert house.words("2") == ["Accepted"]


def test_a_guess_closes_no_real_session(house: House) -> None:
    house = House(session_limits=SessionLimits(per_client=1))
    house.say(house.engine.ready())
    house.submit("1", prefix("abc", "real"))
    house.run()
    house.submit("2", prefix("zz", "guessed", speculative=True))
    house.run()
    assert house.done("2").reason is Reason.PREFILLED
    assert house.contents("real") == "abc"
    assert len(house.driver.sessions) == 1


def test_a_guesss_time_is_wasted_until_a_real_operation_reuses_it(house: House) -> None:
    for op, content in {"1": "abcd", "2": "xyz"}.items():
        house.submit(op, turn(content, speculative=True))
        house.say(house.engine.begin(), house.engine.advance())
        house.now += 2.0
        house.say(house.engine.end())
    assert house.driver.figures.wasted_s == 4.0
    house.submit("3", turn("abcdef"))
    house.say(house.engine.begin(), house.engine.advance(), house.engine.end(guessed=4))
    assert house.driver.figures.wasted_s == 2.0
    assert house.driver.figures.guesses_adopted == 1
    assert house.driver.figures.partials == 1
