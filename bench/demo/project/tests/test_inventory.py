from datetime import date

import pytest

from stockroom.catalog import Catalog
from stockroom.inventory import Inventory, OutOfStock
from stockroom.money import Money
from stockroom.orders import Order


def test_the_oldest_lot_goes_first() -> None:
    inventory = Inventory()
    inventory.receive("TEA-01", 5, Money(200), date(2025, 5, 1))
    inventory.receive("TEA-01", 5, Money(100), date(2025, 4, 1))
    inventory.reserve("TEA-01", 7)
    assert inventory.take("TEA-01", 7) == Money(5 * 100 + 2 * 200)
    assert inventory.on_hand("TEA-01") == 3


def test_reserved_pieces_are_not_free(inventory: Inventory) -> None:
    inventory.reserve("POT-01", 18)
    with pytest.raises(OutOfStock, match="3 of POT-01 wanted, 2 free"):
        inventory.reserve("POT-01", 3)


def test_an_order_reserves_every_line_or_none(catalog: Catalog, inventory: Inventory) -> None:
    order = Order("Ms Okakura").add(catalog, "CUP-01", 6).add(catalog, "POT-01", 21)
    with pytest.raises(OutOfStock):
        order.reserve(inventory)
    assert inventory.free("CUP-01") == 20
