"""What lies on the shelf: lots, reservations, and which lot a piece is taken from."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from datetime import date

from stockroom.money import Money


class OutOfStock(Exception):
    """Fewer pieces are free than were asked for."""

    def __init__(self, sku: str, wanted: int, free: int) -> None:
        super().__init__(f"{wanted} of {sku} wanted, {free} free")
        self.sku = sku
        self.wanted = wanted
        self.free = free


@dataclass
class Lot:
    """Pieces that came in together."""

    received: date
    cost: Money
    pieces: int


class Inventory:
    """Lots per product, oldest first. Reserved pieces lie on the shelf and are not free."""

    def __init__(self) -> None:
        self._lots: dict[str, deque[Lot]] = defaultdict(deque)
        self._reserved: dict[str, int] = defaultdict(int)

    def receive(self, sku: str, pieces: int, cost: Money, received: date) -> None:
        if pieces <= 0:
            raise ValueError("a lot has at least one piece")
        lots = self._lots[sku]
        lots.append(Lot(received, cost, pieces))
        self._lots[sku] = deque(sorted(lots, key=lambda lot: lot.received))

    def on_hand(self, sku: str) -> int:
        return sum(lot.pieces for lot in self._lots[sku])

    def free(self, sku: str) -> int:
        return self.on_hand(sku) - self._reserved[sku]

    def reserve(self, sku: str, pieces: int) -> None:
        if pieces > self.free(sku):
            raise OutOfStock(sku, pieces, self.free(sku))
        self._reserved[sku] += pieces

    def release(self, sku: str, pieces: int) -> None:
        self._reserved[sku] = max(0, self._reserved[sku] - pieces)

    def take(self, sku: str, pieces: int) -> Money:
        """Takes reserved pieces off the shelf, oldest lot first, and returns what they had cost."""
        if pieces > self._reserved[sku]:
            raise ValueError(f"{pieces} of {sku} were not reserved")
        self._reserved[sku] -= pieces
        cost = Money(0)
        while pieces:
            lot = self._lots[sku][0]
            used = min(lot.pieces, pieces)
            cost += lot.cost * used
            lot.pieces -= used
            pieces -= used
            if not lot.pieces:
                self._lots[sku].popleft()
        return cost
