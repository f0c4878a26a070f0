"""What the daemon does of itself: the test of exactness in idle times, which yields to everything."""

from typing import Any

import pytest
from attrs import evolve

from modeld.engine.messages import EngineUnloaded, Failed, Probe, Probing
from modeld.housekeeping import FAILURES, IdleTimes
from modelwire.messages import Exactness, Reason, Started, Unload
from tests.modeld.house import House, turn

EXACT = Exactness(verdict="exact", progress=1.0)
WAIT = 10.0


@pytest.fixture
def house() -> House:
    house = House(idle=IdleTimes(test_after=WAIT))
    house.say(house.engine.ready())
    return house


def pass_time(house: House, seconds: float) -> None:
    house.now += seconds
    house.driver.tick(house.now)
    house.check()


def probes(house: House) -> int:
    return sum(isinstance(message, Probe) for message in house.engine.sent)


def test_an_untested_model_is_tested_when_the_daemon_was_idle_for_a_while_and_only_once(house: House) -> None:
    pass_time(house, WAIT - 1)
    house.submit("1", turn("abc"))
    house.run()
    pass_time(house, WAIT - 1)
    assert probes(house) == 0
    pass_time(house, 1)
    assert probes(house) == 1
    house.say(house.engine.probed(EXACT))
    pass_time(house, 100 * WAIT)
    assert probes(house) == 1
    assert house.driver.exactness == EXACT


def test_without_the_setting_and_with_a_verdict_nothing_is_tested() -> None:
    never = House()
    never.say(never.engine.ready())
    known = House(idle=IdleTimes(test_after=WAIT))
    known.say(evolve(known.engine.ready(), exactness=EXACT))
    for house in (never, known):
        pass_time(house, 100 * WAIT)
        assert house.engine.running is None
    assert known.driver.exactness == EXACT


@pytest.mark.parametrize("speculative", [False, True])
def test_s2_the_test_yields_to_a_request_and_to_a_guess_and_goes_on_when_idle(house: House, speculative: bool) -> None:
    """S2, S3: the request starts when the engine has confirmed the stop, and no guess is said to be preempted."""
    pass_time(house, WAIT)
    house.submit("1", turn("abc", speculative=speculative))
    assert house.engine.stop_set
    assert house.words("1") == ["Accepted"]
    house.say(house.engine.probed())
    assert house.of("1")[1] == Started(queue_ms=0.0)
    assert house.driver.exactness == Exactness(progress=0.4)
    house.run()
    pass_time(house, WAIT)
    assert probes(house) == 2


def test_a_test_that_was_finished_when_it_was_stopped_has_its_verdict(house: House) -> None:
    pass_time(house, WAIT)
    house.submit("1", turn("abc"))
    house.say(house.engine.probed(EXACT))
    house.run()
    assert house.driver.exactness == EXACT
    assert house.done("1").reason is Reason.END


def test_how_far_it_is_can_be_seen_and_the_daemon_counts_as_idle(house: House) -> None:
    pass_time(house, WAIT)
    house.say(Probing(progress=0.6))
    assert house.driver.exactness == Exactness(running=True, progress=0.6)
    assert house.driver.state == "idle"
    figures = house.driver.figures
    assert (figures.operations_total, figures.guesses_total, house.driver.clients) == (0, 0, set())
    assert house.driver.stories.tell() is None


def test_s13_a_lost_engine_is_no_error_and_the_test_is_tried_again_later_each_time_and_not_for_ever(
    house: House,
) -> None:
    """S12, S13."""
    waits = []
    for number in range(1, FAILURES + 1):
        began = house.now
        while probes(house) < number:
            pass_time(house, 1.0)
        waits.append(house.now - began)
        house.lose_engine()
        assert house.driver.exactness.verdict == "untested"
        house.say(house.engine.ready())
    pass_time(house, 1e6)
    assert probes(house) == FAILURES
    assert waits == sorted(waits)
    assert waits[-1] > 4 * waits[0]
    assert house.replies == []
    assert (house.driver.figures.guesses_failed, house.driver.live) == (0, 0)


def test_engines_that_are_lost_while_the_test_yields_count_too(house: House) -> None:
    for number in range(FAILURES + 2):
        pass_time(house, 1e6)
        if house.engine.running:
            house.submit(f"{number}", turn("abc"))
            house.lose_engine()
            house.say(house.engine.ready())
            house.run()
    assert probes(house) == FAILURES


