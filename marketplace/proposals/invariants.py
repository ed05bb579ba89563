"""Ledger invariants of wallet adjustments."""

from marketplace.ledger.queries import build_invariants

INVARIANTS = build_invariants(
    {
        "each wallet adjustment is an approved proposal, posted once with its amount": """
            SELECT p.id::text AS proposal, t.source, (p.payload ->> 'amountMinor')::bigint AS approved_minor,
                booked.minor AS booked_minor
            FROM (SELECT id, payload FROM platform_proposals
                WHERE kind = 'wallet_adjustment' AND status = 'active') p
            FULL JOIN (SELECT id, source FROM ledger_transactions WHERE kind = 'wallet_adjustment') t
                ON t.source = 'proposal:' || p.id
            LEFT JOIN LATERAL (
                SELECT sum(CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END)::bigint AS minor
                FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id
                WHERE e.transaction_id = t.id AND a.kind = 'wallet'
                    AND a.owner_id = (p.payload ->> 'userId')::uuid
            ) booked ON true
            WHERE booked.minor IS DISTINCT FROM (p.payload ->> 'amountMinor')::bigint OR p.id IS NULL LIMIT 100
            """,
    }
)
