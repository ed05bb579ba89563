"""Matching: compare the gateway's movements with the ledger's postings item by item, and record the differences.

An item is a cause of movements at the gateway. Both sides use the same names:

- ``charge:<gateway id>``, ``settlement:<gateway id>``
- ``refund:<id>``, ``payout:<id>``, ``dispute:<id>`` for the rows of this service
- ``gateway-refund:<gateway id>``, ``gateway-transfer:<gateway id>`` for refunds and transfers unknown to this service
- ``movement:<id>`` for any other movement

A refund of an unknown charge counts under the charge. The ledger is compared as of a time before the gateway is read.
Each posting up to that time already has its movement at the gateway. In normal operation the ledger is never ahead.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import BigInteger, func, select, text
from sqlalchemy.orm import Session

from marketplace.infra.db import Database, allow_long_statements
from marketplace.infra.sql.statements import Statement
from marketplace.ledger import accounts
from marketplace.reconciliation.models import ReconciliationDifference

# The ledger source of an accepted difference is the item's name followed by `` #`` and the exception's id.
ADJUSTMENT_KIND: Final = "accepted_difference"
_PAGE_SIZE = 500


@dataclass(frozen=True)
class ComparedItem:
    """An item with the amounts and states of the ledger (here) and the gateway (there), in kobo."""

    kind: str
    here_minor: int
    there_minor: int
    here_status: str | None
    there_status: str | None
    here_amount_minor: int | None
    there_amount_minor: int | None
    reference: str | None
    gateway_id: str | None
    order_id: UUID | None
    refund_id: UUID | None
    intent_id: UUID | None

    @property
    def difference_minor(self) -> int:
        """The gateway's amount minus the ledger's amount, in kobo."""
        return self.there_minor - self.here_minor


@dataclass(frozen=True)
class Difference(ComparedItem):
    """An item that differs between the ledger and the gateway, with the facts for classification."""

    item: str
    here_now_minor: int
    accepted: bool
    moved_at: datetime | None
    booked_at: datetime | None
    dispute_id: str | None
    changed_at: datetime | None
    payment_known: bool
    charge_known: bool


_SUM_GATEWAY_ITEMS = """
    SELECT CASE m.model
            WHEN 'Transaction' THEN 'charge:' || m.row_id
            WHEN 'Refund' THEN coalesce('dispute:' || d.id, 'refund:' || coalesce(m.subject, r.id),
                CASE WHEN c.id IS NULL THEN 'charge:' || m.charge_id END, 'gateway-refund:' || m.row_id)
            WHEN 'Transfer'
                THEN coalesce('payout:' || coalesce(m.subject, t.intent_id), 'gateway-transfer:' || m.row_id)
            WHEN 'Settlement' THEN 'settlement:' || m.row_id
            ELSE coalesce('dispute:' || lost.id, 'movement:' || m.id) END AS item,
        sum(m.difference_minor)::bigint AS minor, max(m.happened_at) AS moved_at,
        coalesce(max(m.row_id) FILTER (WHERE m.model = 'Transaction'), max(m.row_id)) AS gateway_id
    FROM gateway_movements m
        LEFT JOIN refunds r ON m.model = 'Refund' AND r.gateway_refund_id = m.row_id
        LEFT JOIN gateway_charges c ON m.model = 'Refund' AND c.gateway_charge_id = m.charge_id
        LEFT JOIN payout_transfers t ON m.model = 'Transfer' AND t.gateway_transfer_id = m.row_id
        LEFT JOIN charge_disputes d ON m.model = 'Refund' AND d.id = m.subject
        LEFT JOIN charge_disputes lost ON m.model = 'Dispute' AND lost.gateway_dispute_id = m.row_id
    WHERE m.read_by IS NULL GROUP BY 1
