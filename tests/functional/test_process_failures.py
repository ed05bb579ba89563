"""Process failures: killed workers, unavailable queue or database, without duplicate or lost payments."""

from collections.abc import Iterator
from uuid import UUID

import pytest
import requests

from marketplace.kernel.clock import system_clock
from marketplace.ledger import accounts
from marketplace.payments.intents.lifecycle import Intent
from tests.support.depth import sample
from tests.support.gateway import charge_data, event_of, sign
from tests.support.purchases import (
    Shop,
    assert_ledger_is_consistent,
    make_intent,
    make_product,
    place,
    row_of,
    status_of,
)
from tests.support.service_processes import SWEPT_SECONDS, Blocker, ServiceProcesses, kill

NAME = "worker webhooks"


def unpaid(site: ServiceProcesses, shop: Shop) -> tuple[UUID, Intent]:
    with site.database.transaction() as session:
        # The real time, because a sweep would expire older orders.
        now = system_clock()
        order_id = place(session, shop, make_product(session, shop), now=now)
        return order_id, make_intent(session, shop, order_id, now=now)


def deliver(site: ServiceProcesses, body: bytes) -> requests.Response:
    return requests.post(
        f"{site.url}/api/payments/webhook",
        data=body,
        headers={"x-gateway-signature": sign(body), "Content-Type": "application/json"},
        timeout=20,
    )


def store(site: ServiceProcesses, body: bytes) -> None:
    """Insert an event into the inbox as the webhook route does without a queue."""
    site.query(
        "INSERT INTO webhook_inbox (provider, body, due_at) VALUES ('gateway', %s, now() - interval '1 minute')",
        body,
    )


def status(site: ServiceProcesses, order_id: UUID) -> str:
    with site.database.reading() as session:
        return status_of(session, order_id)


def assert_paid_once(site: ServiceProcesses, order_id: UUID, charge_id: int) -> None:
    with site.database.reading() as session:
        assert status_of(session, order_id) == "paid_escrow"
        assert row_of(session, "ledger_transactions", source=f"charge:{charge_id}")["kind"] == "payment"
        row_of(session, "processed_webhook_events", id=f"charge.success:{charge_id}")
        row_of(session, "order_events", order_id=order_id, trigger="pay")
        assert_ledger_is_consistent(session)


@pytest.fixture
def blocked(site: ServiceProcesses) -> Iterator[Blocker]:
    """Lock on a row that stops a worker in the middle of a transaction."""
    with Blocker(site) as blocker:
        yield blocker


# TestKilledWorker in test_inbox_failures.py covers the first and last step too.
@pytest.mark.parametrize("step", sample(["orders", "products", "ledger_accounts"], every=3, offset=1))
def test_worker_killed_during_transaction_writes_nothing_and_next_worker_finishes(
    site: ServiceProcesses, shop: Shop, blocked: Blocker, step: str
) -> None:
    """The worker is killed before any write, between order and stock, and right before the ledger postings."""
    with site.database.transaction() as session:
        product_id = make_product(session, shop)
        now = system_clock()
        order_id = place(session, shop, product_id, now=now)
        intent = make_intent(session, shop, order_id, now=now)
        session.connection().exec_driver_sql(
            "INSERT INTO ledger_accounts (id, kind, owner_id, normal_side, balance_minor)"
            " SELECT %(id)s, 'wallet', %(owner)s, 'credit', 0",
            {"id": str(_wallet(shop)), "owner": str(shop.buyer.id)},
        )
    data = charge_data(intent.reference, intent.amount_minor)
    store(site, event_of(data))
    rows = {
        "orders": order_id,
        "products": product_id,
        "ledger_accounts": _wallet(shop),
    }
    blocked.lock(step, id=rows[step])

    victim = site.worker()
    site.wait_until(lambda: site.connections(NAME, waiting=True), victim)
    kill(victim)
    blocked.release()
    # The server notices the closed connection and rolls back.
    site.wait_until(lambda: site.connections(NAME) == 0)
    assert status(site, order_id) == "pending_payment"
    assert site.query("SELECT id FROM ledger_transactions WHERE source = %s", f"charge:{data['id']}") == []

    site.worker()
    site.wait_until(lambda: status(site, order_id) == "paid_escrow", seconds=SWEPT_SECONDS)

    assert_paid_once(site, order_id, data["id"])


def test_stopping_worker_finishes_the_current_event(
    site: ServiceProcesses, shop: Shop, blocked: Blocker
) -> None:
    order_id, intent = unpaid(site, shop)
    data = charge_data(intent.reference, intent.amount_minor)
    store(site, event_of(data))
    blocked.lock("orders", id=order_id)
    worker = site.worker()
    site.wait_until(lambda: site.connections(NAME, waiting=True), worker)

    worker.request_stop()
    assert worker.running
    blocked.release()
    site.wait_until(lambda: not worker.running)

    assert worker.exit_status == 0, worker.log_tail()
    assert status(site, order_id) == "paid_escrow", worker.log_tail()
    assert_paid_once(site, order_id, data["id"])


