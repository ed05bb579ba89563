"""Drift of the ledger, in itself or from the gateway's balance: raise alerts and halt payouts."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy.orm import Session

from marketplace.alerts.operations import raise_alert, redact_facts, resolve_alerts_except
from marketplace.ledger.queries import Violation
from marketplace.platform.halts import halt_payouts

# What reconciliation finds: over when one matches, and not when all rules of the books hold.
GATEWAY_BALANCE_SUBJECT = "what the gateway holds is what the books say"


def raise_drift_and_halt_payouts(
    session: Session, *, subject: str, title: str, facts: Mapping[str, Any], findings: Any, now: datetime
) -> UUID:
    """Raise ESCROW_DRIFT and halt payouts.

    Officers who resume payouts while it lasts are not overruled by its being found again, as long as just the same
    is found. What is over and comes back halts them again.

    :param subject: what drifted, such as a rule of the books: one alert is open for each
    :param title: in a few words that are the same each time
    :param facts: ids, counts and amounts, for whoever looks at it
    :param findings: all that was found, made of what JSON can say, UUIDs and times: it tells whether it is still
        the same
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
    """Raise ESCROW_DRIFT for each rule of the books that is broken, and resolve all others.

    A broken rule halts payouts; that it holds again does not resume them.

    :param violations: of a check of all rules, with the rows that break them
    """
    for violation in violations:
        raise_drift_and_halt_payouts(
            session,
            subject=violation.rule,
            title="The books are not whole",
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
        note="The rule holds.",
        now=now,
    )
