"""Invoices: the voucher is spread over the lines, each line is taxed, and the sums are checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stockroom.money import Money
from stockroom.orders import Order
from stockroom.pricing import PricedLine, Voucher, price


class UnbalancedInvoice(Exception):
    """The lines do not add up to the total. Such an invoice must not leave the house."""


@dataclass(frozen=True)
class InvoiceLine:
    sku: str
    name: str
    quantity: int
    unit: Money
    discount: Money
    tax_per_mille: int

    @property
    def net(self) -> Money:
        return self.unit * self.quantity + self.discount

    @property
    def tax(self) -> Money:
        return self.net.per_mille(self.tax_per_mille)


@dataclass(frozen=True)
class Invoice:
    number: str
    customer: str
    lines: tuple[InvoiceLine, ...]
    discount: Money

    @property
    def net(self) -> Money:
        return Money.total(line.net for line in self.lines)

    @property
    def tax(self) -> Money:
        return Money.total(line.tax for line in self.lines)

    @property
    def total(self) -> Money:
        return self.net + self.tax

    def verify(self) -> Invoice:
        """Raises unless list prices and discount give exactly what the lines add up to."""
        listed = Money.total(line.unit * line.quantity for line in self.lines)
        expected = listed + self.discount
        if self.net != expected:
            raise UnbalancedInvoice(
                f"{self.number}: the lines add up to {self.net}, list prices and discount to {expected}"
            )
        return self


def build(number: str, customer: str, priced: Sequence[PricedLine], discount: Money) -> Invoice:
    """Puts an invoice together. The discount is spread in proportion to what the lines cost."""
    weights = [abs(line.net.cents) for line in priced]
    shares = discount.allocate(weights)
    lines = tuple(
        InvoiceLine(line.sku, line.name, line.quantity, line.unit, share, line.tax_per_mille)
        for line, share in zip(priced, shares, strict=True)
    )
    return Invoice(number, customer, lines, discount).verify()


def issue(number: str, order: Order, voucher: Voucher | None = None) -> Invoice:
    """The invoice for an order, at today's prices."""
    priced = price(order)
    net = Money.total(line.net for line in priced)
    discount = voucher.discount(net) if voucher else Money(0)
    return build(number, order.customer, priced, discount)
