"""Owns how long is waited for an engine, and before the next one after it died. It starts and kills nothing."""

from attrs import define, frozen


@frozen(kw_only=True)
class Patience:
    """Bounds in seconds.

    An engine with work counts as hung when nothing was heard of it for `silence`, or for `chunks` times the slowest
    chunk so far where that is longer; before the first chunk there is no measure, so `first` holds. A message that is
    being read gets its size over `bytes_per_second` on top. After `loads` deaths in a row while
    it loads, a model is given up, unless it was ready before. Before each restart it waits: `pause`, twice as long each
    time up to `longest_pause`, and `pause` again after an engine that lived for `stable` or ended an operation.
    """

    silence: float = 10.0
    chunks: float = 20.0
    first: float = 120.0
    bytes_per_second: float = 100_000.0
    load: float = 600.0
    quit: float = 2.0
    pause: float = 0.1
    longest_pause: float = 10.0
    stable: float = 60.0
    loads: int = 5


@define
class CrashLoop:
    """Engines that died one after another, none of which had proved sound."""

    patience: Patience
    deaths: int = 0
    failed_loads: int = 0
    _reason: str = ""

    def died(self, reason: str, *, loaded: bool) -> None:
        self.deaths += 1
        self.failed_loads = 0 if loaded else self.failed_loads + 1
        self._reason = reason

    def over(self) -> None:
        """An engine ended an operation, or lived for long, or another one is wanted."""
        self.deaths, self._reason = 0, ""

    @property
    def pause(self) -> float:
        """Before the next start."""
        return float(min(self.patience.pause * 2 ** max(0, self.deaths - 1), self.patience.longest_pause))

    @property
    def is_hopeless(self) -> bool:
        """Whether a model that was never loaded should be given up."""
        return self.failed_loads >= self.patience.loads

    def says(self) -> str:
        """For people; empty where nothing is wrong."""
        if self.deaths < 2:
            return f"the engine {self._reason}: another one is started" if self.deaths else ""
        return (
            f"{self.deaths} engines died one after another, the last one {self._reason}: before the next start there "
            f"is a pause of {self.pause:.1f} s, longer each time; the log has their last words"
        )
