"""Threads for what may hang: each ends, or is given up, and costs its own place alone."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from intentd import workers as workers_module
from intentd.workers import LATE_S, MAX_LOST, MAX_LOST_AT, NoThread, TookTooLong, Workers
from modelwire.testing import PATIENCE_S
from tests.intentd.hanging import SOON_S, ends, loop


async def test_work_gives_what_it_gives_and_raises_what_it_raises() -> None:
    workers = Workers(1, PATIENCE_S)
    assert await workers.do(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        await workers.do(lambda: 1 // 0)


async def test_work_that_loops_is_ended_and_makes_room() -> None:
    workers = Workers(1, SOON_S)
    for _ in range(3):
        with pytest.raises(TookTooLong):
            await workers.do(loop)
    assert await workers.do(lambda: 5) == 5


@pytest.mark.parametrize("there", ["at work", "just started"])
async def test_work_that_nobody_waits_for_any_more_leaves_its_place_and_its_room(
    monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    monkeypatch.setattr(workers_module, "LEFT_S", 0.0)
    workers, begun, over = Workers(2, 10 * PATIENCE_S), threading.Semaphore(0), threading.Event()

    def go_on() -> None:
        begun.release()
        while not over.is_set():
            pass

    try:
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(3):
                asked = [asyncio.create_task(workers.do(go_on, place="/a")) for _ in range(2)]
                await asyncio.sleep(0)
                for task in asked:
                    if there == "at work":
                        await asyncio.to_thread(begun.acquire)
                    assert not task.done()
                    task.cancel()
                assert await workers.do(lambda: 5, place="/a") == 5
            await ends(workers)
            await asyncio.gather(*[workers.do(lambda: 5) for _ in range(2)])
        assert workers._room._value == 2
    finally:
        over.set()


async def test_work_that_nobody_waits_for_and_that_hangs_makes_room_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "LEFT_S", 0.0)
    workers, begun, answers = Workers(1, PATIENCE_S), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        answers.wait(PATIENCE_S)

    asked = asyncio.create_task(workers.do(hang))
    await asyncio.sleep(0)
    await asyncio.to_thread(begun.wait)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert workers._room.locked()
    (piece,) = workers._pieces
    piece.expire()
    assert await workers.do(lambda: 5) == 5
    answers.set()
    await ends(workers)
    assert await workers.do(lambda: 5) == 5
    assert workers._room._value == 1


async def test_threads_that_hang_are_bounded_and_make_room_when_they_have_ended() -> None:
    workers, answers, begun = Workers(2, 0.01), threading.Event(), 0

    def hang() -> None:
        nonlocal begun
        begun += 1
        answers.wait(PATIENCE_S)

    for _ in range(2 + MAX_LOST):
        with pytest.raises(TookTooLong):
            await workers.do(hang)
    with pytest.raises(NoThread):
        await workers.do(hang)
    assert begun == 2 + MAX_LOST
    answers.set()
    await ends(workers)
    workers._seconds = PATIENCE_S
    assert await workers.do(lambda: 5) == 5


async def test_a_time_that_is_over_late_ends_nothing_but_its_own_work() -> None:
    """The new thread has the identity of the one that had ended; the loop is held over the first one's time."""
    short, other = Workers(1, 0.05), Workers(1, PATIENCE_S)

    def innocent() -> int:
        for _ in range(100):
            time.sleep(0.001)
        return 100

    for _ in range(3):
        over = threading.Event()
        first = asyncio.create_task(short.do(over.set))
        await asyncio.sleep(0)
        assert over.wait(PATIENCE_S)  # the loop is held, as by a native call that keeps the interpreter
        second = asyncio.create_task(other.do(innocent))
        time.sleep(0.1)  # noqa: ASYNC251
        await asyncio.gather(first, return_exceptions=True)  # it may have been noticed only behind its time
        assert await second == 100


