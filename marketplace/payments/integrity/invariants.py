"""Invariants of the payment ledger, each with a query for the rows that violate the invariant.

Rows name this service's ids and references. Alerts redact the gateway's ids, which look like account numbers.
"""

from marketplace.ledger.queries import build_invariants

# The net credit of ledger transactions or accounts; a WHERE clause is appended.
_NET_CREDIT_OF_TRANSACTIONS = """
    SELECT coalesce(sum(CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END), 0)::bigint
    FROM ledger_transactions t JOIN ledger_entries e ON e.transaction_id = t.id
        JOIN ledger_accounts a ON a.id = e.account_id
"""
_NET_CREDIT_OF_ACCOUNTS = """
    SELECT coalesce(sum(CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END), 0)::bigint
    FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id
"""
# The unsent amount of a refund, and the unresolved amount of a quarantined charge.
_IN_TRANSIT_MINOR = """
    CASE WHEN r.destination = 'gateway' AND r.status NOT IN ('processed', 'credited') THEN r.amount_minor ELSE 0 END
"""
_QUARANTINED_MINOR = """
    CASE WHEN q.status = 'open' AND q.ledger_transaction_id IS NOT NULL THEN c.principal_minor ELSE 0 END
"""

_NET_DEBIT = "sum(CASE e.direction WHEN 'debit' THEN e.amount_minor ELSE -e.amount_minor END)::bigint"
# Refunds and chargebacks after the release, as borne by vendors and the platform.
_FROM_CLAWBACK_ENTRIES = """
    FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id
    WHERE a.kind IN ('vendor_receivable', 'platform_revenue') AND e.direction = 'debit'
        AND e.kind IN ('refund', 'chargeback')
"""

