"""What finance sees: refunds, and charges that are held back, as tables."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Statement
from marketplace.infra.tables import build_sorted_statements
from marketplace.kernel.paging import TablePage, TableRequest
from marketplace.payments import states
from marketplace.payments.chargeback_guard import SELECT_CHARGEBACK_STATE

REFUND_SORTS = {"createdAt": "r.created_at", "settledAt": "r.settled_at", "amountMinor": "r.amount_minor"}
QUARANTINE_SORTS = {
    "createdAt": "q.created_at",
    "resolvedAt": "q.resolved_at",
    "amountMinor": "q.amount_minor",
}
# By what finance calls it: what the causes of refunds begin with.
CAUSE_PREFIXES = {
    "order": ("order", "accepted"),
    "unneeded_charge": ("charge",),
    "held_charge": ("quarantine",),
    "clawback": ("clawback",),
}
OPEN_FILTER = "open"
PAID_TWICE_FILTER = "paid_twice"
OPEN_REFUND_STATUSES = (states.PENDING, states.SUBMITTED, states.FAILED, states.NEEDS_ATTENTION)

_FROM_FILTERED_REFUNDS = """
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
"""
# That a bank disputes the charge, or took it back, is why it is not sent, or can't be sent again.
_SELECT_REFUNDS = f"""
    SELECT r.id, r.status, r.destination, r.amount_minor AS "amountMinor", r.reason, r.attempt,
        r.order_id AS "orderId", o.number AS "orderNumber", r.buyer_id, b.name AS buyer_name,
        i.reference AS "paymentReference", r.gateway_refund_id AS "gatewayRefundId",
        r.times_returned AS "timesReturned",
        CASE WHEN r.status IN ('pending', 'submitted', 'failed', 'needs_attention') THEN ({SELECT_CHARGEBACK_STATE}) END
            AS dispute,
        r.paid_twice_minor AS "paidTwiceMinor", coalesce(d.balance_minor, 0) AS "buyerOwesMinor",
        r.requested_by AS "requestedBy", r.created_at AS "createdAt", r.settled_at AS "settledAt",
        greatest(extract(epoch FROM coalesce(r.settled_at, :now) - r.created_at), 0)::bigint AS "ageSeconds"
"""
_FROM_FILTERED_QUARANTINE = """
    FROM quarantined_charges q
        JOIN payment_intents i ON i.id = q.intent_id
        JOIN profiles b ON b.id = i.buyer_id
        LEFT JOIN gateway_charges c ON c.gateway_charge_id = q.gateway_charge_id
        CROSS JOIN LATERAL (
            SELECT json_agg(json_build_object('id', o.id, 'number', o.number, 'status', o.status,
                    'totalMinor', o.total_minor,
                    'dueMinor', due.minor) ORDER BY o.id) AS orders,
                coalesce(sum(due.minor), 0)::bigint AS due_minor
            FROM payment_allocations a JOIN orders o ON o.id = a.order_id
            CROSS JOIN LATERAL (SELECT CASE WHEN o.status = 'pending_payment'
                THEN o.total_minor - o.wallet_minor - o.accepted_minor ELSE 0 END AS minor) due
            WHERE a.intent_id = i.id
        ) d
    WHERE (CAST(:status AS text) IS NULL OR q.status = :status)
        AND (CAST(:reason AS text) IS NULL OR q.reason = :reason)
"""
_SELECT_QUARANTINE = """
    SELECT q.id, q.status, q.reason, q.amount_minor AS "amountMinor", q.fees_minor AS "feesMinor", q.currency,
        CASE WHEN q.ledger_transaction_id IS NULL THEN 0 ELSE c.principal_minor END AS "heldMinor",
        d.due_minor AS "dueMinor", d.orders, i.buyer_id, b.name AS buyer_name, i.reference AS "paymentReference",
        q.created_at AS "createdAt", q.resolved_at AS "resolvedAt", q.resolution,
        q.resolution_note AS "resolutionNote", q.resolved_by AS "resolvedBy"
"""


_SELECT_REFUND_PAGES = build_sorted_statements(
    _SELECT_REFUNDS, _FROM_FILTERED_REFUNDS, REFUND_SORTS, tie_breaker="r.id", nullable=["settledAt"]
)
_COUNT_REFUNDS = Statement(text(f"SELECT count(*) AS total {_FROM_FILTERED_REFUNDS}"))
_SELECT_QUARANTINE_PAGES = build_sorted_statements(
    _SELECT_QUARANTINE,
    _FROM_FILTERED_QUARANTINE,
    QUARANTINE_SORTS,
    tie_breaker="q.id",
    nullable=["resolvedAt"],
)
_COUNT_QUARANTINE = Statement(text(f"SELECT count(*) AS total {_FROM_FILTERED_QUARANTINE}"))


@dataclass(frozen=True)
class RefundFilters:
    """Which refunds are wanted: of a status, a destination, a cause, an age.

    The status ``open`` is for all that are not over, ``paid_twice`` for what the gateway paid although its buyer had
    the money already.
    """

    status: str | None = None
    destination: str | None = None
    cause: str | None = None
    older_than_hours: int | None = None


def list_refunds(session: Session, *, filters: RefundFilters, page: TableRequest, now: datetime) -> TablePage:
    """List refunds, in two queries.

    :param filters: which
    :param page: which page, sorted by one of ``REFUND_SORTS``
    :param now: the time of the request
    """
    statuses = None
    paid_twice = filters.status == PAID_TWICE_FILTER
    if filters.status is not None and not paid_twice:
        statuses = list(OPEN_REFUND_STATUSES) if filters.status == OPEN_FILTER else [filters.status]
    min_age_hours = filters.older_than_hours
    parameters = {
        "statuses": statuses,
        "paid_twice": paid_twice,
        "destination": filters.destination,
        "causes": None if filters.cause is None else list(CAUSE_PREFIXES[filters.cause]),
        "created_by": None if min_age_hours is None else now - timedelta(hours=min_age_hours),
    }
    rows = _SELECT_REFUND_PAGES[page.sort, page.descending].all(
        session, **parameters, now=now, most=page.limit, offset=page.offset
    )
    total = _COUNT_REFUNDS.one(session, **parameters)["total"]
    return TablePage([_with_buyer(row) for row in rows], page, total)


def list_quarantine(
    session: Session, *, status: str | None, reason: str | None, page: TableRequest
) -> TablePage:
    """List charges that are, or were, held back, in two queries.

    :param status: ``open`` or ``resolved``; none for both
    :param reason: why it was held back; none for any
    :param page: which page, sorted by one of ``QUARANTINE_SORTS``
    """
    parameters = {"status": status, "reason": reason}
    rows = _SELECT_QUARANTINE_PAGES[page.sort, page.descending].all(
        session, **parameters, most=page.limit, offset=page.offset
    )
    total = _COUNT_QUARANTINE.one(session, **parameters)["total"]
    return TablePage([_with_buyer(row) for row in rows], page, total)


def _with_buyer(row: dict[str, Any]) -> dict[str, Any]:
    row["buyer"] = {"id": row.pop("buyer_id"), "name": row.pop("buyer_name")}
    return row
