"""Import of the gateway's records into tables, page by page, for comparison with the ledger in SQL.

Balance movements are kept: each movement since the service's first day is read once. The balance before that day is an
opening movement. The lists of charges, transfers, refunds and settlements are read again for the window of each run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import delete, select, text, update
from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Row, Statement
from marketplace.kernel.clock import Clock
from marketplace.ledger import accounts
from marketplace.ledger.operations import post_gateway_movement
from marketplace.payments.refunds import gateway_refund
from marketplace.providers.gateway.records import BalanceMovement, GatewayRecord, GatewayRecords, RecordKind
from marketplace.reconciliation.models import (
    GatewayMovement,
    Reconciliation,
    ReconciliationDifference,
    ReconciliationException,
    ReconciliationRecord,
)

_BATCH_SIZE = 500
# Longer than any page takes: an expired lease means that the worker died.
LEASE_DURATION = timedelta(minutes=5)


def delete_run_data(session: Session, *, run_id: UUID) -> None:
    """Delete the data of an interrupted or failed run, before the run or a later run starts over."""
    delete_comparison(session)
    session.execute(delete(GatewayMovement).where(GatewayMovement.read_by.is_not(None)))
    session.execute(delete(ReconciliationException).where(ReconciliationException.run_id == run_id))


def delete_comparison(session: Session) -> None:
    """Delete the imported records and the differences. No other run needs these rows, since runs never overlap."""
    session.execute(delete(ReconciliationRecord))
    session.execute(delete(ReconciliationDifference))


_SELECT_LAST_ID_AND_SUM = Statement(
    text(
        """
        SELECT greatest(max(id), max(CASE WHEN id = 0 THEN CAST(row_id AS bigint) END)) AS id,
            coalesce(sum(difference_minor), 0)::bigint AS minor
        FROM gateway_movements WHERE read_by IS NULL
        """
    )
)


def sum_movements(session: Session) -> int:
    """Sum the gateway's confirmed movements, in kobo."""
    minor: int = _SELECT_LAST_ID_AND_SUM.one(session)["minor"]
    return minor


# The service has no records at the gateway before the first payment or payout.
_SELECT_FIRST_DAY = Statement(
    text(
        """
        SELECT coalesce(least((SELECT min(created_at) FROM payment_intents),
            (SELECT min(created_at) FROM payout_transfers)), :now) AS at
        """
    )
)


_INSERT_MOVEMENTS = Statement(
    text(
        """
        INSERT INTO gateway_movements (id, model, row_id, difference_minor, balance_minor, happened_at, read_by)
        SELECT *, :run_id FROM unnest(CAST(:ids AS bigint[]), CAST(:models AS text[]), CAST(:row_ids AS text[]),
            CAST(:differences AS bigint[]), CAST(:balances AS bigint[]), CAST(:moments AS timestamptz[]))
        ON CONFLICT (id) DO NOTHING
        """
    )
)


_INSERT_RECORDS = Statement(
    text(
        """
        INSERT INTO reconciliation_records (run_id, kind, gateway_id, reference, status, amount_minor, fee_minor,
            currency, subject, charge_id, dispute_id, created_at, changed_at)
        SELECT :run_id, :kind, * FROM unnest(CAST(:ids AS text[]), CAST(:references AS text[]),
            CAST(:statuses AS text[]), CAST(:amounts AS bigint[]), CAST(:fees AS bigint[]),
            CAST(:currencies AS text[]), CAST(:subjects AS uuid[]), CAST(:charge_ids AS text[]),
            CAST(:dispute_ids AS text[]), CAST(:created AS timestamptz[]), CAST(:changed AS timestamptz[]))
        ON CONFLICT (run_id, kind, gateway_id) DO NOTHING
        """
    )
)


