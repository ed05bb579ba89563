"""Order prices and escrow splits: no kobo is gained or lost for any numbers."""

import pytest
from hypothesis import given, strategies as st

from marketplace.kernel.money import BASIS_POINTS, format_decimal, share_in_basis_points, split_by_weights
from marketplace.orders.pricing import (
    EscrowSplit,
    Fees,
    OrderLine,
    allocate_in_order,
    price_order,
    split_escrow,
)

AMOUNTS = st.integers(min_value=0, max_value=10**13)
LINES = st.lists(
    st.builds(
        OrderLine,
        unit_price_minor=st.integers(100, 10**10),
        quantity=st.integers(1, 1000),
        commission_bps=st.integers(0, BASIS_POINTS),
    ),
    min_size=1,
    max_size=50,
)
FEES = st.builds(
    Fees,
    commission_bps=st.integers(0, BASIS_POINTS),
    service_fee_minor=st.integers(0, 10**6),
    delivery_fee_minor=st.integers(0, 10**6),
)


@given(lines=LINES, fees=FEES, delivered=st.booleans())
def test_order_total_is_the_sum_of_all_parts(lines: list[OrderLine], fees: Fees, delivered: bool) -> None:
    price = price_order(lines, fees=fees, is_delivery=delivered)

    assert price.subtotal_minor == sum(line.unit_price_minor * line.quantity for line in lines)
    assert price.delivery_fee_minor == (fees.delivery_fee_minor if delivered else 0)
    assert price.total_minor == (
        price.subtotal_minor + price.delivery_fee_minor + price.service_fee_minor - price.discount_minor
    )
    parts = (
        price.subtotal_minor,
        price.delivery_fee_minor,
        price.service_fee_minor,
        price.discount_minor,
    )
    assert min(parts) >= 0
    assert price.total_minor > 0


@given(lines=LINES, fees=FEES, delivered=st.booleans())
def test_escrow_split_is_complete_and_commission_is_within_rate(
    lines: list[OrderLine], fees: Fees, delivered: bool
) -> None:
    price = price_order(lines, fees=fees, is_delivery=delivered)
    commission = sum(line.commission_minor for line in lines)

    release = split_escrow(price, commission_minor=commission)

    assert release.vendor_minor + release.platform_minor == price.total_minor
    assert release.vendor_minor == price.subtotal_minor - commission + price.delivery_fee_minor
    assert release.platform_minor == commission + price.service_fee_minor
    assert release.vendor_minor >= 0
    assert release.platform_minor >= 0
    for line in lines:
        assert line.commission_minor * BASIS_POINTS <= line.total_minor * line.commission_bps
        assert (line.commission_minor + 1) * BASIS_POINTS > line.total_minor * line.commission_bps


@given(amount=AMOUNTS, weights=st.lists(st.integers(0, 10**9), min_size=1, max_size=50).filter(any))
def test_split_by_weights_adds_up_and_is_fair_to_a_kobo(amount: int, weights: list[int]) -> None:
    parts = split_by_weights(amount, weights)

    assert sum(parts) == amount
    for part, weight in zip(parts, weights, strict=True):
        exact, remainder = divmod(amount * weight, sum(weights))
        assert part - exact in ((0, 1) if remainder else (0,))


@given(vendor=AMOUNTS, platform=AMOUNTS, data=st.data())
def test_remaining_escrow_is_split_in_original_proportion(
    vendor: int, platform: int, data: st.DataObject
) -> None:
    total = vendor + platform
    held = data.draw(st.integers(0, total)) if total else 0

    left = EscrowSplit(vendor, platform).scaled_to(held)

    assert left.vendor_minor + left.platform_minor == held
    assert 0 <= left.vendor_minor <= vendor
    assert 0 <= left.platform_minor <= platform
    # Neither side bears more than a proportional share, to the kobo.
    assert abs(left.vendor_minor * total - vendor * held) < max(total, 1)
    assert held < total or left == EscrowSplit(vendor, platform)


@given(capacities=st.lists(AMOUNTS, max_size=8), data=st.data())
def test_amount_fills_capacities_in_order(capacities: list[int], data: st.DataObject) -> None:
    amount = data.draw(st.integers(0, sum(capacities)))

    parts = allocate_in_order(amount, capacities)

    assert sum(parts) == amount
    assert all(0 <= part <= capacity for part, capacity in zip(parts, capacities, strict=True))
    for index, (part, capacity) in enumerate(zip(parts, capacities, strict=True)):
        assert part == capacity or not any(parts[index + 1 :])


@pytest.mark.parametrize(("amount", "capacities"), [(-1, [5]), (6, [5]), (1, []), (1, [5, -1])])
def test_amount_beyond_capacities_is_refused(amount: int, capacities: list[int]) -> None:
    with pytest.raises(ValueError, match="the amount must be between"):
        allocate_in_order(amount, capacities)


@given(amount=AMOUNTS)
def test_naira_are_written_without_rounding(amount: int) -> None:
    whole, _, fraction = format_decimal(amount).partition(".")

    assert len(fraction) <= 2
    assert int(whole) * 100 + int(fraction.ljust(2, "0") or 0) == amount


@pytest.mark.parametrize(("amount", "rate"), [(-1, 500), (100, -1), (100, BASIS_POINTS + 1)])
def test_share_of_invalid_amount_or_rate_is_refused(amount: int, rate: int) -> None:
    with pytest.raises(ValueError, match="the amount must be at least 0"):
        share_in_basis_points(amount, rate)


@pytest.mark.parametrize(("amount", "weights"), [(-1, [1]), (1, []), (1, [0, 0]), (1, [2, -1])])
def test_split_of_invalid_amount_or_weights_is_refused(amount: int, weights: list[int]) -> None:
    with pytest.raises(ValueError, match=r"the amount and the weights must|iterable argument is empty"):
        split_by_weights(amount, weights)
