"""Owns what is warm by modeld's own word, and tells the ledger what became of it. It sends nothing."""

import time
from collections import Counter
from collections.abc import Iterator, Set
from contextlib import contextmanager

from attrs import evolve, frozen

from intentd.plan.ledger import Ledger
from modelwire.messages import Outcome, Progress

_USED = ("hit", "partial")


@frozen
class _Prefilled:
    """What guesses have spent on a turn: tokens and seconds of the slot, 0 where it was asked."""

    account: str
    tokens: int = 0
    seconds: float = 0.0
    asked: bool = False


class Warmth:
    """The turns that are resident in modeld, by their keys, and those of which a stopped guess has left a part."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._warm: dict[str, _Prefilled] = {}
        self._begun: dict[str, _Prefilled] = {}
        self._being_asked: Counter[str] = Counter()

    def __contains__(self, key: str) -> bool:
        return key in self._warm

    def keys(self) -> frozenset[str]:
        return frozenset(self._warm)

    def clear(self) -> None:
        """There is another modeld now, or none."""
        self._warm.clear()
        self._begun.clear()

    def guessed(self, key: str, account: str, tokens: int, seconds: float) -> None:
        self._warm[key] = self._add(self._begun.pop(key, _Prefilled(account)), tokens, seconds)

    def interrupted(self, key: str, account: str, tokens: int, seconds: float) -> None:
        """A guess was stopped before its end. What it has prefilled may still serve."""
        self._begun[key] = self._add(self._begun.get(key, _Prefilled(account)), tokens, seconds)

    @contextmanager
    def asking(self, *keys: str) -> Iterator[None]:
        """Meanwhile they are asked for, whatever becomes of their offers: what they found is known before the end."""
        self._being_asked.update(keys)
        try:
            yield
        finally:
            self._being_asked -= Counter(keys)

    def asked(self, key: str, account: str, outcome: str, *, base: str | None = None) -> None:
        """A question was answered: it counts for the guess that was made for it, else for `account`.

        `base` is the turn that this one shares all but its end with: its guess has served as well.
        """
        guess = self._warm.get(key)
        account = guess.account if guess else account
        settles = guess is not None and not guess.asked
        now = time.monotonic()
        self._ledger.asked(account, outcome, guessed=settles, now=now)
        self._begun.pop(key, None)
        self._warm[key] = _Prefilled(account, asked=True)
        shared = self._warm.get(base) if base else None
        if base and shared and not shared.asked and outcome in _USED:
            self._ledger.used(shared.account, now)
            self._warm[base] = _Prefilled(shared.account, asked=True)

    def outcome(self, key: str, found: Progress) -> Outcome:
        """What modeld would say at the end of a question that found so much."""
        if found.reused >= found.total:
            return Outcome.HIT
        if not found.reused:
            return Outcome.COLD
        guess = self._warm.get(key) or self._begun.get(key)
        return Outcome.PARTIAL if guess and not guess.asked else Outcome.WARM

    def keep(self, wanted: Set[str]) -> None:
        """Only these can be asked for any more, and those that are being asked for."""
        wanted = wanted | self._being_asked.keys()
        for key in self._begun.keys() - wanted:
            begun = self._begun.pop(key)
            self._ledger.lost(begun.account, begun.tokens, begun.seconds)
        for key in self._warm.keys() - wanted:
            warm = self._warm.pop(key)
            if not warm.asked:
                self._ledger.dropped(warm.account, warm.tokens, warm.seconds, time.monotonic())

    @staticmethod
    def _add(before: _Prefilled, tokens: int, seconds: float) -> _Prefilled:
        return evolve(before, tokens=before.tokens + tokens, seconds=before.seconds + seconds)
