import pytest

from stockroom.money import Money


@pytest.mark.parametrize(("text", "cents"), [("12.50", 1250), ("-3", -300), ("0.05", 5), ("7.1", 710)])
def test_parse(text: str, cents: int) -> None:
    assert Money.parse(text) == Money(cents)


def test_parse_refuses_a_third_decimal() -> None:
    with pytest.raises(ValueError, match="two decimals"):
        Money.parse("1.005")


def test_text_of_a_small_refund_keeps_its_sign() -> None:
    assert str(Money(-5)) == "-0.05"


def test_halves_are_rounded_away_from_zero() -> None:
    assert Money(250).per_mille(70) == Money(18)
    assert Money(-250).per_mille(70) == Money(-18)


@pytest.mark.parametrize("cents", [0, 1, 99, 100, 1001])
def test_allocated_shares_add_up(cents: int) -> None:
    shares = Money(cents).allocate([1, 1, 1])
    assert Money.total(shares) == Money(cents)


def test_allocation_follows_the_weights() -> None:
    assert Money(1000).allocate([1, 3]) == [Money(250), Money(750)]
