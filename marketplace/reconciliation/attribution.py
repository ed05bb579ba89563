"""What the gateway's movements are of, as its lists tell, and what is to be asked about since no list has it."""

from sqlalchemy import text

from marketplace.infra.db import Statement

# What a list tells of a movement is kept with it: a later run's window may be past it.
ATTRIBUTE_MOVEMENTS = Statement(
    text(
        """
        UPDATE gateway_movements m SET subject = named.subject
        FROM (
            SELECT 'Refund' AS model, rec.gateway_id, r.id AS subject FROM reconciliation_records rec
                JOIN refunds r ON r.id = rec.subject WHERE rec.run_id = :run_id AND rec.kind = 'refund'
            UNION ALL
            SELECT 'Transfer', rec.gateway_id, t.intent_id FROM reconciliation_records rec
                JOIN payout_transfers t ON t.reference = rec.reference
            WHERE rec.run_id = :run_id AND rec.kind = 'transfer'
            UNION ALL
            SELECT 'Refund', rec.gateway_id, d.id FROM reconciliation_records rec
                JOIN charge_disputes d ON d.gateway_dispute_id = rec.dispute_id
            WHERE rec.run_id = :run_id AND rec.kind = 'refund'
        ) named
        WHERE m.model = named.model AND m.row_id = named.gateway_id AND m.subject IS DISTINCT FROM named.subject
        """
    )
)
ATTRIBUTE_REFUNDED_CHARGES = Statement(
    text(
        """
        UPDATE gateway_movements m SET charge_id = rec.charge_id FROM reconciliation_records rec
        WHERE rec.run_id = :run_id AND rec.kind = 'refund' AND rec.charge_id <> '' AND m.model = 'Refund'
            AND m.row_id = rec.gateway_id AND m.charge_id IS DISTINCT FROM rec.charge_id
        """
    )
)
# What moved, is none of ours by its id, and was made before the lists begin.
SELECT_UNLISTED_MOVEMENTS = Statement(
    text(
        """
        SELECT * FROM (
            SELECT DISTINCT CASE m.model WHEN 'Transaction' THEN 'charge' WHEN 'Refund' THEN 'refund'
                ELSE 'transfer' END AS kind, m.row_id AS id
            FROM gateway_movements m
            WHERE m.read_by IS NULL AND m.subject IS NULL AND (
                (m.model = 'Transaction'
                    AND NOT EXISTS (SELECT FROM gateway_charges c WHERE c.gateway_charge_id = m.row_id))
                OR (m.model = 'Refund'
                    AND NOT EXISTS (SELECT FROM refunds r WHERE r.gateway_refund_id = m.row_id))
                OR (m.model = 'Transfer'
                    AND NOT EXISTS (SELECT FROM payout_transfers t WHERE t.gateway_transfer_id = m.row_id)))
        ) one
        WHERE NOT EXISTS (SELECT FROM reconciliation_records rec
            WHERE rec.run_id = :run_id AND rec.kind = one.kind AND rec.gateway_id = one.id)
        ORDER BY length(id) DESC, id DESC LIMIT :most
        """
    )
)
# Whose money differs, and that no list has: it may be older than they are, or the gateway knows it no more.
SELECT_UNLISTED_PAYOUTS = Statement(
    text(
        """
        SELECT 'transfer' AS kind, d.gateway_id AS id FROM reconciliation_differences d
            JOIN payout_transfers t ON d.item = 'payout:' || t.intent_id
        WHERE d.run_id = :run_id AND d.gateway_id IS NOT NULL AND d.here_minor <> d.there_minor
            AND NOT EXISTS (SELECT FROM reconciliation_records rec
                WHERE rec.run_id = :run_id AND rec.kind = 'transfer' AND rec.reference = t.reference)
        ORDER BY t.id LIMIT :most
        """
    )
)