"""
_SIGNED_AMOUNT = "CASE e.direction WHEN 'debit' THEN e.amount_minor ELSE -e.amount_minor END"
# A charge that is refunded immediately has no posting of its own. The refund's debit stands for the charge.
_SUM_LEDGER_ITEMS = f"""
    SELECT CASE
            WHEN t.kind = '{ADJUSTMENT_KIND}' THEN split_part(t.source, ' #', 1)
            WHEN coalesce(c.id, back.id) IS NOT NULL
                THEN 'charge:' || coalesce(c.gateway_charge_id, back.gateway_charge_id)
            WHEN t.source LIKE 'refund:%' THEN 'refund:' || split_part(t.source, ':', 2)
            WHEN t.source LIKE 'payout:%' THEN 'payout:' || split_part(t.source, ':', 2)
            WHEN t.source LIKE 'charge-dispute:%' THEN 'dispute:' || split_part(t.source, ':', 2)
            ELSE t.source END AS item,
        coalesce(sum({_SIGNED_AMOUNT}) FILTER (WHERE e.created_at <= :as_of), 0)::bigint AS minor,
        sum({_SIGNED_AMOUNT})::bigint AS now_minor, max(e.created_at) AS booked_at
    FROM ledger_entries e JOIN ledger_transactions t ON t.id = e.transaction_id
        LEFT JOIN gateway_charges c ON c.ledger_transaction_id = t.id
        LEFT JOIN refunds r ON t.kind = 'refund' AND t.source = 'refund:' || r.id
        LEFT JOIN gateway_charges back ON back.id = r.charge_id
    WHERE e.account_id = :clearing_id GROUP BY 1
"""
_INSERT_DIFFERENCES = """
    INSERT INTO reconciliation_differences
        (run_id, item, here_minor, here_now_minor, there_minor, gateway_id, moved_at, booked_at)
