"""Owns the engine's life as the front sees it: started, watched, restarted, ended. It knows no operation's meaning."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from attrs import evolve

from modeld.engine.child import UPGRADED, Child
from modeld.engine.config import EngineConfig
from modeld.engine.frames import FrameFault, Numbered
from modeld.engine.messages import (
    Encoded,
    Ended,
    EngineGone,
    EngineUnloaded,
    Failed,
    FromEngine,
    FromSupervisor,
    Generated,
    Probed,
    Probing,
    Quit,
    Ready,
    Refused,
    Saved,
    ToEngine,
    Upgraded,
)
from modeld.engine.patience import LOOK_S, CrashLoop, Pace, Patience
from modeld.engine.stop_flag import SharedStopFlag

_log = logging.getLogger(__name__)


class Supervisor:
    """Keeps one engine process running. `on_message` is called in the event loop, with messages of the current epoch.

    After `Ready`, `send` one message that it answers at a time. `EngineGone` ends whatever ran; a `Ready` of the
    next epoch follows, or `Refused` or `Upgraded`, after which nothing does until `load`. `load` and `unload` may come
    at any time.
    """

    def __init__(
        self,
        config: EngineConfig,
        on_message: Callable[[FromEngine | FromSupervisor], None],
        *,
        on_fault: Callable[[Exception], None] | None = None,
        patience: Patience | None = None,
        start_child: Callable[[EngineConfig, int, int], Awaitable[Child]] = Child.start,
    ) -> None:
        """`on_fault` is told of a fault of the supervisor itself, after which no engine is kept any more."""
        self._config = config
        self._on_message = on_message
        self._on_fault = on_fault or _log_fault
        self._patience = patience or Patience()
        self._start_child = start_child
        self._flag: SharedStopFlag | None = None
        self._child: Child | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._roused = asyncio.Event()  # ends the pause before a start
        self._epoch = 0
        self._messages = Numbered(0)
        self._ready = self._refused = self._resting = self._dismissed = False
        self._due: float | None = None  # when something must have been heard at the latest
        self._alarm: asyncio.TimerHandle | None = None
        self._heard: float | None = None  # when, where this process has run since
        self._born = 0.0
        self._pace = Pace(self._patience, config.chunk)
        self._crashes = CrashLoop(self._patience)
        self._proven = False

    def __repr__(self) -> str:
        state = "ready" if self._ready else "refused" if self._refused else "at rest" if self._resting else "not ready"
        return f"Supervisor(epoch={self._epoch}, pid={self.pid}, {state})"

    @property
    def pid(self) -> int:
        """The engine's process, 0 while there is none."""
        return self._child.pid if self._child else 0

    @property
    def epoch(self) -> int:
        """Counts the engine processes, from 1."""
        return self._epoch

    @property
    def trouble(self) -> str:
        """That engines keep dying, why and what is done about it; empty where all is well."""
        if self._ready and self._is_stable():
            self._crashes.over()
        return self._crashes.says()

    async def start(self) -> None:
        """Starts the process; `Ready` or `Refused` follows. Raises OSError where it cannot be started at all."""
        self._flag = SharedStopFlag.create()
        try:
            child = await self._begin()
        except BaseException:
            self._flag.close()
            raise
        self._supervise(self._keep_alive(child))

    def send(self, message: ToEngine) -> None:
        """Raises `WireError(TOO_LARGE)`, and RuntimeError where no engine is ready."""
        if not self._ready:
            raise RuntimeError(f"{self!r}: nothing can be sent before Ready")
        data = self._messages.encode(message)
        self._forgive()
        if self._child is None:  # it has just died: `EngineGone` is still to come, and ends this as it does any other
            return
        self._child.write(data)
        self._expect(reading=len(data))

    def set_stop(self) -> None:
        if self._flag:
            self._flag.set()

    def clear_stop(self) -> None:
        if self._flag:
            self._flag.clear()

    def unload(self) -> None:
        """Ends an engine that is idle, loads or is to be restarted.

        `EngineUnloaded` follows when its memory is free, and then nothing until `load`.
        """
        self._resting, self._refused = True, False
        self._dismiss()

    def load(self, model: str | None) -> None:
        """Loads `model` in place of whatever was there. `Ready` or `Refused` follows.

        It must prove itself again: who waits for it is told where it cannot be loaded any more.
        """
        self._proven = False
        self._config = evolve(self._config, model=model)
        self._resting = self._refused = False
        self._dismiss()

    def _dismiss(self) -> None:
        """What the child still says does not count any more, nor does a death that nobody was told of yet."""
        self._dismissed = True
        self._roused.set()
        if self._task is None or self._task.done():
            self._supervise(self._go_on())
        ready, self._ready = self._ready, False
        if self._child is None:  # it dies, is being started, or there is none
            return
        if ready:
            self._child.write(self._messages.encode(Quit()))
            self._await_until(self._now() + self._patience.quit)
        else:
            self._kill(self._child)

    def _kill(self, child: Child) -> None:
        """One that the kernel does not let go of is waited for as long as for one that does not quit."""
        child.kill()
        self._await_until(self._now() + self._patience.quit)

    async def close(self) -> None:
        """Ends the engine: asks it to quit, and kills it if it does not. Nothing is reported any more."""
        self._closing.set()
        self._roused.set()
        if self._task is None or self._flag is None:
            return
        self._flag.set()
        try:
            if self._child and self._ready:
                self._child.write(self._messages.encode(Quit()))
                await asyncio.wait([self._task], timeout=self._patience.quit)
        finally:
            if self._child:
                self._kill(self._child)
        await self._task
        self._flag.close()
        self._task = None

    def _supervise(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.create_task(self._guard(work), name="engine supervisor")

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Nobody waits for the task: that it failed must be said, or every operation waits for ever."""
        try:
            await work
        except Exception as fault:
            self._on_fault(fault)

    async def _keep_alive(self, child: Child) -> None:
        await self._live_through(child)
        await self._go_on()

    async def _go_on(self) -> None:
        while self._wants_another():
            await self._live_through(await self._begin_again())

    async def _live_through(self, child: Child | None) -> None:
        reason = await self._attend(child) if child else "could not be started"
        loaded, self._ready = self._ready, False
        if not (self._refused or self._dismissed or self._closing.is_set()):
            await self._mourn(reason, loaded=loaded)

    def _wants_another(self) -> bool:
        while self._dismissed:  # again where the listener asks for another one at once
            self._part()
        return not (self._refused or self._resting or self._closing.is_set())

    async def _mourn(self, reason: str, *, loaded: bool) -> None:
        """Tells of the death, and waits before the next start. Its listener may have other wishes at once."""
        _log.warning("engine %d is gone: it %s", self._epoch, reason)
        if loaded and self._is_stable():
            self._crashes.over()
        self._crashes.died(reason, loaded=loaded)
        self._tell(EngineGone(epoch=self._epoch, reason=reason))
        if self._dismissed:
            return
        if reason == UPGRADED or (self._crashes.is_hopeless and not self._proven):
            crashes, self._crashes = self._crashes, CrashLoop(self._patience)
            self._give_up(reason, crashes)
        else:
            await self._pause(self._crashes.pause)

    def _is_stable(self) -> bool:
        return self._now() - self._born > self._patience.stable

    def _part(self) -> None:
        """Whatever was dismissed is gone."""
        self._dismissed = False
        self._crashes = CrashLoop(self._patience)
        if self._resting:
            self._tell(EngineUnloaded(epoch=self._epoch))

    async def _begin(self) -> Child:
        assert self._flag is not None
        self._flag.clear()
        self._roused.clear()
        self._epoch += 1
        self._messages = Numbered(self._epoch)
        self._born = self._now()
        self._child = await self._start_child(self._config, self._epoch, self._flag.descriptor)
        return self._child

    async def _begin_again(self) -> Child | None:
        try:
            return await self._begin()
        except (OSError, MemoryError) as fault:
            _log.warning("engine %d cannot be started: %s", self._epoch, str(fault) or "memory is short")
            return None

    async def _attend(self, child: Child) -> str:
        """Hears a child out until it is gone; says how it went."""
        hung, grace = "", self._patience.quit
        try:
            if self._closing.is_set() or self._dismissed:
                self._kill(child)
            else:
                self._await_until(self._now() + self._patience.load)
            await child.reader.hand_on(lambda data: self._receive(self._messages.decode(data)))
        except TimeoutError:
            hung, grace = "was silent for too long and ", 0.0
            if not self._ready:
                self._crashes.hung()
        except FrameFault as fault:
            hung, grace = f"said something unreadable ({fault}) and ", 0.0
        except Exception as fault:  # the system's, for want of memory or buffers: another engine may do better
            hung, grace = f"could not be heard ({type(fault).__name__}) and ", 0.0
        finally:
            self._child = None
            self._rest()
            end = await child.bury(grace)
        return hung + end

    def _receive(self, message: FromEngine) -> None:
        if self._dismissed or self._closing.is_set():  # it would put off the end of the wait for one that does not end
            return
        self._forgive()
        match message:
            case Ready():
                self._ready = self._proven = True
                self._pace = Pace(self._patience, min(self._config.chunk, message.context))
                self._rest()
            case Refused():
                self._refused = True
            case Ended() | Failed() | Encoded() | Saved() | Probed():
                if isinstance(message, Ended):
                    self._crashes.over()
                self._rest()
            case _:
                self._pace.heard(message, None if self._heard is None else self._now() - self._heard)
                self._expect(filling=not isinstance(message, Generated | Probing))
        self._tell(message)

    def _expect(self, *, reading: int = 0, filling: bool = True) -> None:
        """The engine works, so something will be heard of it."""
        self._heard = self._now()
        wait = self._pace.longest_silence(filling=filling) + reading / self._patience.bytes_per_second
        self._await_until(self._heard + wait)

    def _rest(self) -> None:
        self._due = None

    def _await_until(self, due: float) -> None:
        """An alarm that is set already is left to ring early: to set one at every message would cost more than that."""
        self._due = due
        if self._alarm is None or self._alarm.when() > due:
            if self._alarm:
                self._alarm.cancel()
            self._alarm = asyncio.get_running_loop().call_at(min(due, self._now() + LOOK_S), self._ring)

    def _forgive(self) -> None:
        """Where the alarm is late, this process did not run, nor perhaps did the engine: that is nobody's silence, and
        no measure of a chunk.
        """
        if self._alarm is None or (late := self._now() - self._alarm.when()) <= LOOK_S:
            return
        self._alarm.cancel()
        self._alarm = self._heard = None
        if self._due is not None:
            self._due += late + LOOK_S

    def _ring(self) -> None:
        self._forgive()
        self._alarm = None
        if self._due is None or self._child is None:
            return
        if self._now() < self._due:
            self._await_until(self._due)
        else:
            self._child.reader.fail(TimeoutError())

    def _give_up(self, reason: str, crashes: CrashLoop) -> None:
        self._refused = True
        if reason == UPGRADED:
            return self._tell(Upgraded())
        says = f"while it loaded the model the engine {reason}"
        if crashes.deaths > 1:
            says += f", the last of {crashes.deaths} that died"
        advice = "put the model on a faster disk" if crashes.is_mute else "choose another model or a smaller context"
        self._tell(Refused(message=f"{says}; its last words are in the log; {advice}"))

    def _tell(self, message: FromEngine | FromSupervisor) -> None:
        if self._closing.is_set():
            return
        try:
            self._on_message(message)
        except Exception:  # a fault of the listener must not leave the engine without its keeper
            _log.exception("the listener failed on %s", type(message).__name__)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._roused.wait()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _log_fault(fault: Exception) -> None:
    _log.error("the supervisor failed: no engine is kept any more", exc_info=fault)
