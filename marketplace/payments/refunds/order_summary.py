"""Refunds in order views, and the payment status that they result in."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.orders import states as order_states
from marketplace.orders.queries import OrderRow, RefundSummary
from marketplace.payments import states
from marketplace.payments.refunds.create import OrderRefund, list_refunds_of_orders

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
    refunds_by_order: dict[UUID, list[OrderRefund]] = {order.id: [] for order in orders}
    for refund in list_refunds_of_orders(session, order_ids=list(refunds_by_order)):
        refunds_by_order[refund.order_id].append(
            replace(refund, destination=None) if is_for_vendor else refund
        )
    return {
        order.id: RefundSummary(
            _payment_status(order, refunds_by_order[order.id]), refunds_by_order[order.id]
        )
        for order in orders
    }


def _payment_status(order: OrderRow, refunds: list[OrderRefund]) -> str | None:
    was_paid = order.paid_at is not None
    # Refunds of an order that still awaits payment returned an earlier payment.
    counted = [
        refund
        for refund in refunds
        if refund.from_order or (not was_paid and order.status in _CLOSED_UNPAID_STATUSES)
    ]
    is_full = bool(counted) and sum(refund.amount_minor for refund in counted) >= counted[0].refundable_minor
    if not counted or not (was_paid or is_full or any(not refund.from_charge for refund in counted)):
        return order.payment_status
    if any(refund.status not in _SETTLED_REFUND_STATUSES for refund in counted):
        return REFUND_PENDING
    # An order that ended unpaid gets everything back that came for it and was quarantined or accepted.
    return REFUNDED if is_full or not was_paid else PARTIALLY_REFUNDED
