"""Net prices: quantity tiers per line, then at most one voucher for the whole order."""

from __future__ import annotations

from dataclasses import dataclass

from stockroom.money import Money
from stockroom.orders import Order


@dataclass(frozen=True)
class Voucher:
    """Either a fixed `amount` off, or `per_mille` thousandths off; from a net sum of `least` on."""

    code: str
    amount: Money = Money(0)
    per_mille: int = 0
    least: Money = Money(0)

    def discount(self, net: Money) -> Money:
        """What the voucher takes off: zero or negative, and never more than the sum itself."""
        if net < self.least:
            return Money(0)
        off = self.amount + net.per_mille(self.per_mille)
        return -min(off, net)


@dataclass(frozen=True)
class PricedLine:
    sku: str
    name: str
    quantity: int
    unit: Money
    tax_per_mille: int

    @property
    def net(self) -> Money:
        return self.unit * self.quantity


def price(order: Order) -> list[PricedLine]:
    """The order's lines with the price of one piece at the quantity that was ordered."""
    return [
        PricedLine(
            sku=line.product.sku,
            name=line.product.name,
            quantity=line.quantity,
            unit=line.product.unit_price(line.quantity),
            tax_per_mille=line.product.tax.value,
        )
        for line in order.lines
    ]
