"""What officers see of batches: all of them as a table, and one as it is now."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.infra.tables import build_sorted_statements
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.money import CURRENCY
from marketplace.kernel.paging import TablePage, TableRequest
from marketplace.payouts import states
from marketplace.payouts.batches.approval import REQUIRED_APPROVALS, find_approvers
from marketplace.payouts.batches.batch import compute_fingerprint

SORTS = {"createdAt": "b.created_at", "updatedAt": "b.updated_at"}
AWAITING, UNDISBURSED, ALL = "awaiting", "undisbursed", "all"
# What a batch of each filter may be in: those that wait for officers, those that are not paid yet, and each state.
FILTERS: dict[str, tuple[str, ...]] = {
    AWAITING: (states.STAGED, states.APPROVED),
    UNDISBURSED: (states.STAGED, states.APPROVED, states.DISPATCHING),
    ALL: tuple(sorted(states.BATCH.states)),
    **{status: (status,) for status in sorted(states.BATCH.states)},
}

_SUM_PAYMENTS = """
    SELECT count(*) AS payments, coalesce(sum(amount_minor), 0)::bigint AS "amountMinor",
        count(*) FILTER (WHERE status = 'success') AS paid,
        count(*) FILTER (WHERE status IN ('failed', 'reversed')) AS failed,
        count(*) FILTER (WHERE stalled_at IS NOT NULL) AS stalled
    FROM payout_transfer_intents WHERE batch_id = b.id AND status <> 'cancelled'
"""
_SELECT_BATCHES = f"""
    SELECT b.id, b.status, b.staged_by, staged.name AS staged_by_name, b.approved_at AS "approvedAt",
        b.rejected_by, rejected.name AS rejected_by_name, b.rejected_at AS "rejectedAt",
        b.rejection_reason AS "rejectionReason", b.dispatched_by, dispatched.name AS dispatched_by_name,
        b.dispatched_at AS "dispatchedAt", b.finished_at AS "finishedAt", b.content_hash, b.approved_hash,
        b.revision, b.created_at AS "createdAt", b.updated_at AS "updatedAt", sums.*
    FROM payout_batches b CROSS JOIN LATERAL ({_SUM_PAYMENTS}) sums
        LEFT JOIN profiles staged ON staged.id = b.staged_by
        LEFT JOIN profiles rejected ON rejected.id = b.rejected_by
        LEFT JOIN profiles dispatched ON dispatched.id = b.dispatched_by
"""
_MATCHES_FILTERS = """
    b.status = ANY(:statuses)
    AND (CAST(:starts AS timestamptz) IS NULL OR b.created_at >= :starts)
    AND (CAST(:ends AS timestamptz) IS NULL OR b.created_at < :ends)
"""
_SELECT_BATCH_PAGES = build_sorted_statements(
    _SELECT_BATCHES, f"WHERE {_MATCHES_FILTERS}", SORTS, tie_breaker="b.id"
)
_COUNT_BATCHES = Statement(text(f"SELECT count(*) AS total FROM payout_batches b WHERE {_MATCHES_FILTERS}"))
_SELECT_BATCH = Statement(text(f"{_SELECT_BATCHES} WHERE b.id = :batch_id"))
_SELECT_APPROVALS = Statement(
    text(
        """
        SELECT a.officer_id, p.name, a.content_hash AS "contentHash", a.comment, a.created_at AS "createdAt"
        FROM payout_approvals a JOIN profiles p ON p.id = a.officer_id
        WHERE a.batch_id = :batch_id ORDER BY a.id LIMIT 100
        """
    )
)


def list_batches(
    session: Session,
    *,
    status: str,
    starts: datetime | None,
    ends: datetime | None,
    page: TableRequest,
) -> TablePage:
    """List batches, in two queries.

    :param status: of ``FILTERS``
    :param starts: staged from then on; none from the first
    :param ends: staged before then; none to the last
    :param page: which page, sorted by one of ``SORTS``
    """
    filter_values = {"statuses": list(FILTERS[status]), "starts": starts, "ends": ends}
    rows = _SELECT_BATCH_PAGES[page.sort, page.descending].all(
        session, **filter_values, most=page.limit, offset=page.offset
    )
    total = _COUNT_BATCHES.one(session, **filter_values)["total"]
    return TablePage([_serialize_batch(row) for row in rows], page, total)


def show_batch(session: Session, *, batch_id: UUID) -> dict[str, Any]:
    """Show a batch with who has approved it, and whether it changed since.

    :raises NotFoundError: there is no such batch
    """
    row = _SELECT_BATCH.first(session, batch_id=batch_id)
    if row is None:
        raise NotFoundError("There is no such batch.")
    is_open = row["status"] in FILTERS[AWAITING]
    fingerprint = compute_fingerprint(session, batch_id=batch_id) if is_open else row["approved_hash"]
    fingerprint = fingerprint or row["content_hash"]
    approvers = find_approvers(session, row, fingerprint=fingerprint)
    approvals = [
        {
            "officer": {"id": approval.pop("officer_id"), "name": approval.pop("name")},
            **approval,
            "counts": approval["contentHash"] == fingerprint,
        }
        for approval in _SELECT_APPROVALS.all(session, batch_id=batch_id)
    ]
    return {
        **_serialize_batch(row),
        "contentHash": fingerprint,
        "stagedHash": row["content_hash"],
        "approvedHash": row["approved_hash"],
        "changedSinceStaging": fingerprint != row["content_hash"],
        "changedSinceApproval": row["approved_hash"] is not None and fingerprint != row["approved_hash"],
        "approvals": approvals,
        "approvalsMissing": max(0, REQUIRED_APPROVALS - len(approvers)) if is_open else 0,
    }


def _serialize_batch(row: dict[str, Any]) -> dict[str, Any]:
    view = {name: value for name, value in row.items() if not name.endswith("_hash")}
    for step in ("staged", "rejected", "dispatched"):
        officer_id, name = view.pop(f"{step}_by"), view.pop(f"{step}_by_name")
        view[f"{step}By"] = {"id": officer_id, "name": name} if officer_id else None
    return view | {"currency": CURRENCY}
