"""Queries of disputes for parties and staff."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.disputes import states, texts
from marketplace.disputes.cases import party_role
from marketplace.disputes.models import Dispute
from marketplace.identity.permissions import MANAGE_DISPUTES
from marketplace.identity.queries import Caller
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import found
from marketplace.kernel.paging import Page, PageRequest, page_of

UNRESOLVED = "unresolved"
STATUS_FILTERS = (UNRESOLVED, *sorted(states.DISPUTE.states))


@dataclass(frozen=True)
class DisputeRow:
    """A dispute with the number of its order. Amounts are kobo."""

    id: UUID
    number: str
    order_id: UUID
    order_number: str
    buyer_id: UUID
    vendor_user_id: UUID
    opened_by: str
    reason: str
    description: str
    desired_outcome: str
    claimed_minor: int | None
    item_ids: list[UUID]
    status: str
    response_due_at: datetime
    finding_due_at: datetime
    ruling_due_at: datetime
    response: str | None
    responded_at: datetime | None
    response_missed_at: datetime | None
    has_chargeback: bool
    finding: str | None
    finding_at: datetime | None
    buyer_minor: int | None
    vendor_minor: int | None
    rationale: str | None
    resolved_at: datetime | None
    revision: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class TimelineRow:
    """An entry of a dispute's timeline."""

    event: str
    actor: str
    note: str | None
    at: datetime


@dataclass(frozen=True)
class OfferRow:
    """A settlement that a party offered. The amount is kobo."""

    id: UUID
    offered_by: str
    buyer_minor: int
    note: str | None
    status: str
    expires_at: datetime
    created_at: datetime


@dataclass(frozen=True)
class ReturnRow:
    """A return of goods."""

    status: str
    send_due_at: datetime
    tracking_note: str | None
    sent_at: datetime | None
    received_at: datetime | None


@dataclass(frozen=True)
class RulingAppealRow:
    """An appeal. The amount is kobo."""

    appealed_by: str
    reason: str
    status: str
    decision_due_at: datetime
    amount_minor: int | None
    rationale: str | None
    decided_at: datetime | None


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
    """A dispute with its timeline, offers, return and appeal. The risk notes are for staff."""

    dispute: DisputeRow
    timeline: Sequence[TimelineRow]
    offers: Sequence[OfferRow]
    goods_return: ReturnRow | None
    appeal: RulingAppealRow | None
    risk_notes: Sequence[SideHistory] | None


_DISPUTES_SQL = """
    SELECT d.id, d.number, d.order_id, o.number AS order_number, d.buyer_id, d.vendor_user_id, d.opened_by, d.reason,
        d.description, d.desired_outcome, d.claimed_minor, d.item_ids, d.status, d.response_due_at, d.finding_due_at,
        d.ruling_due_at, d.response, d.responded_at, d.response_missed_at, d.has_chargeback, d.finding, d.finding_at,
        d.buyer_minor, d.vendor_minor, d.rationale, d.resolved_at, d.revision, d.created_at, d.updated_at
    FROM disputes d JOIN orders o ON o.id = d.order_id
"""
_FILTERS_SQL = """
    AND (CAST(:status AS text) IS NULL OR d.status = CAST(:status AS text))
    AND (NOT :unresolved OR d.resolved_at IS NULL) AND d.id < CAST(:before AS uuid)
"""
_SELECT_ALL = Statement(
    text(f"{_DISPUTES_SQL} WHERE true {_FILTERS_SQL} ORDER BY d.id DESC LIMIT :limit"), row=DisputeRow
)
# One index for each side. A condition on both columns would read more rows than the page.
_SELECT_OWN = Statement(
    text(
        f"""
        {_DISPUTES_SQL} WHERE d.id IN (
            (SELECT d.id FROM disputes d WHERE d.buyer_id = :user_id {_FILTERS_SQL} ORDER BY d.id DESC LIMIT :limit)
            UNION ALL
            (SELECT d.id FROM disputes d WHERE d.vendor_user_id = :user_id {_FILTERS_SQL}
                ORDER BY d.id DESC LIMIT :limit)
        ) ORDER BY d.id DESC LIMIT :limit
        """
    ),
    row=DisputeRow,
)
_LAST_ID = UUID(int=2**128 - 1)


def list_disputes(session: Session, *, caller: Caller, status: str | None, page: PageRequest) -> Page:
    """List disputes from the newest: all for staff who may manage disputes, else those of the caller.

    :param status: one of ``STATUS_FILTERS``; none for all
    """
    [before] = page.after("id")
    filters = {
        "status": None if status == UNRESOLVED else status,
        "unresolved": status == UNRESOLVED,
        "before": before or _LAST_ID,
        "limit": page.limit + 1,
    }
    if caller.has_permission(MANAGE_DISPUTES):
        rows = _SELECT_ALL.all(session, **filters)
    else:
        rows = _SELECT_OWN.all(session, user_id=caller.id, **filters)
    return page_of(rows, request=page, position_of=lambda row: [str(row.id)])


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


_SELECT_DISPUTE = Statement(text(f"{_DISPUTES_SQL} WHERE d.id = :dispute_id"), row=DisputeRow)
_SELECT_TIMELINE = Statement(
    text("SELECT event, actor, note, at FROM dispute_events WHERE dispute_id = :dispute_id ORDER BY id"),
    row=TimelineRow,
)
_SELECT_OFFERS = Statement(
    text(
        """
        SELECT id, offered_by, buyer_minor, note, status, expires_at, created_at FROM dispute_offers
        WHERE dispute_id = :dispute_id ORDER BY id
        """
    ),
    row=OfferRow,
)
_SELECT_RETURN = Statement(
    text(
        """
        SELECT status, send_due_at, tracking_note, sent_at, received_at FROM dispute_returns
        WHERE dispute_id = :dispute_id
        """
    ),
    row=ReturnRow,
)
_SELECT_APPEAL = Statement(
    text(
        """
        SELECT appealed_by, reason, status, decision_due_at, amount_minor, rationale, decided_at
        FROM dispute_appeals WHERE dispute_id = :dispute_id
        """
    ),
    row=RulingAppealRow,
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


def fetch_dispute(session: Session, *, caller: Caller, dispute_id: UUID) -> DisputeDetail:
    """Fetch a dispute with its timeline, for a party or for staff who may manage disputes.

    :raises NotFoundError: the dispute does not exist, or the caller is neither
    """
    session.flush()
    row = _SELECT_DISPUTE.first(session, dispute_id=dispute_id)
    is_party = row is not None and caller.id in (row.buyer_id, row.vendor_user_id)
    is_staff = caller.has_permission(MANAGE_DISPUTES)
    dispute = found(row if is_party or is_staff else None, texts.DISPUTE_NOT_FOUND)
    detail = DisputeDetail(
        dispute,
        _SELECT_TIMELINE.all(session, dispute_id=dispute_id),
        _SELECT_OFFERS.all(session, dispute_id=dispute_id),
        _SELECT_RETURN.first(session, dispute_id=dispute_id),
        _SELECT_APPEAL.first(session, dispute_id=dispute_id),
        None,
    )
    if is_party or not is_staff:
        return detail
    history = _SELECT_HISTORY.all(
        session,
        dispute_id=dispute_id,
        buyer_id=dispute.buyer_id,
        vendor_user_id=dispute.vendor_user_id,
    )
    return replace(detail, risk_notes=history)
