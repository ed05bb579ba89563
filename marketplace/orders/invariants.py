"""Invariants of the ledger about orders and escrow: each query returns the rows that break the invariant."""

from marketplace.ledger.queries import build_invariants

_ESCROW_BALANCES_SQL = """
    SELECT e.order_id, sum(CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END)::bigint AS minor
    FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'escrow'
    GROUP BY e.order_id
"""
# The allowed states of the escrow, by state of the order.
_ALLOWED_ESCROW_STATES_SQL = """
    (VALUES ('pending_payment', '{pending}'::text[]), ('expired', '{pending}'), ('cancelled', '{pending,refunded}'),
        ('paid_escrow', '{held}'), ('processing', '{held}'), ('shipped', '{held}'), ('disputed', '{frozen}'),
        ('delivered', '{released,partially_refunded}'), ('refunded', '{refunded}')) AS pair (status, escrows)
"""

INVARIANTS = build_invariants(
    {
        "the ledger's escrow balance of each order equals its escrow record": f"""
            SELECT o.number, s.status AS escrow, expected.minor AS expected_minor, coalesce(b.minor, 0) AS booked_minor
            FROM escrows s JOIN orders o ON o.id = s.order_id
            CROSS JOIN LATERAL (SELECT CASE WHEN o.status = 'pending_payment' THEN o.wallet_minor + o.accepted_minor
                WHEN s.status = 'pending' THEN 0
                ELSE s.amount_minor - s.released_minor - s.refunded_minor END AS minor) expected
            LEFT JOIN ({_ESCROW_BALANCES_SQL}) b ON b.order_id = s.order_id
            WHERE expected.minor <> coalesce(b.minor, 0) LIMIT 100
            """,
        "all money in escrow belongs to an order": f"""
            SELECT b.order_id::text AS order, b.minor AS booked_minor FROM ({_ESCROW_BALANCES_SQL}) b
            WHERE b.minor <> 0 AND NOT EXISTS (SELECT FROM escrows s WHERE s.order_id = b.order_id) LIMIT 100
            """,
        "each escrow's state is allowed by the state of its order": f"""
            SELECT o.number, o.status, s.status AS escrow
            FROM orders o LEFT JOIN escrows s ON s.order_id = o.id
                LEFT JOIN {_ALLOWED_ESCROW_STATES_SQL} ON pair.status = o.status
            WHERE (s.status = ANY(pair.escrows)) IS NOT TRUE
                OR (o.status = 'cancelled' AND (o.paid_at IS NULL) <> (s.status = 'pending')) LIMIT 100
            """,
        "each escrow's amounts match its state": """
            SELECT o.number, s.status AS escrow, o.total_minor, s.amount_minor, s.released_minor, s.refunded_minor
            FROM escrows s JOIN orders o ON o.id = s.order_id
            WHERE s.amount_minor <> o.total_minor OR NOT CASE s.status
                WHEN 'pending' THEN s.released_minor = 0 AND s.refunded_minor = 0
                WHEN 'released' THEN s.released_minor = s.amount_minor
                WHEN 'refunded' THEN s.refunded_minor = s.amount_minor
                WHEN 'partially_refunded' THEN s.released_minor > 0 AND s.refunded_minor > 0
                    AND s.released_minor + s.refunded_minor = s.amount_minor
                ELSE s.released_minor = 0 AND s.refunded_minor < s.amount_minor END LIMIT 100
            """,
        "the payments of each paid order add up to its total": """
            SELECT o.number, o.status, o.total_minor, coalesce(paid.minor, 0) AS booked_minor
            FROM orders o LEFT JOIN LATERAL (
                SELECT sum(e.amount_minor)::bigint AS minor
                FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'escrow'
                    JOIN ledger_transactions t ON t.id = e.transaction_id
                WHERE e.order_id = o.id AND e.direction = 'credit'
                    AND t.kind IN ('payment', 'wallet_payment', 'held_payment')
            ) paid ON true
            WHERE o.paid_at IS NOT NULL AND coalesce(paid.minor, 0) <> o.total_minor LIMIT 100
            """,
        "the wallet payment of each order is in the ledger": """
            SELECT o.number, o.wallet_minor, coalesce(paid.minor, 0) AS booked_minor
            FROM orders o LEFT JOIN (
                SELECT e.order_id, sum(e.amount_minor)::bigint AS minor
                FROM ledger_transactions t JOIN ledger_entries e ON e.transaction_id = t.id
                    JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'escrow'
                WHERE t.kind = 'wallet_payment' AND e.direction = 'credit' GROUP BY e.order_id
            ) paid ON paid.order_id = o.id
            WHERE coalesce(paid.minor, 0) <> o.wallet_minor LIMIT 100
            """,
        "the accepted part of quarantined charges is in the ledger for each order": """
            SELECT o.number, o.accepted_minor, coalesce(paid.minor, 0) AS booked_minor
            FROM orders o LEFT JOIN (
                SELECT e.order_id, sum(e.amount_minor)::bigint AS minor
                FROM ledger_transactions t JOIN ledger_entries e ON e.transaction_id = t.id
                    JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'escrow'
                WHERE t.kind = 'held_payment' AND e.direction = 'credit' GROUP BY e.order_id
            ) paid ON paid.order_id = o.id
            WHERE coalesce(paid.minor, 0) <> o.accepted_minor LIMIT 100
            """,
        "every paid order has a time of payment": """
            SELECT number, status FROM orders
            WHERE paid_at IS NULL
                AND status IN ('paid_escrow', 'processing', 'shipped', 'delivered', 'disputed', 'refunded')
            LIMIT 100
            """,
    }
)
