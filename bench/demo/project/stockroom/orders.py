"""What a customer wants: lines of products and quantities, before anything has a price."""

from __future__ import annotations

from dataclasses import dataclass, field

from stockroom.catalog import Catalog, Product
from stockroom.inventory import Inventory, OutOfStock


@dataclass(frozen=True)
class OrderLine:
    product: Product
    quantity: int


@dataclass
class Order:
    """One line per product; adding a product twice adds up its quantity."""

    customer: str
    lines: list[OrderLine] = field(default_factory=list)

    def add(self, catalog: Catalog, sku: str, quantity: int) -> Order:
        if quantity <= 0:
            raise ValueError("a quantity is at least one")
        product = catalog[sku]
        for index, line in enumerate(self.lines):
            if line.product.sku == sku:
                self.lines[index] = OrderLine(product, line.quantity + quantity)
                return self
        self.lines.append(OrderLine(product, quantity))
        return self

    def reserve(self, inventory: Inventory) -> None:
        """Reserves every line or none."""
        done: list[OrderLine] = []
        try:
            for line in self.lines:
                inventory.reserve(line.product.sku, line.quantity)
                done.append(line)
        except OutOfStock:
            for line in done:
                inventory.release(line.product.sku, line.quantity)
            raise
