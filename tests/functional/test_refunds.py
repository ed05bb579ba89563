"""Refunds with real workers, a real web process and the sandbox gateway: sent once, and settled by events."""

from typing import Any
from uuid import UUID

import requests

from marketplace.infra import wakeups
from marketplace.kernel import queues
from marketplace.payments import states
from marketplace.payments.refunds import order_cancellation, recovery
from marketplace.providers.gateway.payloads import Charge
from tests.support.finance import act_of, make_officer, refunds_of
from tests.support.forked_processes import Forked
from tests.support.gateway import GATEWAY_KEY
from tests.support.purchases import (
    NOW,
    Shop,
    apply,
    assert_ledger_is_consistent,
    make_intent,
    make_product,
    place,
    row_of,
)
from tests.support.service_processes import ServiceProcesses, kill


def workers(site: ServiceProcesses) -> Forked:
    """Start the sending worker, then a worker that sweeps waiting work at start, and return the first."""
    sender = site.worker()
    site.worker("notifications")
    return sender


class Refund:
    """A refund of a cancelled order, seen by the gateway and by the database."""

    def __init__(self, site: ServiceProcesses, shop: Shop) -> None:
        self.site = site
        with site.database.transaction() as session:
            self.order_id = place(session, shop, make_product(session, shop))
            intent = make_intent(session, shop, self.order_id)
        self.reference = intent.reference
        opened = {"reference": self.reference, "amount": intent.amount_minor, "email": "ada@example.com"}
        self.gateway("POST", "/transaction/initialize", opened)
        paid = Charge.from_wire(self.gateway("POST", f"/sandbox/pay/{self.reference}", {})["data"])
        with site.database.transaction() as session:
            apply(session, paid)
            order_cancellation.cancel_order(
                session, order_id=self.order_id, caller=shop.buyer, reason=None, now=NOW
            )
            [made] = refunds_of(session, self.order_id)
        self.id: UUID = made["id"]

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
        return answer.json()

    @property
    def calls(self) -> int:
        """Number of times the gateway was asked to send the refund."""
        operations = self.gateway("GET", "/sandbox/calls", reference=self.reference)["data"]["operations"]
        return int(operations.get("POST /refund", 0))

    @property
    def status(self) -> str:
        """The refund's status in the database."""
        with self.site.database.reading() as session:
            found: str = row_of(session, "refunds", id=self.id)["status"]
            return found

    def assert_sent(self, times: int = 1) -> None:
        """Ensure that the refund was sent and that the ledger is consistent."""
        self.site.wait_until(lambda: self.status == "processed")
        assert self.calls == times
        with self.site.database.reading() as session:
            row_of(session, "ledger_transactions", kind="refund_sent", source=f"refund:{self.id}")
            row_of(session, "notifications", cause=f"refund:{self.id}:processed")
            assert_ledger_is_consistent(session)


def test_refund_is_sent_by_worker_and_settled_by_gateway_event(site: ServiceProcesses, shop: Shop) -> None:
    site.web()
    refund = Refund(site, shop)

    workers(site)

    refund.assert_sent()


def test_failed_refund_is_sent_again_when_finance_retries(site: ServiceProcesses, shop: Shop) -> None:
    site.web()
    refund = Refund(site, shop)
    refund.gateway("POST", "/sandbox/refunds/next", {"outcome": "failed"})
    workers(site)
    site.wait_until(lambda: refund.status == "failed")
    assert refund.calls == 1

    with site.database.transaction() as session:
        officer = make_officer(session)
        stuck = recovery.find_failed_refund(
            session, refund_id=refund.id, trigger=states.RETRY, officer_id=officer.id
        )
        recovery.retry_failed_refund(session, failed_refund=stuck, attempts=[], act=act_of(officer, now=NOW))
    site.stop_processes()
    site.web()
    workers(site)

    refund.assert_sent(times=2)


def test_refund_is_not_sent_twice_after_worker_is_killed_during_gateway_call(
    site: ServiceProcesses, shop: Shop
) -> None:
    """Without a web process no event arrives, so the next worker finds the refund by the note at the gateway."""
    refund = Refund(site, shop)
    refund.gateway("POST", "/sandbox/refunds/next", {"outcome": "timeout"})
    victim = workers(site)
    site.wait_until(lambda: refund.calls == 1, victim)
    kill(victim)
    site.stop_processes()
    assert refund.status == "pending"

    # The lease of the killed worker expires.
    site.query("UPDATE refunds SET asking_until = now() WHERE id = %s", str(refund.id))
    [[row_id]] = site.query(
        "UPDATE outbox_events SET due_at = now() WHERE payload ->> 'refundId' = %s AND done_at IS NULL RETURNING id",
        str(refund.id),
    )
    workers(site)
    # A direct wake-up, because the next sweep may be 25 seconds away.
    site.enqueue(queues.WEBHOOKS, wakeups.OUTBOX, UUID(str(row_id)))
    site.wait_until(lambda: refund.status in ("submitted", "processed"))
    site.web()

    refund.assert_sent()
