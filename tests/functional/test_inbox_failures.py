"""Inbox failures under load, on real servers and processes: every event is applied exactly once."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import UUID, uuid4

import psycopg2
import pytest
import requests

from marketplace.background.workers import WORKER_CRASHED
from marketplace.infra import outbox, wakeups
from marketplace.kernel.clock import system_clock
from marketplace.webhooks.inbox import RETRY_DELAYS_SECONDS
from sandbox.process import Process, wait_until
from tests.support.gateway import charge_data, event_of, sign
from tests.support.poison_messages import TOPIC, PoisonedQueue
from tests.support.purchases import (
    Shop,
    assert_ledger_is_consistent,
    make_intent,
    make_product,
    paid_order,
    place,
    with_buyer,
)
from tests.support.service_processes import BOUND_SECONDS, SWEPT_SECONDS, ServiceProcesses, kill

NAME = "worker webhooks"
SENDERS = 4


def store(site: ServiceProcesses, body: bytes) -> None:
    """Insert an event into the inbox as the webhook route does without a queue."""
    site.query(
        "INSERT INTO webhook_inbox (provider, body, due_at) VALUES ('gateway', %s, now() - interval '1 minute')",
        body,
    )


class Payments:
    """Unpaid orders and the payment event of each order."""

    def __init__(self, site: ServiceProcesses, shop: Shop, count: int) -> None:
        self.site = site
        self.bodies: dict[UUID, bytes] = {}
        self.charges: dict[UUID, int] = {}
        for _ in range(count):
            with site.database.transaction() as session:
                buying = with_buyer(session, shop)
                # The real time, because a sweep would expire older orders.
                now = system_clock()
                order_id = place(session, buying, make_product(session, buying), now=now)
                intent = make_intent(session, buying, order_id, now=now)
            data = charge_data(intent.reference, intent.amount_minor)
            self.bodies[order_id], self.charges[order_id] = event_of(data), data["id"]

    def store(self, *, again: int = 1) -> None:
        """Insert the events into the inbox."""
        for body in [body for body in self.bodies.values() for _ in range(again)]:
            store(self.site, body)

    def paid(self) -> int:
        """Count the paid orders."""
        [[count]] = self.site.query(
            "SELECT count(*) FROM orders WHERE id = ANY(%s::uuid[]) AND status = 'paid_escrow'",
            [str(order_id) for order_id in self.bodies],
        )
        return int(count)

    def until_paid(self, seconds: float = BOUND_SECONDS) -> None:
        """Wait until all orders are paid."""
        assert wait_until(lambda: self.paid() == len(self.bodies), timeout_seconds=seconds), self.site.logs()

    def assert_once(self) -> None:
        """Ensure that each payment has a single event, posting and record, and that the ledger is consistent."""
        ids = [str(order_id) for order_id in self.bodies]
        steps = self.site.query(
            "SELECT order_id FROM order_events WHERE trigger = 'pay' AND order_id = ANY(%s::uuid[])", ids
        )
        assert sorted(order_id for (order_id,) in steps) == sorted(ids)
        sources = [f"charge:{charge}" for charge in self.charges.values()]
        posted = self.site.query("SELECT source FROM ledger_transactions WHERE source = ANY(%s)", sources)
        assert sorted(source for (source,) in posted) == sorted(sources)
        names = [f"charge.success:{charge}" for charge in self.charges.values()]
        recorded = self.site.query("SELECT id FROM processed_webhook_events WHERE id = ANY(%s)", names)
        assert sorted(name for (name,) in recorded) == sorted(names)
        with self.site.database.reading() as session:
            assert_ledger_is_consistent(session)


def deliver_until_taken(site: ServiceProcesses, body: bytes, stop: threading.Event) -> Counter[int]:
    """Deliver an event repeatedly, like the gateway, until the event is acknowledged."""
    answers: Counter[int] = Counter()
    while not stop.is_set():
        try:
            status = requests.post(
                f"{site.url}/api/payments/webhook",
                data=body,
                headers={"x-gateway-signature": sign(body), "Content-Type": "application/json"},
                timeout=20,
            ).status_code
        except requests.RequestException:
            status = 0
        answers[status] += 1
        if status == 200:
            break
        stop.wait(0.05)
    return answers


def announce(site: ServiceProcesses, body: bytes) -> None:
    """Deliver an event before any worker runs, so that the wake-up waits in the queue."""
    web = site.web()
    assert deliver_until_taken(site, body, threading.Event()) == {200: 1}
    assert web.running


@contextmanager
def sending(site: ServiceProcesses, payments: Payments) -> Iterator[list[Counter[int]]]:
    """Deliver all events from several senders while the test injects failures."""
    stop = threading.Event()
    answers: list[Counter[int]] = []
    with ThreadPoolExecutor(SENDERS) as pool:
        under_way = [pool.submit(deliver_until_taken, site, body, stop) for body in payments.bodies.values()]
        try:
            yield answers
            answers += [future.result(timeout=SWEPT_SECONDS) for future in under_way]
        finally:
            stop.set()
    assert all(one[200] == 1 for one in answers)


def kill_server(process: Process | None) -> None:
    assert process is not None
    kill(process)


def test_killed_queue_server_under_load_loses_and_duplicates_nothing(
    site: ServiceProcesses, shop: Shop
) -> None:
    """The queue server persists nothing, so waiting messages are lost. Senders see no failure."""
    payments = Payments(site, shop, 60)
    site.web()
    site.worker()
    with sending(site, payments) as answers:
        site.wait_until(lambda: payments.paid() >= 5)
        kill_server(site.valkey.process)
        site.wait_until(lambda: site.query("SELECT 1 FROM webhook_inbox WHERE status = 'received' LIMIT 1"))
        site.restart_servers()
    payments.until_paid(SWEPT_SECONDS)

    assert {status for one in answers for status in one} == {200}
    payments.assert_once()


def test_restarted_database_under_load_loses_and_duplicates_nothing(
    site: ServiceProcesses, shop: Shop
) -> None:
    payments = Payments(site, shop, 60)
    site.web()
    site.worker()
    with sending(site, payments) as answers:
        site.wait_until(lambda: payments.paid() >= 5)
        site.postgres.stop()
        assert wait_until(lambda: not site.is_serving("/health/ready"), timeout_seconds=BOUND_SECONDS)
        site.restart_servers()
    payments.until_paid(SWEPT_SECONDS)

    # Senders without a 200 response got 503 or a broken connection, and retried.
    assert {status for one in answers for status in one} <= {200, 503, 0}
    payments.assert_once()


def test_two_concurrent_relays_share_the_work(site: ServiceProcesses, shop: Shop) -> None:
    """Both relays sweep the same rows from the start. Each event is stored three times."""
    payments = Payments(site, shop, 40)
    payments.store(again=3)

    workers = [site.worker(), site.worker()]
    payments.until_paid()

    bodies = list(payments.bodies.values())
    site.wait_until(
        lambda: (
            not site.query("SELECT 1 FROM webhook_inbox WHERE body = ANY(%s) AND status = 'received'", bodies)
        )
    )
    assert all(worker.running for worker in workers)
    counts = site.query(
        "SELECT status, count(*), max(attempts) FROM webhook_inbox WHERE dedupe_id = ANY(%s) GROUP BY status",
        [f"charge.success:{charge}" for charge in payments.charges.values()],
    )
    assert sorted(counts) == [("duplicate", 80, 1), ("processed", 40, 1)]
    payments.assert_once()


def test_poison_and_slow_events_do_not_block_later_events(site: ServiceProcesses, shop: Shop) -> None:
    """Unreadable events, events that always fail, and an event of an order that is locked elsewhere."""
    payments = Payments(site, shop, 20)
    slow = next(iter(payments.bodies))
    unreadable = [b"{%d" % number for number in range(10)]
    unknown = [event_of(charge_data(f"checkout-{uuid4().hex}", 100)) for _ in unreadable]
    for pair in zip(unreadable, unknown, strict=True):
        for body in pair:
            store(site, body)
    payments.store()
    with holding(site, "SELECT FROM orders WHERE id = %s FOR UPDATE", str(slow)):
        site.worker()
        site.wait_until(lambda: payments.paid() == len(payments.bodies) - 1)
    payments.until_paid(SWEPT_SECONDS)

    payments.assert_once()
    dead = site.query(
        "SELECT d.error FROM dead_letter_webhooks d JOIN webhook_inbox i ON i.id = d.inbox_id WHERE i.body = ANY(%s)",
        unreadable,
    )
    assert dead == [("the body is not JSON",)] * 10
    # Failed events are scheduled for a later retry, which gives other events a turn.
    waiting = site.query("SELECT last_error FROM webhook_inbox WHERE body = ANY(%s)", unknown)
    assert waiting == [("no payment has this reference",)] * 10


def test_event_that_kills_workers_becomes_dead_letter_and_blocks_no_other_event(
    site: ServiceProcesses, shop: Shop
) -> None:
    """An event and an outbox row have two tries left. The order of another event is locked."""
    payments = Payments(site, shop, 6)
    beside = next(iter(payments.bodies))
    fate = PoisonedQueue(site)
    with holding(site, "SELECT FROM orders WHERE id = %s FOR UPDATE", str(beside)):
        payments.store()
        site.wait_until(
            lambda: payments.paid() == 5 and site.connections(NAME, waiting=True), fate.workers[0]
        )
        poison = [
            fate.add_event(attempts=len(RETRY_DELAYS_SECONDS) - 1),
            fate.add_work(attempts=outbox.MAX_TRIES - 2),
        ]
        site.wait_until(lambda: not fate.workers[0].running)
    [[row_id]] = site.query("SELECT id FROM webhook_inbox WHERE body = %s", payments.bodies[beside])
    fate.enqueue_when_due(wakeups.INBOX, row_id)

    site.wait_until(lambda: fate.supervise() and not fate.waiting(poison))
    site.wait_until(lambda: fate.supervise() and payments.paid() == 6)

    assert site.query(
        "SELECT attempts, error FROM dead_letter_webhooks WHERE inbox_id = %s", str(poison[0])
    ) == [(len(RETRY_DELAYS_SECONDS) + 1, WORKER_CRASHED)]
    assert site.query(
        "SELECT attempts, last_error FROM outbox_events WHERE failed_at IS NOT NULL AND id = %s",
        str(poison[1]),
    ) == [(outbox.MAX_TRIES, WORKER_CRASHED)]
    assert site.query("SELECT identifier FROM alerts WHERE subject = %s", TOPIC) == [("OUTBOX_GIVEN_UP",)]
    # The other event lost a try with each worker. No more workers died than there were tries, except a worker that
    # died of a row while recording the crash at the other row: that crash is not counted.
    assert len(fate.workers) <= 1 + 2 * 2 + 1
    assert fate.workers[-1].running
    payments.assert_once()
    [[tries]] = site.query("SELECT attempts FROM webhook_inbox WHERE id = %s", str(row_id))
    assert tries >= 2


@contextmanager
def holding(site: ServiceProcesses, sql: str, *parameters: object) -> Iterator[None]:
    """Hold the locks or writes of a statement in a transaction that is rolled back at the end."""
    connection = psycopg2.connect(site.postgres.url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
        yield
    finally:
        connection.close()


def waits_at_last_statement(site: ServiceProcesses) -> bool:
    """Return whether a worker waits to mark a row as done. A sweep may wait too, before the first statement."""
    return bool(
        site.query(
            "SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
            " AND query LIKE '%%UPDATE webhook_inbox SET status%%'",
            NAME,
        )
    )


class TestKilledWorker:
    """Worker killed at each step of processing an event, and recovery by the next worker."""

    def after_kill(self, site: ServiceProcesses, payments: Payments) -> None:
        """Start the next worker and check that the payment is applied once."""
        site.wait_until(lambda: site.connections(NAME) == 0)
        site.worker()
        payments.until_paid(SWEPT_SECONDS)
        payments.assert_once()

    def test_worker_killed_after_lease_applies_event_once(self, site: ServiceProcesses, shop: Shop) -> None:
        """The worker has the row and waits for another record of the same event, before any write."""
        payments = Payments(site, shop, 1)
        payments.store()
        [charge] = payments.charges.values()
        record = (
            "INSERT INTO processed_webhook_events (id, provider, event_type, payload)"
            " VALUES (%s, 'gateway', 'charge.success', '{}')"
        )
        with holding(site, record, f"charge.success:{charge}"):
            victim = site.worker()
            site.wait_until(lambda: site.connections(NAME, waiting=True), victim)
            kill(victim)
        assert payments.paid() == 0
        self.after_kill(site, payments)

    def test_worker_killed_before_commit_applies_event_once(self, site: ServiceProcesses, shop: Shop) -> None:
        """All writes are done except the final status, because the table is locked against changes only."""
        payments = Payments(site, shop, 1)
        [body] = payments.bodies.values()
        announce(site, body)
        [charge] = payments.charges.values()
        with holding(site, "LOCK TABLE webhook_inbox IN SHARE MODE"):
            victim = site.worker()
            site.wait_until(lambda: waits_at_last_statement(site), victim)
            # The record is written, so another insert of the same event waits.
            with pytest.raises(psycopg2.errors.LockNotAvailable):
                site.query(
                    "SET lock_timeout = '100ms'; INSERT INTO processed_webhook_events (id, provider, event_type,"
                    " payload) VALUES (%s, 'gateway', 'charge.success', '{}')",
                    f"charge.success:{charge}",
                )
            kill(victim)
        assert payments.paid() == 0
        assert site.query("SELECT 1 FROM ledger_transactions WHERE source = %s", f"charge:{charge}") == []
        self.after_kill(site, payments)

    def test_worker_killed_before_wake_up_creates_refund_once(
        self, site: ServiceProcesses, shop: Shop
    ) -> None:
        """A duplicate charge creates a refund, and the wake-up for the refund is never sent."""
        with site.database.transaction() as session:
            order_id = paid_order(session, shop)
            [[reference, amount]] = session.connection().exec_driver_sql(
                "SELECT i.reference, i.amount_minor FROM payment_intents i JOIN payment_allocations a"
                " ON a.intent_id = i.id WHERE a.order_id = %(id)s",
                {"id": str(order_id)},
            )
        data = charge_data(reference, amount)
        announce(site, event_of(data))
        refund = "SELECT status FROM refunds WHERE order_id = %s"
        assert site.valkey.process is not None
        server = site.valkey.process.process_id
        assert server is not None
        with holding(site, "LOCK TABLE webhook_inbox IN SHARE MODE"):
            victim = site.worker()
            site.wait_until(lambda: waits_at_last_statement(site), victim)
            os.kill(server, signal.SIGSTOP)
        try:
            # The queue server is stopped, so the wake-up hangs after the commit.
            site.wait_until(lambda: site.query(refund, str(order_id)), victim)
            kill(victim)
        finally:
            os.kill(server, signal.SIGCONT)
        assert site.query(refund, str(order_id)) == [("pending",)]

        site.worker("notifications")
        site.worker()
        # The sweep skips rows that became due in the last ten seconds.
        site.wait_until(lambda: site.query(refund, str(order_id)) != [("pending",)], seconds=SWEPT_SECONDS)

        assert len(site.query("SELECT 1 FROM refunds WHERE order_id = %s", str(order_id))) == 1
        with site.database.reading() as session:
            assert_ledger_is_consistent(session)

    def test_overdue_retry_without_queued_message_is_processed(self, site: ServiceProcesses) -> None:
        """The row alone records the retry, as after a worker killed before scheduling the retry."""
        body = event_of(charge_data(f"checkout-{uuid4().hex}", 100))
        site.query(
            "INSERT INTO webhook_inbox (provider, body, status, attempts, due_at)"
            " VALUES ('gateway', %s, 'retrying', 2, now() - interval '1 minute')",
            body,
        )
        attempts = "SELECT attempts FROM webhook_inbox WHERE body = %s"
        site.worker()
        site.wait_until(lambda: site.query(attempts, body) == [(3,)])
        [[status, ahead]] = site.query(
            "SELECT status, extract(epoch FROM due_at - now()) FROM webhook_inbox WHERE body = %s", body
        )
        assert status == "retrying"
        # 25 seconds, plus or minus a fifth, less the time of the query.
        assert 0 < ahead <= 30
