"""What payments know of orders, shown with them: refunds, and how the payment stands by them."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.orders import states as order_states
from marketplace.orders.queries import OrderRow, RefundSummary
from marketplace.payments import states
from marketplace.payments.refunds import create

REFUND_PENDING = "refund_pending"
REFUNDED = "refunded"
PARTIALLY_REFUNDED = "partially_refunded"

_CLOSED_UNPAID_STATUSES = frozenset({order_states.CANCELLED, order_states.EXPIRED})
_SETTLED_REFUND_STATUSES = frozenset({states.PROCESSED, states.CREDITED})


def summarize_refunds(
    session: Session, orders: Sequence[OrderRow], is_for_vendor: bool
) -> dict[UUID, RefundSummary]:
    """Summarize the refunds of orders, in one query for all of them.

    The payment's status counts refunds too: ``refund_pending`` while one is in transit, then ``refunded`` or
    ``partially_refunded``. A charge that was returned after the order was paid already is listed, and leaves the
    status of the payment as it is. So does a charge that came after the order had ended and was smaller than its
    total.

    :param is_for_vendor: hides whether refunds go to the buyer's wallet
    """
    refunds_by_order: dict[UUID, list[dict[str, Any]]] = {order.id: [] for order in orders}
    for row in create.list_refunds_of_orders(session, order_ids=list(refunds_by_order)):
        refunds_by_order[row["orderId"]].append(row)
    hidden = {"destination": None} if is_for_vendor else {}
    return {
        order.id: RefundSummary(
            _payment_status(order, refunds_by_order[order.id]),
            [
                {name: row[name] for name in create.PUBLIC_REFUND_FIELDS} | hidden
                for row in refunds_by_order[order.id]
            ],
        )
        for order in orders
    }


def _payment_status(order: OrderRow, refunds: list[dict[str, Any]]) -> str | None:
    was_paid = order.paid_at is not None
    # What goes back of an order that still waits was an earlier payment.
    counted = [
        row
        for row in refunds
        if row["fromOrder"] or (not was_paid and order.status in _CLOSED_UNPAID_STATUSES)
    ]
    # The wallet part of one that ended unpaid went back when it ended.
    is_full = bool(counted) and sum(row["amountMinor"] for row in counted) >= counted[0]["wholeMinor"]
    if not counted or not (was_paid or is_full or any(not row["fromCharge"] for row in counted)):
        return order.payment_status
    if any(row["status"] not in _SETTLED_REFUND_STATUSES for row in counted):
        return REFUND_PENDING
    # Of one that ended unpaid all goes back that came for it, and was held back, or accepted.
    return REFUNDED if is_full or not was_paid else PARTIALLY_REFUNDED
