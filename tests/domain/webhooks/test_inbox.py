"""Webhook inbox: storage, processing exactly once, scheduled retries and dead letters."""

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import orjson
import pytest
from sqlalchemy import text

from marketplace.infra.db import Database
from marketplace.payments.intents.lifecycle import Intent
from marketplace.webhooks import inbox as webhook_inbox, queries
from marketplace.webhooks.inbox import RETRY_DELAYS_SECONDS, RETRY_JITTER, ProcessingResult
from tests.support.gateway import charge_data, event_of
from tests.support.purchases import (
    NOW,
    assert_ledger_is_consistent,
    later,
    make_intent,
    make_product,
    make_shop,
    place,
    row_of,
    status_of,
)
from tests.support.sealed_payloads import open_payload


def no_jitter() -> float:
    return 0.5


def receive(database: Database, body: bytes, now: datetime = NOW) -> UUID:
    return database.in_transaction(webhook_inbox.receive_event, provider="gateway", body=body, now=now)


def process(
    database: Database,
    inbox_id: UUID,
    now: datetime = NOW,
    random: Callable[[], float] = no_jitter,
    clock: Callable[[], datetime] | None = None,
) -> ProcessingResult | None:
    return webhook_inbox.process_event(
        database, inbox_id=inbox_id, fee_bearer="platform", now=now, random=random, clock=clock
    )


def fetch_event(database: Database, inbox_id: UUID) -> queries.WebhookEventDetail:
    with database.reading() as session:
        return queries.fetch_event(session, inbox_id=inbox_id)


def make_unpaid_order(database: Database) -> tuple[UUID, Intent]:
    with database.transaction() as session:
        shop = make_shop(session)
        order_id = place(session, shop, make_product(session, shop))
        return order_id, make_intent(session, shop, order_id)


def status(database: Database, order_id: UUID) -> str:
    with database.reading() as session:
        return status_of(session, order_id)


def count(database: Database, table: str, **key: object) -> int:
    where = " AND ".join(f"{name} = :{name}" for name in key)
    with database.reading() as session:
        found: int = session.execute(text(f"SELECT count(*) FROM {table} WHERE {where}"), key).scalar_one()
        return found


def test_processed_event_is_applied_and_recorded(database: Database) -> None:
    order_id, intent = make_unpaid_order(database)
    data = charge_data(intent.reference, intent.amount_minor, customer={"first_name": "Ada\0"})
    inbox_id = receive(database, event_of(data))

    assert process(database, inbox_id) == ProcessingResult("processed")

    assert status(database, order_id) == "paid_escrow"
    row = fetch_event(database, inbox_id)
    name = f"charge.success:{data['id']}"
    assert (row.status, row.attempts, row.finished_at) == ("processed", 1, NOW)
    assert (row.event_type, row.dedupe_id) == ("charge.success", name)
    assert row.body == event_of(data)
    with database.reading() as session:
        record = row_of(session, "processed_webhook_events", id=name)
        assert "Ada" not in str(record["payload"])
        opened = open_payload(session, record["payload"])
        assert opened["data"]["customer"] == {"first_name": "Ada"}
        assert record["processed_at"] == NOW
        assert_ledger_is_consistent(session)


def test_second_delivery_of_same_event_is_a_duplicate(database: Database) -> None:
    _, intent = make_unpaid_order(database)
    data = charge_data(intent.reference, intent.amount_minor)
    # Events are deduplicated by id, so other bytes of the same event are a duplicate.
    one, two = (
        receive(database, event_of(data)),
        receive(database, orjson.dumps({"data": data, "event": "charge.success"})),
    )

    assert process(database, one) == ProcessingResult("processed")
    assert process(database, two, later(days=3)) == ProcessingResult("duplicate")

    assert count(database, "ledger_transactions", source=f"charge:{data['id']}") == 1


def test_processed_delivery_is_not_processed_again(database: Database) -> None:
    _, intent = make_unpaid_order(database)
    inbox_id = receive(database, event_of(charge_data(intent.reference, intent.amount_minor)))

    assert process(database, inbox_id) == ProcessingResult("processed")
    assert process(database, inbox_id, later(days=1)) is None


@pytest.mark.parametrize("event", ["customeridentification.success", "x" * 100])
def test_unknown_event_type_is_recorded_as_ignored(database: Database, event: str) -> None:
    data = {"id": uuid4().hex}
    inbox_id = receive(database, event_of(data, event))

    assert process(database, inbox_id) == ProcessingResult("ignored")

    assert fetch_event(database, inbox_id).status == "ignored"
    assert count(database, "processed_webhook_events", id=f"{event}:{data['id']}") == 1


def test_charge_event_is_retried_until_the_payment_exists(database: Database) -> None:
    order_id, intent = make_unpaid_order(database)
    reference = f"checkout-{uuid4().hex}"
    inbox_id = receive(database, event_of(charge_data(reference, intent.amount_minor)))

    assert process(database, inbox_id) == ProcessingResult("retrying", later(seconds=1))
    assert process(database, inbox_id, later(seconds=0.9)) is None
    with database.transaction() as session:
        session.execute(
            text("UPDATE payment_intents SET reference = :reference WHERE id = :id"),
            {"reference": reference, "id": intent.id},
        )
    assert process(database, inbox_id, later(seconds=1)) == ProcessingResult("processed")
    assert status(database, order_id) == "paid_escrow"
    assert fetch_event(database, inbox_id).attempts == 2


