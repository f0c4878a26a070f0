"""Owns what guesses of each trigger were good for, and which triggers are switched off for a while. Time comes in.

A guess is settled when it was asked for, or when its offer went away without that. A trigger of which too few of the
last settled guesses were asked for is switched off; after a while one more guess may show that this has changed.
"""

from collections import deque
from collections.abc import Mapping

from attrs import Factory, define

WINDOW, LEAST_SETTLED = 20, 10
FLOOR = 0.05
"""The share of guesses that must be asked for. A guess runs in idle time, so little is enough."""
FIRST_RETRY_S, LAST_RETRY_S = 600.0, 4 * 3600.0


@define
class Account:
    """One trigger's. Times are seconds of the slot; tokens were prefilled by guesses."""

    asks: int = 0
    hits: int = 0
    partials: int = 0
    warm: int = 0
    misses: int = 0
    preemptions: int = 0
    prefilled: int = 0
    wasted: int = 0
    wasted_s: float = 0.0
    off_until: float | None = None
    retry_s: float = FIRST_RETRY_S
    settled: deque[bool] = Factory(lambda: deque[bool](maxlen=WINDOW))


class Ledger:
    """The accounts of all triggers."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}

    def guessed(self, trigger: str, tokens: int) -> None:
        self._of(trigger).prefilled += tokens

    def preempted(self, trigger: str) -> None:
        self._of(trigger).preemptions += 1

    def asked(self, trigger: str, outcome: str, *, guessed: bool, now: float) -> None:
        """`outcome` is `hit`, `partial`, `warm` (questions before it had left most of it) or anything else, a miss.

        `guessed`: a guess for it was warm and is settled.
        """
        account = self._of(trigger)
        account.asks += 1
        account.hits += outcome == "hit"
        account.partials += outcome == "partial"
        account.warm += outcome == "warm"
        account.misses += outcome not in ("hit", "partial", "warm")
        if guessed:
            self._settle(account, outcome in ("hit", "partial"), now)

    def used(self, trigger: str, now: float) -> None:
        """A finished guess has served a question that another guess was made for, or none."""
        self._settle(self._of(trigger), True, now)

    def dropped(self, trigger: str, tokens: int, seconds: float, now: float) -> None:
        """A finished guess that nobody asked for."""
        self.lost(trigger, tokens, seconds)
        self._settle(self._of(trigger), False, now)

    def lost(self, trigger: str, tokens: int, seconds: float) -> None:
        """A guess that was stopped, and that nobody can ask for any more: it says nothing of its trigger."""
        account = self._of(trigger)
        account.wasted += tokens
        account.wasted_s += seconds

    def switched_off(self, now: float) -> frozenset[str]:
        """The triggers that are not guessed for now."""
        return frozenset(
            trigger for trigger, one in self._accounts.items() if one.off_until is not None and now < one.off_until
        )

    def figures(self, now: float) -> Mapping[str, Mapping[str, float]]:
        """`off` is 1 for a trigger that is switched off, and `retry_s` says when it is tried again."""
        off = self.switched_off(now)
        return {
            trigger: {
                "asks": one.asks,
                "hits": one.hits,
                "partials": one.partials,
                "warm": one.warm,
                "misses": one.misses,
                "preemptions": one.preemptions,
                "prefilled": one.prefilled,
                "wasted": one.wasted,
                "wasted_s": round(one.wasted_s, 3),
                "off": float(trigger in off),
                "retry_s": round(one.off_until - now, 3) if one.off_until and trigger in off else 0.0,
            }
            for trigger, one in self._accounts.items()
        }

    def check(self) -> None:
        """What is counted adds up."""
        for one in self._accounts.values():
            assert one.asks == one.hits + one.partials + one.warm + one.misses
            assert one.wasted <= one.prefilled
            assert len(one.settled) <= WINDOW

    def _of(self, trigger: str) -> Account:
        return self._accounts.setdefault(trigger, Account())

    @staticmethod
    def _settle(account: Account, used: bool, now: float) -> None:
        account.settled.append(used)
        if used:
            account.off_until, account.retry_s = None, FIRST_RETRY_S
        elif account.off_until is not None and now < account.off_until:
            return  # made before it was switched off
        elif len(account.settled) >= LEAST_SETTLED and sum(account.settled) / len(account.settled) < FLOOR:
            account.off_until = now + account.retry_s
            account.retry_s = min(2 * account.retry_s, LAST_RETRY_S)
