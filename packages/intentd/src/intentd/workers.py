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

    async def do(self, work: Callable[[], Result]) -> Result:
        """What `work` gives or raises. Raises `NoThread`, and `TookTooLong`: what it still does is ended then, if it is
        Python.
        """
        await self._room.acquire()
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        done.add_done_callback(self._over)
        thread = threading.Thread(target=_run, args=(work, done), name="intentd worker", daemon=True)
        self._threads = list(filter(threading.Thread.is_alive, self._threads))
        try:
            if len(self._threads) >= self._count + MAX_LOST:
                raise RuntimeError("too many threads have not ended in time")
            thread.start()
        except RuntimeError as fault:
            done.cancel()
            raise NoThread(str(fault)) from None
        self._threads.append(thread)
        expiry = done.get_loop().call_later(self._seconds, _expire, thread, done)
        done.add_done_callback(lambda _: expiry.cancel())
        return await asyncio.shield(done)  # who asked may leave; the room is free when the work has ended or its time

    def _over(self, done: "asyncio.Future[Result]") -> None:
        self._room.release()
        if not done.cancelled():
            done.exception()  # who asked may be gone: then nobody else looks at it


def _run(work: Callable[[], Result], done: "asyncio.Future[Result]") -> None:
    loop = done.get_loop()
    try:
        say = partial(_settle, done, result=work())
    except BaseException as fault:
        say = partial(_settle, done, fault=fault)
    try:
        loop.call_soon_threadsafe(say)
    except RuntimeError:  # the daemon has ended meanwhile
        return


def _settle(done: "asyncio.Future[Result]", result: Result | None = None, fault: BaseException | None = None) -> None:
    if done.done():
        return
    if fault is not None:
        done.set_exception(fault)
    else:
        done.set_result(result)  # type: ignore[arg-type]


def _expire(thread: threading.Thread, done: "asyncio.Future[Result]") -> None:
    """Raises `_Enough` in the thread at its next step of Python; a native call in it goes on until it ends."""
    _settle(done, fault=TookTooLong())
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Enough))