# Keep the attribution with the movement: the window of a later run may not contain the listed record.
_ATTRIBUTE_MOVEMENTS = Statement(
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


_ATTRIBUTE_REFUNDED_CHARGES = Statement(
    text(
        """
        UPDATE gateway_movements m SET charge_id = rec.charge_id FROM reconciliation_records rec
        WHERE rec.run_id = :run_id AND rec.kind = 'refund' AND rec.charge_id <> '' AND m.model = 'Refund'
            AND m.row_id = rec.gateway_id AND m.charge_id IS DISTINCT FROM rec.charge_id
        """
    )
)


# Movements with an unknown gateway id and without a record in the imported lists.
_SELECT_UNLISTED_MOVEMENTS = Statement(
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
        ORDER BY length(id) DESC, id DESC LIMIT :limit
        """
    )
)


# Payouts with a money difference and without a listed record: older than the window, or unknown to the gateway.
_SELECT_UNLISTED_PAYOUTS = Statement(
    text(
        """
        SELECT 'transfer' AS kind, d.gateway_id AS id FROM reconciliation_differences d
            JOIN payout_transfers t ON d.item = 'payout:' || t.intent_id
        WHERE d.run_id = :run_id AND d.gateway_id IS NOT NULL AND d.here_minor <> d.there_minor
            AND NOT EXISTS (SELECT FROM reconciliation_records rec
                WHERE rec.run_id = :run_id AND rec.kind = 'transfer' AND rec.reference = t.reference)
        ORDER BY t.id LIMIT :limit
        """
    )
)


_SELECT_UNPOSTED_SETTLEMENTS = Statement(
    text(
        """
        SELECT 'settlement' AS kind, 'settlement:' || rec.gateway_id AS source, -rec.amount_minor AS minor
        FROM reconciliation_records rec
        WHERE rec.run_id = :run_id AND rec.kind = 'settlement' AND rec.status = 'success' AND rec.currency = 'NGN'
            AND rec.amount_minor > 0
            AND rec.created_at >= (SELECT happened_at FROM gateway_movements WHERE id = 0)
            AND NOT EXISTS (SELECT FROM ledger_transactions t
                WHERE t.kind = 'settlement' AND t.source = 'settlement:' || rec.gateway_id)
        ORDER BY rec.gateway_id LIMIT :limit
        """
    )
)


# A top-up is a payment of the company into the gateway's balance.
_SELECT_UNPOSTED_OWN_FUNDS = Statement(
    text(
        """
        SELECT about.kind, 'movement:' || m.id AS source, m.difference_minor AS minor FROM gateway_movements m
            CROSS JOIN LATERAL (SELECT CASE m.id WHEN 0 THEN 'opening' ELSE 'top_up' END AS kind) about
        WHERE m.read_by IS NULL AND ((m.id = 0 AND m.difference_minor <> 0)
                OR (m.model = 'Topup' AND m.difference_minor > 0))
            AND NOT EXISTS (SELECT FROM ledger_transactions t
                WHERE t.kind = about.kind AND t.source = 'movement:' || m.id)
        ORDER BY m.id LIMIT :limit
        """
    )
)


@dataclass(frozen=True)
class GatewayImporter:
    """The import of the gateway's records for a run.

    :param now: the time of the run, used for postings
    :param clock: the current time, used for the lease
    """

    database: Database
    records: GatewayRecords
    run_id: UUID
    now: datetime
    clock: Clock

    def import_movements(self) -> tuple[int, int]:
        """Import new balance movements until their sum equals the gateway's balance.

        :return: the gateway's balance in kobo, and the number of new movements
        :raises ProviderUnavailableError: the gateway gave no usable response
        """
        total = 0
        # New charges may arrive during the import, so up to 5 attempts are made to get a matching balance.
        for _ in range(5):
            imported = self._import_new_movements()
            total += imported
            held_minor = self.records.fetch_balance()
            with self.database.reading() as session:
                listed_minor = sum_movements(session)
            if held_minor == listed_minor or not imported:
                return held_minor, total
        # The balance changed during each attempt. The sum of the imported movements is at least consistent.
        return listed_minor, total

    def _import_new_movements(self) -> int:
        with self.database.reading() as session:
            last_known_id = _SELECT_LAST_ID_AND_SUM.one(session)["id"]
            first_day: datetime = _SELECT_FIRST_DAY.scalar(session, now=self.now)
        imported = 0
        last_movement_before: BalanceMovement | None = None
        for page in self.records.list_movements():
            new = [
                movement
                for movement in page
                if (
                    movement.id > last_known_id
                    if last_known_id is not None
                    else movement.happened_at >= first_day
                )
            ]
            imported += self.database.in_transaction(self._insert_movements, new)
            if len(new) < len(page):
                last_movement_before = max(
                    (movement for movement in page if movement not in new), key=lambda movement: movement.id
                )
                break
        if last_known_id is None:
            self.database.in_transaction(self._add_opening, first_day, last_movement_before)
        else:
            self.database.in_transaction(self._confirm_movements)
        return imported

    def _insert_movements(self, session: Session, page: Sequence[BalanceMovement]) -> int:
        self._extend_lease(session)
        return _INSERT_MOVEMENTS.run(
            session,
            run_id=self.run_id,
            ids=[movement.id for movement in page],
            models=[movement.model for movement in page],
            row_ids=[movement.row_id for movement in page],
            differences=[movement.difference_minor for movement in page],
            balances=[movement.balance_minor for movement in page],
            moments=[movement.happened_at for movement in page],
        )

    def _add_opening(
        self, session: Session, first_day: datetime, last_movement_before: BalanceMovement | None
    ) -> None:
        """Add the gateway's balance before the service's first day as an opening movement."""
        balance_before = session.scalar(
            select(GatewayMovement.balance_minor - GatewayMovement.difference_minor)
            .where(GatewayMovement.read_by == self.run_id)
            .order_by(GatewayMovement.id)
            .limit(1)
        )
        minor = last_movement_before.balance_minor if last_movement_before else balance_before or 0
        session.add(
            GatewayMovement(
                id=0,
                model="Opening",
                row_id=str(last_movement_before.id if last_movement_before else 0),
                difference_minor=minor,
                balance_minor=minor,
                happened_at=first_day,
            )
        )
        self._confirm_movements(session)

    def _confirm_movements(self, session: Session) -> None:
        """Confirm the imported movements, which now have no gap."""
        session.execute(
            update(GatewayMovement).where(GatewayMovement.read_by == self.run_id).values(read_by=None)
        )

    def import_records(self, kind: RecordKind, *, since: datetime, until: datetime) -> int:
        """Import one of the gateway's lists for a period.

        :return: the number of records
        :raises ProviderUnavailableError: the gateway gave no usable response
        """
        return sum(
            self.database.in_transaction(self._insert_records, kind, page)
            for page in self.records.list_records(kind, since=since, until=until)
        )

    def _insert_records(self, session: Session, kind: RecordKind, page: Sequence[GatewayRecord]) -> int:
        self._extend_lease(session)
        refund_references = [
            gateway_refund.parse_refund_reference(record.note) if kind == "refund" else None
            for record in page
        ]
        return _INSERT_RECORDS.run(
            session,
            run_id=self.run_id,
            kind=kind,
            ids=[record.id for record in page],
            references=[record.reference for record in page],
            statuses=[record.status for record in page],
            amounts=[record.amount_minor for record in page],
            fees=[record.fee_minor for record in page],
            currencies=[record.currency for record in page],
            subjects=[
                refund_reference[0] if refund_reference else None for refund_reference in refund_references
            ],
            charge_ids=[record.charge_id for record in page],
            dispute_ids=[record.dispute_id for record in page],
            created=[record.created_at for record in page],
            changed=[record.changed_at for record in page],
        )

    def attribute_movements(self) -> None:
        """Record the refund, payout or dispute behind each movement, as known from the lists.

        Records older than the lists are fetched one by one, such as a charge on a hosted page that was opened days ago.

        :raises ProviderUnavailableError: the gateway gave no usable response
        """
        self._import_singly(_SELECT_UNLISTED_MOVEMENTS)
        self.database.in_transaction(self._attribute)

    def _attribute(self, session: Session) -> None:
        for statement in (_ATTRIBUTE_MOVEMENTS, _ATTRIBUTE_REFUNDED_CHARGES):
            statement.run(session, run_id=self.run_id)

    def import_unlisted_payouts(self) -> None:
        """Fetch payouts with a money difference that no list contains, one by one.

        :raises ProviderUnavailableError: the gateway gave no usable response
        """
        self._import_singly(_SELECT_UNLISTED_PAYOUTS)

    def _import_singly(self, unlisted: Statement[Row]) -> None:
        with self.database.reading() as session:
            # Unrecognized records are fetched again in each run, so the number is limited.
            rows = unlisted.all(session, run_id=self.run_id, limit=200)
        for row in rows:
            record = self.records.fetch_record(row["kind"], row["id"])
            self.database.in_transaction(self._insert_records, row["kind"], [record] if record else [])

    def post_gateway_movements(self) -> tuple[int, int]:
        """Post movements that start at the gateway: settlements to the bank, and the company's own funds.

        :return: the number of settlements posted, and of own funds movements posted
        """
        return (
            self._post_all(_SELECT_UNPOSTED_SETTLEMENTS, accounts.BANK),
            self._post_all(_SELECT_UNPOSTED_OWN_FUNDS, accounts.OWN_FUNDS),
        )

    def _post_all(self, unposted: Statement[Row], counter_account: accounts.Account) -> int:
        total = 0
        while True:
            posted = self.database.in_transaction(self._post_batch, unposted, counter_account)
            total += posted
            if posted < _BATCH_SIZE:
                return total

    def _post_batch(
        self, session: Session, unposted: Statement[Row], counter_account: accounts.Account
    ) -> int:
        rows = unposted.all(session, run_id=self.run_id, limit=_BATCH_SIZE)
        for row in rows:
            post_gateway_movement(
                session,
                kind=row["kind"],
                source=row["source"],
                description=_DESCRIPTIONS[row["kind"]],
                amount_minor=row["minor"],
                counter_account=counter_account,
                now=self.now,
            )
        return len(rows)

    def _extend_lease(self, session: Session) -> None:
        session.execute(
            update(Reconciliation)
            .where(Reconciliation.id == self.run_id, Reconciliation.status == "running")
            .values(claimed_until=self.clock() + LEASE_DURATION)
        )


_DESCRIPTIONS = {
    "settlement": "Settlement from the gateway to the bank",
    "opening": "Balance at the gateway on the first day",
    "top_up": "Top-up of the company's own funds at the gateway",
}
