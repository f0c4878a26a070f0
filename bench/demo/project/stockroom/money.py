"""Amounts of money in whole cents. Every rounding of the library happens in this file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Money:
    """An amount in cents. Negative amounts are refunds and discounts."""

    cents: int

    @classmethod
    def parse(cls, text: str) -> Money:
        """Reads "12.50", "-3" or "0.05"."""
        sign = -1 if text.startswith("-") else 1
        whole, _, fraction = text.lstrip("+-").partition(".")
        if len(fraction) > 2:
            raise ValueError(f"{text!r} has more than two decimals")
        return cls(sign * (int(whole) * 100 + int(fraction.ljust(2, "0") or 0)))

    @classmethod
    def total(cls, amounts: Iterable[Money]) -> Money:
        return cls(sum(amount.cents for amount in amounts))

    def __add__(self, other: Money) -> Money:
        return Money(self.cents + other.cents)

    def __sub__(self, other: Money) -> Money:
        return Money(self.cents - other.cents)

    def __neg__(self) -> Money:
        return Money(-self.cents)

    def __mul__(self, factor: int) -> Money:
        return Money(self.cents * factor)

    def per_mille(self, rate: int) -> Money:
        """`rate` thousandths of the amount, halves rounded away from zero."""
        scaled = abs(self.cents) * rate
        rounded = (scaled + 500) // 1000
        return Money(rounded if self.cents >= 0 else -rounded)

    def allocate(self, weights: Sequence[int]) -> list[Money]:
        """Splits the amount in proportion to the weights.

        The shares differ from the exact proportion by less than a cent, and they always add up to the amount: the
        cents that are left over after rounding go to the first shares, one each.
        """
        whole = sum(weights)
        if whole <= 0:
            raise ValueError("weights must add up to something positive")
        shares = [int(self.cents * weight / whole) for weight in weights]
        left_over = self.cents - sum(shares)
        for index in range(left_over):
            shares[index] += 1
        return [Money(share) for share in shares]

    def __str__(self) -> str:
        sign = "-" if self.cents < 0 else ""
        return f"{sign}{abs(self.cents) // 100}.{abs(self.cents) % 100:02d}"
