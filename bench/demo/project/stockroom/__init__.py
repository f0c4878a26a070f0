"""Stock, prices and invoices of a small shop."""

from stockroom.catalog import Catalog, Product
from stockroom.credit import credit_note
from stockroom.inventory import Inventory
from stockroom.invoice import Invoice, issue
from stockroom.money import Money
from stockroom.orders import Order

__all__ = ["Catalog", "Inventory", "Invoice", "Money", "Order", "Product", "credit_note", "issue"]
