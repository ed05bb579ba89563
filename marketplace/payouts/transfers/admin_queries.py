"""Lists for finance: failed, reversed and unrecognized transfers, and stalled payouts."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.infra.sql.tables import SortedTable
from marketplace.kernel.paging import TablePage, TableRequest

EXCEPTION_SORTS = {
    "created_at": "e.created_at",
    "resolved_at": "e.resolved_at",
    "amount_minor": "e.amount_minor",
}
STALLED_SORTS = {"created_at": "i.created_at", "stalled_at": "i.stalled_at", "amount_minor": "i.amount_minor"}


@dataclass(frozen=True)
class PayoutIssue:
    """A payout or a transfer that needs the attention of finance."""

    id: UUID
    status: str
    amount_minor: int
    batch_id: UUID | None
    vendor_id: UUID | None
    payee_name: str | None
    created_at: datetime


@dataclass(frozen=True)
class TransferException(PayoutIssue):
    """A failed, reversed or unrecognized transfer, with the payout if known."""

    outcome: str
    reference: str
    gateway_transfer_id: str
    currency: str
    payout_id: UUID | None
    payout_status: str | None
    reason: str | None
    payee_id: UUID | None
    resolved_at: datetime | None
    resolved_by: UUID | None
    resolution_note: str | None


_EXCEPTIONS = SortedTable(
    """
    SELECT e.id, CASE WHEN e.resolved_at IS NULL THEN 'open' ELSE 'resolved' END AS status, e.amount_minor, i.batch_id,
        i.vendor_id, coalesce(v.display_name, p.name) AS payee_name, e.created_at, e.outcome, e.reference,
        e.gateway_transfer_id, e.currency, i.id AS payout_id, i.status AS payout_status, i.failure_reason AS reason,
        i.user_id AS payee_id, e.resolved_at, e.resolved_by, e.resolution_note
    """,
    """
    FROM payout_exceptions e
        LEFT JOIN payout_transfers t ON t.reference = e.reference
        LEFT JOIN payout_transfer_intents i ON i.id = t.intent_id
        LEFT JOIN vendor_profiles v ON v.id = i.vendor_id
        LEFT JOIN profiles p ON p.id = i.user_id
    WHERE (CAST(:status AS text) IS NULL OR (e.resolved_at IS NULL) = (:status = 'open'))
        AND (CAST(:outcome AS text) IS NULL OR e.outcome = :outcome)
    """,
    EXCEPTION_SORTS,
    row=TransferException,
    tie_breaker="e.id",
    nullable=["resolved_at"],
)


def list_exceptions(
    session: Session, *, status: str | None, outcome: str | None, page: TableRequest
) -> TablePage:
    """List failed, reversed and unrecognized transfers, in two queries.

    :param status: ``open`` or ``resolved``
    :param outcome: ``failed``, ``reversed`` or ``unexpected``
    :param page: sorted by a key of ``EXCEPTION_SORTS``
    """
    return _EXCEPTIONS.fetch_page(session, page, status=status, outcome=outcome)


@dataclass(frozen=True)
class StalledPayout(PayoutIssue):
    """A stalled payout, with the status polls of the transfer."""

    batch_status: str | None
    payee_id: UUID
    reference: str | None
    times_asked: int
    asked_next_at: datetime | None
    sent_at: datetime | None
    stalled_at: datetime
    age_seconds: int


_STALLED_PAYOUTS = SortedTable(
    """
    SELECT i.id, i.status, i.amount_minor, i.batch_id, i.vendor_id, coalesce(v.display_name, p.name) AS payee_name,
        i.created_at, b.status AS batch_status, i.user_id AS payee_id, t.reference,
        coalesce(t.attempts, 0) AS times_asked, t.ask_at AS asked_next_at, t.sent_at, i.stalled_at,
        greatest(floor(extract(epoch FROM CAST(:now AS timestamptz) - i.created_at)), 0)::bigint AS age_seconds
    """,
    """
    FROM payout_transfer_intents i
        JOIN profiles p ON p.id = i.user_id
        LEFT JOIN vendor_profiles v ON v.id = i.vendor_id
        LEFT JOIN payout_batches b ON b.id = i.batch_id
        LEFT JOIN payout_transfers t ON t.intent_id = i.id
    WHERE i.stalled_at IS NOT NULL AND i.status IN ('pending', 'submitted', 'unknown')
    """,
    STALLED_SORTS,
    row=StalledPayout,
    tie_breaker="i.id",
)


def list_stalled_payouts(session: Session, *, page: TableRequest, now: datetime) -> TablePage:
    """List open payouts that were flagged as stalled, in two queries.

    :param page: sorted by a key of ``STALLED_SORTS``
    """
    return _STALLED_PAYOUTS.fetch_page(session, page, now=now)
