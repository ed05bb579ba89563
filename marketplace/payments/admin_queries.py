"""Admin tables of refunds and quarantined charges."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.infra.sql.tables import SortedTable
from marketplace.kernel.paging import TablePage, TableRequest
from marketplace.orders.queries import BuyerColumns, RefundView
from marketplace.payments import states
from marketplace.payments.guards import SELECT_CHARGEBACK_STATE
from marketplace.payments.intents.lifecycle import PaymentOrder

REFUND_SORTS = {"created_at": "r.created_at", "settled_at": "r.settled_at", "amount_minor": "r.amount_minor"}
QUARANTINE_SORTS = {
    "created_at": "q.created_at",
    "resolved_at": "q.resolved_at",
    "amount_minor": "q.amount_minor",
}
# Prefixes of refund causes, by the name of the filter.
CAUSE_PREFIXES = {
    "order": ("order", "accepted"),
    "unneeded_charge": ("charge",),
    "held_charge": ("quarantine",),
    "clawback": ("clawback",),
}
OPEN_FILTER = "open"
PAID_TWICE_FILTER = "paid_twice"


@dataclass(frozen=True)
class RefundRow(BuyerColumns, RefundView):
    """A refund in the admin table."""

    reason: str
    attempt: int
    order_id: UUID | None
    order_number: str | None
    payment_reference: str | None
    gateway_refund_id: str | None
    times_returned: int
    dispute: str | None
    paid_twice_minor: int
    buyer_owes_minor: int
    requested_by: UUID | None
    age_seconds: int


@dataclass(frozen=True)
class QuarantinedOrder(PaymentOrder):
    """An order of a quarantined charge, with total and payable amount in kobo."""

    total_minor: int
    payable_minor: int


@dataclass(frozen=True)
class QuarantinedChargeRow(BuyerColumns):
    """A quarantined charge in the admin table.

    ``held_minor`` is the buyer's money in the ledger, in kobo.
    """

    id: UUID
    status: str
    reason: str
    amount_minor: int
    fees_minor: int
    currency: str
    held_minor: int
    due_minor: int
    _orders: list[dict[str, Any]]
    payment_reference: str
    created_at: datetime
    resolved_at: datetime | None
    resolution: str | None
    resolution_note: str | None
    resolved_by: UUID | None

    @property
    def orders(self) -> list[QuarantinedOrder]:
        """The orders of the charge's payment."""
        return [QuarantinedOrder(**order) for order in self._orders]


# An unsent refund shows the chargeback that blocks the refund.
_REFUNDS = SortedTable(
    f"""
    SELECT r.id, r.destination, r.amount_minor, r.status, r.created_at, r.settled_at, r.buyer_id, b.name AS buyer_name,
        r.reason, r.attempt, r.order_id, o.number AS order_number, i.reference AS payment_reference,
        r.gateway_refund_id, r.times_returned,
        CASE WHEN r.status IN ('pending', 'submitted', 'failed', 'needs_attention') THEN ({SELECT_CHARGEBACK_STATE}) END
            AS dispute,
        r.paid_twice_minor, coalesce(d.balance_minor, 0) AS buyer_owes_minor, r.requested_by,
        greatest(extract(epoch FROM coalesce(r.settled_at, :now) - r.created_at), 0)::bigint AS age_seconds
""",
    """
    FROM refunds r
        JOIN profiles b ON b.id = r.buyer_id
        LEFT JOIN orders o ON o.id = r.order_id
        LEFT JOIN gateway_charges c ON c.id = r.charge_id
        LEFT JOIN payment_intents i ON i.id = c.intent_id
        LEFT JOIN ledger_accounts d ON d.kind = 'buyer_receivable' AND d.owner_id = r.buyer_id
    WHERE (CAST(:statuses AS text[]) IS NULL OR r.status = ANY(:statuses))
        AND (NOT CAST(:paid_twice AS boolean) OR r.paid_twice_minor > 0)
        AND (CAST(:destination AS text) IS NULL OR r.destination = :destination)
        AND (CAST(:causes AS text[]) IS NULL OR split_part(r.cause, ':', 1) = ANY(:causes))
        AND (CAST(:created_by AS timestamptz) IS NULL OR r.created_at <= :created_by)
""",
    REFUND_SORTS,
    row=RefundRow,
    tie_breaker="r.id",
    nullable=["settled_at"],
)


def list_refunds(
    session: Session,
    *,
    page: TableRequest,
    now: datetime,
    status: str | None = None,
    destination: str | None = None,
    cause: str | None = None,
    older_than_hours: int | None = None,
) -> TablePage:
    """List refunds, in two queries.

    :param page: sorted by a key of ``REFUND_SORTS``
    :param status: a refund status, ``open`` for refunds without a final status, ``paid_twice`` for duplicate payments
    :param cause: a key of ``CAUSE_PREFIXES``
    :param older_than_hours: minimum age since the creation
    """
    statuses = None
    if status == OPEN_FILTER:
        statuses = [states.PENDING, states.SUBMITTED, states.FAILED, states.NEEDS_ATTENTION]
    elif status not in (None, PAID_TWICE_FILTER):
        statuses = [status]
    return _REFUNDS.fetch_page(
        session,
        page,
        statuses=statuses,
        paid_twice=status == PAID_TWICE_FILTER,
        destination=destination,
        causes=None if cause is None else list(CAUSE_PREFIXES[cause]),
        created_by=None if older_than_hours is None else now - timedelta(hours=older_than_hours),
        now=now,
    )


_QUARANTINE = SortedTable(
    """
    SELECT i.buyer_id, b.name AS buyer_name, q.id, q.status, q.reason, q.amount_minor, q.fees_minor, q.currency,
        CASE WHEN q.ledger_transaction_id IS NULL THEN 0 ELSE c.principal_minor END AS held_minor,
        d.due_minor, d.orders AS _orders, i.reference AS payment_reference, q.created_at, q.resolved_at, q.resolution,
        q.resolution_note, q.resolved_by
""",
    """
    FROM quarantined_charges q
        JOIN payment_intents i ON i.id = q.intent_id
        JOIN profiles b ON b.id = i.buyer_id
        LEFT JOIN gateway_charges c ON c.gateway_charge_id = q.gateway_charge_id
        CROSS JOIN LATERAL (
            SELECT json_agg(json_build_object('id', o.id, 'number', o.number, 'status', o.status,
                    'total_minor', o.total_minor, 'payable_minor', due.minor) ORDER BY o.id) AS orders,
                coalesce(sum(due.minor), 0)::bigint AS due_minor
            FROM payment_allocations a JOIN orders o ON o.id = a.order_id
            CROSS JOIN LATERAL (SELECT CASE WHEN o.status = 'pending_payment'
                THEN o.total_minor - o.wallet_minor - o.accepted_minor ELSE 0 END AS minor) due
            WHERE a.intent_id = i.id
        ) d
    WHERE (CAST(:status AS text) IS NULL OR q.status = :status)
        AND (CAST(:reason AS text) IS NULL OR q.reason = :reason)
""",
    QUARANTINE_SORTS,
    row=QuarantinedChargeRow,
    tie_breaker="q.id",
    nullable=["resolved_at"],
)


def list_quarantine(
    session: Session, *, status: str | None, reason: str | None, page: TableRequest
) -> TablePage:
    """List quarantined charges, in two queries.

    :param status: ``open`` or ``resolved``; none for both
    :param page: sorted by a key of ``QUARANTINE_SORTS``
    """
    return _QUARANTINE.fetch_page(session, page, status=status, reason=reason)
