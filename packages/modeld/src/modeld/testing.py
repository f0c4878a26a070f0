"""Owns the in-memory twin of the engine process, for tests of what stands above it. It runs nothing by itself.

Its tokens are the characters of the prompt. A test says step by step what the engine does, and what it does wrong.
Beside it: the check that nothing blocks the front's event loop.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from attrs import define, evolve, field

from modeld.engine.messages import (
    Advanced,
    Begun,
    Encode,
    Encoded,
    Ended,
    FromEngine,
    Generated,
    Probe,
    Probed,
    Ready,
    Run,
    Save,
    Saved,
    ShelfFigures,
    ToEngine,
)
from modelwire.messages import ChatMessage, Exactness, ModelDescription, Outcome, Prompt, Reason, Timings, Usage

MODEL = ModelDescription(
    name="twin",
    architecture="none",
    quantisation="Q4_0",
    fingerprint="0",
    parameters=0,
    vocabulary=0x110000,
    context_trained=4096,
    chat=True,
    fim=False,
)


@contextmanager
def unblocked(seconds: float = 0.5) -> Iterator[None]:
    """Raises AssertionError at the end where something held the running event loop for so long at a stretch.

    The bound is far above what a busy machine adds, and below every wait for an engine, a file or a socket that fails.
    """
    loop, log = asyncio.get_running_loop(), logging.getLogger("asyncio")
    before, held = (loop.get_debug(), loop.slow_callback_duration), _Held()
    log.addHandler(held)
    loop.slow_callback_duration = seconds
    loop.set_debug(True)
    try:
        yield
    finally:
        log.removeHandler(held)
        loop.set_debug(before[0])
        loop.slow_callback_duration = before[1]
    assert not held.found, f"the event loop was blocked: {held.found}"


class _Held(logging.Handler):
    """Collects what asyncio's debug mode says of slow callbacks."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith("Executing"):
            self.found.append(record.getMessage())


def as_ids(text: str) -> bytes:
    return np.array([ord(character) for character in text], "<i4").tobytes()


def as_text(ids: bytes) -> str:
    return "".join(chr(token) for token in np.frombuffer(ids, "<i4"))


def render(prompt: Prompt, *, complete: bool = False) -> str:
    """What the twin's tokeniser sees: `user: hello;` for a chat message, `assistant:` where an answer begins."""
    if not any(isinstance(part, ChatMessage) for part in prompt):
        return "".join(part.text for part in prompt if not isinstance(part, ChatMessage))
    messages = [f"{part.role}:{part.content};" for part in prompt if isinstance(part, ChatMessage)]
    return "".join(messages) + "assistant:" * complete


