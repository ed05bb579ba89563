"""The delivery PIN, which is derived and never stored."""

import hashlib
import hmac
from uuid import UUID

PIN_DIGITS = 6


def delivery_pin(*, key: str, order_id: UUID, counter: int) -> str:
    """Derive an order's delivery PIN by HMAC-SHA256.

    Without the key, the PIN cannot be predicted. No table or log contains the PIN.

    :param key: the setting DELIVERY_PIN_KEY
    :param counter: the number of times that a new PIN was issued; the order stores only this number
    :return: six digits
    """
    digest = hmac.digest(key.encode(), f"{order_id}:{counter}".encode(), hashlib.sha256)
    # 64 bits over a million values: the bias of the remainder is below 10^-13.
    return f"{int.from_bytes(digest[:8]) % 10**PIN_DIGITS:0{PIN_DIGITS}d}"


def pin_matches(*, key: str, order_id: UUID, counter: int, pin: str) -> bool:
    """Return whether a PIN is correct, comparing in constant time."""
    return hmac.compare_digest(delivery_pin(key=key, order_id=order_id, counter=counter), pin)
