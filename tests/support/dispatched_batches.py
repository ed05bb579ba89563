"""Dispatched batches, workers that crash while sending, and failing connections to the gateway."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text

from marketplace.payouts.transfers.polling import TransferPollingResult, poll_transfers
from marketplace.providers.gateway.payloads import GatewayTransfer
from marketplace.providers.gateway.transfers import TransferInstruction
from marketplace.services import Services
from marketplace.webhooks import inbox as webhooks
from sandbox.process import wait_until
from tasks.dispatcher import Dispatcher
from tests.support.alerts import open_about
from tests.support.gateway import TestGateway, event_of
from tests.support.payouts import OWED_MINOR, make_payees, payable_balance_of
from tests.support.purchases import NOW, assert_ledger_is_consistent
from tests.support.transfers import batch_status, dispatched_batch, statuses_in, transfers_in


class KilledError(BaseException):
    """Simulate the kill of a worker. No handler catches this error."""


class CrashingTransfers:
    """An adapter of transfers in a process that dies before or after a call."""

    def __init__(self, transfers: Any, moment: str) -> None:
        self._transfers = transfers
        self._moment = moment

    def create_recipient(self, **account: str) -> str | None:
        code: str | None = self._transfers.create_recipient(**account)
        return code

    def fetch_transfer(self, reference: str) -> GatewayTransfer | None:
        found: GatewayTransfer | None = self._transfers.fetch_transfer(reference)
        return found

    def send(self, instruction: TransferInstruction) -> GatewayTransfer:
        [sent] = self._around(lambda: [self._transfers.send(instruction)])
        return sent

    def send_bulk(self, instructions: Sequence[TransferInstruction]) -> list[GatewayTransfer]:
        return self._around(lambda: self._transfers.send_bulk(instructions))

    def _around(self, call: Any) -> list[GatewayTransfer]:
        if self._moment == "before the call":
            raise KilledError
        sent: list[GatewayTransfer] = call()
        if self._moment == "after the call":
            raise KilledError
        return sent


class DispatchedBatch:
    """A dispatched batch with the sending event, before any payout is sent."""

    def __init__(self, services: Services, gateway: TestGateway, *, payees: int = 3, **values: Any) -> None:
        self.services = services
        self.database = services.database
        self.gateway = gateway
        given = {"account": {"recipient_code": None}} | values
        with self.database.transaction() as session:
            # Stop polling for transfers of other tests, so that a sweep affects this batch only.
            session.execute(text("UPDATE payout_transfers SET ask_at = NULL"))
            self.payees = make_payees(session, payees, **given)
            self.batch_id = dispatched_batch(session, self.payees)
            rows = transfers_in(session, self.batch_id)
        self.references = [row["reference"] for row in rows]
        # Chargebacks of other tests may have left the gateway's balance below zero.
        gateway.fill(payees * OWED_MINOR - min(gateway.call("GET", "/balance")[0]["balance"], 0))

    def change(self, table: str, where: str, **columns: Any) -> None:
        names = ", ".join(f"{name} = :{name}" for name in columns)
        with self.database.transaction() as session:
            session.execute(
                text(f"UPDATE {table} SET {names} WHERE {where}"),
                {"batch_id": self.batch_id, "references": self.references} | columns,
            )

    def events(self, *, done: bool = False) -> list[UUID]:
        """List the batch's sending events, either processed or pending."""
        with self.database.reading() as session:
            rows = session.execute(
                text(
                    "SELECT id FROM outbox_events WHERE topic = 'payout.send' AND payload ->> 'batchId' = :id"
                    " AND (done_at IS NOT NULL) = :done ORDER BY id"
                ),
                {"id": str(self.batch_id), "done": done},
            )
            return list(rows.scalars())

    def work(self, relay: Dispatcher, times: int = 1) -> None:
        """Run the unfinished sending events as a worker does."""
        for _ in range(times):
            for event_id in self.events():
                relay.run_row("webhooks", "outbox", str(event_id))

    def sweep(self, **delta: float) -> TransferPollingResult:
        """Run the polling sweep at a time relative to NOW."""
        return self.sweep_at(NOW + timedelta(**delta))

    def sweep_at(self, now: datetime) -> TransferPollingResult:
        """Run the polling sweep as of a time."""
        return poll_transfers(self.database, self.services.transfers, now=now)

    @property
    def transfers(self) -> list[dict[str, Any]]:
        """The batch's transfers with payouts."""
        with self.database.reading() as session:
            return transfers_in(session, self.batch_id)

    @property
    def statuses(self) -> set[tuple[str, str]]:
        """The distinct pairs of payout status and transfer status."""
        with self.database.reading() as session:
            return set(statuses_in(session, self.batch_id))

    @property
    def status(self) -> str:
        """The batch's status."""
        with self.database.reading() as session:
            return batch_status(session, self.batch_id)

    @property
    def alerts(self) -> dict[str, str]:
        """The open alerts about the batch."""
        with self.database.reading() as session:
            return open_about(session, f"payout-batch:{self.batch_id}")

    def known(self) -> list[dict[str, Any]]:
        """List the batch's transfers at the gateway, without duplicates, once each has a final status."""

        def look() -> list[dict[str, Any]]:
            listed: list[dict[str, Any]] = []
            for page in range(1, 50):
                data = self.gateway.call("GET", f"/transfer?perPage=100&page={page}")
                listed += [one for one in data if one["reference"] in self.references]
                if len(data) < 100:
                    break
            return listed

        assert wait_until(lambda: all(one["status"] != "pending" for one in look()), timeout_seconds=20)
        return look()

    def assert_sent_once(self) -> None:
        """Assert that the gateway has a single transfer per reference, with the right amount."""
        known = self.known()
        assert sorted(one["reference"] for one in known) == sorted(self.references)
        assert {one["amount"] for one in known} == {OWED_MINOR}

    def calls(self) -> list[dict[str, int]]:
        """Count the sending calls for each reference."""
        return [
            {name: count for name, count in self.gateway.calls(reference).items() if name.startswith("POST")}
            for reference in self.references
        ]

    def assert_paid(self) -> None:
        """Assert that each payee was paid exactly once and that the ledger agrees."""
        self.assert_sent_once()
        assert self.statuses == {("success", "success")}
        assert self.status == "completed"
        with self.database.reading() as session:
            assert [payable_balance_of(session, payee) for payee in self.payees] == [0] * len(self.payees)
            assert_ledger_is_consistent(session)


class UnreliableTransfers(CrashingTransfers):
    """The transfer adapter with a connection that fails while sending."""

    def __init__(self, transfers: Any, gateway: TestGateway, fault: str) -> None:
        super().__init__(transfers, "")
        self._gateway = gateway
        self._fault = fault

    def _around(self, call: Any) -> list[GatewayTransfer]:
        self._gateway.proxy.fault = self._fault
        try:
            return super()._around(call)
        finally:
            self._gateway.proxy.fault = None


def deliver(case: DispatchedBatch, data: dict[str, Any], event: str | None = None) -> None:
    """Process the gateway's event about a transfer."""
    body = event_of(data, event or f"transfer.{data['status']}")
    inbox_id = case.database.in_transaction(webhooks.receive_event, provider="gateway", body=body, now=NOW)
    result = webhooks.process_event(
        case.database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=lambda: 0.5
    )
    assert result is not None
    assert result.status in ("processed", "duplicate")
