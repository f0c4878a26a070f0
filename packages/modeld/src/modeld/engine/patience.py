"""Owns how long is waited for an engine, and before the next one after it died. It starts and kills nothing."""

import math

from attrs import define, frozen

from modeld.engine.messages import Advanced, Begun, FromEngine, Generated, Probing

ORDINARY_CHUNK = 512
LOOK_S = 2.0
"""So often somebody looks whether an engine is silent for too long, at least."""
_MOST_DOUBLINGS = 32
"""Of a pause: no float holds what thousands of deaths would make of it."""


@frozen(kw_only=True)
class Patience:
    """Bounds in seconds.

    An engine with work counts as hung when nothing was heard of it for `silence`, or for `chunks` times the slowest
    chunk so far where that is longer. Where a whole chunk may come next and only smaller ones were seen, that is what a
    whole one would take at their pace, but not more than `first`. Before the first chunk there is no measure, so
    `first` holds: it is for chunks of 512 tokens, and longer in proportion for larger ones. A message that is being
    read gets its size over `bytes_per_second` on top.

    After `loads` deaths in a row while it loads, a model is given up, and after `silent_loads` that said nothing in all
    of `load`: both unless it was ready since it was asked for. Before each restart it waits: `pause`, twice as long
    each time up to `longest_pause`, and `pause` again after an engine that lived for `stable` or ended an operation.
    """

    silence: float = 10.0
    chunks: float = 20.0
    first: float = 300.0
    bytes_per_second: float = 100_000.0
    load: float = 600.0
    quit: float = 2.0
    pause: float = 0.1
    longest_pause: float = 10.0
    stable: float = 60.0
    loads: int = 5
    silent_loads: int = 2


@define
class Pace:
    """How slow an engine was so far, and so how long it may be silent. `chunk`: tokens of a whole one."""

    patience: Patience
    chunk: int
    _slowest: float = 0.0
    _largest: int = 0
    _per_token: float = math.inf
    _resident: int = 0
    _total: int = 0

    def heard(self, message: FromEngine, seconds: float | None) -> None:
        """`seconds` after the message before it, or after the work was sent; None where that is no measure of it."""
        match message:
            case Begun():
                self._resident, self._total = message.reused, len(message.ids) // 4
            case Advanced():
                self._filled(message.length, seconds)
            case Generated():
                self._filled(self._total, seconds)
        if seconds is not None and isinstance(message, Advanced | Generated | Probing):
            self._slowest = max(self._slowest, seconds)

    def _filled(self, length: int, seconds: float | None) -> None:
        """The larger a chunk, the more it tells of a whole one: a small one takes longer for each token."""
        tokens, self._resident = length - self._resident, length
        if seconds is None:
            return
        if tokens > self._largest:
            self._largest, self._per_token = tokens, seconds / tokens
        elif tokens == self._largest and tokens:
            self._per_token = max(self._per_token, seconds / tokens)

    def longest_silence(self, *, filling: bool) -> float:
        """`filling`: a whole chunk may come next."""
        bounds = self.patience
        first = bounds.first * max(1.0, self.chunk / ORDINARY_CHUNK)
        if not self._slowest:
            return first
        whole = min(first, bounds.chunks * self._per_token * self.chunk) if filling else 0.0
        return max(bounds.silence, bounds.chunks * self._slowest, whole)


@define
class CrashLoop:
    """Engines that died one after another, none of which had proved sound."""

    patience: Patience
    deaths: int = 0
    failed_loads: int = 0
    silent_loads: int = 0
    _reason: str = ""

    def died(self, reason: str, *, loaded: bool) -> None:
        self.deaths += 1
        self.failed_loads = 0 if loaded else self.failed_loads + 1
        self.silent_loads = 0 if loaded else self.silent_loads
        self._reason = reason

    def hung(self) -> None:
        """It said nothing in a whole load. The next one may be quick, as part of a large file is in memory now."""
        self.silent_loads += 1

    def over(self) -> None:
        """An engine ended an operation, or lived for long, or another one is wanted."""
        self.deaths, self._reason = 0, ""

    @property
    def pause(self) -> float:
        """Before the next start."""
        doublings = min(max(0, self.deaths - 1), _MOST_DOUBLINGS)
        return float(min(self.patience.pause * 2**doublings, self.patience.longest_pause))

    @property
    def is_hopeless(self) -> bool:
        """Whether a model that was never loaded should be given up."""
        return self.failed_loads >= self.patience.loads or self.is_mute

    @property
    def is_mute(self) -> bool:
        return self.silent_loads >= self.patience.silent_loads

    def says(self) -> str:
        """For people; empty where nothing is wrong."""
        if self.deaths < 2:
            return f"the engine {self._reason}: another one is started" if self.deaths else ""
        return (
            f"{self.deaths} engines died one after another, the last one {self._reason}: before the next start there "
            f"is a pause of {self.pause:.1f} s, longer each time; the log has their last words"
        )