def test_webhook_without_queue_is_accepted_and_processed_later(site: ServiceProcesses, shop: Shop) -> None:
    site.web()
    site.valkey.stop()
    order_id, intent = unpaid(site, shop)
    data = charge_data(intent.reference, intent.amount_minor)

    answers = [deliver(site, event_of(data)) for _ in range(3)]

    assert [(answer.status_code, answer.json()) for answer in answers] == [(200, {"received": True})] * 3
    assert max(answer.elapsed.total_seconds() for answer in answers) < 5
    assert status(site, order_id) == "pending_payment"

    site.restart_servers()
    site.worker()
    site.wait_until(lambda: status(site, order_id) == "paid_escrow", seconds=SWEPT_SECONDS)
    assert_paid_once(site, order_id, data["id"])


def test_webhook_with_queue_is_processed_at_once(site: ServiceProcesses, shop: Shop) -> None:
    """The sweep is paused, so only the wake-up can start the processing."""
    site.web()
    worker = site.worker()
    runs = "SELECT runs FROM periodic_tasks WHERE name = 'relay-inbox' AND run_id IS NULL"
    site.wait_until(lambda: site.query(runs) not in ([], [(0,)]), worker)
    site.query("UPDATE periodic_tasks SET paused_at = now() WHERE name = 'relay-inbox'")
    order_id, intent = unpaid(site, shop)
    data = charge_data(intent.reference, intent.amount_minor)

    assert deliver(site, event_of(data)).status_code == 200

    site.wait_until(lambda: status(site, order_id) == "paid_escrow")
    site.query("UPDATE periodic_tasks SET paused_at = NULL")
    assert_paid_once(site, order_id, data["id"])


def test_webhook_without_database_is_answered_503_and_retried(site: ServiceProcesses, shop: Shop) -> None:
    site.web()
    order_id, intent = unpaid(site, shop)
    body = {"reference": intent.reference, "amount": intent.amount_minor, "email": "ada@example.com"}
    call_gateway(site, "POST", "/transaction/initialize", json=body)
    site.postgres.stop()

    answer = deliver(site, event_of(charge_data(intent.reference, intent.amount_minor)))

    assert answer.status_code == 503
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.json()["code"] == "SERVICE_UNAVAILABLE"
    assert "psycopg" not in answer.text
    assert requests.get(f"{site.url}/health/live", timeout=5).status_code == 200
    assert requests.get(f"{site.url}/health/ready", timeout=5).status_code == 503

    charge = call_gateway(site, "POST", f"/sandbox/pay/{intent.reference}")
    site.wait_until(lambda: _tries(site, intent.reference))
    assert _tries(site, intent.reference)[0]["status"] == 503
    site.restart_servers()
    site.wait_until(
        lambda: site.query("SELECT id FROM webhook_inbox WHERE body LIKE %s", f"%{charge['id']}%".encode())
    )
    site.worker()
    site.wait_until(lambda: status(site, order_id) == "paid_escrow")
    assert_paid_once(site, order_id, charge["id"])


def test_acknowledged_webhook_survives_killed_web_process(site: ServiceProcesses, shop: Shop) -> None:
    web = site.web()
    order_id, intent = unpaid(site, shop)
    data = charge_data(intent.reference, intent.amount_minor)
    assert deliver(site, event_of(data)).status_code == 200

    kill(web)
    site.worker()

    site.wait_until(lambda: status(site, order_id) == "paid_escrow")
    assert_paid_once(site, order_id, data["id"])


def call_gateway(site: ServiceProcesses, method: str, path: str, **options: object) -> dict[str, int]:
    answer = requests.request(
        method,
        f"{site.providers.gateway_url}{path}",
        headers={"Authorization": f"Bearer {site.environment['GATEWAY_SECRET_KEY']}"},
        timeout=20,
        **options,  # type: ignore[arg-type]
    )
    assert answer.status_code == 200, answer.text
    data: dict[str, int] = answer.json()["data"]
    return data


def _tries(site: ServiceProcesses, reference: str) -> list[dict[str, object]]:
    deliveries = call_gateway(site, "GET", "/sandbox/deliveries", params={"reference": reference})
    return [attempt for delivery in deliveries for attempt in delivery["answers"]]  # type: ignore[index]


def _wallet(shop: Shop) -> UUID:
    return accounts.wallet(shop.buyer.id).id