@pytest.mark.parametrize(("drawn", "factor"), [(0.0, 1 - RETRY_JITTER), (0.5, 1.0), (1.0, 1 + RETRY_JITTER)])
def test_event_with_unknown_reference_is_dead_after_six_attempts(
    database: Database, drawn: float, factor: float
) -> None:
    data = charge_data(f"checkout-{uuid4().hex}", 100)
    inbox_id = receive(database, event_of(data))

    now = NOW
    for number, delay in enumerate(RETRY_DELAYS_SECONDS, start=1):
        result = process(database, inbox_id, now, random=lambda: drawn)
        expected = now + timedelta(seconds=delay * factor)
        assert result is not None
        assert result.status == "retrying"
        assert result.due_at is not None
        assert abs(result.due_at - expected) < timedelta(milliseconds=1)
        row = fetch_event(database, inbox_id)
        assert (row.status, row.attempts, row.due_at) == ("retrying", number, result.due_at)
        now = result.due_at
    assert process(database, inbox_id, now) == ProcessingResult("dead")

    row = fetch_event(database, inbox_id)
    assert (row.status, row.attempts, row.finished_at) == ("dead", 6, now)
    with database.reading() as session:
        letter = row_of(session, "dead_letter_webhooks", inbox_id=inbox_id)
        assert (letter["attempts"], letter["died_at"]) == (6, now)
        assert letter["error"] == "no payment has this reference"
        assert letter["dedupe_id"] == f"charge.success:{data['id']}"
        assert bytes(letter["body"]) == event_of(data)
        alerts = session.execute(
            text(
                "SELECT severity, latest_facts FROM alerts WHERE identifier = 'WEBHOOK_DEAD'"
                " AND subject = 'gateway:charge.success' AND resolved_at IS NULL"
            )
        ).all()
        assert [(severity, facts["inboxId"]) for severity, facts in alerts] == [("SEV-2", str(inbox_id))]
    assert count(database, "processed_webhook_events", id=letter["dedupe_id"]) == 0


@pytest.mark.parametrize(
    "body",
    [
        b"not JSON",
        b"[]",
        b'{"event":"charge.success"}',
        event_of({"amount": 5}),
        event_of(charge_data("checkout-1", 100, amount=100.0)),
        event_of(charge_data("checkout-2", 100, amount="100")),
        event_of(charge_data("checkout-3", 100, amount=None)),
        event_of(charge_data("checkout-4", 100, fees=1.5)),
        event_of(charge_data("checkout-5", 100, currency=None)),
        event_of(charge_data("checkout-6", 100, status="failed")),
        event_of(charge_data("checkout-7", 10**30)),
    ],
    ids=[
        "not JSON",
        "not an object",
        "no data",
        "no id",
        "float amount",
        "text amount",
        "no amount",
        "float fees",
        "no currency",
        "status is not success",
        "amount too large",
    ],
)
def test_malformed_event_is_a_dead_letter_at_once(database: Database, body: bytes) -> None:
    inbox_id = receive(database, body)

    assert process(database, inbox_id) == ProcessingResult("dead")

    assert fetch_event(database, inbox_id).attempts == 1
    assert count(database, "dead_letter_webhooks", inbox_id=inbox_id) == 1


def test_unexpected_failure_is_retried_and_recorded_without_data(database: Database) -> None:
    """Remove the order's stock reservation, so that a database constraint fails."""
    order_id, intent = make_unpaid_order(database)
    data = charge_data(intent.reference, intent.amount_minor)
    inbox_id = receive(database, event_of(data))
    set_reserved(database, order_id, 0)

    assert process(database, inbox_id) == ProcessingResult("retrying", later(seconds=1))

    assert fetch_event(database, inbox_id).last_error == "CheckViolation 23514"
    assert status(database, order_id) == "pending_payment"
    assert count(database, "processed_webhook_events", id=f"charge.success:{data['id']}") == 0
    set_reserved(database, order_id, 1)
    assert process(database, inbox_id, later(seconds=1)) == ProcessingResult("processed")
    assert status(database, order_id) == "paid_escrow"


def set_reserved(database: Database, order_id: UUID, units: int) -> None:
    with database.transaction() as session:
        session.execute(
            text(
                "UPDATE products SET reserved = :units WHERE id ="
                " (SELECT product_id FROM order_items WHERE order_id = :order_id)"
            ),
            {"units": units, "order_id": order_id},
        )


def test_due_events_are_listed_oldest_first(committed_database: Database) -> None:
    early = receive(committed_database, b"1", NOW - timedelta(days=400))
    late = receive(committed_database, b"2", NOW - timedelta(days=399))
    receive(committed_database, b"3", later(days=400))

    with committed_database.reading() as session:
        due = webhook_inbox.list_due_events(session, now=NOW, limit=500)
        assert webhook_inbox.list_due_events(session, now=NOW, limit=1) == [early]

    assert due[:2] == [early, late]
    for inbox_id in (early, late):
        process(committed_database, inbox_id)
    with committed_database.reading() as session:
        assert not {early, late} & set(webhook_inbox.list_due_events(session, now=NOW, limit=500))


def due(database: Database, now: datetime) -> list[UUID]:
    with database.reading() as session:
        return webhook_inbox.list_due_events(session, now=now, limit=500)


def test_retry_delay_starts_at_the_failure_of_the_attempt(database: Database) -> None:
    inbox_id = receive(database, event_of(charge_data(f"checkout-{uuid4().hex}", 100)))

    result = process(database, inbox_id, clock=lambda: later(seconds=9))

    assert result == ProcessingResult("retrying", later(seconds=10))


def test_worker_with_clock_behind_processes_a_received_event(committed_database: Database) -> None:
    """The wake-up may arrive before the worker's clock reaches the receiver's."""
    inbox_id = receive(committed_database, b"[]", later(minutes=5))

    assert inbox_id not in due(committed_database, NOW)
    assert process(committed_database, inbox_id) == ProcessingResult("dead")
