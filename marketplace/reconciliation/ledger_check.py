"""The check of all ledger rules, of every area, and the alerts about broken ones."""

from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.ledger.queries import Violation
from marketplace.payments.integrity import drift, invariants as payment_invariants
from marketplace.payouts import invariants as payout_invariants
from marketplace.reconciliation import invariants as reconciliation_invariants


def verify_ledger(session: Session) -> list[Violation]:
    """Check all ledger rules: of the ledger itself, orders, payments, payouts and reconciliation.

    :param session: one that reads
    :return: a violation for each rule that does not hold, with at most 100 of its rows; none if all hold
    """
    return [
        *payment_invariants.verify(session),
        *payout_invariants.verify(session),
        *reconciliation_invariants.verify_reconciliation(session),
    ]


def check_ledger(database: Database, *, now: datetime) -> list[Violation]:
    """Check all ledger rules, and raise ESCROW_DRIFT for each broken one.

    Alerts of rules that hold again are resolved.

    :return: the violations that ``verify_ledger`` found
    """
    with database.reading() as session:
        violations = verify_ledger(session)
    database.in_transaction(drift.update_invariant_alerts, violations, now=now)
    return violations
