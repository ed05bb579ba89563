"""The check of all ledger rules, of every area, and the alerts about broken ones."""

from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.ledger.queries import (
    INVARIANTS as LEDGER_INVARIANTS,
    Violation,
    build_invariants,
    find_violations,
)
from marketplace.orders import invariants as order_invariants
from marketplace.payments.integrity import drift, invariants as payment_invariants
from marketplace.payouts import invariants as payout_invariants
from marketplace.reconciliation.resolution import SINGLE_APPROVER_DAILY_LIMIT_MINOR

_SELECT_CLEARING_MOVEMENT = """
    SELECT coalesce(sum(CASE e.direction WHEN 'debit' THEN e.amount_minor ELSE -e.amount_minor END), 0)::bigint AS minor
    FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'gateway_clearing'
    WHERE e.transaction_id = t.id
"""
_RECONCILIATION_INVARIANTS = build_invariants(
    {
        "own money at the gateway is booked as the gateway moved it": f"""
            SELECT t.kind, t.source, booked.minor AS booked_minor, m.difference_minor AS moved_minor
            FROM ledger_transactions t LEFT JOIN gateway_movements m ON t.source = 'movement:' || m.id
            CROSS JOIN LATERAL ({_SELECT_CLEARING_MOVEMENT}) booked
            WHERE t.kind IN ('opening', 'top_up') AND m.difference_minor IS DISTINCT FROM booked.minor LIMIT 100
            """,
        "each difference to the gateway that was accepted is an officer's decision, booked once": f"""
            SELECT t.source, x.id::text AS exception, booked.minor AS booked_minor,
                x.there_minor - x.here_minor AS decided_minor
            FROM (SELECT id, source FROM ledger_transactions WHERE kind = 'accepted_difference') t
            FULL JOIN (SELECT id, item, here_minor, there_minor FROM reconciliation_exceptions
                WHERE resolution IN ('own_funds', 'gateway_cost')) x ON t.source = x.item || ' #' || x.id
            CROSS JOIN LATERAL ({_SELECT_CLEARING_MOVEMENT}) booked
            WHERE t.id IS NULL OR x.id IS NULL OR booked.minor <> x.there_minor - x.here_minor LIMIT 100
            """,
        "a difference to the gateway that is more than a little was accepted by two officers": f"""
            SELECT x.id::text AS exception, x.there_minor - x.here_minor AS decided_minor
            FROM reconciliation_exceptions x
            WHERE x.resolution IN ('own_funds', 'gateway_cost', 'came_back')
                AND abs(x.there_minor - x.here_minor) > {SINGLE_APPROVER_DAILY_LIMIT_MINOR}
                AND (x.proposed_by IS NULL OR x.proposed_by = x.resolved_by) LIMIT 100
            """,
    }
)


def verify_ledger(session: Session) -> list[Violation]:
    """Check all ledger rules: of the ledger itself, orders, payments, payouts and reconciliation.

    :param session: one that reads
    :return: a violation for each rule that does not hold, with at most 100 of its rows; none if all hold
    """
    return find_violations(
        session,
        LEDGER_INVARIANTS
        | order_invariants.INVARIANTS
        | payment_invariants.INVARIANTS
        | payout_invariants.INVARIANTS
        | _RECONCILIATION_INVARIANTS,
    )


def check_ledger(database: Database, *, now: datetime) -> list[Violation]:
    """Check all ledger rules, and raise ESCROW_DRIFT for each broken one.

    Alerts of rules that hold again are resolved.

    :return: the violations that ``verify_ledger`` found
    """
    with database.reading() as session:
        violations = verify_ledger(session)
    database.in_transaction(drift.update_invariant_alerts, violations, now=now)
    return violations
