"""The check of all ledger invariants, of every area, and the alerts about violations."""

from datetime import datetime

from sqlalchemy.orm import Session

from marketplace.infra.db import Database, allow_long_statements
from marketplace.ledger.queries import (
    INVARIANTS as LEDGER_INVARIANTS,
    Violation,
    build_invariants,
    find_violations,
)
from marketplace.orders import invariants as order_invariants
from marketplace.payments.integrity import drift, invariants as payment_invariants
from marketplace.payouts import invariants as payout_invariants
from marketplace.proposals import invariants as proposal_invariants
from marketplace.reconciliation.resolution import SINGLE_APPROVER_DAILY_LIMIT_MINOR
from marketplace.referrals import invariants as referral_invariants

# Each invariant reads whole tables.
_STATEMENT_TIMEOUT_SECONDS = 120
_SELECT_CLEARING_MOVEMENT = """
    SELECT coalesce(sum(CASE e.direction WHEN 'debit' THEN e.amount_minor ELSE -e.amount_minor END), 0)::bigint AS minor
    FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'gateway_clearing'
    WHERE e.transaction_id = t.id
"""
_RECONCILIATION_INVARIANTS = build_invariants(
    {
        "every opening or top-up posting equals its movement at the gateway": f"""
            SELECT t.kind, t.source, booked.minor AS booked_minor, m.difference_minor AS moved_minor
            FROM ledger_transactions t LEFT JOIN gateway_movements m ON t.source = 'movement:' || m.id
            CROSS JOIN LATERAL ({_SELECT_CLEARING_MOVEMENT}) booked
            WHERE t.kind IN ('opening', 'top_up') AND m.difference_minor IS DISTINCT FROM booked.minor LIMIT 100
            """,
        "every accepted difference is an officer's decision and is posted once": f"""
            SELECT t.source, x.id::text AS exception, booked.minor AS booked_minor,
                x.there_minor - x.here_minor AS decided_minor
            FROM (SELECT id, source FROM ledger_transactions WHERE kind = 'accepted_difference') t
            FULL JOIN (SELECT id, item, here_minor, there_minor FROM reconciliation_exceptions
                WHERE resolution IN ('own_funds', 'gateway_cost')) x ON t.source = x.item || ' #' || x.id
            CROSS JOIN LATERAL ({_SELECT_CLEARING_MOVEMENT}) booked
            WHERE t.id IS NULL OR x.id IS NULL OR booked.minor <> x.there_minor - x.here_minor LIMIT 100
            """,
        "every accepted difference above the single-approver limit has two approvers": f"""
            SELECT x.id::text AS exception, x.there_minor - x.here_minor AS decided_minor
            FROM reconciliation_exceptions x
            WHERE x.resolution IN ('own_funds', 'gateway_cost', 'came_back')
                AND abs(x.there_minor - x.here_minor) > {SINGLE_APPROVER_DAILY_LIMIT_MINOR}
                AND (x.proposed_by IS NULL OR x.proposed_by = x.resolved_by) LIMIT 100
            """,
    }
)


def verify_ledger(session: Session) -> list[Violation]:
    """Check the ledger invariants of all areas.

    :return: a violation for each broken invariant, with at most 100 rows
    """
    return find_violations(
        session,
        LEDGER_INVARIANTS
        | order_invariants.INVARIANTS
        | payment_invariants.INVARIANTS
        | payout_invariants.INVARIANTS
        | proposal_invariants.INVARIANTS
        | referral_invariants.INVARIANTS
        | _RECONCILIATION_INVARIANTS,
    )


def check_ledger(database: Database, *, now: datetime) -> list[Violation]:
    """Check all ledger invariants, raise ESCROW_DRIFT for each broken invariant, and halt payouts.

    Alerts of invariants that hold again are resolved.

    :return: the violations
    """
    with database.transaction() as session:
        allow_long_statements(session, seconds=_STATEMENT_TIMEOUT_SECONDS)
        violations = verify_ledger(session)
    database.in_transaction(drift.update_invariant_alerts, violations, now=now)
    return violations
