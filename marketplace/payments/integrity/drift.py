"""Alerts and payout halts when the ledger violates an invariant or differs from the gateway's balance."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy.orm import Session

from marketplace.alerts.operations import raise_alert, redact_facts, resolve_alerts_except
from marketplace.ledger.queries import Violation
from marketplace.payments import texts
from marketplace.platform.halts import halt_payouts

# Subject of the alert of reconciliation. Only a matching reconciliation resolves that alert, not an invariant check.
GATEWAY_BALANCE_SUBJECT = "the gateway's balance equals the ledger's"


def raise_drift_and_halt_payouts(
    session: Session, *, subject: str, title: str, facts: Mapping[str, Any], findings: Any, now: datetime
) -> UUID:
    """Raise the alert ESCROW_DRIFT and halt payouts.

    Once officers have resumed payouts, the same findings do not halt payouts again. Payouts are halted again if the
    findings change, or return after the alert was resolved.

    :param subject: the violated invariant or the gateway balance; each subject has at most one open alert
    :param title: a short title, constant for each kind of drift
    :param facts: ids, counts and amounts for the operator
    :param findings: all findings as JSON values, UUIDs and times, to detect changed findings
    :return: the alert's id
    """
    alert_id = raise_alert(
        session, identifier="ESCROW_DRIFT", subject=subject, title=title, facts=facts, now=now
    )
    halt_payouts(
        session,
        f"ESCROW_DRIFT: {subject}",
        now,
        finding=hashlib.sha256(
            orjson.dumps([alert_id, findings], default=str, option=orjson.OPT_SORT_KEYS)
        ).hexdigest(),
        facts=redact_facts(facts),
    )
    return alert_id


def update_invariant_alerts(session: Session, violations: Sequence[Violation], *, now: datetime) -> None:
    """Raise ESCROW_DRIFT for each violated ledger invariant, and resolve the alerts of invariants that hold again.

    A violation halts payouts. Payouts stay halted until officers resume them, even if the invariant holds again.

    :param violations: the result of a check of all invariants
    """
    for violation in violations:
        raise_drift_and_halt_payouts(
            session,
            subject=violation.rule,
            title=texts.ALERT_LEDGER_INVARIANT_VIOLATED,
            facts={
                "rule": violation.rule,
                "rows": len(violation.rows),
                "first": violation.rows[:5],
            },
            findings=violation.rows,
            now=now,
        )
    resolve_alerts_except(
        session,
        identifier="ESCROW_DRIFT",
        subjects=[*(violation.rule for violation in violations), GATEWAY_BALANCE_SUBJECT],
        note=texts.ALERT_LEDGER_INVARIANT_RESTORED,
        now=now,
    )
