"""Ledger rules of reconciliation's postings."""

from sqlalchemy.orm import Session

from marketplace.ledger.queries import Violation, build_invariants, find_violations
from marketplace.reconciliation.adjustments import SINGLE_APPROVER_DAILY_LIMIT_MINOR

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


def verify_reconciliation(session: Session) -> list[Violation]:
    """Check what reconciliation booked.

    :param session: one that reads
    :return: a violation for each rule that does not hold, with at most 100 of its rows; none if all hold
    """
    return find_violations(session, _RECONCILIATION_INVARIANTS)
