"""The delivery PIN: derived, never stored."""

import hashlib
import hmac
from uuid import UUID

PIN_DIGITS = 6


def delivery_pin(*, key: str, order_id: UUID, counter: int) -> str:
    """Derive an order's delivery PIN by HMAC-SHA256.

    Whoever lacks the key can't predict it, and nothing that could leak holds it.

    :param key: the configured DELIVERY_PIN_KEY
    :param order_id: the order's
    :param counter: how often a new PIN was given out; the only part that is stored
    :return: six digits
    """
    digest = hmac.digest(key.encode(), f"{order_id}:{counter}".encode(), hashlib.sha256)
    # 64 bits over a million values: the bias of the remainder is below 10^-13.
    return f"{int.from_bytes(digest[:8]) % 10**PIN_DIGITS:0{PIN_DIGITS}d}"


def pin_matches(*, key: str, order_id: UUID, counter: int, pin: str) -> bool:
    """Compare a PIN in constant time."""
    return hmac.compare_digest(delivery_pin(key=key, order_id=order_id, counter=counter), pin)
