"""Alerts about stalled payments: raise and resolve them."""

from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.alerts.operations import raise_alert, resolve_alerts_except
from marketplace.alerts.queries import list_open_subjects
from marketplace.infra.db import Statement

# After its time is over an order is asked about every minute. What is unclear for so long stays so by itself.
STALLED_AFTER = timedelta(hours=2)


_STALLED_LIMIT = 500


_SELECT_STALLED_PAYMENTS = Statement(
    text(
        """
        SELECT i.id, i.reference, i.status, i.amount_minor, min(o.expires_at) AS expired_at, count(*) AS orders
        FROM payment_intents i
            JOIN payment_allocations a ON a.intent_id = i.id
            JOIN orders o ON o.id = a.order_id
        WHERE i.status IN ('initialized', 'pending') AND a.live AND o.status = 'pending_payment'
            AND o.payment_status IS DISTINCT FROM 'quarantined' AND o.expires_at <= :before
        GROUP BY i.id ORDER BY min(o.expires_at), i.id LIMIT :limit
        """
    )
)


def flag_stalled_payments(session: Session, *, now: datetime) -> int:
    """Raise each payment that is unclear for hours, once, and resolve those that are over.

    Unclear is one of whose orders the time was over two hours ago, and which the gateway is still at, or can't be
    asked about: else the sweep of abandoned checkouts had ended it. At most 500 are looked at.

    :return: how many payments are unclear
    """
    rows = _SELECT_STALLED_PAYMENTS.all(session, before=now - STALLED_AFTER, limit=_STALLED_LIMIT)
    open_subjects = list_open_subjects(session, identifier=kinds.PAYMENT_STALLED)
    for row in rows:
        if _payment_subject(row["id"]) not in open_subjects:
            raise_alert(
                session,
                identifier=kinds.PAYMENT_STALLED,
                subject=_payment_subject(row["id"]),
                title="It is unclear whether something was paid",
                facts={
                    "intentId": row["id"],
                    "reference": row["reference"],
                    "status": row["status"],
                    "amountMinor": row["amount_minor"],
                    "orders": row["orders"],
                    "expiredAt": row["expired_at"],
                },
                now=now,
            )
    # Of more than are looked at, those beyond may be unclear still.
    if len(rows) < _STALLED_LIMIT:
        resolve_alerts_except(
            session,
            identifier=kinds.PAYMENT_STALLED,
            subjects=[_payment_subject(row["id"]) for row in rows],
            note="The payment is settled or over.",
            now=now,
        )
    return len(rows)


def _payment_subject(intent_id: UUID) -> str:
    return f"payment:{intent_id}"
