"""Credit notes: an invoice taken back, in whole or in part."""

from __future__ import annotations

from collections.abc import Mapping

from stockroom.invoice import Invoice, build
from stockroom.money import Money
from stockroom.pricing import PricedLine


def credit_note(number: str, invoice: Invoice, returned: Mapping[str, int] | None = None) -> Invoice:
    """An invoice with negative quantities for what came back: all of it, or `returned` pieces by product number.

    The discount is given back in proportion to the value of what came back, so that a customer who returns
    everything in two parcels gets the same money as one who returns it in a single parcel.
    """
    wanted = dict(returned) if returned is not None else {line.sku: line.quantity for line in invoice.lines}
    back: list[PricedLine] = []
    for line in invoice.lines:
        pieces = wanted.pop(line.sku, 0)
        if pieces > line.quantity:
            raise ValueError(f"{pieces} of {line.sku} came back, {line.quantity} were sold")
        if pieces:
            back.append(PricedLine(line.sku, line.name, -pieces, line.unit, line.tax_per_mille))
    if wanted:
        raise ValueError(f"not on invoice {invoice.number}: {', '.join(sorted(wanted))}")
    return build(number, invoice.customer, back, _discount_share(invoice, back))


def _discount_share(invoice: Invoice, back: list[PricedLine]) -> Money:
    """The part of the invoice's discount that belongs to the returned lines, with its sign turned round."""
    listed = sum((line.unit * line.quantity).cents for line in invoice.lines)
    returned = -sum(line.net.cents for line in back)
    kept = listed - returned
    return -invoice.discount.allocate([returned, kept])[0]
