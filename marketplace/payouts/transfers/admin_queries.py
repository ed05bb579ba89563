"""What finance sees of payouts that went wrong, or do not move, as tables."""

from datetime import datetime

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.infra.tables import build_sorted_statements
from marketplace.kernel.paging import TablePage, TableRequest

EXCEPTION_SORTS = {
    "createdAt": "e.created_at",
    "resolvedAt": "e.resolved_at",
    "amountMinor": "e.amount_minor",
}
STALLED_SORTS = {"createdAt": "i.created_at", "stalledAt": "i.stalled_at", "amountMinor": "i.amount_minor"}

_SELECT_EXCEPTIONS = """
    SELECT e.id, e.outcome, e.reference, e.gateway_transfer_id AS "gatewayTransferId",
        e.amount_minor AS "amountMinor", e.currency, i.id AS "payoutId", i.batch_id AS "batchId",
        i.status AS "payoutStatus", i.failure_reason AS "reason", i.user_id AS "payeeId",
        i.vendor_id AS "vendorId", coalesce(v.display_name, p.name) AS "payeeName",
        CASE WHEN e.resolved_at IS NULL THEN 'open' ELSE 'resolved' END AS status,
        e.created_at AS "createdAt", e.resolved_at AS "resolvedAt", e.resolved_by AS "resolvedBy",
        e.resolution_note AS "resolutionNote"
"""
_FROM_EXCEPTIONS = """
    FROM payout_exceptions e
        LEFT JOIN payout_transfers t ON t.reference = e.reference
        LEFT JOIN payout_transfer_intents i ON i.id = t.intent_id
        LEFT JOIN vendor_profiles v ON v.id = i.vendor_id
        LEFT JOIN profiles p ON p.id = i.user_id
    WHERE (CAST(:status AS text) IS NULL OR (e.resolved_at IS NULL) = (:status = 'open'))
        AND (CAST(:outcome AS text) IS NULL OR e.outcome = :outcome)
"""
_SELECT_STALLED = """
    SELECT i.id, i.batch_id AS "batchId", b.status AS "batchStatus", i.status, i.amount_minor AS "amountMinor",
        i.user_id AS "payeeId", i.vendor_id AS "vendorId", coalesce(v.display_name, p.name) AS "payeeName",
        t.reference, coalesce(t.attempts, 0) AS "timesAsked", t.ask_at AS "askedNextAt", t.sent_at AS "sentAt",
        i.created_at AS "createdAt", i.stalled_at AS "stalledAt"
"""
_FROM_STALLED = """
    FROM payout_transfer_intents i
        JOIN profiles p ON p.id = i.user_id
        LEFT JOIN vendor_profiles v ON v.id = i.vendor_id
        LEFT JOIN payout_batches b ON b.id = i.batch_id
        LEFT JOIN payout_transfers t ON t.intent_id = i.id
    WHERE i.stalled_at IS NOT NULL AND i.status IN ('pending', 'submitted', 'unknown')
"""


_SELECT_EXCEPTION_PAGES = build_sorted_statements(
    _SELECT_EXCEPTIONS, _FROM_EXCEPTIONS, EXCEPTION_SORTS, tie_breaker="e.id", nullable=["resolvedAt"]
)
_COUNT_EXCEPTIONS = Statement(text(f"SELECT count(*) AS total {_FROM_EXCEPTIONS}"))
_SELECT_STALLED_PAGES = build_sorted_statements(
    _SELECT_STALLED, _FROM_STALLED, STALLED_SORTS, tie_breaker="i.id"
)
_COUNT_STALLED = Statement(text(f"SELECT count(*) AS total {_FROM_STALLED}"))


def list_exceptions(
    session: Session, *, status: str | None, outcome: str | None, page: TableRequest
) -> TablePage:
    """List transfers that failed, came back or are none of ours, in two queries.

    :param status: ``open`` or ``resolved``; none for both
    :param outcome: ``failed``, ``reversed`` or ``unexpected``; none for any
    :param page: which page, sorted by one of ``EXCEPTION_SORTS``
    """
    filter_values = {"status": status, "outcome": outcome}
    rows = _SELECT_EXCEPTION_PAGES[page.sort, page.descending].all(
        session, **filter_values, most=page.limit, offset=page.offset
    )
    return TablePage(rows, page, _COUNT_EXCEPTIONS.one(session, **filter_values)["total"])


def list_stalled_payouts(session: Session, *, page: TableRequest, now: datetime) -> TablePage:
    """List payouts that were flagged as waiting for more than 48 hours, in two queries.

    :param page: which page, sorted by one of ``STALLED_SORTS``
    :param now: the time of the request
    """
    rows = _SELECT_STALLED_PAGES[page.sort, page.descending].all(session, most=page.limit, offset=page.offset)
    for row in rows:
        row["ageSeconds"] = max(int((now - row["createdAt"]).total_seconds()), 0)
    return TablePage(rows, page, _COUNT_STALLED.one(session)["total"])
