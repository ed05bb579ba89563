"""The end of a dispute: divide the escrow between buyer and vendor, and store the outcome."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, update
from sqlalchemy.orm import Session

from marketplace.disputes import states
from marketplace.disputes.models import Dispute, DisputeReturn, DisputeRulingProposal
from marketplace.orders import operations as orders
from marketplace.orders.transitions import Actor, LockedOrder, lock_order
from marketplace.payments.chargebacks.settlement import settle_undecided_loss
from marketplace.payments.guards import ensure_no_open_chargeback
from marketplace.payments.refunds.admin_refund import RefundItem, RefundRequest, refund_from_escrow


@dataclass(frozen=True)
class Division:
    """A division of the escrow of a disputed order.

    :ivar outcome: one of ``states.OUTCOMES``
    :ivar rationale: the reasons, for both sides and the order's events
    :ivar buyer_minor: kobo for the buyer; the vendor receives the rest, less the platform's share
    :ivar items: refunded units, whose price is ``buyer_minor``; empty for an amount
    """

    outcome: str
    rationale: str
    buyer_minor: int
    items: Sequence[RefundItem] = ()


def divide_escrow(
    session: Session,
    dispute: Dispute,
    order: LockedOrder,
    *,
    division: Division,
    actor: Actor,
    now: datetime,
) -> None:
    """Refund the buyer's part of a locked case's escrow, release the rest, and resolve the dispute.

    Money that the buyer's bank has returned after a lost chargeback counts as refunded.

    :raises ChargedBackError: the buyer's bank has not decided about the payment yet
    """
    chargeback = ensure_no_open_chargeback(session, order_id=order.id)
    held_minor, buyer_minor = order.escrow_balance_minor, division.buyer_minor
    returned_minor = settle_undecided_loss(session, order=order, refund_minor=buyer_minor, now=now)
    if buyer_minor:
        refund_from_escrow(
            session,
            order=order,
            actor=actor,
            refund_request=RefundRequest(
                destination="wallet" if chargeback == "lost" else "gateway",
                reason=division.rationale,
                amount_minor=buyer_minor,
                items=division.items,
            ),
            returned_by_bank_minor=returned_minor,
            now=now,
        )
    if buyer_minor < held_minor:
        orders.release_by_ruling(
            session,
            order=lock_order(session, order_id=order.id) if buyer_minor else order,
            actor=actor,
            note=division.rationale,
            now=now,
        )
    end_case(session, dispute, trigger=division.outcome, now=now)
    dispute.rationale = division.rationale
    dispute.buyer_minor, dispute.vendor_minor = buyer_minor, held_minor - buyer_minor
    session.flush()


def end_case(session: Session, dispute: Dispute, *, trigger: str, now: datetime) -> None:
    """Set the final status of a locked dispute. A waiting ruling and an open return end, too.

    The caller sets the amounts of a resolved dispute, and flushes.

    :raises IllegalTransitionError: the dispute is resolved or withdrawn
    """
    change_status(dispute, states.DISPUTE.target(dispute.status, trigger), now)
    dispute.resolved_at = now
    with session.no_autoflush:
        session.execute(delete(DisputeRulingProposal).where(DisputeRulingProposal.dispute_id == dispute.id))
        session.execute(
            update(DisputeReturn)
            .where(DisputeReturn.dispute_id == dispute.id, DisputeReturn.status.in_(states.OPEN_RETURN))
            .values(status=states.RETURN_CANCELLED)
        )


def change_status(dispute: Dispute, status: str, now: datetime) -> None:
    """Set the status of a locked dispute."""
    dispute.status = status
    dispute.revision += 1
    dispute.updated_at = now
