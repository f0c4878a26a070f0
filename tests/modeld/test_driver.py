"""The driver between clients and an in-memory engine."""

from typing import Any

import pytest
from attrs import evolve

from modeld.engine.messages import Failed
from modeld.schedule import ScheduleLimits
from modeld.sessions import SessionLimits
from modeld.testing import EngineTwin, as_text
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import (
    Accepted,
    Acknowledged,
    Decode,
    DecodeConfig,
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


# --- one operation --------------------------------------------------------------------------------------


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


# --- sessions -------------------------------------------------------------------------------------------


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


# --- guesses --------------------------------------------------------------------------------------------


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


# --- ends -----------------------------------------------------------------------------------------------


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


# --- clients and engines that go ------------------------------------------------------------------------


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


def test_a_client_may_be_found_gone_by_a_reply_to_it(house: House) -> None:
    """S8: the event waits until the commands before it are carried out."""
    replies = house.driver._reply

    def gone_when_told(client: str, op: str, message: Any) -> None:
        replies(client, op, message)
        if isinstance(message, Accepted):
            house.driver.client_gone(client, house.now)

    house.driver._reply = gone_when_told
    house.submit("1", turn("abc"))
    assert house.engine.stop_set
    house.say(house.engine.begin(), house.engine.end())
    assert house.words("1")[-1] == "Done"
    assert house.driver.live == 0


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
