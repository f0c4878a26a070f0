"""The products that the shop sells, and what is true of each of them everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from stockroom.money import Money


class TaxClass(Enum):
    """The rate in thousandths that applies to a product."""

    STANDARD = 200
    REDUCED = 70
    EXEMPT = 0


@dataclass(frozen=True)
class Product:
    """`tiers` are pairs of (from this quantity on, price of one piece), smallest quantity first."""

    sku: str
    name: str
    price: Money
    tax: TaxClass = TaxClass.STANDARD
    tiers: tuple[tuple[int, Money], ...] = ()

    def unit_price(self, quantity: int) -> Money:
        """The price of one piece when `quantity` of them are bought."""
        price = self.price
        for least, tier_price in self.tiers:
            if quantity >= least:
                price = tier_price
        return price


class UnknownProduct(KeyError):
    """There is no product with this number."""


class Catalog:
    """Products by their number. A number is never given to another product."""

    def __init__(self, products: list[Product]) -> None:
        self._products: dict[str, Product] = {}
        for product in products:
            self.add(product)

    def add(self, product: Product) -> None:
        if product.sku in self._products:
            raise ValueError(f"{product.sku} is already {self._products[product.sku].name!r}")
        if list(product.tiers) != sorted(product.tiers, key=lambda tier: tier[0]):
            raise ValueError(f"the tiers of {product.sku} must be sorted by quantity")
        self._products[product.sku] = product

    def __getitem__(self, sku: str) -> Product:
        try:
            return self._products[sku]
        except KeyError:
            raise UnknownProduct(sku) from None

    def __iter__(self) -> Iterator[Product]:
        return iter(self._products.values())

    def __len__(self) -> int:
        return len(self._products)
