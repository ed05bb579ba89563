"""The delivery PIN, which is derived and never stored."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.kernel.one_time_codes import code_matches, derive_code
from marketplace.orders.models import Order
from marketplace.orders.states import PIN_VISIBLE_STATES


@dataclass(frozen=True)
class OrderPin:
    """The delivery PIN of an order, with the order's number."""

    pin: str
    order_number: str


def fetch_order_pin(session: Session, order_id: UUID, *, key: str) -> OrderPin | None:
    """Return the PIN of an order for a message to the buyer; none if the order needs no PIN now.

    :param key: the setting DELIVERY_PIN_KEY
    """
    row = session.execute(
        select(Order.number, Order.pin_counter).where(
            Order.id == order_id, Order.status.in_(PIN_VISIBLE_STATES)
        )
    ).first()
    if row is None:
        return None
    return OrderPin(delivery_pin(key=key, order_id=order_id, counter=row.pin_counter), row.number)


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
