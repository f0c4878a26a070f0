"""The driver between clients and an in-memory engine: one operation, and how it ends."""

import pytest
from attrs import evolve

from modeld.about import About
from modeld.engine.messages import Failed, Generated
from modeld.schedule import ScheduleLimits
from modeld.testing import EngineTwin, as_ids
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import (
    Accepted,
    Acknowledged,
    Decode,
    EnsurePrefix,
    Error,
    PrefillSuffix,
    Progress,
    Reason,
    SlotOperation,
    Started,
    TokenIds,
    Tokenize,
    Tokens,
    Turn,
)
from tests.modeld.house import House, chat, prefix, suffix, text, turn


@pytest.fixture
def house() -> House:
    house = House()
    house.say(house.engine.ready())
    return house


def test_the_replies_to_a_turn_come_in_order_with_its_times(house: House) -> None:
    house.now = 10.0
    house.submit("1", turn("hello"))
    house.now = 10.5
    house.say(house.engine.begin(), house.engine.advance(3), house.engine.advance())
    house.now = 11.0
    house.say(house.engine.generate("yes"))
    house.now = 12.0
    house.say(house.engine.generate("!"), house.engine.end())
    assert house.of("1")[:-1] == [
        Accepted(),
        Started(queue_ms=0.0),
        Progress(reused=0, done=0, total=5),
        Progress(reused=0, done=3, total=5),
        Progress(reused=0, done=5, total=5),
        Tokens(text="yes", ids=tuple(map(ord, "yes"))),
        Tokens(text="!", ids=(ord("!"),)),
    ]
    done = house.done("1")
    assert (done.reason, done.head, done.usage.generated) == (Reason.END, len("helloyes!"), 4)
    timings = done.timings
    assert (timings.queue, timings.first_token, timings.total, timings.prefill) == (0.0, 1000.0, 2000.0, 7.0)


def test_what_comes_with_the_end_is_said_before_it(house: House) -> None:
    house.submit("1", turn("abc"))
    last = house.engine.begin(), evolve(house.engine.end(Reason.LENGTH), length=3, last=Generated(text="d", ids=(100,)))
    house.say(*last)
    assert house.words("1") == ["Accepted", "Started", "Progress", "Tokens", "Done"]
    assert house.contents() == "abcd"
    assert house.done("1").head == 4


def test_the_client_is_told_before_the_books_are_kept(house: House) -> None:
    counted: list[int] = []

    def reply(client: str, op: str, message: object) -> None:
        counted.append(house.driver.figures.tokens_generated)

    house.driver._reply = reply
    house.submit("1", turn("abc"))
    house.run("yes")
    assert counted[-1] == 0
    assert house.driver.figures.tokens_generated > 0


def test_a_status_counts_tokens_as_they_come(house: House) -> None:
    about = About(message_bytes=1, sessions=1, queue=1, started=0.0)

    def counted() -> tuple[float, ...]:
        figures = about.status(house.driver, 1, 0.0).figures
        return tuple(figures[f"tokens_{name}"] for name in ("reused", "prefilled", "generated"))

    house.engine.tapes.append(as_ids("he"))
    house.submit("1", turn("hello"))
    house.say(house.engine.begin())
    assert counted() == (2.0, 0.0, 0.0)
    house.say(house.engine.advance(4))
    assert counted() == (2.0, 2.0, 0.0)
    house.say(house.engine.advance(), house.engine.generate("yes"))
    assert counted() == (2.0, 3.0, 3.0)
    house.say(house.engine.end())
    assert counted() == (2.0, 3.0, 3.0)
    house.submit("2", turn("help", speculative=True))
    house.say(house.engine.begin(), house.engine.advance())
    assert counted() == (2.0, 4.0, 3.0)
    house.say(house.engine.end())
    assert counted() == (2.0, 4.0, 3.0)


def test_a_first_token_that_comes_with_the_end_is_no_event_of_its_own() -> None:
    events: list[str] = []
    house = House(also=lambda entry, board: events.append(type(entry.event).__name__))
    house.say(house.engine.ready())
    house.submit("1", turn("abc"))
    house.say(house.engine.begin(), evolve(house.engine.end(), length=3, last=Generated(text="d", ids=(100,))))
    house.submit("2", turn("abc"))
    house.run("yes")
    assert events[2:] == ["EngineEnded", "Submitted", "EngineProduced", "EngineEnded"]


def test_what_became_resident_without_a_word_is_said_with_the_end(house: House) -> None:
    house.submit("1", prefix("abcdef"))
    begun = house.engine.begin()
    house.driver.cancel("ann", "c", "1", 0.0)
    house.say(begun, evolve(house.engine.end(), length=4))
    assert Progress(reused=0, done=4, total=6) in house.of("1")
    assert house.done("1").head == 4


def test_the_queue_time_counts_from_the_arrival(house: House) -> None:
    house.submit("1", turn("a"))
    house.submit("2", turn("b"))
    house.now = 0.25
    house.run()
    assert house.of("2")[1] == Started(queue_ms=250.0)
    house.now = 0.5
    house.run()
    assert house.done("2").timings.queue == 250.0


def test_an_error_of_the_engine_is_passed_on_with_its_numbers(house: House) -> None:
    house.submit("1", turn("a"))
    house.engine.running = None
    house.say(Failed(code=ErrorCode.CONTEXT_OVERFLOW, message="too long", numbers={"prompt": 9}))
    assert house.error("1") == Error(code="context_overflow", message="too long", numbers={"prompt": 9})
    assert house.contents() == ""


