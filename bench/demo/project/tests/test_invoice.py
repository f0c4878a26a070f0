from stockroom.catalog import Catalog
from stockroom.credit import credit_note
from stockroom.invoice import Invoice, issue
from stockroom.money import Money
from stockroom.orders import Order
from stockroom.pricing import Voucher
from stockroom.report import render

SPRING = Voucher("SPRING", per_mille=100, least=Money.parse("20.00"))
FIVE_OFF = Voucher("FIVE", amount=Money.parse("5.00"))


def tea_party(catalog: Catalog) -> Order:
    """Three tax classes, a tier that applies and one that does not."""
    order = Order("Ms Okakura")
    for sku, quantity in (("TEA-01", 3), ("POT-01", 1), ("CUP-01", 6), ("BOOK-1", 1)):
        order.add(catalog, sku, quantity)
    return order


def test_tiers_apply_at_their_quantity(catalog: Catalog) -> None:
    invoice = issue("2025-001", Order("Ms Okakura").add(catalog, "CUP-01", 6))
    assert invoice.net == Money.parse("17.94")


def test_each_line_is_taxed_at_its_own_rate(catalog: Catalog) -> None:
    invoice = issue("2025-002", tea_party(catalog))
    assert [line.tax for line in invoice.lines] == [Money(105), Money(499), Money(359), Money(0)]


def test_a_small_order_gets_no_spring_discount(catalog: Catalog) -> None:
    invoice = issue("2025-003", Order("Mr Rikyu").add(catalog, "TEA-02", 1), SPRING)
    assert invoice.discount == Money(0)


def test_a_voucher_never_takes_off_more_than_the_sum(catalog: Catalog) -> None:
    invoice = issue("2025-004", Order("Mr Rikyu").add(catalog, "TEA-01", 1), FIVE_OFF)
    assert invoice.total == Money(0)


def test_a_returned_parcel_gives_the_discount_back(catalog: Catalog) -> None:
    sold: Invoice = issue("2025-005", Order("Mr Rikyu").add(catalog, "TEA-01", 2), FIVE_OFF)
    assert credit_note("2025-005C", sold).total == -sold.total


def test_a_discount_over_several_lines_is_returned_in_full(catalog: Catalog) -> None:
    sold = issue("2025-006", tea_party(catalog), SPRING)
    back = credit_note("2025-006C", sold)
    assert sold.discount == -back.discount
    assert back.total == -sold.total


def test_the_printed_invoice_ends_with_its_total(catalog: Catalog) -> None:
    printed = render(issue("2025-007", tea_party(catalog)))
    assert printed.rstrip().splitlines()[-1].split() == ["Total", "79.49"]