"""
_INSERT_MONEY_DIFFERENCES = Statement(
    text(
        f"""
        {_INSERT_DIFFERENCES}
        SELECT :run_id, item, coalesce(here.minor, 0), coalesce(here.now_minor, 0), coalesce(there.minor, 0),
            there.gateway_id, there.moved_at, here.booked_at
        FROM ({_SUM_LEDGER_ITEMS}) here FULL JOIN ({_SUM_GATEWAY_ITEMS}) there USING (item)
        WHERE coalesce(here.minor, 0) <> coalesce(there.minor, 0)
        """
    )
)
# The comparison reads all movements ever made: millions of rows take longer than a request may.
_STATEMENT_TIMEOUT_SECONDS = 600
# Items with an accepted difference.
_SELECT_ADJUSTED_ITEMS = (
    f"SELECT split_part(source, ' #', 1) FROM ledger_transactions WHERE kind = '{ADJUSTMENT_KIND}'"
)
# Items with equal money but different states or recorded amounts. Accepted amounts count as equal.
_INSERT_OTHER_DIFFERENCES = tuple(
    Statement(text(f"{_INSERT_DIFFERENCES} {sql} ON CONFLICT (run_id, item) DO NOTHING"))
    for sql in (
        f"""
        SELECT rec.run_id, 'charge:' || rec.gateway_id, 0, 0, 0, rec.gateway_id, rec.changed_at, c.created_at
        FROM reconciliation_records rec LEFT JOIN gateway_charges c ON c.gateway_charge_id = rec.gateway_id
        WHERE rec.run_id = :run_id AND rec.kind = 'charge' AND rec.created_at BETWEEN :since AND :until AND (
            (c.id IS NULL AND rec.currency <> 'NGN')
            OR c.currency <> rec.currency
            OR ((c.amount_minor, c.fees_minor) <> (rec.amount_minor, rec.fee_minor)
                AND 'charge:' || rec.gateway_id NOT IN ({_SELECT_ADJUSTED_ITEMS})))
        """,
        f"""
        SELECT rec.run_id, 'refund:' || r.id, 0, 0, 0, rec.gateway_id, rec.changed_at, r.updated_at
        FROM reconciliation_records rec JOIN refunds r ON r.id = rec.subject
        WHERE rec.run_id = :run_id AND rec.kind = 'refund' AND rec.created_at <= :until
            AND coalesce(r.gateway_refund_id, rec.gateway_id) = rec.gateway_id
            AND ((rec.amount_minor <> r.amount_minor AND 'refund:' || r.id NOT IN ({_SELECT_ADJUSTED_ITEMS}))
                OR (rec.status = 'failed' AND r.status IN ('submitted', 'needs_attention', 'processed'))
                OR (rec.status <> 'processed' AND r.status = 'processed'))
        """,
        f"""
        SELECT rec.run_id, 'payout:' || i.id, 0, 0, 0, rec.gateway_id, rec.changed_at, i.updated_at
        FROM reconciliation_records rec JOIN payout_transfers t ON t.reference = rec.reference
            JOIN payout_transfer_intents i ON i.id = t.intent_id
        WHERE rec.run_id = :run_id AND rec.kind = 'transfer' AND rec.created_at <= :until
            AND ((rec.amount_minor <> i.amount_minor AND 'payout:' || i.id NOT IN ({_SELECT_ADJUSTED_ITEMS}))
            OR (rec.status IN ('failed', 'blocked', 'rejected', 'abandoned', 'reversed')
                AND i.status IN ('pending', 'submitted', 'unknown', 'success'))
            OR (rec.status = 'success' AND i.status <> 'success')
            OR (rec.status NOT IN ('success', 'failed', 'blocked', 'rejected', 'abandoned', 'reversed')
                AND i.status IN ('success', 'failed', 'reversed', 'cancelled')))
        """,
        # Transfers and refunds that were sent, but that the gateway neither lists nor moved.
        """
        SELECT CAST(:run_id AS uuid), 'payout:' || i.id, 0, 0, 0, NULL, t.sent_at, t.sent_at
        FROM payout_transfers t JOIN payout_transfer_intents i ON i.id = t.intent_id
        WHERE t.sent_at >= :since AND t.sent_at <= :until AND i.status IN ('submitted', 'unknown', 'success')
            AND NOT EXISTS (SELECT FROM reconciliation_records rec
                WHERE rec.run_id = :run_id AND rec.kind = 'transfer' AND rec.reference = t.reference)
            AND NOT EXISTS (SELECT FROM gateway_movements m
                WHERE m.model = 'Transfer' AND m.row_id = t.gateway_transfer_id)
        """,
        """
        SELECT CAST(:run_id AS uuid), 'refund:' || r.id, 0, 0, 0, NULL, r.asked_at, r.asked_at
        FROM refunds r
        WHERE r.asked_at >= :since AND r.asked_at <= :until AND r.status IN ('submitted', 'needs_attention')
            AND NOT EXISTS (SELECT FROM reconciliation_records rec
                WHERE rec.run_id = :run_id AND rec.kind = 'refund' AND rec.subject = r.id)
            AND NOT EXISTS (SELECT FROM gateway_movements m
                WHERE m.model = 'Refund' AND m.row_id = r.gateway_refund_id)
        """,
    )
)


def record_differences(
    session: Session, *, run_id: UUID, since: datetime, until: datetime, as_of: datetime
) -> int:
    """Record each item that differs between the gateway and the ledger.

    The run must have imported movements and lists already. From here on, the transaction allows long statements.

    :param since: start of the window for items that differ in state only
    :param until: end of that window
    :param as_of: the time as of which the ledger is compared, before the gateway was read
    :return: the sum of the differences in kobo
    """
    allow_long_statements(session, seconds=_STATEMENT_TIMEOUT_SECONDS)
    _INSERT_MONEY_DIFFERENCES.run(
        session, run_id=run_id, as_of=as_of, clearing_id=accounts.GATEWAY_CLEARING.id
    )
    for statement in _INSERT_OTHER_DIFFERENCES:
        statement.run(session, run_id=run_id, since=since, until=until)
    return (
        session.scalar(
            select(
                func.coalesce(
                    func.sum(ReconciliationDifference.there_minor - ReconciliationDifference.here_minor), 0
                ).cast(BigInteger)
            ).where(ReconciliationDifference.run_id == run_id)
        )
        or 0
    )


_SELECT_DIFFERENCE_PAGE = Statement(
    text(
        f"""
        SELECT split_part(d.item, ':', 1) AS kind, d.here_minor, d.there_minor,
            coalesce(c.outcome, r.status, p.status, cd.status) AS here_status, rec.status AS there_status,
            coalesce(c.amount_minor, r.amount_minor, p.amount_minor) AS here_amount_minor,
            rec.amount_minor AS there_amount_minor, coalesce(rec.reference, i.reference, t.reference) AS reference,
            coalesce(rec.gateway_id, d.gateway_id) AS gateway_id, coalesce(r.order_id, o.order_id) AS order_id,
            r.id AS refund_id, p.id AS intent_id, d.item, d.here_now_minor,
            d.item IN ({_SELECT_ADJUSTED_ITEMS}) AS accepted, d.moved_at, d.booked_at, rec.dispute_id, rec.changed_at,
            i.id IS NOT NULL AS payment_known, c.id IS NOT NULL AS charge_known
        FROM reconciliation_differences d
            CROSS JOIN LATERAL (SELECT split_part(d.item, ':', 1) AS kind,
                substr(d.item, length(split_part(d.item, ':', 1)) + 2) AS name) about
            CROSS JOIN LATERAL (SELECT CASE WHEN about.name ~ '^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$'
                THEN CAST(about.name AS uuid) END AS id) ours
            LEFT JOIN refunds r ON about.kind = 'refund' AND r.id = ours.id
            LEFT JOIN payout_transfer_intents p ON about.kind = 'payout' AND p.id = ours.id
            LEFT JOIN payout_transfers t ON t.intent_id = p.id
            LEFT JOIN charge_disputes cd ON about.kind = 'dispute' AND cd.id = ours.id
            LEFT JOIN LATERAL (
                SELECT * FROM reconciliation_records WHERE run_id = d.run_id AND gateway_id = about.name
                    AND kind = CASE about.kind WHEN 'gateway-refund' THEN 'refund'
                        WHEN 'gateway-transfer' THEN 'transfer' ELSE about.kind END
                UNION ALL SELECT * FROM reconciliation_records
                    WHERE run_id = d.run_id AND kind = 'refund' AND subject = r.id
                UNION ALL SELECT * FROM reconciliation_records
                    WHERE run_id = d.run_id AND kind = 'transfer' AND reference = t.reference
                ORDER BY created_at DESC LIMIT 1
            ) rec ON true
            LEFT JOIN gateway_charges c ON c.gateway_charge_id = CASE about.kind WHEN 'charge' THEN about.name
                WHEN 'gateway-refund' THEN rec.charge_id END
            LEFT JOIN payment_intents i ON i.id = coalesce(c.intent_id, cd.intent_id, (
                SELECT paid.id FROM payment_intents paid
                WHERE about.kind = 'charge' AND paid.reference = rec.reference))
            LEFT JOIN LATERAL (SELECT a.order_id FROM payment_allocations a WHERE a.intent_id = i.id
                ORDER BY a.order_id LIMIT 1) o ON true
        WHERE d.run_id = :run_id AND (CAST(:after AS text) IS NULL OR d.item > :after)
        ORDER BY d.item LIMIT :limit
        """
    ),
    row=Difference,
)


def iterate_difference_pages(database: Database, *, run_id: UUID) -> Iterator[list[Difference]]:
    """Iterate over the recorded differences, 500 at a time."""
    after: str | None = None
    while True:
        with database.reading() as session:
            rows = _SELECT_DIFFERENCE_PAGE.all(session, run_id=run_id, after=after, limit=_PAGE_SIZE)
        if rows:
            yield rows
        if len(rows) < _PAGE_SIZE:
            return
        after = rows[-1].item
