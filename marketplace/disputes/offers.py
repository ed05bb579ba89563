"""Settlement offers between buyer and vendor, which need no officer."""

from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.disputes import states, texts
from marketplace.disputes.cases import (
    NotYourTurnError,
    lock_case,
    notify_parties,
    notify_party,
    party_role,
    record_event,
)
from marketplace.disputes.closing import Division, divide_escrow
from marketplace.disputes.models import Dispute, DisputeOffer
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import ConflictError, ValidationError, found
from marketplace.kernel.money import format_naira
from marketplace.orders import states as order_states
from marketplace.orders.transitions import Actor, LockedOrder

OFFER_LIFETIME = timedelta(hours=72)
PENDING, ACCEPTED, DECLINED, REPLACED = OFFER_STATUSES = ("pending", "accepted", "declined", "replaced")
MAX_NOTE_LENGTH = 1_000


class OfferNotOpenError(ConflictError):
    """The offer was decided, replaced or has expired."""

    reason = "offer-not-open"


def make_offer(
    session: Session, *, dispute_id: UUID, caller: Caller, buyer_minor: int, note: str | None, now: datetime
) -> DisputeOffer:
    """Offer a settlement: the buyer gets an amount back, and the rest is released. An earlier offer is replaced.

    :param buyer_minor: kobo, at most the escrow balance
    :raises NotFoundError: the caller is no party
    :raises IllegalTransitionError: the dispute is resolved or withdrawn
    :raises ValidationError: the amount exceeds the escrow balance
    """
    dispute, order = lock_case(session, dispute_id=dispute_id)
    role = party_role(dispute, caller)
    _ensure_unresolved(dispute, order)
    if buyer_minor > order.escrow_balance_minor:
        limit = texts.CLAIM_TOO_LARGE.format(limit=order.escrow_balance_minor)
        raise ValidationError.of("buyerAmountMinor", limit)
    pending = session.scalar(
        select(DisputeOffer).where(DisputeOffer.dispute_id == dispute.id, DisputeOffer.status == PENDING)
    )
    if pending is not None:
        pending.status, pending.decided_at = REPLACED, now
        session.flush()
    offer = DisputeOffer(
        dispute_id=dispute.id,
        offered_by=role,
        buyer_minor=buyer_minor,
        note=note,
        status=PENDING,
        expires_at=now + OFFER_LIFETIME,
        created_at=now,
    )
    session.add(offer)
    session.flush()
    actor = Actor(role, caller.id)
    record_event(session, dispute, "offered", actor, note=format_naira(buyer_minor), now=now)
    notify_party(
        session,
        dispute,
        order,
        user_id=dispute.vendor_user_id if role == "buyer" else dispute.buyer_id,
        title=texts.OFFERED_TITLE,
        body=texts.OFFERED_BODY,
        cause=f"offer:{offer.id}",
        now=now,
        buyer=format_naira(buyer_minor),
    )
    return offer


def accept_offer(
    session: Session, *, dispute_id: UUID, offer_id: UUID, caller: Caller, now: datetime
) -> DisputeOffer:
    """Accept the other side's offer. The escrow moves in the same transaction, and the dispute is resolved.

    :raises NotFoundError: the caller is no party, or the dispute has no such offer
    :raises NotYourTurnError: the caller made the offer
    :raises OfferNotOpenError: the offer was decided, replaced or has expired
    :raises IllegalTransitionError: the dispute is resolved or withdrawn
    :raises ChargedBackError: the buyer's bank has not decided about the payment yet
    """
    dispute, order, offer, role = _lock_offer(session, dispute_id, offer_id, caller, now)
    held_minor, actor = order.escrow_balance_minor, Actor(role, caller.id)
    if offer.buyer_minor > held_minor:
        raise OfferNotOpenError(texts.OFFER_NOT_OPEN)
    outcome = states.SPLIT
    if offer.buyer_minor in (0, held_minor):
        outcome = states.RELEASE_VENDOR if offer.buyer_minor == 0 else states.REFUND_BUYER
    divide_escrow(
        session,
        dispute,
        order,
        division=Division(outcome, texts.SETTLED_RATIONALE, offer.buyer_minor),
        actor=actor,
        now=now,
    )
    offer.status, offer.decided_at = ACCEPTED, now
    session.flush()
    record_event(session, dispute, "offer_accepted", actor, note=format_naira(offer.buyer_minor), now=now)
    notify_parties(
        session,
        dispute,
        order,
        title=texts.SETTLED_TITLE,
        body=texts.SETTLED_BODY,
        cause="settled",
        now=now,
        buyer=format_naira(offer.buyer_minor),
    )
    return offer


def decline_offer(
    session: Session, *, dispute_id: UUID, offer_id: UUID, caller: Caller, now: datetime
) -> DisputeOffer:
    """Decline the other side's offer. The dispute goes on. Errors are as in ``accept_offer``."""
    dispute, order, offer, role = _lock_offer(session, dispute_id, offer_id, caller, now)
    offer.status, offer.decided_at = DECLINED, now
    session.flush()
    record_event(session, dispute, "offer_declined", Actor(role, caller.id), note=None, now=now)
    notify_party(
        session,
        dispute,
        order,
        user_id=dispute.buyer_id if offer.offered_by == "buyer" else dispute.vendor_user_id,
        title=texts.DECLINED_TITLE,
        body=texts.DECLINED_BODY,
        cause=f"declined:{offer.id}",
        now=now,
    )
    return offer


def _lock_offer(
    session: Session, dispute_id: UUID, offer_id: UUID, caller: Caller, now: datetime
) -> tuple[Dispute, LockedOrder, DisputeOffer, str]:
    dispute, order = lock_case(session, dispute_id=dispute_id)
    role = party_role(dispute, caller)
    offer = found(
        session.scalar(
            select(DisputeOffer).where(DisputeOffer.id == offer_id, DisputeOffer.dispute_id == dispute.id),
            execution_options={"populate_existing": True},
        ),
        texts.OFFER_NOT_FOUND,
    )
    if offer.offered_by == role:
        raise NotYourTurnError(texts.OWN_OFFER)
    _ensure_unresolved(dispute, order)
    if offer.status != PENDING or offer.expires_at <= now:
        raise OfferNotOpenError(texts.OFFER_NOT_OPEN)
    return dispute, order, offer, role


def _ensure_unresolved(dispute: Dispute, order: LockedOrder) -> None:
    states.DISPUTE.target(dispute.status, states.SPLIT)
    # Finance may have refunded the order, which resolves the dispute a moment later.
    order_states.ORDER.target(order.status, order_states.RULE_FOR_VENDOR)
