"""The delivery PIN, which is derived and never stored."""

from uuid import UUID

from marketplace.kernel.one_time_codes import code_matches, derive_code


def delivery_pin(*, key: str, order_id: UUID, counter: int) -> str:
    """Derive an order's delivery PIN. No table or log contains the PIN.

    :param key: the setting DELIVERY_PIN_KEY
    :param counter: the number of times that a new PIN was issued; the order stores only this number
    :return: six digits
    """
    return derive_code(key=key, subject=f"{order_id}:{counter}")


def pin_matches(*, key: str, order_id: UUID, counter: int, pin: str) -> bool:
    """Return whether a PIN is correct, comparing in constant time."""
    return code_matches(key=key, subject=f"{order_id}:{counter}", code=pin)
