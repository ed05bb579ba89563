"""What payments know of orders, shown with them: refunds, and how the payment stands by them."""

from typing import Any

from sqlalchemy.orm import Session

from marketplace.orders import states as order_states
from marketplace.payments import states
from marketplace.payments.refunds import create

REFUND_PENDING = "refund_pending"
REFUNDED = "refunded"
PARTIALLY_REFUNDED = "partially_refunded"

_CLOSED_UNPAID_STATUSES = frozenset({order_states.CANCELLED, order_states.EXPIRED})
_SETTLED_REFUND_STATUSES = frozenset({states.PROCESSED, states.CREDITED})


def add_refunds_to_orders(session: Session, orders: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add their refunds to orders as clients see them, in one query for all of them.

    ``payment.status`` tells of them too: ``refund_pending`` while one is on its way, then ``refunded`` or
    ``partially_refunded``. A charge that went back since the order was paid already is listed, and leaves the
    status of the payment as it is; so does a charge that came when an order had ended, of less than that had cost.

    :param orders: as ``orders.queries`` gives them; they are changed in place
    """
    refunds_by_order: dict[Any, list[dict[str, Any]]] = {order["id"]: [] for order in orders}
    if orders:
        for row in create.list_refunds_of_orders(session, order_ids=list(refunds_by_order)):
            refunds_by_order[row.pop("orderId")].append(row)
    for order in orders:
        refunds = refunds_by_order[order["id"]]
        if order["payment"] is not None:
            order["payment"]["status"] = _payment_status(order, refunds)
        order["refunds"] = [{name: row[name] for name in create.PUBLIC_REFUND_FIELDS} for row in refunds]
        if order["walletMinor"] is None:  # as their vendor sees them, who does not see the buyer's wallet
            for refund in order["refunds"]:
                refund["destination"] = None
    return orders


def _payment_status(order: dict[str, Any], refunds: list[dict[str, Any]]) -> str:
    was_paid = order["paidAt"] is not None
    # What goes back of an order that still waits was an earlier payment.
    counted = [
        row
        for row in refunds
        if row["fromOrder"] or (not was_paid and order["status"] in _CLOSED_UNPAID_STATUSES)
    ]
    # The wallet part of one that ended unpaid went back when it ended.
    is_full = bool(counted) and sum(row["amountMinor"] for row in counted) >= counted[0]["wholeMinor"]
    if not counted or not (was_paid or is_full or any(not row["fromCharge"] for row in counted)):
        return str(order["payment"]["status"])
    if any(row["status"] not in _SETTLED_REFUND_STATUSES for row in counted):
        return REFUND_PENDING
    # Of one that ended unpaid all goes back that came for it, and was held back, or accepted.
    return REFUNDED if is_full or not was_paid else PARTIALLY_REFUNDED
