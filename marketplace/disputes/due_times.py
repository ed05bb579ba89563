"""Due times of disputes: remind the sides, record missed responses, and alert staff before and after.

A side that does not respond in time is recorded as silent. Staff rule without that side's view.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from marketplace.alerts.kinds import AlertIdentifier
from marketplace.alerts.operations import raise_alert, resolve_alerts_except
from marketplace.disputes import cases, states, texts
from marketplace.disputes.closing import change_status
from marketplace.disputes.evidence.files import EVIDENCE_TIME
from marketplace.disputes.models import Dispute
from marketplace.infra.batches import process_each
from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Statement
from marketplace.orders.transitions import SYSTEM

REMINDER_BEFORE = timedelta(hours=12)
ALERT_BEFORE = timedelta(hours=12)
RECEIPT_TIME = timedelta(days=5)
_MAX_DISPUTES_PER_RUN = 1_000


def keep_due_times(database: Database, *, now: datetime) -> int:
    """Remind silent sides, record missed responses, and update the alerts about stages of staff.

    :return: the number of reminders and missed responses
    """
    with database.reading() as session:
        waiting = dict(
            session.execute(
                select(Dispute.id, Dispute.response_due_at)
                .where(
                    Dispute.status == states.AWAITING_RESPONSE,
                    Dispute.response_due_at <= now + REMINDER_BEFORE,
                )
                .order_by(Dispute.response_due_at)
                .limit(_MAX_DISPUTES_PER_RUN)
            ).all()
        )
        unsealed = session.scalars(
            select(Dispute.id)
            .where(
                Dispute.resolved_at.is_(None),
                Dispute.created_at > now - EVIDENCE_TIME,
                Dispute.created_at <= now - EVIDENCE_TIME + REMINDER_BEFORE,
            )
            .limit(_MAX_DISPUTES_PER_RUN)
        ).all()
    done = process_each(
        waiting,
        lambda dispute_id: database.in_transaction(_keep_response, dispute_id=dispute_id, now=now),
        failure="response of a dispute not handled",
    )
    reminded = process_each(
        unsealed,
        lambda dispute_id: database.in_transaction(_remind_of_evidence, dispute_id=dispute_id, now=now),
        failure="reminder of evidence not sent",
    )
    database.in_transaction(update_alerts, now=now)
    return sum(done) + sum(reminded)


def _keep_response(session: Session, *, dispute_id: UUID, now: datetime) -> bool:
    """Remind the other side of its response, or record that the time is over."""
    dispute, order = cases.lock_case(session, dispute_id=dispute_id)
    if dispute.status != states.AWAITING_RESPONSE:
        return False
    is_missed = dispute.response_due_at <= now
    silent_id = cases.other_party(dispute)
    if is_missed:
        change_status(dispute, states.DISPUTE.target(dispute.status, states.MISS_RESPONSE), now)
        dispute.response_missed_at = now
        side = "vendor" if dispute.opened_by == "buyer" else "buyer"
        session.flush()
        cases.record_event(session, dispute, "response_missed", SYSTEM, note=side, now=now)
        cases.notify_parties(
            session,
            dispute,
            order,
            title=texts.RESPONSE_MISSED_TITLE,
            body=texts.RESPONSE_MISSED_BODY[side],
            cause="response-missed",
            now=now,
        )
        return True
    return cases.notify_party(
        session,
        dispute,
        order,
        user_id=silent_id,
        title=texts.RESPONSE_DUE_TITLE,
        body=texts.RESPONSE_DUE_BODY,
        cause="response-due",
        now=now,
        until=f"{dispute.response_due_at:%Y-%m-%d %H:%M} UTC",
    )


def _remind_of_evidence(session: Session, *, dispute_id: UUID, now: datetime) -> bool:
    """Remind both sides that the evidence is sealed soon, once."""
    dispute, order = cases.lock_case(session, dispute_id=dispute_id)
    if dispute.resolved_at is not None:
        return False
    return cases.notify_parties(
        session,
        dispute,
        order,
        title=texts.EVIDENCE_DUE_TITLE,
        body=texts.EVIDENCE_DUE_BODY,
        cause="evidence-due",
        now=now,
        until=f"{dispute.created_at + EVIDENCE_TIME:%Y-%m-%d %H:%M} UTC",
    )


@dataclass(frozen=True)
class _StageCount:
    stage: str
    is_overdue: bool
    disputes: int
    since: datetime
    numbers: list[str]


# A ruling with a return has been made. The return has its own due times: the buyer sends, then the vendor receives.
_SELECT_DUE_STAGES = Statement(
    text(
        """
        WITH stages AS (
            SELECT 'finding' AS stage, d.number, d.finding_due_at AS due_at
            FROM disputes d WHERE d.resolved_at IS NULL AND d.finding_at IS NULL
            UNION ALL SELECT 'ruling', d.number, d.ruling_due_at
            FROM disputes d LEFT JOIN dispute_returns r ON r.dispute_id = d.id AND r.status IN ('requested', 'sent')
            WHERE d.resolved_at IS NULL AND r.dispute_id IS NULL
            UNION ALL SELECT 'return', d.number,
                CASE r.status WHEN 'requested' THEN r.send_due_at ELSE r.sent_at + :receipt_time END
            FROM dispute_returns r JOIN disputes d ON d.id = r.dispute_id
            WHERE r.status IN ('requested', 'sent') AND d.resolved_at IS NULL
            UNION ALL SELECT 'appeal', d.number, a.decision_due_at
            FROM dispute_appeals a JOIN disputes d ON d.id = a.dispute_id WHERE a.status = 'pending'
        )
        SELECT stage, due_at <= :now AS is_overdue, count(*) AS disputes, min(due_at) AS since,
            (array_agg(number ORDER BY due_at))[1:20] AS numbers
        FROM stages WHERE due_at <= :soon GROUP BY 1, 2 ORDER BY 1, 2
        """
    ),
    row=_StageCount,
)


def update_alerts(session: Session, *, now: datetime) -> None:
    """Raise an alert for each stage with disputes that are due soon or overdue, and resolve the others."""
    counts = _SELECT_DUE_STAGES.all(session, now=now, soon=now + ALERT_BEFORE, receipt_time=RECEIPT_TIME)
    alerts: tuple[tuple[AlertIdentifier, str, bool], ...] = (
        ("DISPUTES_DUE", texts.ALERT_DISPUTES_DUE, False),
        ("DISPUTES_OVERDUE", texts.ALERT_DISPUTES_OVERDUE, True),
    )
    for identifier, title, is_overdue in alerts:
        matching = [count for count in counts if count.is_overdue is is_overdue]
        for count in matching:
            raise_alert(
                session,
                identifier=identifier,
                subject=_subject(count.stage),
                title=title,
                facts={
                    "stage": count.stage,
                    "disputes": count.disputes,
                    "firstDueAt": count.since,
                    "numbers": count.numbers,
                },
                now=now,
            )
        resolve_alerts_except(
            session,
            identifier=identifier,
            subjects=[_subject(count.stage) for count in matching],
            note=texts.ALERT_DISPUTES_ON_TIME,
            now=now,
        )


def _subject(stage: str) -> str:
    return f"disputes:{stage}"
