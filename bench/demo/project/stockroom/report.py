"""Invoices as plain text, for the printer behind the counter."""

from __future__ import annotations

from stockroom.invoice import Invoice, InvoiceLine

WIDTH = 48


def render(invoice: Invoice) -> str:
    """The invoice as lines of `WIDTH` characters."""
    head = [f"Invoice {invoice.number}", invoice.customer, "-" * WIDTH]
    body = [text for line in invoice.lines for text in _line(line)]
    foot = ["-" * WIDTH, _row("Net", str(invoice.net)), _row("Tax", str(invoice.tax)), _row("Total", str(invoice.total))]
    return "\n".join(head + body + foot) + "\n"


def _line(line: InvoiceLine) -> list[str]:
    rows = [_row(f"{line.quantity} x {line.name} at {line.unit}", str(line.unit * line.quantity))]
    if line.discount.cents:
        rows.append(_row("  discount", str(line.discount)))
    return rows


def _row(left: str, right: str) -> str:
    room = WIDTH - len(right) - 1
    return f"{left[:room]:<{room}} {right}"
