"""Loading and unloading as the driver sees it: what waits, what is answered, what is left of sessions."""

import pytest

from modeld.engine.messages import EngineUnloaded, Failed, Refused
from modeld.housekeeping import IdleTimes
from modeld.schedule.messages import Kind
from modelwire.errors import ErrorCode, WireError
from modelwire.messages import Acknowledged, Decode, Load, Reason, Started, Tokenize, Unload
from tests.modeld.house import House, prefix, text, turn


@pytest.fixture
def house() -> House:
    house = House()
    house.say(house.engine.ready())
    return house


def unload(house: House, op: str = "u") -> None:
    house.submit(op, Unload())
    house.say(EngineUnloaded(epoch=1))


def test_an_unload_ends_the_engine_when_the_operations_before_it_have_ended(house: House) -> None:
    house.submit("1", turn("abc"))
    house.submit("u", Unload())
    assert house.engine.asked == []
    house.run()
    assert house.engine.asked == ["nothing"]
    assert house.of("u") == []
    house.say(EngineUnloaded(epoch=1))
    assert house.of("u") == [Acknowledged(found=True)]
    assert house.driver.state == "unloaded"
    assert house.driver.ready


def test_an_unload_ends_a_running_guess(house: House) -> None:
    """S2."""
    house.submit("g", turn("abc", speculative=True))
    house.submit("u", Unload())
    assert house.engine.stop_set
    house.say(house.engine.begin(), house.engine.end())
    assert house.done("g").reason is Reason.PREEMPTED
    assert house.engine.asked == ["nothing"]


@pytest.mark.parametrize("speculative", [False, True])
def test_the_next_operation_loads_what_was_unloaded_and_waits_for_it(house: House, speculative: bool) -> None:
    """S13: its session is as it was."""
    house.submit("1", prefix("abc"))
    house.run()
    unload(house)
    house.now = 5.0
    house.submit("2", turn("abcd", speculative=speculative))
    assert house.engine.asked == ["nothing", None]
    assert house.driver.state == "loading"
    assert house.words("2") == ["Accepted"]
    house.now = 7.0
    house.say(house.engine.ready())
    assert house.of("2")[1] == Started(queue_ms=2000.0)
    house.run()
    house.submit("3", Decode(session="s"))
    house.run("z")
    assert house.done("3").reason is Reason.END


def test_a_question_about_ids_loads_it_too(house: House) -> None:
    unload(house)
    house.submit("1", Tokenize(prompt=text("ab")))
    house.say(house.engine.ready())
    house.say(house.engine.encoded())
    assert house.words("1") == ["TokenIds"]


def test_an_unload_of_nothing_and_a_load_of_what_is_loaded_find_nothing_to_do(house: House) -> None:
    house.submit("l", Load())
    assert house.of("l") == [Acknowledged(found=False)]
    unload(house)
    house.submit("v", Unload())
    assert house.of("v") == [Acknowledged(found=False)]
    assert house.engine.asked == ["nothing"]
    assert house.driver.state == "unloaded"


def test_a_load_brings_back_what_was_unloaded(house: House) -> None:
    unload(house)
    house.submit("l", Load())
    assert house.of("l") == []
    house.say(house.engine.ready())
    assert house.of("l") == [Acknowledged(found=True)]
    assert house.driver.state == "idle"


def test_another_models_sessions_are_empty_and_an_operation_on_one_says_why(house: House) -> None:
    house.submit("1", prefix("abc"))
    house.run()
    house.submit("l", Load(model="/other.gguf"))
    assert house.engine.asked == ["/other.gguf"]
    house.submit("2", Decode(session="s"))
    house.say(house.engine.ready(fingerprint="other"))
    assert house.of("l") == [Acknowledged(found=True)]
    assert house.error("2").code == ErrorCode.BAD_REQUEST
    assert "of another model" in house.error("2").message
    house.submit("3", turn("abc"))
    assert house.last_run().closed == ()
    house.run()
    house.submit("m", Load(model="/other.gguf"))
    assert house.of("m") == [Acknowledged(found=False)]


def test_the_same_model_in_another_file_keeps_the_sessions(house: House) -> None:
    house.submit("1", prefix("abc"))
    house.run()
    house.submit("l", Load(model="/copy.gguf"))
    house.say(house.engine.ready())
    assert house.contents() == "abc"


