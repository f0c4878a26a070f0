"""What is told of an operation: everything that happened to it, and nothing of what it said."""

import pytest

from modeld.stories import HISTORY
from modelwire.messages import Decode, Load, Tokenize
from tests.modeld.house import House, text, turn


@pytest.fixture
def house() -> House:
    house = House()
    house.say(house.engine.ready())
    return house


def story(house: House, op: str = "", client: str = "") -> list[str]:
    lines = house.driver.stories.tell(op, client)
    assert lines
    return list(lines)


def test_a_story_tells_what_happened_and_when(house: House) -> None:
    house.submit("7", turn("secret guess", speculative=True))
    house.say(house.engine.begin(), house.engine.advance(6))
    house.now = 1.0
    house.submit("1", turn("secret guess!"))
    house.now = 1.0029
    house.say(house.engine.end())
    house.say(house.engine.begin(), house.engine.advance(10), house.engine.advance())
    house.now = 1.004
    house.say(house.engine.generate("xy"))
    house.now = 1.5
    house.say(house.engine.generate("z"), house.engine.end(guessed=6))
    assert story(house, "1") == [
        "turn 1 of client ann",
        "0.0 ms accepted, queued behind 1",
        "2.9 ms started, preempted guess 7 (waited 2.9 ms for the engine to stop)",
        "2.9 ms prompt 13 tokens, 6 reused, 6 of them of a guess",
        "2.9 ms prompt complete after 2 chunks",
        "4.0 ms first token, no forward pass",
        "500.0 ms done: end, 3 tokens",
    ]
    assert story(house, "7") == [
        "guessed turn 7 of client ann",
        "0.0 ms accepted",
        "0.0 ms started",
        "0.0 ms prompt 12 tokens, 0 reused",
        "1000.0 ms asked to stop",
        "1002.9 ms done: preempted, 6 of 12 prompt tokens resident",
    ]
    assert "secret" not in "".join(story(house, "1") + story(house, "7"))


def test_a_story_can_be_asked_for_before_its_end(house: House) -> None:
    house.submit("1", turn("abc"))
    house.submit("2", turn("abc"))
    house.say(house.engine.begin(), house.engine.advance(), house.engine.generate("x"))
    assert story(house, "1")[-1] == "0.0 ms first token"
    assert story(house, "2") == ["turn 2 of client ann", "0.0 ms accepted, queued behind 1"]


def test_a_story_tells_of_a_lost_engine_and_of_an_error(house: House) -> None:
    house.submit("1", turn("abc"))
    house.say(house.engine.begin(), house.engine.advance(2))
    house.lose_engine()
    house.now = 2.0
    house.say(house.engine.ready())
    house.say(house.engine.begin(), house.engine.advance(), house.engine.generate("x"))
    house.lose_engine()
    lines = story(house, "1")
    assert "2000.0 ms started again: the engine was lost" in lines
    assert lines[-1] == "2000.0 ms error: engine_lost"


def test_a_load_has_a_story_and_a_question_has_none(house: House) -> None:
    house.submit("l", Load(model="/a.gguf"))
    house.say(house.engine.ready("a"))
    assert story(house) == ["load l of client ann", "0.0 ms accepted", "0.0 ms started", "0.0 ms done"]
    house.submit("t", Tokenize(prompt=text("abc")))
    assert house.driver.stories.tell("t") is None


def test_the_newest_is_meant_and_a_client_can_be_named(house: House) -> None:
    for at, client in enumerate(("ann", "bob", "cid")):
        house.now = float(at)
        house.submit("1", Decode(session="none"), client=client)
    assert story(house)[0] == story(house, "1")[0] == "decode 1 of client cid"
    assert story(house, "1", "bo")[0] == "decode 1 of client bob"
    assert house.driver.stories.tell("1", "dan") is None
    assert house.driver.stories.tell("2") is None


def test_stories_are_bounded_in_number_and_length(house: House) -> None:
    for number in range(HISTORY + 10):
        house.submit(str(number), Decode(session="none"))
    assert len(house.driver.stories) == HISTORY
    assert house.driver.stories.tell("9") is None
    house.submit("x", turn("abc"))
    for _ in range(100):
        house.driver.stories.note(house.driver.scheduler.running.key, 0.0, "again")  # type: ignore[union-attr]
    house.run()
    assert len(story(house, "x")) < 70
    assert story(house, "x")[-1].startswith("0.0 ms done")
