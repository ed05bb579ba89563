"""Reconciliation for tests: a separate service and gateway, and differences between both."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.identity.queries import Caller
from marketplace.infra import wakeups
from marketplace.infra.db import Database
from marketplace.infra.settings import Settings
from marketplace.ledger import accounts
from marketplace.ledger.accounts import Account
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.ledger.queries import fetch_balances_by_kind
from marketplace.payments.refunds import gateway_refund, order_cancellation
from marketplace.payouts.models import PayoutBatch, PayoutTransfer, PayoutTransferIntent
from marketplace.providers.gateway.payloads import Charge
from marketplace.providers.gateway.records import BalanceMovement, GatewayRecord, GatewayRecords, RecordKind
from marketplace.reconciliation import run
from marketplace.reconciliation.run import ReconciliationOutcome
from marketplace.services import Services
from sandbox.process import wait_until
from tasks.dispatcher import Dispatcher
from tests.support.finance import make_officer, refund
from tests.support.gateway import TestGateway
from tests.support.payouts import Payee, make_payee
from tests.support.purchases import Shop, apply, make_intent, make_product, make_shop, place, with_buyer


class RecordsWrapper:
    """A wrapper of the gateway's records. Subclasses change selected records."""

    def __init__(self, records: GatewayRecords) -> None:
        self._records = records

    def fetch_balance(self) -> int:
        """Return the gateway's balance."""
        return self._records.fetch_balance()

    def list_movements(self) -> Iterator[list[BalanceMovement]]:
        """List the balance movements."""
        return self._records.list_movements()

    def list_records(
        self, kind: RecordKind, *, since: datetime, until: datetime
    ) -> Iterator[list[GatewayRecord]]:
        """List the records of a kind."""
        return self._records.list_records(kind, since=since, until=until)

    def fetch_record(self, kind: RecordKind, gateway_id: str) -> GatewayRecord | None:
        """Return a record of the gateway."""
        return self._records.fetch_record(kind, gateway_id)


class RecordsWithEmptyLists(RecordsWrapper):
    """A gateway with empty lists that still answers status requests."""

    def list_records(
        self, kind: RecordKind, *, since: datetime, until: datetime
    ) -> Iterator[list[GatewayRecord]]:
        """Return an empty list."""
        return iter(())


class RecordsWithChargeback(RecordsWrapper):
    """A gateway that lists a bank's chargeback as a refund from a dispute."""

    def __init__(self, records: GatewayRecords, taken: GatewayRecord) -> None:
        super().__init__(records)
        self._taken = taken

    def fetch_balance(self) -> int:
        """Return the remaining balance."""
        return super().fetch_balance() - self._taken.amount_minor

    def list_movements(self) -> Iterator[list[BalanceMovement]]:
        """Return the chargeback before all other movements."""
        minor, at = self._taken.amount_minor, self._taken.created_at
        yield [BalanceMovement(10**15, "Refund", self._taken.id, -minor, self.fetch_balance(), at)]
        yield from super().list_movements()

    def list_records(
        self, kind: RecordKind, *, since: datetime, until: datetime
    ) -> Iterator[list[GatewayRecord]]:
        """Return the chargeback among the other refunds."""
        if kind == "refund":
            yield [self._taken]
        yield from super().list_records(kind, since=since, until=until)


