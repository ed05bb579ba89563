"""Payouts by real workers, a real web process and the sandbox's gateway: sent once, and settled by its events."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import requests

from marketplace.infra.settings import load_settings
from marketplace.payouts.transfers.polling import poll_transfers
from marketplace.providers.gateway.transfers import HttpTransferGateway
from tests.support.forked_processes import Forked
from tests.support.gateway import GATEWAY_KEY
from tests.support.payouts import OWED_MINOR, make_payees, owed
from tests.support.purchases import assert_books_are_whole
from tests.support.service_processes import ServiceProcesses, kill
from tests.support.transfers import batch_status, dispatched_batch, statuses_in, transfers_in

PAYEES = 3


class Batch:
    """A batch that was dispatched, as the gateway and the database know it."""

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
        """How often the gateway was told of each reference."""
        return [
            int(self.gateway("GET", "/sandbox/calls", reference=reference)["operations"].get(operation, 0))
            for reference in self.references
        ]

    @property
    def statuses(self) -> set[tuple[str, str]]:
        """What we know of its payouts and of their transfers."""
        with self.site.database.reading() as session:
            return set(statuses_in(session, self.id))

    def assert_paid(self) -> None:
        """Hold it, the gateway and the books to each having been paid once."""
        self.site.until(lambda: self.statuses == {("success", "success")})
        listed = [
            one["reference"]
            for one in self.gateway("GET", "/transfer", perPage="100")
            if one["reference"] in self.references
        ]
        assert sorted(listed) == sorted(self.references)
        with self.site.database.reading() as session:
            assert batch_status(session, self.id) == "completed"
            assert [owed(session, payee) for payee in self.payees] == [0] * PAYEES
            assert_books_are_whole(session)


def workers(site: ServiceProcesses) -> Forked:
    """Start the worker that sends, and then the one that hands out what waits as it starts; give the first."""
    sender = site.worker()
    site.worker("notifications")
    return sender


def test_a_worker_sends_a_batch_and_the_gateways_events_settle_it(site: ServiceProcesses) -> None:
    site.web()
    batch = Batch(site)

    workers(site)

    batch.assert_paid()
    assert batch.calls("POST /transfer/bulk") == [1] * PAYEES


def test_a_worker_that_is_killed_while_the_gateway_is_at_it_is_made_up_for(site: ServiceProcesses) -> None:
    """No event comes, as nobody serves the webhook: the gateway is asked by the references, and nothing sent again."""
    batch = Batch(site)
    batch.gateway("POST", "/sandbox/transfers/next", {"outcome": "timeout"})
    victim = workers(site)
    site.until(lambda: batch.calls("POST /transfer/bulk") == [1] * PAYEES, victim)
    kill(victim)
    site.stop_processes()
    assert batch.statuses == {("pending", "pending")}

    # The time has come to ask about them.
    transfers = HttpTransferGateway(load_settings(site.environment))
    done = poll_transfers(site.database, transfers, now=datetime.now(UTC) + timedelta(minutes=6))
    assert done.polled == PAYEES
    assert batch.statuses <= {("submitted", "submitted"), ("success", "success")}
    site.web()
    workers(site)

    batch.assert_paid()
    assert batch.calls("POST /transfer/bulk") == [1] * PAYEES
    assert batch.calls("POST /transfer") == [0] * PAYEES
