"""Returns of goods that a ruling requires: the buyer sends, the vendor receives, then the ruling is executed."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.disputes import states, texts
from marketplace.disputes.cases import NotYourTurnError, lock_case, notify_party, party_role, record_event
from marketplace.disputes.models import Dispute, DisputeReturn
from marketplace.disputes.rulings import Ruling, execute_ruling
from marketplace.identity.permissions import MANAGE_DISPUTES
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import ConflictError
from marketplace.orders.transitions import Actor, LockedOrder

MAX_NOTE_LENGTH = 500


class NoOpenReturnError(ConflictError):
    """The dispute has no return in this stage."""

    reason = "no-open-return"


def mark_sent(
    session: Session, *, dispute_id: UUID, caller: Caller, tracking_note: str | None, now: datetime
) -> None:
    """Mark the goods as sent back, as the buyer.

    :raises NotFoundError: the caller is no party
    :raises NotYourTurnError: the caller is the vendor
    :raises NoOpenReturnError: no return was requested, or the goods are sent already
    """
    dispute, order = lock_case(session, dispute_id=dispute_id)
    if party_role(dispute, caller) != "buyer":
        raise NotYourTurnError(texts.BUYER_RETURNS)
    goods_return = _open_return(session, dispute, states.RETURN_REQUESTED)
    goods_return.status, goods_return.sent_at = states.RETURN_SENT, now
    goods_return.tracking_note = tracking_note
    session.flush()
    record_event(session, dispute, "return_sent", Actor("buyer", caller.id), note=tracking_note, now=now)
    notify_party(
        session,
        dispute,
        order,
        user_id=dispute.vendor_user_id,
        title=texts.RETURN_SENT_TITLE,
        body=texts.RETURN_SENT_BODY,
        cause=f"return-sent:{now.timestamp()}",
        now=now,
    )


def confirm_return(session: Session, *, dispute_id: UUID, caller: Caller, now: datetime) -> None:
    """Confirm the receipt of the returned goods, and execute the ruling.

    :param caller: the vendor, or an officer who may manage disputes and is no party
    :raises NotFoundError: the caller is neither a party nor such an officer
    :raises NotYourTurnError: the caller is the buyer
    :raises NoOpenReturnError: no return is open
    :raises ChargedBackError: the buyer's bank has not decided about the payment yet
    """
    dispute, order = lock_case(session, dispute_id=dispute_id)
    actor = _receiver(dispute, caller)
    goods_return = _open_return(session, dispute, *states.OPEN_RETURN)
    goods_return.status, goods_return.received_at = states.RETURN_RECEIVED, now
    session.flush()
    record_event(session, dispute, "return_received", actor, note=None, now=now)
    _execute(session, dispute, order, goods_return, now)


def _receiver(dispute: Dispute, caller: Caller) -> Actor:
    is_party = caller.id in (dispute.buyer_id, dispute.vendor_user_id)
    if caller.has_permission(MANAGE_DISPUTES) and not is_party:
        return Actor("staff", caller.id)
    if party_role(dispute, caller) != "vendor":
        raise NotYourTurnError(texts.VENDOR_RECEIVES)
    return Actor("vendor", caller.id)


def _execute(
    session: Session, dispute: Dispute, order: LockedOrder, goods_return: DisputeReturn, now: datetime
) -> None:
    execute_ruling(
        session,
        dispute,
        order,
        ruling=Ruling.parse(goods_return.ruling),
        officer_ids=list(goods_return.officer_ids),
        now=now,
    )


def _open_return(session: Session, dispute: Dispute, *statuses: str) -> DisputeReturn:
    goods_return = session.get(DisputeReturn, dispute.id, populate_existing=True)
    if goods_return is None or goods_return.status not in statuses:
        raise NoOpenReturnError(texts.NO_OPEN_RETURN)
    return goods_return