@define(eq=False)
class EngineTwin:
    """It holds the caller to the rules of the stop flag and of one operation at a time.

    `asked`: the models that it was to load, "nothing" where it was to end.
    """

    sent: list[ToEngine] = field(factory=list)
    running: Run | Encode | Save | Probe | None = None
    stop_set: bool = False
    loaded: bool = False
    tapes: list[bytes] = field(factory=list)
    asked: list[str | None] = field(factory=list)
    _begun: Begun | None = None
    _length: int = 0
    _generated: int = 0

    # --- what the front does ------------------------------------------------------------------------------

    def send(self, message: ToEngine) -> None:
        assert self.loaded, "there is no engine"
        assert self.running is None, "one operation at a time"
        assert not self.stop_set, "the flag of the operation before would stop this one"
        assert isinstance(message, Run | Encode | Save | Probe)
        self.sent.append(message)
        self.running = message
        self._length = self._generated = 0

    def set_stop(self) -> None:
        assert self.running is not None, "nothing runs that could be stopped"
        assert not self.stop_set, "stopped twice"
        self.stop_set = True

    def clear_stop(self) -> None:
        assert self.running is None, "a stop would be lost"
        self.stop_set = False

    def unload(self) -> None:
        assert self.running is None, "something runs"
        self.asked.append("nothing")
        self.die()

    def load(self, model: str | None) -> None:
        assert self.running is None, "something runs"
        self.asked.append(model)
        self.die()

    # --- what the engine does -----------------------------------------------------------------------------

    def ready(self, fingerprint: str = "0") -> Ready:
        self.loaded = True
        model = evolve(MODEL, fingerprint=fingerprint)
        return Ready(
            backend="twin", profile="exact", model=model, capabilities={}, context=4096, cells=8192, load_ms=1.0
        )

    def begin(self) -> Begun:
        run = self._run
        ids = run.base + as_ids(render(run.prompt, complete=run.complete))
        reused = max((_agreement(tape, ids) for tape in self.tapes), default=0)
        self._begun = Begun(ids=ids, reused=reused)
        self._length = reused
        return self._begun

    def advance(self, length: int | None = None) -> Advanced:
        """`length` None: to the end of the prompt."""
        assert self._begun
        self._length = len(self._begun.ids) // 4 if length is None else length
        return Advanced(length=self._length)

    def generate(self, text: str) -> Generated:
        self._generated += len(text)
        return Generated(text=text, ids=tuple(ord(character) for character in text))

    def encoded(self) -> Encoded:
        assert isinstance(self.running, Encode)
        ids = [ord(character) for character in render(self.running.prompt, complete=self.running.complete)]
        self.running = None
        return Encoded(ids=tuple(ids))

    def saved(self, size: int = 100) -> Saved:
        assert isinstance(self.running, Save)
        self.running = None
        return Saved(bytes=size)

    def probed(self, exactness: Exactness | None = None) -> Probed:
        """`exactness` None: the test is not finished, stopped if the flag is set."""
        assert isinstance(self.running, Probe)
        self.running = None
        if exactness is None:
            return Probed(finished=False, stopped=self.stop_set, exactness=Exactness(progress=0.4))
        return Probed(finished=True, exactness=exactness)

    def end(self, reason: Reason | None = None, *, guessed: int = 0) -> Ended:
        """`reason` None: PREEMPTED if the stop flag is set, else what fits."""
        run, begun = self._run, self._begun
        if reason is None:
            natural = Reason.PREFILLED if run.decode is None else Reason.END
            reason = Reason.PREEMPTED if self.stop_set else natural
        ids = begun.ids if begun else b""
        self.tapes.append(ids[: self._length * 4])
        self.running = self._begun = None
        prompt, reused = len(ids) // 4, begun.reused if begun else 0
        usage = Usage(
            prompt=prompt,
            reused=reused,
            guessed=guessed,
            prefilled=self._length - reused,
            generated=self._generated,
            outcome=_outcome(prompt, reused, guessed),
        )
        shelf = ShelfFigures(tapes=len(self.tapes), cells_used=sum(len(tape) // 4 for tape in self.tapes))
        return Ended(reason=reason, length=self._length, usage=usage, timings=Timings(prefill=7.0), shelf=shelf)

    def die(self) -> None:
        """Forget everything, as a process does."""
        self.running = self._begun = None
        self.loaded = False
        self.tapes.clear()

    @property
    def _run(self) -> Run:
        assert isinstance(self.running, Run), "no run is under way"
        return self.running


def _outcome(prompt: int, reused: int, guessed: int) -> Outcome:
    if prompt == reused:
        return Outcome.HIT
    return Outcome.PARTIAL if guessed else Outcome.WARM if reused else Outcome.COLD


def _agreement(one: bytes, other: bytes) -> int:
    pairs: Sequence[tuple[int, int]] = list(zip(np.frombuffer(one, "<i4"), np.frombuffer(other, "<i4"), strict=False))
    return next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), len(pairs))


def generated(messages: Iterable[FromEngine]) -> tuple[str, list[int]]:
    """Text and ids of all that an engine said of an answer."""
    parts = [m.last if isinstance(m, Ended) else m for m in messages if isinstance(m, Generated | Ended)]
    return "".join(m.text for m in parts if m), [token for m in parts if m for token in m.ids]
