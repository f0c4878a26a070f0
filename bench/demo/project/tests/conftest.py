"""A small shop that all tests share."""

from datetime import date

import pytest

from stockroom.catalog import Catalog, Product, TaxClass
from stockroom.inventory import Inventory
from stockroom.money import Money


@pytest.fixture
def catalog() -> Catalog:
    return Catalog(
        [
            Product("TEA-01", "Green tea", Money.parse("4.99"), TaxClass.REDUCED),
            Product("TEA-02", "Black tea", Money.parse("5.49"), TaxClass.REDUCED),
            Product("POT-01", "Tea pot", Money.parse("24.95"), tiers=((3, Money.parse("22.50")),)),
            Product("CUP-01", "Cup", Money.parse("3.33"), tiers=((6, Money.parse("2.99")), (12, Money.parse("2.79")))),
            Product("BOOK-1", "The Book of Tea", Money.parse("12.00"), TaxClass.EXEMPT),
        ]
    )


@pytest.fixture
def inventory(catalog: Catalog) -> Inventory:
    inventory = Inventory()
    for product in catalog:
        inventory.receive(product.sku, 20, Money.parse("1.00"), date(2025, 3, 1))
    return inventory
