"""Snapshots as clients see them: whose they are, what they stand for, when they end."""

from typing import Any

import pytest

from modeld.engine.messages import EngineUnloaded, Failed, Save
from modeld.sessions import SessionLimits
from modelwire.errors import ErrorCode
from modelwire.messages import Acknowledged, Decode, Load, Reason, Restore, Snapshot, SnapshotTaken, Unload
from tests.modeld.house import House, chat, prefix, suffix, turn


@pytest.fixture
def house() -> House:
    house = House(session_limits=SessionLimits(snapshots=2))
    house.say(house.engine.ready())
    house.submit("made", prefix("abc"))
    house.run()
    return house


def take(house: House, op: str, session: str = "s", client: str = "ann") -> str:
    house.submit(op, Snapshot(session=session), client)
    house.say(house.engine.saved())
    [taken] = house.of(op, client)
    assert isinstance(taken, SnapshotTaken)
    return taken.handle


def restore(house: House, op: str, handle: str, session: str = "s", client: str = "ann", **more: Any) -> None:
    house.submit(op, Restore(handle=handle, session=session, **more), client)


def last_save(house: House) -> Save:
    last = house.engine.sent[-1]
    assert isinstance(last, Save)
    return last


def test_a_session_goes_on_from_its_snapshot_as_often_as_wanted(house: House) -> None:
    handle = take(house, "t")
    for number in range(2):
        house.submit(f"away{number}", turn("other"))
        house.run("!")
        restore(house, f"r{number}", handle)
        house.run()
        assert house.words(f"r{number}") == ["Accepted", "Started", "Progress", "Progress", "Done"]
        done = house.done(f"r{number}")
        assert (done.reason, done.head, house.contents()) == (Reason.PREFILLED, 3, "abc")
    house.submit("d", Decode(session="s"))
    house.run("de")
    assert house.contents() == "abcde"


def test_it_is_restored_into_another_session_and_the_first_one_stays(house: House) -> None:
    handle = take(house, "t")
    house.submit("1", suffix("xyz"))
    house.run()
    restore(house, "r", handle, "copy")
    house.run()
    assert (house.contents("copy"), house.contents("s")) == ("abc", "abcxyz")


def test_a_conversation_comes_back_with_its_messages(house: House) -> None:
    house.submit("1", turn("x").__class__(session="c", prefix=chat("hi")))
    house.run("yes")
    handle = take(house, "t", "c")
    house.driver.close("ann", "x", "c", 0.0)
    restore(house, "r", handle, "d")
    house.run()
    house.submit("2", suffix("").__class__(session="d", prompt=chat("more")))
    assert [part.content for part in house.last_run().prompt if hasattr(part, "content")] == ["hi", "yes", "more"]


def test_it_waits_its_turn_and_has_what_its_session_stands_for_then(house: House) -> None:
    """S1: nothing comes between."""
    house.submit("1", suffix("d"))
    house.submit("t", Snapshot(session="s"))
    house.submit("2", suffix("e"))
    house.run()
    house.say(house.engine.saved(7))
    house.run()
    [taken] = house.of("t")
    assert (taken.head, taken.bytes) == (4, 7)
    restore(house, "r", taken.handle)
    house.run()
    assert house.contents() == "abcd"


def test_s11_nobody_elses_handle_works_and_the_error_does_not_tell_whether_there_is_one(house: House) -> None:
    handle = take(house, "t")
    restore(house, "b", handle, client="bob")
    restore(house, "c", "0" * 32, client="bob")
    theirs, nobodys = house.error("b", "bob"), house.error("c", "bob")
    assert theirs == nobodys
    assert theirs.code == ErrorCode.BAD_REQUEST
    assert house.engine.running is None
    assert house.driver.sessions.find("bob", "s") is None


def test_the_oldest_gives_way_and_the_error_names_the_limit(house: House) -> None:
    first, second = take(house, "1"), take(house, "2")
    restore(house, "r1", first)
    house.run()
    third = take(house, "3")
    restore(house, "r2", second)
    error = house.error("r2")
    assert error.numbers == {"snapshots": 2, "snapshots_total": 8}
    assert "you can have 2, all clients together 8" in error.message
    for number, handle in enumerate((first, third)):
        restore(house, f"r{number + 5}", handle)
        house.run()
    house.submit("again", turn("abc"))
    assert len(house.last_run().closed) == 0


def test_the_engine_is_told_which_bytes_nobody_can_restore_any_more(house: House) -> None:
    take(house, "1")
    place = (last_save(house).client, last_save(house).place)
    take(house, "2")
    take(house, "3")
    house.submit("x", turn("abc"))
    assert house.last_run().closed == (place,)


