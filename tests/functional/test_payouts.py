"""Payouts with real workers, a real web process and the sandbox gateway: sent once, and settled by events."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import requests

from marketplace.infra.settings import load_settings
from marketplace.payouts.transfers.polling import poll_transfers
from marketplace.providers.gateway.transfers import HttpTransferGateway
from tests.support.forked_processes import Forked
from tests.support.gateway import GATEWAY_KEY
from tests.support.payouts import OWED_MINOR, make_payees, payable_balance_of
from tests.support.purchases import assert_ledger_is_consistent
from tests.support.service_processes import ServiceProcesses, kill
from tests.support.transfers import batch_status, dispatched_batch, statuses_in, transfers_in

PAYEES = 3


class Batch:
    """A dispatched batch, seen by the gateway and by the database."""

    def __init__(self, site: ServiceProcesses) -> None:
        self.site = site
        with site.database.transaction() as session:
            self.payees = make_payees(session, PAYEES, account={"recipient_code": None})
            self.id: UUID = dispatched_batch(session, self.payees)
            self.references = [row["reference"] for row in transfers_in(session, self.id)]
        self.gateway("POST", "/sandbox/balance", {"amountMinor": PAYEES * OWED_MINOR})

    def gateway(self, method: str, path: str, body: dict[str, Any] | None = None, **query: str) -> Any:
        """Call the gateway."""
        answer = requests.request(
            method,
            f"{self.site.providers.gateway_url}{path}",
            json=body,
            params=query,
            headers={"Authorization": f"Bearer {GATEWAY_KEY}"},
            timeout=20,
        )
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def calls(self, operation: str) -> list[int]:
        """Return the number of calls of an operation for each reference."""
        return [
            int(self.gateway("GET", "/sandbox/calls", reference=reference)["operations"].get(operation, 0))
            for reference in self.references
        ]

    @property
    def statuses(self) -> set[tuple[str, str]]:
        """Status pairs of the batch's payouts and transfers in the database."""
        with self.site.database.reading() as session:
            return set(statuses_in(session, self.id))

    def assert_paid(self) -> None:
        """Ensure that the gateway and the ledger paid each payout exactly once."""
        self.site.wait_until(lambda: self.statuses == {("success", "success")})
        listed = [
            one["reference"]
            for one in self.gateway("GET", "/transfer", perPage="100")
            if one["reference"] in self.references
        ]
        assert sorted(listed) == sorted(self.references)
        with self.site.database.reading() as session:
            assert batch_status(session, self.id) == "completed"
            assert [payable_balance_of(session, payee) for payee in self.payees] == [0] * PAYEES
            assert_ledger_is_consistent(session)


def workers(site: ServiceProcesses) -> Forked:
    """Start the sending worker, then a worker that sweeps waiting work at start, and return the first."""
    sender = site.worker()
    site.worker("notifications")
    return sender


def test_batch_is_sent_by_worker_and_settled_by_gateway_events(site: ServiceProcesses) -> None:
    site.web()
    batch = Batch(site)

    workers(site)

    batch.assert_paid()
    assert batch.calls("POST /transfer/bulk") == [1] * PAYEES


def test_batch_is_not_sent_twice_after_worker_is_killed_during_gateway_call(site: ServiceProcesses) -> None:
    """Without a web process no event arrives, so transfers are polled by reference and not sent again."""
    batch = Batch(site)
    batch.gateway("POST", "/sandbox/transfers/next", {"outcome": "timeout"})
    victim = workers(site)
    site.wait_until(lambda: batch.calls("POST /transfer/bulk") == [1] * PAYEES, victim)
    kill(victim)
    site.stop_processes()
    assert batch.statuses == {("pending", "pending")}

    # Six minutes later the transfers are due for polling.
    transfers = HttpTransferGateway(load_settings(site.environment))
    done = poll_transfers(site.database, transfers, now=datetime.now(UTC) + timedelta(minutes=6))
    assert done.polled == PAYEES
    assert batch.statuses <= {("submitted", "submitted"), ("success", "success")}
    site.web()
    workers(site)

    batch.assert_paid()
    assert batch.calls("POST /transfer/bulk") == [1] * PAYEES
    assert batch.calls("POST /transfer") == [0] * PAYEES
