"""Owns what is warm by modeld's own word, and tells the ledger what became of it. It sends nothing."""

import time
from collections.abc import Set

from attrs import frozen

from intentd.plan.ledger import Ledger
from modelwire.messages import Done


@frozen
class _Warm:
    """What was prefilled for a turn: tokens and seconds of guesses, 0 where it was asked."""

    account: str
    tokens: int
    seconds: float
    asked: bool = False


class Warmth:
    """The turns that are resident in modeld, by their keys."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._warm: dict[str, _Warm] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._warm

    def keys(self) -> frozenset[str]:
        return frozenset(self._warm)

    def clear(self) -> None:
        """There is another modeld now, or none."""
        self._warm.clear()

    def guessed(self, key: str, account: str, done: Done) -> None:
        self._warm[key] = _Warm(account, done.usage.prefilled, done.timings.prefill / 1000)

    def asked(self, key: str, account: str, outcome: str) -> None:
        """A question was answered: it counts for the guess that was made for it, else for `account`."""
        guess = self._warm.get(key)
        account = guess.account if guess else account
        settles = guess is not None and not guess.asked
        self._ledger.asked(account, outcome, guessed=settles, now=time.monotonic())
        self._warm[key] = _Warm(account, 0, 0.0, asked=True)

    def keep(self, wanted: Set[str]) -> None:
        """Only these can be asked for any more."""
        for key in self._warm.keys() - wanted:
            warm = self._warm.pop(key)
            if not warm.asked:
                self._ledger.dropped(warm.account, warm.tokens, warm.seconds, time.monotonic())
