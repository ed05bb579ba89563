"""Ledger invariants of payouts."""

from marketplace.ledger.queries import build_invariants

# The source of a payout's transactions is ``payout:<id>``. Repeated returns, and transfers sent after a return, add a
# number: ``payout:<id>:2``.
_PAYOUT_TRANSACTION_KINDS = """('payout_staged', 'payout_cancelled', 'payout', 'payout_returned', 'payout_reversed',
    'payout_sent_after_all')"""
_PAYOUT_SOURCE = "'payout:' || split_part(t.source, ':', 2)"
# Statuses of payouts in transit, and of payouts whose amount is debited from the payee's balance.
_IN_TRANSIT_STATUSES = "('pending', 'submitted', 'unknown')"
_DEBITED_STATUSES = "('pending', 'submitted', 'unknown', 'success')"

INVARIANTS = build_invariants(
    {
        "each payout has its amount in transit exactly until its status is final": f"""
            SELECT i.id::text AS payout, booked.source, i.status, expected.minor AS expected_minor,
                coalesce(booked.minor, 0) AS booked_minor
            FROM payout_transfer_intents i FULL JOIN (
                SELECT {_PAYOUT_SOURCE} AS source, coalesce(sum(CASE e.direction WHEN 'credit' THEN e.amount_minor
                    ELSE -e.amount_minor END) FILTER (WHERE a.kind = 'payouts_in_transit'), 0)::bigint AS minor
                FROM ledger_transactions t JOIN ledger_entries e ON e.transaction_id = t.id
                    JOIN ledger_accounts a ON a.id = e.account_id
                WHERE t.kind IN {_PAYOUT_TRANSACTION_KINDS} GROUP BY 1
            ) booked ON booked.source = 'payout:' || i.id
            CROSS JOIN LATERAL (
                SELECT CASE WHEN i.status IN {_IN_TRANSIT_STATUSES} THEN i.amount_minor ELSE 0 END AS minor
            ) expected
            WHERE i.id IS NULL OR booked.source IS NULL OR expected.minor <> booked.minor LIMIT 100
            """,
        "the balance of payouts in transit equals the sum of open payouts": f"""
            SELECT * FROM (SELECT (
                SELECT coalesce(sum(CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END),
                    0)::bigint
                FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id
                WHERE a.kind = 'payouts_in_transit') AS booked_minor, (
                SELECT coalesce(sum(amount_minor), 0)::bigint FROM payout_transfer_intents
                WHERE status IN {_IN_TRANSIT_STATUSES}) AS expected_minor) both_sides
            WHERE booked_minor <> expected_minor
            """,
        # A payout sent after its return is debited from the payee's balance at that time. The rest becomes a debt.
        "each open or successful payout is debited from the balance of its payee": f"""
            SELECT i.id::text AS payout, i.status, expected.minor AS expected_minor,
                coalesce(booked.minor, 0) AS booked_minor
            FROM payout_transfer_intents i LEFT JOIN (
                SELECT {_PAYOUT_SOURCE} AS source, a.kind IN ('wallet', 'buyer_receivable') AS out_of_wallet,
                    a.owner_id,
                    sum(CASE e.direction WHEN 'debit' THEN e.amount_minor ELSE -e.amount_minor END)::bigint AS minor
                FROM ledger_transactions t JOIN ledger_entries e ON e.transaction_id = t.id
                    JOIN ledger_accounts a ON a.id = e.account_id
                WHERE t.kind IN {_PAYOUT_TRANSACTION_KINDS} AND a.owner_id IS NOT NULL GROUP BY 1, 2, 3
            ) booked ON booked.source = 'payout:' || i.id
                AND booked.out_of_wallet = (i.vendor_id IS NULL)
                AND booked.owner_id = coalesce(i.vendor_id, i.user_id)
            CROSS JOIN LATERAL (SELECT CASE WHEN i.status IN {_DEBITED_STATUSES} THEN i.amount_minor ELSE 0 END AS minor
            ) expected
            WHERE expected.minor <> coalesce(booked.minor, 0) LIMIT 100
            """,
        "the gateway's outflow for each payout is its amount, if successful, plus the gateway's fee": f"""
            SELECT i.id::text AS payout, i.status, expected.minor AS expected_minor,
                coalesce(booked.minor, 0) AS booked_minor
            FROM payout_transfer_intents i LEFT JOIN payout_transfers x ON x.intent_id = i.id LEFT JOIN (
                SELECT {_PAYOUT_SOURCE} AS source,
                    sum(CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END)::bigint AS minor
                FROM ledger_transactions t JOIN ledger_entries e ON e.transaction_id = t.id
                    JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'gateway_clearing'
                WHERE t.kind IN {_PAYOUT_TRANSACTION_KINDS} GROUP BY 1
            ) booked ON booked.source = 'payout:' || i.id
            CROSS JOIN LATERAL (SELECT coalesce(x.fee_minor, 0)
                + CASE i.status WHEN 'success' THEN i.amount_minor ELSE 0 END AS minor) expected
            WHERE expected.minor <> coalesce(booked.minor, 0) LIMIT 100
            """,
        "each approved batch has the approvals of two officers whom the batch does not pay": """
            SELECT b.id::text AS batch, b.status, officers.count AS officers
            FROM payout_batches b CROSS JOIN LATERAL (
                SELECT count(DISTINCT officer_id) AS count FROM (
                    SELECT officer_id FROM payout_approvals
                    WHERE batch_id = b.id AND content_hash = b.approved_hash
                    UNION SELECT b.staged_by WHERE b.content_hash = b.approved_hash
                ) agreed WHERE NOT EXISTS (SELECT FROM payout_transfer_intents i
                    WHERE i.batch_id = b.id AND i.user_id = agreed.officer_id AND i.status <> 'cancelled')
            ) officers
            WHERE b.status NOT IN ('staged', 'rejected') AND officers.count < 2 LIMIT 100
            """,
        "each payout has a status that the status of its batch allows": """
            SELECT b.id::text AS batch, b.status, i.id::text AS payout, i.status AS payout_status
            FROM payout_transfer_intents i JOIN payout_batches b ON b.id = i.batch_id
            WHERE NOT CASE WHEN b.status IN ('staged', 'approved') THEN i.status IN ('pending', 'cancelled')
                WHEN b.status = 'rejected' THEN i.status = 'cancelled'
                WHEN b.status = 'dispatching' THEN true
                ELSE i.status <> 'pending' END LIMIT 100
            """,
    }
)