INVARIANTS = build_invariants(
    {
        "every paid order is covered by its charges and the wallet": """
            SELECT o.number, o.status, o.total_minor - o.wallet_minor AS due_minor,
                coalesce(charged.minor, 0) AS charged_minor
            FROM orders o LEFT JOIN (
                SELECT e.order_id, sum(e.amount_minor)::bigint AS minor
                FROM gateway_charges c JOIN ledger_entries e ON e.transaction_id = c.ledger_transaction_id
                    JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'escrow'
                WHERE c.outcome = 'applied' AND e.direction = 'credit' GROUP BY e.order_id
            ) charged ON charged.order_id = o.id
            WHERE o.paid_at IS NOT NULL AND coalesce(charged.minor, 0) <> o.total_minor - o.wallet_minor LIMIT 100
            """,
        "every succeeded payment has an applied charge": """
            SELECT i.reference FROM payment_intents i WHERE i.status = 'succeeded' AND NOT EXISTS (
                SELECT FROM gateway_charges c WHERE c.intent_id = i.id AND c.outcome = 'applied') LIMIT 100
            """,
        # Only debits count: fees are credited to gateway_clearing and are not part of the principal.
        "every charge is posted with its full principal": """
            SELECT i.reference, c.id::text AS charge, c.outcome, c.principal_minor, booked.minor AS booked_minor
            FROM gateway_charges c JOIN payment_intents i ON i.id = c.intent_id
            LEFT JOIN quarantined_charges q ON q.gateway_charge_id = c.gateway_charge_id
            CROSS JOIN LATERAL (
                SELECT coalesce(sum(e.amount_minor), 0)::bigint AS minor
                FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'gateway_clearing'
                WHERE e.direction = 'debit' AND e.transaction_id IN (
                    SELECT c.ledger_transaction_id UNION SELECT q.ledger_transaction_id
                    UNION SELECT t.id FROM refunds r JOIN ledger_transactions t
                        ON t.kind = 'refund' AND t.source = 'refund:' || r.id WHERE r.charge_id = c.id)
            ) booked
            WHERE c.currency = 'NGN' AND greatest(c.principal_minor, 0) <> booked.minor LIMIT 100
            """,
        "every posted payment has a charge": """
            SELECT t.id::text AS transaction, t.kind, (
                SELECT string_agg(DISTINCT o.number, ', ') FROM ledger_entries e JOIN orders o ON o.id = e.order_id
                WHERE e.transaction_id = t.id) AS orders
            FROM ledger_transactions t
            WHERE t.kind IN ('payment', 'held_payment', 'quarantine')
                AND NOT EXISTS (SELECT FROM gateway_charges c WHERE c.ledger_transaction_id = t.id)
                AND NOT EXISTS (SELECT FROM quarantined_charges q WHERE q.ledger_transaction_id = t.id) LIMIT 100
            """,
        "every returned charge has refunds of its principal": """
            SELECT i.reference, c.id::text AS charge, c.principal_minor, coalesce(back.minor, 0) AS refunds_minor
            FROM gateway_charges c JOIN payment_intents i ON i.id = c.intent_id LEFT JOIN (
                SELECT charge_id, sum(amount_minor)::bigint AS minor FROM refunds GROUP BY charge_id
            ) back ON back.charge_id = c.id
            WHERE c.outcome = 'returned' AND coalesce(back.minor, 0) <> greatest(c.principal_minor, 0) LIMIT 100
            """,
        "every quarantined charge has a quarantine record": """
            SELECT i.reference, c.id::text AS charge, c.outcome, q.id::text AS quarantine, q.status
            FROM gateway_charges c FULL JOIN quarantined_charges q ON q.gateway_charge_id = c.gateway_charge_id
                JOIN payment_intents i ON i.id = coalesce(c.intent_id, q.intent_id)
            WHERE (c.outcome = 'quarantined' AND q.id IS NULL) OR (q.id IS NOT NULL AND c.id IS NULL)
                OR (q.status = 'open' AND c.outcome <> 'quarantined') LIMIT 100
            """,
        "the quarantine account holds the amount of each unresolved charge": f"""
            SELECT i.reference, q.id::text AS quarantine, q.status,
                expected.minor AS expected_minor, held.minor AS booked_minor
            FROM quarantined_charges q JOIN gateway_charges c ON c.gateway_charge_id = q.gateway_charge_id
            JOIN payment_intents i ON i.id = q.intent_id
            CROSS JOIN LATERAL (SELECT {_QUARANTINED_MINOR} AS minor) expected
            CROSS JOIN LATERAL ({_NET_CREDIT_OF_TRANSACTIONS} WHERE a.kind = 'quarantine' AND t.id IN (
                SELECT q.ledger_transaction_id UNION SELECT x.id FROM ledger_transactions x
                    WHERE x.kind IN ('payment', 'held_payment', 'wallet_payment') AND x.source = 'quarantine:' || q.id
                UNION SELECT x.id FROM refunds r JOIN ledger_transactions x
                    ON x.kind = 'refund' AND x.source = 'refund:' || r.id WHERE r.cause IN (
                        SELECT 'quarantine:' || q.id || CASE n WHEN 1 THEN '' ELSE ':' || n END
                        FROM generate_series(1, (SELECT count(*) FROM payment_allocations a
                            WHERE a.intent_id = q.intent_id)) n))
            ) held (minor)
            WHERE expected.minor <> held.minor LIMIT 100
            """,
        "the quarantine account equals the sum of unresolved charges": f"""
            SELECT * FROM (SELECT ({_NET_CREDIT_OF_ACCOUNTS} WHERE a.kind = 'quarantine') AS booked_minor, (
                SELECT coalesce(sum({_QUARANTINED_MINOR}), 0)::bigint FROM quarantined_charges q
                    JOIN gateway_charges c ON c.gateway_charge_id = q.gateway_charge_id) AS expected_minor) both_sides
            WHERE booked_minor <> expected_minor
            """,
        "every refund is posted with its amount": """
            SELECT r.id::text AS refund, r.cause, r.amount_minor, coalesce(booked.minor, 0) AS booked_minor
            FROM refunds r LEFT JOIN LATERAL (
                SELECT sum(e.amount_minor)::bigint AS minor
                FROM ledger_transactions t JOIN ledger_entries e ON e.transaction_id = t.id
                    JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'wallet' AND a.owner_id = r.buyer_id
                WHERE t.kind = 'refund' AND t.source = 'refund:' || r.id AND e.direction = 'credit'
            ) booked ON true
            WHERE coalesce(booked.minor, 0) <> r.amount_minor LIMIT 100
            """,
        "refunds_in_transit holds the amount of each unsent refund": f"""
            SELECT r.id::text AS refund, r.status, expected.minor AS expected_minor, moved.minor AS booked_minor
            FROM refunds r CROSS JOIN LATERAL (SELECT {_IN_TRANSIT_MINOR} AS minor) expected
            CROSS JOIN LATERAL ({_NET_CREDIT_OF_TRANSACTIONS} WHERE a.kind = 'refunds_in_transit' AND t.source IN (
                    SELECT 'refund:' || r.id UNION ALL
                    SELECT 'refund:' || r.id || ':' || n FROM generate_series(2, r.times_returned + 1) n)
                AND t.kind IN ('refund', 'refund_sent', 'refund_returned', 'refund_credit')) moved (minor)
            WHERE expected.minor <> moved.minor LIMIT 100
            """,
        "refunds_in_transit equals the sum of unsent refunds": f"""
            SELECT * FROM (SELECT ({_NET_CREDIT_OF_ACCOUNTS} WHERE a.kind = 'refunds_in_transit') AS booked_minor, (
                SELECT coalesce(sum({_IN_TRANSIT_MINOR}), 0)::bigint FROM refunds r) AS expected_minor) both_sides
            WHERE booked_minor <> expected_minor
            """,
        # Refunds and duplicate payments together may exceed the principal, so the refunded amount is capped.
        "each charge's refunded amount equals the sum of its refunds": """
            SELECT i.reference, c.id::text AS charge, c.principal_minor, c.refunded_minor,
                coalesce(back.minor, 0) AS refunds_minor, coalesce(back.twice_minor, 0) AS paid_twice_minor
            FROM gateway_charges c JOIN payment_intents i ON i.id = c.intent_id LEFT JOIN (
                SELECT charge_id, sum(amount_minor) FILTER (WHERE status <> 'credited')::bigint AS minor,
                    sum(paid_twice_minor)::bigint AS twice_minor
                FROM refunds GROUP BY charge_id
            ) back ON back.charge_id = c.id
            WHERE c.refunded_minor <> least(greatest(c.principal_minor, 0),
                    coalesce(back.minor, 0) + coalesce(back.twice_minor, 0))
                OR coalesce(back.minor, 0) > greatest(c.principal_minor, 0) LIMIT 100
            """,
        "every duplicate refund payment is posted with its amount": """
            SELECT r.id::text AS refund, r.paid_twice_minor, booked.source, coalesce(booked.minor, 0) AS booked_minor
            FROM (SELECT id, paid_twice_minor FROM refunds WHERE paid_twice_minor > 0) r FULL JOIN (
                SELECT CAST(split_part(t.source, ':', 2) AS uuid) AS refund_id, min(t.source) AS source,
                    sum(CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END)::bigint AS minor
                FROM ledger_transactions t JOIN ledger_entries e ON e.transaction_id = t.id
                    JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'gateway_clearing'
                WHERE t.kind IN ('refund_sent_twice', 'refund_sent_twice_returned') GROUP BY 1
            ) booked ON booked.refund_id = r.id
            WHERE coalesce(r.paid_twice_minor, 0) <> coalesce(booked.minor, 0) LIMIT 100
            """,
        # Returned charges that the order did not need were never in escrow and do not count.
        "each order's refunds equal its escrow's refunded amount and do not exceed the payment": """
            SELECT o.number, s.amount_minor, s.refunded_minor, coalesce(back.minor, 0) AS refunds_minor
            FROM orders o JOIN escrows s ON s.order_id = o.id LEFT JOIN (
                SELECT order_id, sum(minor)::bigint AS minor FROM (
                    SELECT order_id, amount_minor AS minor FROM refunds WHERE cause LIKE 'order:%'
                    UNION ALL SELECT e.order_id, e.amount_minor
                    FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'escrow'
                    WHERE e.kind = 'chargeback_settled' AND e.direction = 'debit'
                ) parts GROUP BY order_id
            ) back ON back.order_id = o.id
            WHERE s.refunded_minor <> coalesce(back.minor, 0)
                OR coalesce(back.minor, 0) > CASE WHEN o.paid_at IS NULL THEN 0 ELSE o.total_minor END LIMIT 100
            """,
        "accepted amounts of unpaid closed orders are refunded exactly once": """
            SELECT o.number, o.status, o.accepted_minor, coalesce(back.minor, 0) AS refunds_minor
            FROM orders o LEFT JOIN (
                SELECT order_id, sum(amount_minor)::bigint AS minor FROM refunds
                WHERE cause LIKE 'accepted:%' GROUP BY order_id
            ) back ON back.order_id = o.id
            WHERE coalesce(back.minor, 0) <>
                CASE WHEN o.paid_at IS NULL AND o.status <> 'pending_payment' THEN o.accepted_minor ELSE 0 END LIMIT 100
            """,
        "each escrow's clawed-back amount equals its posted clawbacks": f"""
            SELECT o.number, s.clawed_back_minor, coalesce(borne.minor, 0) AS booked_minor
            FROM escrows s JOIN orders o ON o.id = s.order_id LEFT JOIN (
                SELECT e.order_id, sum(e.amount_minor)::bigint AS minor {_FROM_CLAWBACK_ENTRIES} GROUP BY 1
            ) borne ON borne.order_id = s.order_id
            WHERE s.clawed_back_minor <> coalesce(borne.minor, 0) LIMIT 100
            """,
        "vendor and platform bear each clawback refund in full": f"""
            SELECT o.number, coalesce(back.minor, 0) AS refunds_minor, coalesce(borne.minor, 0) AS booked_minor
            FROM (
                SELECT order_id, sum(amount_minor)::bigint AS minor FROM refunds
                WHERE cause LIKE 'clawback:%' GROUP BY 1
            ) back FULL JOIN (
                SELECT e.order_id, sum(e.amount_minor)::bigint AS minor {_FROM_CLAWBACK_ENTRIES}
                    AND e.kind = 'refund' GROUP BY 1
            ) borne ON borne.order_id = back.order_id JOIN orders o ON o.id = coalesce(back.order_id, borne.order_id)
            WHERE coalesce(back.minor, 0) <> coalesce(borne.minor, 0) LIMIT 100
            """,
        "no vendor bears more of an order than was released to the vendor": f"""
            SELECT o.number, borne.minor AS borne_minor, coalesce(had.minor, 0) AS had_minor
            FROM (
                SELECT e.order_id, sum(e.amount_minor)::bigint AS minor {_FROM_CLAWBACK_ENTRIES}
                    AND a.kind = 'vendor_receivable'
                GROUP BY 1
            ) borne JOIN orders o ON o.id = borne.order_id LEFT JOIN LATERAL (
                SELECT sum(e.amount_minor)::bigint AS minor
                FROM ledger_entries e JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'vendor_payable'
                WHERE e.order_id = o.id AND e.kind = 'release' AND e.direction = 'credit'
            ) had ON true
            WHERE borne.minor > coalesce(had.minor, 0) LIMIT 100
            """,
        "lost_disputes holds amounts of disputed orders only, up to the escrow balance": f"""
            SELECT o.number, o.status, taken.minor AS undecided_minor, s.amount_minor - s.refunded_minor AS held_minor
            FROM (SELECT e.order_id, {_NET_DEBIT} AS minor FROM ledger_entries e
                    JOIN ledger_accounts a ON a.id = e.account_id AND a.kind = 'lost_disputes' GROUP BY 1) taken
                JOIN orders o ON o.id = taken.order_id JOIN escrows s ON s.order_id = o.id
            WHERE taken.minor <> 0 AND (o.status <> 'disputed' OR taken.minor > s.amount_minor - s.refunded_minor)
            LIMIT 100
            """,
        "every posted chargeback belongs to a lost dispute": """
            SELECT t.source FROM ledger_transactions t WHERE t.kind = 'chargeback' AND NOT EXISTS (
                SELECT FROM charge_disputes d WHERE d.id::text = split_part(t.source, ':', 2)
                    AND d.resolution = 'merchant-accepted') LIMIT 100
            """,
    }
)
