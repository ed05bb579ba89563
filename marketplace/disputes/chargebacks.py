"""Chargebacks in disputes: a chargeback of the gateway opens or joins the dispute of the order."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.disputes import cases, texts
from marketplace.disputes.models import Dispute, DisputeEvent
from marketplace.orders import states as order_states
from marketplace.orders.models import OrderEvent
from marketplace.orders.transitions import GATEWAY, LockedOrder, lock_order
from marketplace.payments.chargebacks.queries import OrderChargeback, list_chargebacks_of_order
from marketplace.providers.gateway.payloads import DISPUTE_LOST, DISPUTE_WON

_OUTCOMES = {DISPUTE_WON: "chargeback_won", DISPUTE_LOST: "chargeback_lost"}


def join_chargebacks(session: Session, *, order_id: UUID, now: datetime) -> None:
    """Record the chargebacks of an order in its open dispute. A frozen order without a dispute gets a new one.

    The reports of a gateway repeat, so each state of a chargeback is recorded once.
    """
    order = lock_order(session, order_id=order_id)
    chargebacks = list_chargebacks_of_order(session, order_id=order_id)
    dispute = cases.find_open_dispute(session, order_id=order_id)
    if dispute is None and order.status == order_states.DISPUTED and chargebacks:
        dispute = _open(session, order, now=now)
    if dispute is None:
        return
    session.refresh(dispute, with_for_update=True)
    for chargeback in chargebacks:
        _record(session, dispute, order, chargeback, now=now)


def _open(session: Session, order: LockedOrder, *, now: datetime) -> Dispute:
    """Open a dispute about an order that a chargeback has frozen."""
    status_before = session.scalar(
        select(OrderEvent.from_status)
        .where(OrderEvent.order_id == order.id, OrderEvent.trigger == order_states.CHARGE_DISPUTE)
        .order_by(OrderEvent.id.desc())
        .limit(1)
    )
    return cases.open_for_staff(
        session,
        order,
        order_status=status_before or order_states.SHIPPED,
        description=texts.CHARGEBACK_DESCRIPTION,
        desired_outcome=cases.REFUND,
        cause="chargeback",
        now=now,
    )


def _record(
    session: Session, dispute: Dispute, order: LockedOrder, chargeback: OrderChargeback, *, now: datetime
) -> None:
    event = "chargeback_opened"
    if chargeback.status == "resolved":
        event = _OUTCOMES.get(chargeback.resolution or "", "chargeback_unclear")
    recorded = session.scalar(
        select(DisputeEvent.id).where(
            DisputeEvent.dispute_id == dispute.id,
            DisputeEvent.event == event,
            DisputeEvent.note == chargeback.gateway_dispute_id,
        )
    )
    if recorded is not None:
        return
    dispute.has_chargeback = True
    cases.record_event(session, dispute, event, GATEWAY, note=chargeback.gateway_dispute_id, now=now)
    cases.notify_party(
        session,
        dispute,
        order,
        user_id=dispute.vendor_user_id,
        title=texts.CHARGEBACK_TITLE,
        body=texts.CHARGEBACK_BODY[event],
        cause=f"{event}:{chargeback.id}",
        now=now,
    )
