"""Queries of payout batches, for officers: list and detail."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.infra.sql.tables import SortedTable
from marketplace.kernel.errors import found
from marketplace.kernel.money import CURRENCY
from marketplace.kernel.paging import TablePage, TableRequest
from marketplace.payouts import states, texts
from marketplace.payouts.batches.decisions import REQUIRED_APPROVALS, compute_fingerprint, find_approvers
from marketplace.payouts.batches.staging import SKIPPED_SHOWN_LIMIT, SkippedPayee, StagingResult

SORTS = {"created_at": "b.created_at", "updated_at": "b.updated_at"}
AWAITING, UNDISBURSED, ALL = "awaiting", "undisbursed", "all"
# Statuses by filter: awaiting officers, not yet disbursed, all, and each single status.
FILTERS: dict[str, tuple[str, ...]] = {
    AWAITING: (states.STAGED, states.APPROVED),
    UNDISBURSED: (states.STAGED, states.APPROVED, states.DISPATCHING),
    ALL: tuple(sorted(states.BATCH.states)),
    **{status: (status,) for status in sorted(states.BATCH.states)},
}


@dataclass(frozen=True)
class Officer:
    """An officer with a decision on a batch."""

    id: UUID
    name: str | None


@dataclass(frozen=True)
class BatchRow:
    """A batch with the deciding officers, and payment sums in kobo without cancelled payments."""

    id: UUID
    status: str
    staged_by_id: UUID | None
    staged_by_name: str | None
    approved_at: datetime | None
    rejected_by_id: UUID | None
    rejected_by_name: str | None
    rejected_at: datetime | None
    rejection_reason: str | None
    dispatched_by_id: UUID | None
    dispatched_by_name: str | None
    dispatched_at: datetime | None
    finished_at: datetime | None
    staged_hash: str
    approved_hash: str | None
    revision: int
    created_at: datetime
    updated_at: datetime
    payments: int
    amount_minor: int
    paid: int
    failed: int
    stalled: int
    currency = CURRENCY

    @property
    def staged_by(self) -> Officer | None:
        """The staging officer; none if the schedule staged the batch."""
        return Officer(self.staged_by_id, self.staged_by_name) if self.staged_by_id else None

    @property
    def rejected_by(self) -> Officer | None:
        """The rejecting officer."""
        return Officer(self.rejected_by_id, self.rejected_by_name) if self.rejected_by_id else None

    @property
    def dispatched_by(self) -> Officer | None:
        """The dispatching officer."""
        return Officer(self.dispatched_by_id, self.dispatched_by_name) if self.dispatched_by_id else None


_SELECT_BATCHES = """
    SELECT b.id, b.status, b.staged_by AS staged_by_id, staged.name AS staged_by_name, b.approved_at,
        b.rejected_by AS rejected_by_id, rejected.name AS rejected_by_name, b.rejected_at, b.rejection_reason,
        b.dispatched_by AS dispatched_by_id, sent.name AS dispatched_by_name, b.dispatched_at, b.finished_at,
        b.content_hash AS staged_hash, b.approved_hash, b.revision, b.created_at, b.updated_at, sums.*
    FROM payout_batches b CROSS JOIN LATERAL (
            SELECT count(*) AS payments, coalesce(sum(amount_minor), 0)::bigint AS amount_minor,
                count(*) FILTER (WHERE status = 'success') AS paid,
                count(*) FILTER (WHERE status IN ('failed', 'reversed')) AS failed,
                count(*) FILTER (WHERE stalled_at IS NOT NULL) AS stalled
            FROM payout_transfer_intents WHERE batch_id = b.id AND status <> 'cancelled'
        ) sums
        LEFT JOIN profiles staged ON staged.id = b.staged_by
        LEFT JOIN profiles rejected ON rejected.id = b.rejected_by
        LEFT JOIN profiles sent ON sent.id = b.dispatched_by
