"""Owns what the daemon does of itself while nobody asks for anything: the test of exactness, and unloading.

It says what is due, and keeps the verdict of the test. When anything runs is the scheduler's.
"""

from attrs import define, evolve, field, frozen

from modeld.engine.messages import Probe, Probed, Probing, Ready
from modelwire.messages import Exactness, Unload

FAILURES = 3
"""The test is given up after so many engines were lost in it, or so many errors."""
LONGEST_PAUSE_S = 600.0


@frozen(kw_only=True)
class IdleTimes:
    """Seconds without any operation; None: never."""

    test_after: float | None = None
    unload_after: float | None = None


@define(eq=False)
class Housekeeping:
    """`exactness` is what is known of the loaded model, with how far its test has come."""

    times: IdleTimes
    exactness: Exactness = field(factory=Exactness)
    _subject: tuple[str, str] = ("", "")
    _used: float = 0.0
    _not_before: float = 0.0
    _pauses: int = 0
    _failures: int = 0
    _settled: bool = False

    def used(self, now: float) -> None:
        """An operation came or ended."""
        self._used = now

    def loaded(self, ready: Ready, now: float) -> None:
        """What an engine before this one found of the same model is still true."""
        self._used = now
        subject = (ready.model.fingerprint, ready.profile)
        if subject != self._subject:
            self._subject = subject
            self._pauses = self._failures = 0
            self._not_before, self._settled = now, False
            self.exactness = Exactness()
        if self.exactness.verdict == "untested" and self._failures < FAILURES:
            self.exactness = ready.exactness

    def due(self, now: float) -> Probe | Unload | None:
        """What is to be done now, while nothing runs. A test is due before an unload, and ends before it. Where
        it has to be tried again, that may be after an unload.
        """
        if self._wants_test and self._idle(now, self._test_after) and now >= self._not_before:
            return Probe()
        if self._idle(now, self.times.unload_after) and not self.exactness.running:
            return Unload()
        return None

    def started(self) -> None:
        self.exactness = evolve(self.exactness, running=True)

    def advanced(self, probing: Probing) -> None:
        self.exactness = evolve(self.exactness, progress=probing.progress)

    def ended(self, probed: Probed | None, *, yielded: bool, now: float) -> None:
        """`probed` None: an error or a lost engine ended it. `yielded`: it was stopped for somebody."""
        self.exactness = Exactness() if probed is None else probed.exactness
        if probed is not None and probed.finished:
            self._settled = True
        elif probed is None or not yielded:
            self._failures += probed is None
            if self._failures >= FAILURES:
                self.exactness = Exactness(reason=f"the test failed {FAILURES} times; the log has why")
            self._pauses += 1
            self._not_before = now + min((self.times.test_after or 1.0) * 4**self._pauses, LONGEST_PAUSE_S)

    @property
    def _test_after(self) -> float | None:
        """An unload that came first would leave no time for any test."""
        test, unload = self.times.test_after, self.times.unload_after
        return test if test is None or unload is None else min(test, unload)

    @property
    def _wants_test(self) -> bool:
        tested = self._settled or self.exactness.verdict != "untested"
        return not tested and not self.exactness.running and self._failures < FAILURES

    def _idle(self, now: float, after: float | None) -> bool:
        return after is not None and now - self._used >= after