@pytest.mark.parametrize("late", ["before its work", "behind its work"])
async def test_a_thread_is_interrupted_at_its_work_alone(monkeypatch: pytest.MonkeyPatch, late: str) -> None:
    """What is raised elsewhere in it would be told as a fault by `threading`."""
    workers, go_on, there = Workers(1, PATIENCE_S), threading.Event(), threading.Event()
    begin, end, done = workers_module._Piece._begin, workers_module._Piece._end, 0

    def held(step: Callable[[Any], Any], piece: Any) -> Any:
        there.set()
        assert go_on.wait(PATIENCE_S)
        return step(piece)

    def behind(piece: Any) -> None:
        end(piece)
        there.set()
        assert go_on.wait(PATIENCE_S)

    def work() -> None:
        nonlocal done
        done += 1

    before = late == "before its work"
    with monkeypatch.context() as slow:
        if before:
            slow.setattr(workers_module._Piece, "_begin", lambda piece: held(begin, piece))
        else:
            slow.setattr(workers_module._Piece, "_end", behind)
        asking = asyncio.create_task(workers.do(work))
        await asyncio.to_thread(there.wait, PATIENCE_S)
        (piece,) = workers._pieces
        piece.expire()
        go_on.set()
        with pytest.raises(TookTooLong):
            await asking
        await ends(workers)
    assert done == (0 if before else 1)
    assert await workers.do(lambda: 5) == 5


async def test_work_has_its_time_again_where_the_daemon_was_stopped_meanwhile() -> None:
    workers, go_on = Workers(1, SOON_S), threading.Event()
    working = asyncio.create_task(workers.do(lambda: go_on.wait(PATIENCE_S)))
    await asyncio.sleep(0)
    time.sleep(SOON_S + 2 * LATE_S)  # noqa: ASYNC251, as long as the daemon is stopped
    for _ in range(5):
        await asyncio.sleep(0)
    go_on.set()
    assert await working
    with pytest.raises(TookTooLong):
        await workers.do(loop)


async def test_nothing_that_ends_a_thread_goes_past_those_who_wait() -> None:
    def leave() -> None:
        raise SystemExit

    with pytest.raises(RuntimeError, match="SystemExit"):
        await Workers(1, PATIENCE_S).do(leave)


async def test_a_place_that_does_not_answer_takes_no_threads_from_others() -> None:
    workers, answers, begun = Workers(2, 0.01), threading.Event(), 0

    def hang() -> bool:
        nonlocal begun
        begun += 1
        return answers.wait(PATIENCE_S)

    for _ in range(3 + MAX_LOST):
        with pytest.raises(TookTooLong):
            await workers.do(hang, place="/mute")
    assert begun == MAX_LOST_AT
    workers._seconds = PATIENCE_S
    assert await workers.do(lambda: 5, place="/there") == 5
    answers.set()
    await ends(workers)
    assert await workers.do(hang, place="/mute")


async def test_places_that_are_mute_hold_up_no_other_however_many_look_at_once() -> None:
    workers, answers, begun = Workers(4, 0.01), threading.Event(), 0

    def hang() -> bool:
        nonlocal begun
        begun += 1
        return answers.wait(PATIENCE_S)

    async with asyncio.timeout(PATIENCE_S):
        asked = [workers.do(hang, place=place) for place in ("/a", "/b", "/c", "/d", "/e") for _ in range(6)]
        assert all(isinstance(one, TookTooLong) for one in await asyncio.gather(*asked, return_exceptions=True))
        assert begun == 5 * MAX_LOST_AT
        workers._seconds = PATIENCE_S
        assert await workers.do(lambda: 5, place="/there") == 5
        answers.set()
        await ends(workers)


async def test_many_at_one_place_that_answers_are_done_in_turn() -> None:
    workers = Workers(4, PATIENCE_S)
    async with asyncio.timeout(PATIENCE_S):
        assert await asyncio.gather(*(workers.do(lambda: 5, place="/a") for _ in range(20))) == [5] * 20
