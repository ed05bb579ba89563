"""Queries of disputes for parties and staff."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from marketplace.disputes import states, texts
from marketplace.disputes.cases import party_role
from marketplace.disputes.models import Dispute, DisputeAppeal, DisputeEvent, DisputeOffer, DisputeReturn
from marketplace.identity.permissions import MANAGE_DISPUTES
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import found
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.orders.models import Order

UNRESOLVED = "unresolved"
STATUS_FILTERS = (UNRESOLVED, *sorted(states.DISPUTE.states))


@dataclass(frozen=True)
class DisputeDetail:
    """A dispute with the number of its order, its timeline and its offers."""

    dispute: Dispute
    order_number: str
    events: Sequence[DisputeEvent]
    offers: Sequence[DisputeOffer]
    goods_return: DisputeReturn | None = None
    appeal: DisputeAppeal | None = None


def list_disputes(session: Session, *, caller: Caller, status: str | None, page: PageRequest) -> Page:
    """List disputes from the newest: all for staff who may manage disputes, else those of the caller.

    :param status: one of ``STATUS_FILTERS``; none for all
    """
    query = select(Dispute, Order.number).join(Order, Order.id == Dispute.order_id)
    if not caller.has_permission(MANAGE_DISPUTES):
        query = query.where(or_(Dispute.buyer_id == caller.id, Dispute.vendor_user_id == caller.id))
    if status == UNRESOLVED:
        query = query.where(Dispute.resolved_at.is_(None))
    elif status is not None:
        query = query.where(Dispute.status == status)
    [before] = page.after("id")
    if before is not None:
        query = query.where(Dispute.id < before)
    rows = session.execute(query.order_by(Dispute.id.desc()).limit(page.limit + 1))
    details = [DisputeDetail(dispute, number, (), ()) for dispute, number in rows]
    return page_of(details, request=page, position_of=_position_of)


def _position_of(detail: DisputeDetail) -> list[Any]:
    return [str(detail.dispute.id)]


@dataclass(frozen=True)
class Reader:
    """A dispute and the side of the person who reads it; none for staff."""

    dispute: Dispute
    role: str | None


def ensure_reader(session: Session, *, caller: Caller, dispute_id: UUID) -> Reader:
    """Fetch a dispute for a party, or for staff who may manage disputes.

    :raises NotFoundError: the dispute does not exist, or the caller is neither
    """
    dispute = found(session.get(Dispute, dispute_id), texts.DISPUTE_NOT_FOUND)
    if caller.id in (dispute.buyer_id, dispute.vendor_user_id) or not caller.has_permission(MANAGE_DISPUTES):
        return Reader(dispute, party_role(dispute, caller))
    return Reader(dispute, None)


def fetch_dispute(session: Session, *, caller: Caller, dispute_id: UUID) -> DisputeDetail:
    """Fetch a dispute with its timeline, for a party or for staff who may manage disputes.

    :raises NotFoundError: the dispute does not exist, or the caller is neither
    """
    row = session.execute(
        select(Dispute, Order.number)
        .join(Order, Order.id == Dispute.order_id)
        .where(Dispute.id == dispute_id),
        execution_options={"populate_existing": True},
    ).first()
    may_read = row is not None and (
        caller.has_permission(MANAGE_DISPUTES) or caller.id in (row[0].buyer_id, row[0].vendor_user_id)
    )
    dispute, number = found(row if may_read else None, texts.DISPUTE_NOT_FOUND)
    events = session.scalars(
        select(DisputeEvent).where(DisputeEvent.dispute_id == dispute_id).order_by(DisputeEvent.id)
    ).all()
    offers = session.scalars(
        select(DisputeOffer).where(DisputeOffer.dispute_id == dispute_id).order_by(DisputeOffer.id)
    ).all()
    return DisputeDetail(
        dispute,
        number,
        events,
        offers,
        session.get(DisputeReturn, dispute_id, populate_existing=True),
        session.get(DisputeAppeal, dispute_id, populate_existing=True),
    )