class ReconciledService:
    """A database and a gateway without data of other tests, for complete comparisons."""

    def __init__(self, settings: Settings, database_url: str, directory: Path) -> None:
        self.gateway = TestGateway(directory)
        own = replace(settings, database_url=database_url, database_pool_size=4, **self.gateway.settings())
        self.services = Services.from_settings(own, application_name="tests")
        self.database: Database = self.services.database
        self.records: GatewayRecords = self.services.gateway_records
        with self.database.transaction() as session:
            self.shop: Shop = make_shop(session)
            self.officer = make_officer(session)

    def close(self) -> None:
        """Close the database and the gateway."""
        self.database.close()
        self.gateway.close()

    def reconcile(self, *, ahead: timedelta = timedelta(0), **window: datetime) -> ReconciliationOutcome:
        """Run a reconciliation as of now or a later time and return the result."""
        now = datetime.now(UTC) + ahead
        with self.database.transaction() as session:
            self.run_id = run.start_reconciliation(
                session, started_by=run.SCHEDULE, act=Act("schedule", now), **window
            )
        outcome = run.perform_reconciliation(
            self.database,
            self.records,
            run_id=self.run_id,
            now=now,
            clock=self.services.clock,
        )
        assert outcome is not None
        return outcome

    def caller(self, user_id: UUID) -> Caller:
        """Return a user as a caller."""
        return replace(self.officer, id=user_id)

    def process_outbox(self) -> None:
        """Process the outbox events as the workers would."""
        relay = Dispatcher(self.services)
        for row in self.rows(
            "SELECT id, queue FROM outbox_events WHERE done_at IS NULL AND topic NOT LIKE 'alert.%'"
        ):
            relay.run_row(row["queue"], wakeups.OUTBOX, str(row["id"]))

    def differences(self) -> list[dict[str, Any]]:
        """List the differences found by the latest run."""
        return self.rows(
            "SELECT * FROM reconciliation_exceptions WHERE run_id = :id ORDER BY item", id=self.run_id
        )

    def difference_summaries(self) -> list[tuple[str, str, str, int]]:
        """List kind, problem, suggestion and amount in kobo of the latest run's differences."""
        return [
            (row["kind"], row["problem"], row["action"], row["there_minor"] - row["here_minor"])
            for row in self.differences()
        ]

    def rows(self, sql: str, **values: Any) -> list[dict[str, Any]]:
        """Return the rows of a query."""
        with self.database.transaction() as session:
            return [dict(row) for row in session.execute(text(sql), values).mappings()]

    def run(self) -> dict[str, Any]:
        """Return the latest run's row."""
        [row] = self.rows("SELECT * FROM reconciliations WHERE id = :id", id=self.run_id)
        return row

    def balances(self) -> dict[str, int]:
        """Return the ledger balances by kind of account."""
        with self.database.reading() as session:
            return fetch_balances_by_kind(session)

    def gateway_balance(self) -> int:
        """Return the gateway's balance."""
        held: int = self.gateway.call("GET", "/balance")[0]["balance"]
        return held

    def order(self) -> tuple[UUID, str, int]:
        """Place an order, open the hosted page, and return order id, payment reference and total."""
        now = datetime.now(UTC)
        with self.database.transaction() as session:
            shop = with_buyer(session, self.shop)
            order_id = place(session, shop, make_product(session, shop), now=now)
            intent = make_intent(session, shop, order_id, now=now)
        self.gateway.open(intent.reference, intent.amount_minor)
        return order_id, intent.reference, intent.amount_minor

    def paid_order(self) -> tuple[UUID, Charge]:
        """Pay an order and apply the charge."""
        order_id, reference, _ = self.order()
        charge = self.gateway.charge_of_paid(reference)
        self.apply(charge)
        return order_id, charge

    def cancel(self, order_id: UUID) -> None:
        """Cancel an unpaid order."""
        with self.database.transaction() as session:
            [row] = session.execute(text("SELECT buyer_id FROM orders WHERE id = :id"), {"id": order_id})
            buyer = replace(self.shop.buyer, id=row[0])
            order_cancellation.cancel_order(
                session, order_id=order_id, caller=buyer, reason=None, now=datetime.now(UTC)
            )

    def charge_back_at_bank(self, charge: Charge, *, dispute_id: str, minor: int) -> None:
        """Simulate a bank that charges back part of a charge."""
        now = datetime.now(UTC)
        taken = GatewayRecord(
            "refund", "880000001", "", "processed", minor, 0, "NGN", "", charge.id, dispute_id, now, now
        )
        self.records = RecordsWithChargeback(self.services.gateway_records, taken)

    def record_open_dispute(self, charge: Charge, *, dispute_id: str) -> None:
        """Record an open dispute of a charge."""
        with self.database.transaction() as session:
            session.execute(
                text(
                    "INSERT INTO charge_disputes (gateway_dispute_id, intent_id, status)"
                    " SELECT :dispute_id, id, 'open' FROM payment_intents WHERE reference = :reference"
                ),
                {"dispute_id": dispute_id, "reference": charge.reference},
            )

    def resolve_dispute(self) -> None:
        """Resolve the dispute."""
        with self.database.transaction() as session:
            session.execute(text("UPDATE charge_disputes SET status = 'resolved', resolved_at = now()"))

    def post_chargeback(self, minor: int, order_id: UUID) -> None:
        """Record a lost chargeback."""
        [dispute] = self.rows("SELECT id FROM charge_disputes")
        with self.database.transaction() as session:
            self._move(
                session,
                f"charge-dispute:{dispute['id']}:{order_id}",
                accounts.ESCROW,
                accounts.GATEWAY_CLEARING,
                minor,
                kind="chargeback",
            )

    def empty_record_lists(self) -> None:
        """Make the gateway's lists empty, as with a short time window."""
        self.records = RecordsWithEmptyLists(self.services.gateway_records)

    def apply(self, charge: Charge) -> None:
        """Apply a charge now."""
        with self.database.transaction() as session:
            apply(session, charge, now=datetime.now(UTC))

    def refunded(self, order_id: UUID) -> UUID:
        """Refund an order through the gateway, which accepts the refund. The result is still open."""
        with self.database.transaction() as session:
            made = refund(session, order_id, self.officer)
        refund_id: UUID = made.refunds[0].id
        now = datetime.now(UTC)
        claimed = self.database.in_transaction(gateway_refund.lease_refund, refund_id=refund_id, now=now)
        told = gateway_refund.send_refund(self.services.gateway, claimed)
        assert told is not None
        with self.database.transaction() as session:
            gateway_refund.apply_gateway_status(session, refund_id=refund_id, reported=told, now=now)
        return refund_id

    def record_refund_status(self, refund_id: UUID, reference: str) -> str:
        """Record the gateway's status of a refund."""
        [told] = [
            one
            for one in self.services.gateway.list_refunds(reference)
            if str(refund_id) in one.merchant_note
        ]
        with self.database.transaction() as session:
            return gateway_refund.apply_gateway_status(
                session, refund_id=refund_id, reported=told, now=datetime.now(UTC)
            )

    def wait_for_refund(self, reference: str, status: str) -> None:
        """Wait until the gateway reports this status for the refund of a charge."""
        assert wait_until(
            lambda: [one.status for one in self.services.gateway.list_refunds(reference)] == [status],
            timeout_seconds=20,
        )

    def plan(self, what: str, outcome: str, *, delay_seconds: float = 0) -> None:
        """Plan the outcome of the next transfer or refund."""
        self.gateway.call(
            "POST", f"/sandbox/{what}/next", json={"outcome": outcome, "delaySeconds": delay_seconds}
        )

    def payout(self, *, amount_minor: int = 200_000, arrives: bool = True) -> tuple[UUID, str]:
        """Send a payout and return id and reference. The result is still open."""
        now = datetime.now(UTC)
        with self.database.transaction() as session:
            payee = make_payee(session, owed_minor=0)
            self._move(session, "release", accounts.ESCROW, payee.balance, amount_minor)
            intent_id, reference = self._sent(session, payee, amount_minor, now)
            self._move(
                session, f"payout:{intent_id}", payee.balance, accounts.PAYOUTS_IN_TRANSIT, amount_minor
            )
        if arrives:
            self.transfer(reference, amount_minor)
        return intent_id, reference

    def transfer(self, reference: str, amount_minor: int) -> None:
        """Create a transfer at the gateway, independent of the service."""
        recipient = self.gateway.call(
            "POST",
            "/transferrecipient",
            json={"type": "nuban", "name": "NGOZI", "account_number": "0123456789", "bank_code": "058"},
        )
        sent = {"source": "balance", "amount": amount_minor, "recipient": recipient["recipient_code"]}
        self.gateway.call("POST", "/transfer", json=sent | {"reference": reference})

    def _sent(self, session: Session, payee: Payee, amount_minor: int, now: datetime) -> tuple[UUID, str]:
        batch = PayoutBatch(status="dispatching", content_hash="x", approved_hash="x", dispatched_at=now)
        session.add(batch)
        session.flush()
        intent = PayoutTransferIntent(
            batch_id=batch.id,
            user_id=payee.user.id,
            vendor_id=payee.store_id,
            account_id=payee.account_id,
            amount_minor=amount_minor,
            status="submitted",
        )
        session.add(intent)
        session.flush()
        reference = f"payout-{uuid4().hex}"
        session.add(PayoutTransfer(intent_id=intent.id, reference=reference, status="submitted", sent_at=now))
        session.flush()
        return intent.id, reference

    def record_payout_status(self, intent_id: UUID, status: str, *, amount_minor: int = 200_000) -> None:
        """Record the gateway's status of a payout."""
        with self.database.transaction() as session:
            session.execute(
                text("UPDATE payout_transfer_intents SET status = :status WHERE id = :id"),
                {"status": status, "id": intent_id},
            )
            if status == "success":
                self._move(
                    session,
                    f"payout:{intent_id}",
                    accounts.PAYOUTS_IN_TRANSIT,
                    accounts.GATEWAY_CLEARING,
                    amount_minor,
                    kind="payout",
                )

    def keep_fee(self, intent_id: UUID, minor: int) -> None:
        """Post a fee kept by the gateway for a payout."""
        if not minor:
            return
        with self.database.transaction() as session:
            session.execute(
                text("UPDATE payout_transfers SET fee_minor = :minor WHERE intent_id = :id"),
                {"minor": minor, "id": intent_id},
            )
            fees, clearing = accounts.GATEWAY_FEES, accounts.GATEWAY_CLEARING
            self._move(session, f"payout:{intent_id}:fee", fees, clearing, minor, kind="payout")

    def wait_for_payout(self, reference: str, status: str) -> None:
        """Wait until the gateway reports this status for a transfer."""

        def is_so() -> bool:
            found = self.services.transfers.fetch_transfer(reference)
            return found is not None and found.status == status

        assert wait_until(is_so, timeout_seconds=20)

    def post_nonexistent_money(self, minor: int, source: str) -> None:
        """Post nonexistent money at the gateway, as a wrong manual posting would."""
        with self.database.transaction() as session:
            sides = (accounts.GATEWAY_CLEARING, accounts.OWN_FUNDS)
            debited, credited = sides if minor > 0 else sides[::-1]
            self._move(session, source, debited, credited, abs(minor), kind="by_hand")

    def _move(
        self,
        session: Session,
        source: str,
        debited: Account,
        credited: Account,
        minor: int,
        *,
        kind: str = "test",
    ) -> None:
        post_transaction(
            session,
            kind=kind,
            source=source
            if source.startswith(("payout:", "by-hand", "charge-dispute:"))
            else f"{source}:{uuid4()}",
            description="Of a test",
            postings=[Posting(debited, "debit", minor), Posting(credited, "credit", minor)],
            now=datetime.now(UTC),
        )


@pytest.fixture
def service(settings: Settings, reconciled_database_url: str, tmp_path: Path) -> Iterator[ReconciledService]:
    """A service with a separate gateway."""
    made = ReconciledService(settings, reconciled_database_url, tmp_path)
    yield made
    made.close()