def test_an_error_of_the_engine_is_tried_again_and_not_for_ever(house: House) -> None:
    for _ in range(FAILURES + 2):
        pass_time(house, 1e6)
        if house.engine.running:
            house.engine.running = None
            house.say(Failed(code="internal", message="x"))
    assert probes(house) == FAILURES
    house.lose_engine()
    house.say(house.engine.ready())
    assert house.driver.exactness == Exactness(reason="the test failed 3 times; the log has why")


def test_a_test_without_room_waits_longer_each_time_and_is_never_given_up(house: House) -> None:
    for number in range(1, 20):
        pass_time(house, 1e4)
        assert probes(house) == number
        house.say(house.engine.probed())
        pass_time(house, WAIT)
        assert probes(house) == number


def test_another_model_is_tested_too_and_a_restart_forgets_no_verdict(house: House) -> None:
    pass_time(house, WAIT)
    house.say(house.engine.probed(EXACT))
    house.lose_engine()
    house.say(house.engine.ready())
    assert house.driver.exactness == EXACT
    house.lose_engine()
    house.say(house.engine.ready(fingerprint="other"))
    assert house.driver.exactness == Exactness()
    pass_time(house, WAIT)
    assert probes(house) == 2


def test_an_unload_waits_for_the_end_of_a_test_and_nothing_is_tested_while_unloaded() -> None:
    house = House(idle=IdleTimes(test_after=WAIT, unload_after=2 * WAIT))
    house.say(house.engine.ready())
    pass_time(house, WAIT)
    pass_time(house, 5 * WAIT)
    assert house.engine.asked == []
    house.say(house.engine.probed(EXACT))
    pass_time(house, 1)
    assert house.engine.asked == ["nothing"]
    house.say(EngineUnloaded(epoch=1))
    pass_time(house, 100 * WAIT)
    assert probes(house) == 1


def test_s4_a_model_that_is_unloaded_sooner_than_it_would_be_tested_is_tested_first() -> None:
    house = House(idle=IdleTimes(test_after=2 * WAIT, unload_after=WAIT))
    house.say(house.engine.ready())
    pass_time(house, WAIT)
    assert (probes(house), house.engine.asked) == (1, [])
    house.say(house.engine.probed(EXACT))
    pass_time(house, 1)
    assert house.engine.asked == ["nothing"]


def test_a_test_is_no_use_of_the_model_an_unload_does_not_wait_longer_for_it() -> None:
    house = House(idle=IdleTimes(test_after=WAIT, unload_after=2 * WAIT))
    house.say(house.engine.ready())
    pass_time(house, WAIT)
    pass_time(house, WAIT / 2)
    house.say(house.engine.probed(EXACT))
    pass_time(house, WAIT / 2)
    assert house.engine.asked == ["nothing"]


def test_an_unload_of_the_daemon_itself_is_nobodys_operation() -> None:
    """What a person did last is what `modeld story` tells, and what is counted."""
    house = House(idle=IdleTimes(unload_after=WAIT))
    house.say(house.engine.ready())
    house.submit("mine", turn("abc"))
    house.run()
    pass_time(house, WAIT)
    assert house.engine.asked == ["nothing"]
    house.say(EngineUnloaded(epoch=1))
    assert house.driver.figures.operations_total == 1
    story = house.driver.stories.tell()
    assert story is not None
    assert story[0] == "turn mine of client ann"


def test_a_client_that_unloads_stops_the_test(house: House) -> None:
    pass_time(house, WAIT)
    house.submit("u", Unload())
    assert house.engine.stop_set
    house.say(house.engine.probed())
    assert house.engine.asked == ["nothing"]


@pytest.mark.parametrize("end", ["probed", "lost"])
def test_s8_a_daemon_that_stops_ends_the_test_and_starts_none(house: House, end: Any) -> None:
    pass_time(house, WAIT)
    house.driver.shutdown(house.now)
    if end == "probed":
        house.say(house.engine.probed())
    else:
        house.lose_engine()
    pass_time(house, 1e6)
    assert (house.driver.live, probes(house)) == (0, 1)
