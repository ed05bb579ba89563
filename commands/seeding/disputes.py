"""A past dispute of the buyer, about the refunded order."""

from datetime import timedelta

from sqlalchemy.orm import Session

from marketplace.disputes import cases, states
from marketplace.disputes.models import Dispute, DisputeEvent
from marketplace.kernel import demo_ids
from marketplace.orders import states as order_states
from marketplace.orders.models import Order
from marketplace.vendors.models import VendorProfile

_RATIONALE = "The vendor wrote that the item was sold elsewhere, so the buyer gets the money back."


def load_disputes(session: Session) -> int:
    """Add the dispute of the demo, if its order exists.

    :return: number of new disputes
    """
    order = session.get(Order, demo_ids.REFUNDED_ORDER)
    if session.get(Dispute, demo_ids.DISPUTE) is not None or order is None or order.refunded_at is None:
        return 0
    resolved_at, opened_at = order.refunded_at, order.refunded_at - timedelta(hours=5)
    store = session.get_one(VendorProfile, order.vendor_id)
    session.add(
        Dispute(
            id=demo_ids.DISPUTE,
            order_id=order.id,
            buyer_id=order.buyer_id,
            vendor_user_id=store.user_id,
            opened_by="buyer",
            order_status=order_states.PAID_ESCROW,
            reason="not_received",
            description="The vendor does not answer, and the order was never shipped.",
            desired_outcome=cases.REFUND,
            status=states.RESOLVED_BUYER,
            response_due_at=opened_at + cases.RESPONSE_TIME,
            finding_due_at=opened_at + cases.FINDING_TIME,
            ruling_due_at=opened_at + cases.RULING_TIME,
            response="Sorry, I sold the item elsewhere.",
            responded_at=opened_at + timedelta(hours=1),
            buyer_minor=order.total_minor,
            vendor_minor=0,
            rationale=_RATIONALE,
            resolved_at=resolved_at,
            created_at=opened_at,
            updated_at=resolved_at,
        )
    )
    session.flush()
    for event, actor, actor_id, at in (
        ("opened", "buyer", order.buyer_id, opened_at),
        ("responded", "vendor", store.user_id, opened_at + timedelta(hours=1)),
        ("ruled", "staff", None, resolved_at),
    ):
        session.add(
            DisputeEvent(dispute_id=demo_ids.DISPUTE, event=event, actor=actor, actor_id=actor_id, at=at)
        )
        session.flush()
    return 1
