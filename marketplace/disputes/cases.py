"""Cases between buyer and vendor: open, respond, withdraw, and first findings of staff."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.disputes import states, texts
from marketplace.disputes.closing import change_status, end_case
from marketplace.disputes.models import Dispute, DisputeEvent
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import (
    ConflictError,
    ConflictOfInterestError,
    ForbiddenError,
    ValidationError,
    found,
)
from marketplace.notifications.operations import notify
from marketplace.orders import operations as orders, states as order_states
from marketplace.orders.models import OrderItem
from marketplace.orders.transitions import SYSTEM, Actor, LockedOrder, lock_order
from marketplace.payments.guards import ensure_order_not_charged_back

REASONS = ("not_received", "not_as_described", "damaged", "wrong_item", "buyer_unreachable", "other")
REFUND, PARTIAL_REFUND, RELEASE = DESIRED_OUTCOMES = ("refund", "partial_refund", "release")
RESPONSE_TIME = timedelta(hours=48)
FINDING_TIME = timedelta(hours=48)
RULING_TIME = timedelta(days=7)
MAX_TEXT_LENGTH = 5_000


class AlreadyDisputedError(ConflictError):
    """The order has an open dispute."""

    reason = "already-disputed"


class NotYourTurnError(ForbiddenError):
    """The other side of the dispute must act."""

    reason = "not-your-turn"


@dataclass(frozen=True)
class Complaint:
    """The content of a new dispute.

    :ivar item_ids: products of the order; empty for the whole order
    :ivar claimed_minor: kobo; required for a partial refund
    """

    reason: str
    description: str
    desired_outcome: str
    claimed_minor: int | None = None
    item_ids: Sequence[UUID] = ()


def open_dispute(
    session: Session, *, order_id: UUID, caller: Caller, complaint: Complaint, now: datetime
) -> Dispute:
    """Open a dispute as the buyer or vendor of an order, and freeze the escrow.

    A release at the same moment takes the order's row lock first or waits for the dispute, so only one of both happens.

    :raises NotFoundError: the caller is no party to the order
    :raises AlreadyDisputedError: the order has an open dispute
    :raises IllegalTransitionError: the order is unpaid or over
    :raises ValidationError: the items are not in the order, or the claim exceeds the escrow balance
    """
    role = orders.fetch_party_role(session, order_id=order_id, caller=caller)
    order = lock_order(session, order_id=order_id)
    if find_open_dispute(session, order_id=order_id) is not None:
        raise AlreadyDisputedError(texts.ALREADY_DISPUTED)
    order_states.ORDER.target(order.status, order_states.DISPUTE)
    _check_claim(session, order, complaint)
    dispute = Dispute(
        order_id=order.id,
        buyer_id=order.buyer_id,
        vendor_user_id=order.vendor_user_id,
        opened_by=role,
        order_status=order.status,
        reason=complaint.reason,
        description=complaint.description,
        desired_outcome=complaint.desired_outcome,
        claimed_minor=complaint.claimed_minor,
        item_ids=list(complaint.item_ids),
        status=states.DISPUTE.target(states.DISPUTE.initial, states.REQUEST_RESPONSE),
        response_due_at=now + RESPONSE_TIME,
        finding_due_at=now + FINDING_TIME,
        ruling_due_at=now + RULING_TIME,
        created_at=now,
        updated_at=now,
    )
    session.add(dispute)
    session.flush()
    orders.freeze_order(
        session,
        order=order,
        trigger=order_states.DISPUTE,
        actor=Actor(role, caller.id),
        note=complaint.reason,
        now=now,
    )
    record_event(session, dispute, "opened", Actor(role, caller.id), note=complaint.reason, now=now)
    notify_party(
        session,
        dispute,
        order,
        user_id=other_party(dispute),
        title=texts.OPENED_TITLE,
        body=texts.OPENED_BODY,
        cause="opened",
        now=now,
    )
    return dispute


def open_for_staff(
    session: Session,
    order: LockedOrder,
    *,
    order_status: str,
    description: str,
    desired_outcome: str,
    cause: str,
    now: datetime,
) -> Dispute:
    """Open a dispute of the service itself, which goes to staff at once. The caller freezes and notifies.

    :param order: locked
    :param order_status: the status before the dispute
    :param cause: the note of the first event, such as ``silent_buyer``
    """
    dispute = Dispute(
        order_id=order.id,
        buyer_id=order.buyer_id,
        vendor_user_id=order.vendor_user_id,
        opened_by="system",
        order_status=order_status,
        reason="other",
        description=description,
        desired_outcome=desired_outcome,
        status=states.DISPUTE.target(states.DISPUTE.initial, states.ESCALATE),
        response_due_at=now + RESPONSE_TIME,
        finding_due_at=now + FINDING_TIME,
        ruling_due_at=now + RULING_TIME,
        created_at=now,
        updated_at=now,
    )
    session.add(dispute)
    session.flush()
    record_event(session, dispute, "opened", SYSTEM, note=cause, now=now)
    return dispute


def _check_claim(session: Session, order: LockedOrder, complaint: Complaint) -> None:
    known = set(session.scalars(select(OrderItem.product_id).where(OrderItem.order_id == order.id)))
    if not known.issuperset(complaint.item_ids):
        raise ValidationError.of("itemIds", texts.ITEMS_UNKNOWN)
    if complaint.desired_outcome == PARTIAL_REFUND and complaint.claimed_minor is None:
        raise ValidationError.of("claimedMinor", texts.CLAIM_MISSING)
    limit = order.escrow_balance_minor
    if complaint.claimed_minor is not None and complaint.claimed_minor > limit:
        raise ValidationError.of("claimedMinor", texts.CLAIM_TOO_LARGE.format(limit=limit))


def find_open_dispute(session: Session, *, order_id: UUID) -> Dispute | None:
    """Return the open dispute of an order."""
    return session.scalar(select(Dispute).where(Dispute.order_id == order_id, Dispute.resolved_at.is_(None)))


def lock_case(session: Session, *, dispute_id: UUID) -> tuple[Dispute, LockedOrder]:
    """Lock a dispute and its order, the order first.

    :raises NotFoundError: the dispute does not exist
    """
    order_id = session.scalar(select(Dispute.order_id).where(Dispute.id == dispute_id))
    order = lock_order(session, order_id=found(order_id, texts.DISPUTE_NOT_FOUND))
    dispute = session.get_one(Dispute, dispute_id, with_for_update=True, populate_existing=True)
    return dispute, order


def party_role(dispute: Dispute, caller: Caller) -> str:
    """Return the caller's side of a dispute.

    :raises NotFoundError: the caller is no party
    """
    roles = {dispute.buyer_id: "buyer", dispute.vendor_user_id: "vendor"}
    return found(roles.get(caller.id), texts.DISPUTE_NOT_FOUND)


def other_party(dispute: Dispute) -> UUID:
    """Return the user of the side that did not open the dispute."""
    return dispute.buyer_id if dispute.opened_by == "vendor" else dispute.vendor_user_id


def respond(session: Session, *, dispute_id: UUID, caller: Caller, response: str, now: datetime) -> Dispute:
    """Respond as the side that did not open the dispute. A later response replaces an earlier one until the ruling.

    :raises NotFoundError: the caller is no party
    :raises NotYourTurnError: the caller opened the dispute
    :raises IllegalTransitionError: the dispute is resolved or withdrawn
    """
    dispute, order = lock_case(session, dispute_id=dispute_id)
    role = party_role(dispute, caller)
    if role == dispute.opened_by:
        raise NotYourTurnError(texts.OWN_DISPUTE)
    change_status(dispute, states.DISPUTE.target(dispute.status, states.RESPOND), now)
    is_first = dispute.responded_at is None
    dispute.response, dispute.responded_at = response, dispute.responded_at or now
    session.flush()
    record_event(session, dispute, "responded", Actor(role, caller.id), note=None, now=now)
    if is_first:
        notify_party(
            session,
            dispute,
            order,
            user_id=dispute.buyer_id if role == "vendor" else dispute.vendor_user_id,
            title=texts.RESPONDED_TITLE,
            body=texts.RESPONDED_BODY,
            cause="responded",
            now=now,
        )
    return dispute


def withdraw(session: Session, *, dispute_id: UUID, caller: Caller, now: datetime) -> Dispute:
    """Withdraw a dispute as its opener. The escrow is held again, and the order continues where it was.

    :raises NotFoundError: the caller is no party
    :raises NotYourTurnError: the other side opened the dispute
    :raises IllegalTransitionError: the dispute is resolved or withdrawn
    :raises ChargedBackError: the buyer's bank disputes the payment or has returned it, so staff must rule
    """
    dispute, order = lock_case(session, dispute_id=dispute_id)
    role = party_role(dispute, caller)
    if role != dispute.opened_by:
        raise NotYourTurnError(texts.NOT_OPENER)
    ensure_order_not_charged_back(session, order_id=order.id)
    end_case(session, dispute, trigger=states.WITHDRAW, now=now)
    session.flush()
    orders.resume_order(
        session, order=order, status=dispute.order_status, actor=Actor(role, caller.id), now=now
    )
    record_event(session, dispute, "withdrawn", Actor(role, caller.id), note=None, now=now)
    notify_party(
        session,
        dispute,
        order,
        user_id=other_party(dispute),
        title=texts.WITHDRAWN_TITLE,
        body=texts.WITHDRAWN_BODY,
        cause="withdrawn",
        now=now,
    )
    return dispute


def write_finding(session: Session, *, dispute_id: UUID, finding: str, act: Act) -> Dispute:
    """Write the first finding of staff, which both sides read. A later finding replaces an earlier one.

    :raises NotFoundError: the dispute does not exist
    :raises ConflictOfInterestError: the officer is a party
    :raises IllegalTransitionError: the dispute is resolved or withdrawn
    """
    dispute, order = lock_case(session, dispute_id=dispute_id)
    ensure_not_party(dispute, act)
    before = {"status": dispute.status, "finding": dispute.finding}
    change_status(dispute, states.DISPUTE.target(dispute.status, states.FIND), act.now)
    is_first = dispute.finding_at is None
    dispute.finding, dispute.finding_at = finding, dispute.finding_at or act.now
    session.flush()
    record_event(session, dispute, "finding", Actor("staff", act.person_id), note=None, now=act.now)
    record_audit_entry(
        session,
        act=act,
        action="dispute.finding",
        target_type="dispute",
        target_id=str(dispute.id),
        before=before,
        after={"status": dispute.status, "finding": finding},
    )
    if is_first:
        notify_parties(
            session,
            dispute,
            order,
            title=texts.FINDING_TITLE,
            body=texts.FINDING_BODY,
            cause="finding",
            now=act.now,
        )
    return dispute


def ensure_not_party(dispute: Dispute, act: Act) -> None:
    """Check that an officer is no party to a dispute.

    :raises ConflictOfInterestError: the officer is the buyer or the vendor
    """
    if act.person_id in (dispute.buyer_id, dispute.vendor_user_id):
        raise ConflictOfInterestError("You are a party to this dispute, so another officer must decide.")


def record_event(
    session: Session, dispute: Dispute, event: str, actor: Actor, *, note: str | None, now: datetime
) -> None:
    """Add an entry to a dispute's timeline."""
    session.add(
        DisputeEvent(
            dispute_id=dispute.id, event=event, actor=actor.role, actor_id=actor.id, note=note, at=now
        )
    )
    session.flush()


def notify_party(
    session: Session,
    dispute: Dispute,
    order: LockedOrder,
    *,
    user_id: UUID,
    title: str,
    body: str,
    cause: str,
    now: datetime,
    **values: str,
) -> bool:
    """Notify a party of an event of a dispute, once for each cause.

    :param values: the values of further placeholders of the body
    :return: whether the notification is new
    """
    notified = notify(
        session,
        user_id=user_id,
        type="order_disputed",
        title=title,
        body=body.format(number=dispute.number, order_number=order.number, **values),
        link=f"/disputes/{dispute.id}",
        cause=f"dispute:{dispute.id}:{cause}",
        now=now,
    )
    return notified is not None


def notify_parties(
    session: Session,
    dispute: Dispute,
    order: LockedOrder,
    *,
    title: str,
    body: str,
    cause: str,
    now: datetime,
    **values: str,
) -> bool:
    """Notify both parties of an event of a dispute. Parameters and result are those of ``notify_party``."""
    are_new = [
        notify_party(
            session, dispute, order, user_id=user_id, title=title, body=body, cause=cause, now=now, **values
        )
        for user_id in (dispute.buyer_id, dispute.vendor_user_id)
    ]
    return any(are_new)