"""
_MATCHES_FILTERS = """
    WHERE b.status = ANY(:statuses)
        AND (CAST(:starts AS timestamptz) IS NULL OR b.created_at >= :starts)
        AND (CAST(:ends AS timestamptz) IS NULL OR b.created_at < :ends)
"""
_BATCHES = SortedTable(
    _SELECT_BATCHES,
    _MATCHES_FILTERS,
    SORTS,
    row=BatchRow,
    tie_breaker="b.id",
    count_from=f"FROM payout_batches b {_MATCHES_FILTERS}",
)


def list_batches(
    session: Session,
    *,
    status: str,
    starts: datetime | None,
    ends: datetime | None,
    page: TableRequest,
) -> TablePage:
    """List batches by staging time, in two queries.

    :param status: a key of ``FILTERS``
    :param ends: exclusive
    :param page: sorted by a key of ``SORTS``
    """
    return _BATCHES.fetch_page(session, page, statuses=list(FILTERS[status]), starts=starts, ends=ends)


@dataclass(frozen=True)
class Approval:
    """An officer's approval, which counts while the batch has the approved fingerprint."""

    officer_id: UUID
    officer_name: str | None
    content_hash: str
    comment: str | None
    created_at: datetime
    counts: bool

    @property
    def officer(self) -> Officer:
        """The approving officer."""
        return Officer(self.officer_id, self.officer_name)


@dataclass(frozen=True)
class BatchView(BatchRow):
    """A batch with approvals. ``content_hash`` is the current or, after the dispatch, the approved fingerprint."""

    content_hash: str
    approvals: list[Approval]
    approvals_missing: int

    @property
    def changed_since_staging(self) -> bool:
        """Whether the payments differ from the staged payments."""
        return self.content_hash != self.staged_hash

    @property
    def changed_since_approval(self) -> bool:
        """Whether the payments differ from the approved payments."""
        return self.approved_hash is not None and self.content_hash != self.approved_hash


_SELECT_BATCH = Statement(text(f"{_SELECT_BATCHES} WHERE b.id = :batch_id"), row=BatchRow)


_SELECT_APPROVALS = Statement(
    text(
        """
        SELECT a.officer_id, p.name AS officer_name, a.content_hash, a.comment, a.created_at,
            a.content_hash = :fingerprint AS counts
        FROM payout_approvals a JOIN profiles p ON p.id = a.officer_id
        WHERE a.batch_id = :batch_id ORDER BY a.id LIMIT 100
        """
    ),
    row=Approval,
)


def show_batch(session: Session, *, batch_id: UUID) -> BatchView:
    """Show a batch with approvals.

    :raises NotFoundError: the batch does not exist
    """
    row = found(_SELECT_BATCH.first(session, batch_id=batch_id), texts.BATCH_NOT_FOUND)
    is_open = row.status in FILTERS[AWAITING]
    fingerprint = compute_fingerprint(session, batch_id=batch_id) if is_open else row.approved_hash
    fingerprint = fingerprint or row.staged_hash
    approvers = find_approvers(session, batch_id=batch_id, fingerprint=fingerprint) if is_open else ()
    return BatchView(
        **vars(row),
        content_hash=fingerprint,
        approvals=_SELECT_APPROVALS.all(session, batch_id=batch_id, fingerprint=fingerprint),
        approvals_missing=max(0, REQUIRED_APPROVALS - len(approvers)) if is_open else 0,
    )


@dataclass(frozen=True)
class StagedBatch(BatchView):
    """A newly staged batch, with the collected debts in kobo and the skipped vendors."""

    collected_minor: int
    left_out: tuple[SkippedPayee, ...]


def show_staged_batch(session: Session, *, result: StagingResult) -> StagedBatch:
    """Show the batch of a staging with the first 100 skipped vendors.

    :raises NothingToStageError: no batch was staged
    """
    return StagedBatch(
        **vars(show_batch(session, batch_id=result.require_batch())),
        collected_minor=result.collected_minor,
        left_out=result.skipped[:SKIPPED_SHOWN_LIMIT],
    )