def test_all_clients_together_have_no_more_than_the_limit(house: House) -> None:
    handle = take(house, "t")
    for number in range(8):
        client = f"c{number // 2}"
        if number % 2 == 0:
            house.submit("p", prefix("abc"), client)
            house.run()
        take(house, f"t{number}", client=client)
    assert len(house.driver.sessions.snapshots) == 8
    restore(house, "r", handle)
    assert house.error("r").code == ErrorCode.BAD_REQUEST


def test_a_daemon_without_snapshots_says_so() -> None:
    house = House(session_limits=SessionLimits(snapshots=0))
    house.say(house.engine.ready())
    house.submit("t", Snapshot(session="s"))
    assert house.error("t").numbers == {"snapshots": 0}


@pytest.mark.parametrize("left", ["closed", "gone"])
def test_they_end_with_their_client_and_not_with_their_session(house: House, left: str) -> None:
    handle = take(house, "t")
    house.driver.close("ann", "c", "s", 0.0)
    restore(house, "r", handle)
    house.run()
    assert house.contents() == "abc"
    if left == "closed":
        house.driver.close("ann", "c2", None, 0.0)
        assert house.of("c2") == [Acknowledged(found=True)]
    else:
        house.driver.client_gone("ann", 0.0)
    restore(house, "r2", handle)
    assert house.error("r2").code == ErrorCode.BAD_REQUEST
    assert len(house.driver.sessions.snapshots) == 0


@pytest.mark.parametrize("switch", [Unload(), Load(model="/other.gguf"), Load(model="/copy.gguf")])
def test_a_load_and_an_unload_end_them(house: House, switch: Unload | Load) -> None:
    handle = take(house, "t")
    house.submit("u", switch)
    house.say(EngineUnloaded(epoch=1) if isinstance(switch, Unload) else house.engine.ready())
    restore(house, "r", handle)
    if isinstance(switch, Unload):
        house.say(house.engine.ready())
    assert "before a load or unload" in house.error("r").message


def test_a_load_of_what_is_loaded_ends_nothing(house: House) -> None:
    handle = take(house, "t")
    house.submit("l", Load())
    restore(house, "r", handle)
    house.run()
    assert house.done("r").head == 3


def test_s13_they_outlive_the_engine(house: House) -> None:
    handle = take(house, "t")
    house.lose_engine()
    house.say(house.engine.ready())
    restore(house, "r", handle)
    house.run()
    assert (house.done("r").usage.prefilled, house.contents()) == (3, "abc")


def test_an_engine_that_is_lost_while_it_saves_is_asked_again(house: House) -> None:
    """S8."""
    house.submit("t", Snapshot(session="s"))
    house.lose_engine()
    house.say(house.engine.ready())
    house.say(house.engine.saved())
    assert house.words("t") == ["SnapshotTaken"]
    assert len(house.driver.sessions.snapshots) == 1


def test_an_engine_that_fails_to_save_is_an_error(house: House) -> None:
    house.submit("t", Snapshot(session="s"))
    house.engine.running = None
    house.say(Failed(code="internal", message="x"))
    assert house.error("t").code == "internal"
    assert len(house.driver.sessions.snapshots) == 0


@pytest.mark.parametrize("how", ["cancelled", "gone"])
def test_one_that_was_cancelled_while_it_was_taken_is_kept_for_nobody(house: House, how: str) -> None:
    """S11: its bytes go, too."""
    house.submit("t", Snapshot(session="s"))
    place = (last_save(house).client, last_save(house).place)
    if how == "cancelled":
        house.driver.cancel("ann", "c", "t", 0.0)
    else:
        house.driver.client_gone("ann", 0.0)
    house.say(house.engine.saved())
    assert house.words("t") == ["Error"]
    assert len(house.driver.sessions.snapshots) == 0
    house.submit("x", turn("abc"))
    assert place in house.last_run().closed


def test_of_an_empty_session_there_is_nothing_to_take(house: House) -> None:
    house.submit("t", Snapshot(session="never"))
    assert "is empty" in house.error("t").message
    assert house.driver.sessions.find("ann", "never") is None


def test_a_guessed_restore_changes_nothing_and_makes_the_real_one_a_hit(house: House) -> None:
    """S2, S10."""
    handle = take(house, "t")
    house.submit("1", turn("other"))
    house.run("!")
    restore(house, "g", handle, speculative=True)
    house.run()
    assert house.contents() == "other!"
    guessed = house.last_run().base
    restore(house, "r", handle)
    assert house.last_run().base == guessed
    house.run()
    assert house.contents() == "abc"
