"""Alerts about broken ledger rules: raise and resolve them."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.alerts import kinds
from marketplace.alerts.operations import resolve_alerts_except
from marketplace.ledger.queries import Violation
from marketplace.payments.integrity.drift import GATEWAY_BALANCE_SUBJECT, raise_drift_and_halt_payouts

_ROWS_SHOWN = 5


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
                "first": violation.rows[:_ROWS_SHOWN],
            },
            findings=violation.rows,
            now=now,
        )
    resolve_alerts_except(
        session,
        identifier=kinds.ESCROW_DRIFT,
        subjects=[*(violation.rule for violation in violations), GATEWAY_BALANCE_SUBJECT],
        note="The rule holds.",
        now=now,
    )
