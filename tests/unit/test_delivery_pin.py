"""Delivery PIN: six digits that only the holder of the key can compute."""

from collections import Counter
from uuid import UUID, uuid4

import pytest
from hypothesis import given, strategies as st

from marketplace.orders.pin import delivery_pin, pin_matches

KEY = "of-these-tests-only-0123456789abcdef"


@given(order_id=st.uuids(), counter=st.integers(0, 10**6))
def test_pin_has_six_digits_and_is_deterministic(order_id: UUID, counter: int) -> None:
    pin = delivery_pin(key=KEY, order_id=order_id, counter=counter)

    assert len(pin) == 6
    assert pin.isascii()
    assert pin.isdigit()
    assert delivery_pin(key=KEY, order_id=order_id, counter=counter) == pin
    assert pin_matches(key=KEY, order_id=order_id, counter=counter, pin=pin)


def test_order_counter_and_key_each_change_the_pin() -> None:
    orders = [uuid4() for _ in range(200)]
    pins = [delivery_pin(key=KEY, order_id=order, counter=0) for order in orders]

    assert pins != [delivery_pin(key=KEY, order_id=order, counter=1) for order in orders]
    assert pins != [delivery_pin(key=KEY[::-1], order_id=order, counter=0) for order in orders]
    # Of 200 PINs out of a million, more than a few equal ones would be a pattern.
    assert len(set(pins)) > 195


def test_pin_digits_are_evenly_spread() -> None:
    """Uneven digits would help a vendor guess. Each digit is about a tenth of 12,000."""
    digits = Counter(
        digit
        for index in range(2_000)
        for digit in delivery_pin(key=KEY, order_id=UUID(int=index), counter=0)
    )

    assert set(digits) == set("0123456789")
    assert all(1_000 < count < 1_400 for count in digits.values())


@pytest.mark.parametrize("wrong", ["", "00000", "0000000", " 00000", "abcdef"])
def test_wrong_pin_does_not_match(wrong: str) -> None:
    order = uuid4()
    pin = delivery_pin(key=KEY, order_id=order, counter=0)
    other = f"{(int(pin) + 1) % 10**6:06d}"

    assert not pin_matches(key=KEY, order_id=order, counter=0, pin=wrong)
    assert not pin_matches(key=KEY, order_id=order, counter=0, pin=other)
    assert not pin_matches(key=KEY, order_id=order, counter=1, pin=pin)
