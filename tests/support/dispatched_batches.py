"""Batches that were dispatched, workers that die while they send them, and lines that fail."""

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
from tests.support.payouts import OWED_MINOR, make_payees, owed
from tests.support.purchases import NOW, assert_books_are_whole
from tests.support.transfers import batch_status, dispatched_batch, statuses_in, transfers_in


class KilledError(BaseException):
    """Stands for a worker that is killed: nothing catches it."""


class CrashingTransfers:
    """The adapter of transfers, in a process that dies before or after a call."""

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


class Case:
    """A batch that was dispatched, with its event; nothing of it is sent yet."""

    def __init__(self, services: Services, gateway: TestGateway, *, payees: int = 3, **values: Any) -> None:
        self.services = services
        self.database = services.database
        self.gateway = gateway
        given = {"account": {"recipient_code": None}} | values
        with self.database.transaction() as session:
            # What other tests left behind is asked about no more: what a sweep did is about this one's.
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
        """The events of its sending, those that are done or those that are not."""
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
        """Have a worker take up what waits to be sent."""
        for _ in range(times):
            for event_id in self.events():
                relay.run_row("webhooks", "outbox", str(event_id))

    def sweep(self, **delta: float) -> TransferPollingResult:
        """Have the sweep come so much later than NOW."""
        return self.sweep_at(NOW + timedelta(**delta))

    def sweep_at(self, now: datetime) -> TransferPollingResult:
        """Have the sweep come at a time."""
        return poll_transfers(self.database, self.services.transfers, now=now)

    @property
    def transfers(self) -> list[dict[str, Any]]:
        """Its transfers with their payouts."""
        with self.database.reading() as session:
            return transfers_in(session, self.batch_id)

    @property
    def statuses(self) -> set[tuple[str, str]]:
        """The status of each payout and of its transfer, each once."""
        with self.database.reading() as session:
            return set(statuses_in(session, self.batch_id))

    @property
    def status(self) -> str:
        """The batch's."""
        with self.database.reading() as session:
            return batch_status(session, self.batch_id)

    @property
    def alerts(self) -> dict[str, str]:
        """What is open about the batch."""
        with self.database.reading() as session:
            return open_about(session, f"payout-batch:{self.batch_id}")

    def known(self) -> list[dict[str, Any]]:
        """What the gateway knows of its transfers, once each has come to its result."""

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
        """Hold the gateway to one transfer for each reference, and of each one's amount."""
        known = self.known()
        assert sorted(one["reference"] for one in known) == sorted(self.references)
        assert {one["amount"] for one in known} == {OWED_MINOR}

    def calls(self) -> list[dict[str, int]]:
        """How often each reference was sent to the gateway."""
        return [
            {name: count for name, count in self.gateway.calls(reference).items() if name.startswith("POST")}
            for reference in self.references
        ]

    def assert_paid(self) -> None:
        """Hold it to having been paid, each payee once, and the books to that."""
        self.assert_sent_once()
        assert self.statuses == {("success", "success")}
        assert self.status == "completed"
        with self.database.reading() as session:
            assert [owed(session, payee) for payee in self.payees] == [0] * len(self.payees)
            assert_books_are_whole(session)


class UnreliableTransfers(CrashingTransfers):
    """The adapter, whose line to the gateway fails while it sends."""

    def __init__(self, transfers: Any, gateway: TestGateway, fault: str) -> None:
        super().__init__(transfers, "")
        self._gateway = gateway
        self._fault = fault

    def _around(self, call: Any) -> list[GatewayTransfer]:
        self._gateway.line.fault = self._fault
        try:
            return super()._around(call)
        finally:
            self._gateway.line.fault = None


def deliver(case: Case, data: dict[str, Any], event: str | None = None) -> None:
    """Have the gateway's event about a transfer processed."""
    body = event_of(data, event or f"transfer.{data['status']}")
    inbox_id = case.database.in_transaction(webhooks.receive_event, provider="gateway", body=body, now=NOW)
    result = webhooks.process_event(
        case.database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=lambda: 0.5
    )
    assert result is not None
    assert result.status in ("processed", "duplicate")
