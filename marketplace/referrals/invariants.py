"""Ledger invariants of referrals: each query returns the rows that break the invariant."""

from marketplace.ledger.queries import build_invariants

INVARIANTS = build_invariants(
    {
        "every reward of a referral is posted once with its amount": """
            SELECT coalesce(expected.source, booked.source) AS source, expected.minor AS expected_minor,
                booked.minor AS booked_minor
            FROM (
                SELECT concat_ws(':', 'referral', id, 'newcomer') AS source, newcomer_id AS owner_id,
                    newcomer_transaction_id AS transaction_id, newcomer_minor AS minor
                FROM referrals WHERE newcomer_transaction_id IS NOT NULL
                UNION ALL
                SELECT concat_ws(':', 'referral', id, 'referrer'), referrer_id, referrer_transaction_id, referrer_minor
                FROM referrals WHERE referrer_transaction_id IS NOT NULL
            ) expected FULL JOIN (
                SELECT t.id, t.source, a.owner_id, sum(e.amount_minor)::bigint AS minor
                FROM ledger_transactions t JOIN ledger_entries e ON e.transaction_id = t.id AND e.direction = 'credit'
                    JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'wallet'
                WHERE t.kind = 'reward' AND t.source LIKE 'referral:%' GROUP BY t.id, t.source, a.owner_id
            ) booked ON booked.id = expected.transaction_id
            WHERE (expected.source, expected.owner_id, expected.minor)
                IS DISTINCT FROM (booked.source, booked.owner_id, booked.minor) LIMIT 100
            """,
        "no referral forms a loop": """
            SELECT r.newcomer_id::text AS newcomer FROM referrals r WHERE r.accepted_at IS NOT NULL
                AND EXISTS (
                    WITH RECURSIVE above AS (
                        SELECT r.referrer_id AS id
                        UNION
                        SELECT x.referrer_id FROM referrals x JOIN above a ON x.newcomer_id = a.id
                        WHERE x.accepted_at IS NOT NULL
                    )
                    SELECT FROM above WHERE id = r.newcomer_id) LIMIT 100
            """,
    }
)
