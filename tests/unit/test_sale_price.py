"""Flash sale terms: prices rounded to the kobo, and displayed percentages."""

from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from marketplace.catalog.sale_price import PricedRow, percent_off, price_at_percent_off, sale_view

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
PRICES = st.integers(100, 10**10)


@given(price=PRICES, percent=st.integers(1, 90))
def test_percentage_off_is_rounded_to_the_nearest_kobo(price: int, percent: int) -> None:
    sale = price_at_percent_off(price, percent=percent)

    exact = Decimal(price) * (100 - percent) / 100
    assert sale == exact.quantize(Decimal(1), ROUND_HALF_UP)
    assert 0 < sale < price


@given(price=st.integers(10_000, 10**10), percent=st.integers(1, 90))
def test_displayed_percentage_equals_applied_percentage(price: int, percent: int) -> None:
    assert percent_off(price, sale_price_minor=price_at_percent_off(price, percent=percent)) == percent


@given(price=PRICES, data=st.data())
def test_displayed_percentage_is_never_zero_or_hundred(price: int, data: st.DataObject) -> None:
    sale = data.draw(st.integers(1, price - 1))
    assert 1 <= percent_off(price, sale_price_minor=sale) <= 99


@pytest.mark.parametrize(
    ("left", "quantity", "regular", "seconds", "honoured"),
    [
        (None, 1_000, 1_001, 0, True),
        (3, 3, 1_001, 59, True),
        (3, 4, 1_001, 0, False),
        (0, 1, 1_001, 0, False),
        (None, 1, 1_000, 0, False),
        (None, 1, 1_001, -1, False),
        (None, 1, 1_001, 60, False),
    ],
)
def test_sale_price_requires_running_sale_enough_units_and_lower_price(
    *, left: int | None, quantity: int, regular: int, seconds: int, honoured: bool
) -> None:
    row = PricedRow(regular, UUID(int=1), 1_000, NOW, NOW + timedelta(seconds=60), left)
    now = NOW + timedelta(seconds=seconds)

    assert (row.sale_price(quantity=quantity, now=now) == 1_000) is honoured
    assert (row.unit_price(quantity=quantity, now=now) == 1_000) is (honoured or regular == 1_000)


def test_product_without_sale_has_no_sale_view() -> None:
    assert sale_view(None, price_minor=1_000) is None