def test_a_model_that_is_refused_is_said_to_who_asked_and_the_one_before_is_loaded_again(house: House) -> None:
    house.submit("1", prefix("abc"))
    house.run()
    house.submit("l", Load(model="/bad.gguf"))
    assert house.driver.refused(Refused(message="not a GGUF file"), house.now)
    assert house.engine.asked == ["/bad.gguf", None]
    house.submit("2", Decode(session="s"))
    assert house.of("l") == []
    house.say(house.engine.ready())
    assert (house.error("l").code, house.error("l").retry) == (ErrorCode.NOT_READY, False)
    assert house.error("l").message == "not a GGUF file. The model before is loaded again"
    house.run("d")
    assert house.contents() == "abcd"


def test_s13_where_the_model_before_is_refused_too_nothing_is_loaded_until_it_is_wanted(house: House) -> None:
    house.submit("l", Load(model="/bad.gguf"))
    assert house.driver.refused(Refused(message="not a GGUF file"), house.now)
    assert house.driver.refused(Refused(message="gone"), house.now)
    assert house.error("l").code == ErrorCode.NOT_READY
    assert house.error("l").message == "not a GGUF file. The model before cannot be loaded either: gone"
    assert house.driver.state == "unloaded"
    house.submit("1", turn("abc"))
    assert house.engine.asked == ["/bad.gguf", None, None]
    house.say(house.engine.ready())
    house.run()
    assert house.done("1").reason is Reason.END


@pytest.mark.parametrize("unloaded", [True, False])
def test_s13_a_model_that_was_ready_and_is_refused_now_is_tried_again_by_the_next_operation(
    house: House, unloaded: bool
) -> None:
    """Memory that is short for an hour, or a file that is gone, must not end the daemon; sessions stay."""
    house.submit("0", prefix("abc"))
    house.run()
    if unloaded:
        unload(house)
        house.submit("1", turn("abcd"))
    else:
        house.submit("1", turn("abcd"))
        house.lose_engine()
    house.submit("g", turn("xyz", "t", speculative=True))
    house.engine.asked.clear()
    assert house.driver.refused(Refused(message="no room"), house.now)
    house.check()
    for op in "1g":
        assert (house.error(op).code, house.error(op).message) == (ErrorCode.NOT_READY, "no room")
    assert (house.driver.state, house.driver.live) == ("unloaded", 0)
    house.submit("2", Decode(session="s"))
    assert house.engine.asked == [None]
    house.say(house.engine.ready())
    house.run("d")
    assert house.contents() == "abcd"


@pytest.mark.parametrize("other", [True, False])
def test_s13_a_model_that_is_refused_now_is_described_so_that_who_asks_first_gets_on(house: House, other: bool) -> None:
    """As one that was unloaded is; it is the one that the next operation loads."""
    before = house.driver.ready
    if other:
        house.submit("l", Load(model="/big.gguf"))
        house.driver.refused(Refused(message="too big"), house.now)
    else:
        unload(house)
        house.submit("1", turn("abc"))
    house.driver.refused(Refused(message="no room"), house.now)
    assert (house.driver.state, house.driver.ready) == ("unloaded", before)
    house.submit("2", turn("abc"))
    assert (house.driver.state, house.driver.ready) == ("loading", None)


def test_s13_a_load_of_what_was_unloaded_and_is_refused_now_ends(house: House) -> None:
    unload(house)
    house.submit("l", Load())
    house.driver.cancel("ann", "c", "l", house.now)
    for _ in range(10):
        house.driver.engine_lost(house.now)
        house.check()
    house.submit("1", turn("abc"))
    assert house.driver.refused(Refused(message="it died 5 times"), house.now)
    house.check()
    assert (house.error("l").code, house.error("l").message) == (ErrorCode.NOT_READY, "it died 5 times")
    assert house.of("c") == [Acknowledged(found=True)]
    assert house.engine.asked == ["nothing", None, None]
    house.say(house.engine.ready())
    assert house.words("1") == ["Accepted", "Started"]


def test_what_was_refused_on_a_way_back_is_not_said_of_a_later_one(house: House) -> None:
    house.submit("l", Load(model="/bad.gguf"))
    house.driver.refused(Refused(message="not a GGUF file"), house.now)
    house.say(house.engine.ready())
    house.submit("1", turn("abc"))
    house.lose_engine()
    house.driver.refused(Refused(message="no room"), house.now)
    assert house.error("1").message == "no room"


def test_a_model_that_was_never_ready_and_is_refused_leaves_nothing_to_do() -> None:
    assert not House().driver.refused(Refused(message="no room"), 0.0)


def test_an_unload_ends_a_guess_that_waits_and_does_not_load_the_model_for_it(house: House) -> None:
    house.submit("1", turn("abc"))
    house.submit("g", turn("xyz", "t", speculative=True))
    house.submit("u", Unload())
    house.run()
    assert house.done("g").reason is Reason.PREEMPTED
    house.say(EngineUnloaded(epoch=1))
    assert house.engine.asked == ["nothing"]
    assert house.driver.state == "unloaded"


