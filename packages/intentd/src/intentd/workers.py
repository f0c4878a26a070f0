"""Owns the threads that read outputs and build prompts, and their bound in time. What they do is not its business."""

import asyncio
import ctypes
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

Result = TypeVar("Result")

MAX_LOST = 8
"""So many threads may hang, beside those at work, in calls that do not end, as those to a mute file system."""
MAX_LOST_AT = 2
"""And so many of them at one place: one drive that is mute must leave threads to others."""
LATE_S = 0.1
"""A time that is noticed so late as over was not the work's alone: the process was stopped, or the loop held up."""


class TookTooLong(Exception):
    """The work had no end within its time."""


class NoThread(Exception):
    """There is no thread left for the work; later there may be."""


class _Enough(BaseException):
    """Is raised in a thread whose work has no end. No `except Exception` there holds it up."""


class Workers:
    """At most `count` pieces of work go on; others wait. Each has `seconds`, counted from its own start.

    A thread is made for each piece, as what never ends would hold a pool's for good, and the daemon's end with it. One
    that does not end in time makes room for others, until MAX_LOST have not.
    """

    def __init__(self, count: int, seconds: float) -> None:
        self._count = count
        self._room = asyncio.Semaphore(count)
        self._seconds = seconds
        self._threads: list[threading.Thread] = []
        self._hanging: list[tuple[str, threading.Thread]] = []

    async def do(self, work: Callable[[], Result], *, place: str = "") -> Result:
        """What `work` gives or raises. Raises `NoThread`, and `TookTooLong`: what it still does is ended then, if it is
        Python.

        Where others at the same `place` hang it has taken too long already.
        """
        await self._room.acquire()
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        done.add_done_callback(self._over)
        thread = threading.Thread(target=_run, args=(work, done), name="intentd worker", daemon=True)
        self._threads = list(filter(threading.Thread.is_alive, self._threads))
        self._hanging = [(at, one) for at, one in self._hanging if one.is_alive()]
        if place and [at for at, _ in self._hanging].count(place) >= MAX_LOST_AT:
            done.cancel()
            raise TookTooLong
        try:
            if len(self._threads) >= self._count + MAX_LOST:
                raise RuntimeError("too many threads have not ended in time")
            thread.start()
        except RuntimeError as fault:
            done.cancel()
            raise NoThread(str(fault)) from None
        self._threads.append(thread)
        self._bound(thread, done, place, again=True)
        return await asyncio.shield(done)  # who asked may leave; the room is free when the work has ended or its time

    def _bound(self, thread: threading.Thread, done: "asyncio.Future[Result]", place: str, *, again: bool) -> None:
        loop = done.get_loop()
        due = loop.time() + self._seconds

        def expire() -> None:
            if done.done() or not thread.is_alive():  # another thread may have its identity by now
                return
            if again and loop.time() - due > LATE_S:
                self._bound(thread, done, place, again=False)
                return
            self._hanging.append((place, thread))
            _end(thread, done)

        expiry = loop.call_at(due, expire)
        done.add_done_callback(lambda _: expiry.cancel())

    def _over(self, done: "asyncio.Future[Result]") -> None:
        self._room.release()
        if not done.cancelled():
            done.exception()  # who asked may be gone: then nobody else looks at it


def _run(work: Callable[[], Result], done: "asyncio.Future[Result]") -> None:
    loop = done.get_loop()
    try:
        say = partial(_settle, done, result=work())
    except Exception as fault:
        say = partial(_settle, done, fault=fault)
    except BaseException as fault:  # no `except Exception` of those who wait may miss it
        say = partial(_settle, done, fault=TookTooLong() if isinstance(fault, _Enough) else RuntimeError(repr(fault)))
    try:
        loop.call_soon_threadsafe(say)
    except RuntimeError:  # the daemon has ended meanwhile
        return


def _settle(done: "asyncio.Future[Result]", result: Result | None = None, fault: Exception | None = None) -> None:
    if done.done():
        return
    if fault is not None:
        done.set_exception(fault)
    else:
        done.set_result(result)  # type: ignore[arg-type]


def _end(thread: threading.Thread, done: "asyncio.Future[Result]") -> None:
    """Raises `_Enough` in the thread at its next step of Python; a native call in it goes on until it ends."""
    _settle(done, fault=TookTooLong())
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Enough))
