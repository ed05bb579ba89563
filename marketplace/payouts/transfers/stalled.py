"""Stalled payouts: flag payouts in transit for more than 48 hours, and alert finance."""

from datetime import datetime, timedelta

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts.operations import raise_alert, resolve_alerts_except
from marketplace.alerts.queries import list_open_subjects
from marketplace.infra.sql.statements import Statement
from marketplace.payouts import texts
from marketplace.payouts.transfers import alerts

STALLED_AFTER = timedelta(hours=48)
# Payouts without a batch share a single alert, so that officers are not woken for each payout.
WITHOUT_BATCH_SUBJECT = "payouts without a batch"
_GROUPS_LIMIT = 500

# A pending payout is in transit since the creation, and a sent payout since the dispatch of the batch.
_FLAG_STALLED_PAYOUTS = Statement(
    text(
        """
        WITH waiting AS MATERIALIZED (
            SELECT i.id FROM payout_transfer_intents i LEFT JOIN payout_batches b ON b.id = i.batch_id
            WHERE i.status IN ('pending', 'submitted', 'unknown') AND i.stalled_at IS NULL
                AND CASE WHEN i.status = 'pending' THEN i.created_at ELSE b.dispatched_at END <= :before
            ORDER BY i.id FOR NO KEY UPDATE OF i SKIP LOCKED
        )
        UPDATE payout_transfer_intents i SET stalled_at = :now FROM waiting w WHERE i.id = w.id
        """
    )
)
_SELECT_STALLED_BY_BATCH = Statement(
    text(
        """
        SELECT i.batch_id, count(*) AS payments, sum(i.amount_minor)::bigint AS amount_minor,
            min(i.created_at) AS since
        FROM payout_transfer_intents i
        WHERE i.stalled_at IS NOT NULL AND i.status IN ('pending', 'submitted', 'unknown')
        GROUP BY i.batch_id ORDER BY min(i.created_at), i.batch_id LIMIT :limit
        """
    )
)


def flag_stalled_payouts(session: Session, *, now: datetime) -> int:
    """Flag payouts in transit for more than 48 hours, and raise an alert for each batch.

    Alerts of batches without stalled payouts are resolved. At most 500 batches are handled.

    :return: the number of newly flagged payouts
    """
    flagged = _FLAG_STALLED_PAYOUTS.run(session, before=now - STALLED_AFTER, now=now)
    groups = _SELECT_STALLED_BY_BATCH.all(session, limit=_GROUPS_LIMIT)
    open_subjects = list_open_subjects(session, identifier="PAYOUT_STALLED")
    subjects = []
    for group in groups:
        batch_id = group["batch_id"]
        subject = WITHOUT_BATCH_SUBJECT if batch_id is None else alerts.batch_subject(batch_id)
        subjects.append(subject)
        if subject not in open_subjects:
            raise_alert(
                session,
                identifier="PAYOUT_STALLED",
                subject=subject,
                title=texts.ALERT_PAYOUT_STALLED_TITLE,
                facts={
                    "batchId": batch_id,
                    "payments": group["payments"],
                    "amountMinor": group["amount_minor"],
                    "since": group["since"],
                },
                now=now,
            )
    # Beyond the limit, further batches may still have stalled payouts.
    if len(groups) < _GROUPS_LIMIT:
        resolve_alerts_except(
            session,
            identifier="PAYOUT_STALLED",
            subjects=subjects,
            note=texts.RESOLVED_NOT_STALLED,
            now=now,
        )
    return flagged
