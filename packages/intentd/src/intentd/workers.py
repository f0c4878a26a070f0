"""Owns the threads that read outputs and build prompts, and their bound in time. What they do is not its business."""

import asyncio
import ctypes
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

MAX_LOST = 8
"""So many threads may hang, beside those at work, in calls that do not end, as those to a mute file system."""
MAX_LOST_AT = 2
"""And so many at one place, those at work too: one drive that is mute must leave threads to others."""
LATE_S = 0.1
"""A time that is noticed so late as over was not the work's alone: the process was stopped, or the loop held up."""
LEFT_S = 0.2
"""So long a work goes on whose asker has left: most have ended by then, and what is read and scrubbed is kept."""


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
        self._pieces: list[_Piece[Any]] = []

    async def do(self, work: Callable[[], Result], *, place: str = "") -> Result:
        """What `work` gives or raises. Raises `NoThread`, and `TookTooLong`: what it still does is ended then, if it is
        Python, as LEFT_S behind a cancellation.

        At most MAX_LOST_AT are at one `place`; where they hang all others there have taken too long already.
        """
        piece = _Piece(work, place, asyncio.get_running_loop().create_future())
        await self._enter(piece)
        try:
            await self._room.acquire()
        except asyncio.CancelledError:
            piece.done.cancel()
            raise
        piece.done.add_done_callback(self._over)
        try:
            if sum(one.thread.is_alive() for one in self._pieces) >= self._count + MAX_LOST:
                raise RuntimeError("too many threads have not ended in time")
            piece.thread.start()
        except RuntimeError as fault:
            piece.done.cancel()
            raise NoThread(str(fault)) from None
        self._bound(piece, again=True)
        try:
            return await asyncio.shield(piece.done)  # the room is free when that has ended or its time
        except asyncio.CancelledError:  # nobody else can take what it gives
            ending = piece.done.get_loop().call_later(LEFT_S, piece.interrupt)
            piece.done.add_done_callback(lambda _: ending.cancel())
            raise

    async def _enter(self, piece: "_Piece[Result]") -> None:
        """Waits for those at the same place. Raises `TookTooLong`."""
        while True:
            self._pieces = [one for one in self._pieces if one.is_there]
            at = [one.done for one in self._pieces if one.place and one.place == piece.place]
            if len(at) < MAX_LOST_AT:
                self._pieces.append(piece)
                return
            if not (at_work := [done for done in at if not done.done()]):
                raise TookTooLong
            await asyncio.wait(at_work, return_when=asyncio.FIRST_COMPLETED)

    def _bound(self, piece: "_Piece[Result]", *, again: bool) -> None:
        loop = piece.done.get_loop()
        due = loop.time() + self._seconds

        def expire() -> None:
            if again and loop.time() - due > LATE_S:
                self._bound(piece, again=False)
            else:
                piece.expire()

        expiry = loop.call_at(due, expire)
        piece.done.add_done_callback(lambda _: expiry.cancel())

    def _over(self, done: "asyncio.Future[Result]") -> None:
        self._room.release()
        if not done.cancelled():
            done.exception()  # who asked may be gone: then nobody else looks at it


class _Piece(Generic[Result]):
    """A work in its thread, which is interrupted at that alone: neither before it has come to it nor behind its end.

    By then its identity may be another thread's.
    """

    def __init__(self, work: Callable[[], Result], place: str, done: "asyncio.Future[Result]") -> None:
        self.place = place
        self.done = done
        self.thread = threading.Thread(target=self._run, name="intentd worker", daemon=True)
        self._work = work
        self._lock = threading.Lock()
        self._at_work = self._unwanted = self._late = False

    @property
    def is_there(self) -> bool:
        """At work or about to be, or hanging behind its time."""
        return not self.done.done() or (self._late and self.thread.is_alive())

    def expire(self) -> None:
        """Its time is over."""
        _settle(self.done, fault=TookTooLong())
        self._late = True
        self.interrupt()

    def interrupt(self) -> None:
        """`_Enough` comes at its next step of Python, once; a native call in it goes on until it ends."""
        with self._lock:
            if self._at_work and self.thread.ident is not None:
                identity = ctypes.c_ulong(self.thread.ident)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(_Enough))
            self._at_work, self._unwanted = False, True

    def _run(self) -> None:
        say = partial(_settle, self.done, fault=TookTooLong())  # to nobody: who asked has been told, or has left
        try:
            if self._begin():
                try:
                    say = partial(_settle, self.done, result=self._work())
                except Exception as fault:
                    say = partial(_settle, self.done, fault=fault)
                except BaseException as fault:  # no `except Exception` of those who wait may miss it
                    say = partial(_settle, self.done, fault=RuntimeError(repr(fault)))
                self._end()
        except _Enough:
            pass
        try:
            self.done.get_loop().call_soon_threadsafe(say)
        except RuntimeError:  # the daemon has ended meanwhile
            return

    def _begin(self) -> bool:
        with self._lock:
            self._at_work = not self._unwanted
            return self._at_work

    def _end(self) -> None:
        with self._lock:
            self._at_work = False


def _settle(done: "asyncio.Future[Result]", result: Result | None = None, fault: Exception | None = None) -> None:
    if done.done():
        return
    if fault is not None:
        done.set_exception(fault)
    else:
        done.set_result(result)  # type: ignore[arg-type]