def test_ids_are_told_for_a_prompt_as_a_turn_would_see_it(house: House) -> None:
    house.submit("1", Tokenize(prompt=chat("hi")))
    house.say(house.engine.encoded())
    assert house.of("1") == [TokenIds(ids=tuple(map(ord, "user:hi;assistant:")))]


def test_a_cancel_is_confirmed_after_the_last_message_of_its_target(house: House) -> None:
    """S9."""
    house.submit("1", turn("abc"))
    house.say(house.engine.begin())
    house.driver.cancel("ann", "c", "1", 0.0)
    house.driver.cancel("ann", "d", "1", 0.0)
    assert house.of("c") == []
    house.say(house.engine.generate("x"), house.engine.end())
    assert [op for _, op, _ in house.replies[-3:]] == ["1", "c", "d"]
    assert house.of("c") == house.of("d") == [Acknowledged(found=True)]


@pytest.mark.parametrize("target", ["never", "ended"])
def test_a_cancel_of_what_does_not_live_finds_nothing(house: House, target: str) -> None:
    house.submit("ended", turn("abc"))
    house.run()
    house.driver.cancel("ann", "c", target, 0.0)
    assert house.of("c") == [Acknowledged(found=False)]


def test_nobody_cancels_anothers_operation(house: House) -> None:
    house.submit("1", turn("abc"))
    house.driver.cancel("bob", "c", "1", 0.0)
    assert house.of("c", "bob") == [Acknowledged(found=False)]
    assert not house.engine.stop_set


def test_a_waiting_operation_is_cancelled_at_once(house: House) -> None:
    house.submit("1", turn("abc"))
    house.submit("2", turn("abc"))
    house.driver.cancel("ann", "c", "2", 0.0)
    assert house.done("2").reason is Reason.CANCELLED
    assert house.of("c") == [Acknowledged(found=True)]


def test_a_newer_operation_in_a_lane_supersedes_the_older(house: House) -> None:
    house.submit("1", turn("abc", lane="inline"))
    house.submit("2", turn("abcd", lane="inline"))
    house.say(house.engine.begin(), house.engine.end())
    assert house.done("1").reason is Reason.SUPERSEDED
    assert house.words("2") == ["Accepted", "Started"]


def test_an_operation_that_cannot_start_in_time_expires(house: House) -> None:
    house.submit("1", turn("abc"))
    house.submit("2", Turn(session="s", prefix=text("x"), deadline_ms=500))
    house.driver.tick(0.4)
    assert house.driver.scheduler.next_deadline() == 0.5
    house.driver.tick(0.5)
    assert house.done("2").reason is Reason.EXPIRED


def test_a_second_operation_with_a_live_id_does_not_end_the_live_one(house: House) -> None:
    """S8."""
    house.submit("1", turn("abc"))
    house.submit("1", turn("xyz"))
    assert house.words("1") == ["Accepted", "Started"]
    assert house.error("?").code == ErrorCode.DUPLICATE_OP
    house.run("d")
    assert house.contents() == "abcd"


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (Turn(session="s", prefix=()), "empty"),
        (EnsurePrefix(session="s", prompt=text("")), "empty"),
        (Tokenize(prompt=()), "empty"),
        (Turn(session="s", prefix=text("a"), suffix=chat("b")), "mixes"),
        (Decode(session="nowhere"), "ensure a prefix or send a turn first"),
        (suffix("x", "nowhere"), "ensure a prefix or send a turn first"),
        (Decode(session="s", speculative=True), "speculative"),
        (Turn(session="s", prefix=text("a"), deadline_ms=-1), "deadline_ms is -1"),
        (turn("a", "n" * 201), "1 to 200"),
        (turn("a", ""), "1 to 200"),
        (turn("a", lane="n" * 201), "200"),
    ],
)
def test_what_makes_no_sense_is_refused_and_says_what_to_do(
    house: House, message: SlotOperation | Tokenize, says: str
) -> None:
    house.submit("1", message)
    assert house.error("1").code == ErrorCode.BAD_REQUEST
    assert says in house.error("1").message
    assert house.driver.live == 0
    assert house.engine.sent == []
    house.submit("2", turn("abc"))
    house.run()
    assert house.done("2").reason is Reason.END


def test_a_suffix_is_of_the_kind_of_its_session(house: House) -> None:
    house.submit("1", prefix("abc"))
    house.run()
    house.submit("2", PrefillSuffix(session="s", prompt=chat("hi")))
    assert "must be text" in house.error("2").message


def test_too_many_operations_are_refused_with_a_retry(house: House) -> None:
    house = House(limits=ScheduleLimits(queue=1))
    house.submit("1", turn("a"))
    house.submit("2", turn("b"))
    assert (house.error("2").code, house.error("2").retry) == (ErrorCode.OVERLOADED, True)
    assert house.driver.live == 1


@pytest.mark.parametrize(
    ("fault", "code"), [(RuntimeError("a bug"), "internal"), (WireError("too_large", "too large"), "too_large")]
)
def test_an_operation_that_cannot_be_sent_fails_and_the_next_one_runs(
    house: House, monkeypatch: pytest.MonkeyPatch, fault: Exception, code: str
) -> None:
    def fail(*_: object) -> None:
        raise fault

    with monkeypatch.context() as broken:
        broken.setattr(EngineTwin, "send", fail)
        house.submit("1", turn("abc"))
    assert house.error("1").code == code
    assert house.words("1") == ["Accepted", "Error"]
    house.submit("2", turn("abc"))
    house.run()
    assert house.done("2").reason is Reason.END