@pytest.mark.parametrize(
    ("wish", "asked"), [(Load(model="/small.gguf"), "/small.gguf"), (Load(), None), (Unload(), "nothing")]
)
@pytest.mark.parametrize("before", [1, 3])
def test_s13_while_engines_die_one_after_another_a_load_or_an_unload_gets_in(
    house: House, wish: Load | Unload, asked: str | None, before: int
) -> None:
    house.submit("1", turn("abc"))
    for _ in range(before):
        house.lose_engine()
    house.submit("s", wish)
    for _ in range(3 - before):
        house.lose_engine()
    assert house.error("1").code == ErrorCode.NOT_READY
    assert house.engine.asked == [asked]
    house.lose_engine()
    house.say(EngineUnloaded(epoch=1) if isinstance(wish, Unload) else house.engine.ready())
    assert house.of("s") == [Acknowledged(found=True)]
    house.submit("2", turn("abc"))
    if isinstance(wish, Unload):
        assert house.engine.asked == ["nothing", None]
        house.say(house.engine.ready())
    house.run()
    assert house.done("2").reason is Reason.END


def test_an_engine_that_dies_while_it_loads_the_wanted_model_ends_nobodys_wait(house: House) -> None:
    house.submit("l", Load(model="/big.gguf"))
    house.submit("1", turn("abc"))
    for _ in range(5):
        house.driver.engine_lost(house.now)
        house.check()
    assert house.engine.asked == ["/big.gguf"]
    house.say(house.engine.ready("big"))
    assert house.of("l") == [Acknowledged(found=True)]
    assert house.words("1") == ["Accepted", "Started"]


def test_a_load_that_has_begun_cannot_be_cancelled(house: House) -> None:
    """S8, S9: the cancel is confirmed when it has ended."""
    house.submit("l", Load(model="/a.gguf"))
    house.driver.cancel("ann", "c", "l", house.now)
    assert house.of("c") == []
    house.say(house.engine.ready("a"))
    assert [op for _, op, _ in house.replies] == ["l", "c"]
    assert house.of("l") == [Acknowledged(found=True)]


def test_a_daemon_that_stops_does_not_wait_for_a_load(house: House) -> None:
    """S8."""
    house.submit("l", Load(model="/a.gguf"))
    house.driver.shutdown(house.now)
    house.lose_engine()
    assert house.error("l").code == ErrorCode.STOPPING
    assert house.driver.live == 0


def test_a_load_by_a_relative_path_is_refused(house: House) -> None:
    house.submit("l", Load(model="a.gguf"))
    assert house.error("l").code == ErrorCode.BAD_REQUEST
    assert "absolute" in house.error("l").message


def test_an_idle_model_is_unloaded_after_a_time_and_not_before() -> None:
    house = House(idle=IdleTimes(unload_after=60.0))
    house.driver.tick(100.0)
    house.say(house.engine.ready())
    house.now = 200.0
    house.submit("1", turn("abc"))
    house.driver.tick(300.0)
    house.now = 310.0
    house.run()
    house.driver.tick(369.9)
    assert house.engine.asked == []
    house.driver.tick(370.0)
    house.driver.tick(371.0)
    assert house.engine.asked == ["nothing"]
    house.say(EngineUnloaded(epoch=1))
    house.driver.tick(600.0)
    assert house.engine.asked == ["nothing"]


def test_a_model_that_has_just_been_loaded_is_not_idle_yet() -> None:
    house = House(idle=IdleTimes(unload_after=60.0), now=1000.0)
    house.say(house.engine.ready())
    house.driver.tick(1059.0)
    assert house.engine.asked == []


def test_closed_sessions_are_told_with_the_next_run_where_one_was_too_large(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.submit("1", prefix("abc"))
    house.run()
    house.driver.close("ann", "x", "s", 0.0)

    def refuse(*_: object) -> None:
        raise WireError("too_large", "too large")

    with monkeypatch.context() as broken:
        broken.setattr(type(house.engine), "send", refuse)
        house.submit("2", turn("abc", "t"))
    house.submit("3", turn("abc", "t"))
    assert house.last_run().closed == (("ann", "s"),)


def test_what_the_engine_says_under_a_switch_does_not_end_it(house: House, caplog: pytest.LogCaptureFixture) -> None:
    house.submit("l", Load(model="/a.gguf"))
    house.say(Failed(code="internal", message="late"))
    assert "while nothing ran" in caplog.text
    assert house.driver.scheduler.running
    assert house.driver.scheduler.running.kind is Kind.REAL
