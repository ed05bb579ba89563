"""Queries of disputes for parties and staff."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, select, text, union_all
from sqlalchemy.orm import Session

from marketplace.disputes import states, texts
from marketplace.disputes.cases import party_role
from marketplace.disputes.models import Dispute, DisputeAppeal, DisputeEvent, DisputeOffer, DisputeReturn
from marketplace.identity.permissions import MANAGE_DISPUTES
from marketplace.identity.queries import Caller
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import found
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.orders.models import Order

UNRESOLVED = "unresolved"
STATUS_FILTERS = (UNRESOLVED, *sorted(states.DISPUTE.states))


@dataclass(frozen=True)
class SideHistory:
    """The earlier disputes of a side, for staff who rule. Numbers are of disputes.

    :ivar opened: opened by the person
    :ivar lost: ended with money for the other side
    :ivar missed: without a response in time
    :ivar chargebacks: with a chargeback of the buyer's bank
    """

    side: str
    disputes: int
    opened: int
    lost: int
    missed: int
    chargebacks: int


@dataclass(frozen=True)
class DisputeDetail:
    """A dispute with the number of its order, its timeline and its offers."""

    dispute: Dispute
    order_number: str
    events: Sequence[DisputeEvent]
    offers: Sequence[DisputeOffer]
    goods_return: DisputeReturn | None = None
    appeal: DisputeAppeal | None = None
    risk_notes: Sequence[SideHistory] | None = None


def list_disputes(session: Session, *, caller: Caller, status: str | None, page: PageRequest) -> Page:
    """List disputes from the newest: all for staff who may manage disputes, else those of the caller.

    :param status: one of ``STATUS_FILTERS``; none for all
    """
    [before] = page.after("id")
    filters: list[ColumnElement[bool]] = []
    if status == UNRESOLVED:
        filters.append(Dispute.resolved_at.is_(None))
    elif status is not None:
        filters.append(Dispute.status == status)
    if before is not None:
        filters.append(Dispute.id < before)
    limit = page.limit + 1
    if not caller.has_permission(MANAGE_DISPUTES):
        # One index for each side. A condition on both columns would read more rows than the page.
        sides = (
            select(Dispute.id).where(column == caller.id, *filters).order_by(Dispute.id.desc()).limit(limit)
            for column in (Dispute.buyer_id, Dispute.vendor_user_id)
        )
        filters = [Dispute.id.in_(union_all(*(select(side.subquery().c.id) for side in sides)))]
    rows = session.execute(
        select(Dispute, Order.number)
        .join(Order, Order.id == Dispute.order_id)
        .where(*filters)
        .order_by(Dispute.id.desc())
        .limit(limit)
    )
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
        _fetch_risk_notes(session, dispute, caller),
    )


_SELECT_HISTORY = Statement(
    text(
        """
        SELECT s.side, count(d.id) AS disputes, count(d.id) FILTER (WHERE d.opened_by = s.side) AS opened,
            count(d.id) FILTER (WHERE CASE s.side WHEN 'buyer' THEN d.vendor_minor ELSE d.buyer_minor END > 0) AS lost,
            count(d.id) FILTER (WHERE d.response_missed_at IS NOT NULL AND d.opened_by <> s.side) AS missed,
            count(d.id) FILTER (WHERE d.has_chargeback) AS chargebacks
        FROM (VALUES ('buyer', CAST(:buyer_id AS uuid)), ('vendor', CAST(:vendor_user_id AS uuid))) s (side, user_id)
            LEFT JOIN disputes d ON d.id <> :dispute_id
                AND ((s.side = 'buyer' AND d.buyer_id = s.user_id)
                    OR (s.side = 'vendor' AND d.vendor_user_id = s.user_id))
        GROUP BY s.side ORDER BY s.side
        """
    ),
    row=SideHistory,
)


def _fetch_risk_notes(session: Session, dispute: Dispute, caller: Caller) -> Sequence[SideHistory] | None:
    """Fetch the history of both sides, which only staff see."""
    is_party = caller.id in (dispute.buyer_id, dispute.vendor_user_id)
    if is_party or not caller.has_permission(MANAGE_DISPUTES):
        return None
    return _SELECT_HISTORY.all(
        session,
        dispute_id=dispute.id,
        buyer_id=dispute.buyer_id,
        vendor_user_id=dispute.vendor_user_id,
    )
