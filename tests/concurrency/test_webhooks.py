"""Concurrent webhooks: repeated messages, many messages of a sender, and chargebacks during release."""

from collections import Counter
from uuid import UUID

import pytest
from sqlalchemy import text

from marketplace.infra.db import Database
from marketplace.kernel.states import IllegalTransitionError
from marketplace.webhooks import inbox as webhooks
from tests.support.gateway import event_of
from tests.support.gateway_events import dispute_data
from tests.support.messaging import (
    envelope,
    log_delivery,
    message,
    messages_of,
    status,
    unique_phone_number,
)
from tests.support.purchases import (
    NOW,
    assert_ledger_is_consistent,
    make_shop,
    release,
    row_of,
    shipped_order,
    status_of,
)
from tests.support.threads import at_once, unexpected_errors

THREADS = 8


def receive(database: Database, body: bytes, provider: str = "messaging") -> UUID:
    return database.in_transaction(webhooks.receive_event, provider=provider, body=body, now=NOW)


def process(database: Database, inbox_id: UUID) -> str | None:
    result = webhooks.process_event(
        database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=lambda: 0.5
    )
    return result.status if result else None


def test_message_delivered_concurrently_eight_times_is_stored_once(database: Database) -> None:
    sender = unique_phone_number()
    body = envelope(message(sender=sender), names={sender: "Ada"})
    inbox = [receive(database, body) for _ in range(THREADS)]

    results = at_once(lambda inbox_id: process(database, inbox_id), inbox)

    assert unexpected_errors(results) == []
    assert Counter(results) == {"processed": 1, "duplicate": THREADS - 1}
    with database.reading() as session:
        assert len(messages_of(session, sender)) == 1


def test_delivery_processed_concurrently_eight_times_is_applied_once(database: Database) -> None:
    sender = unique_phone_number()
    inbox_id = receive(database, envelope(message(sender=sender)))

    results = at_once(lambda _: process(database, inbox_id), range(THREADS))

    assert Counter(results) == {"processed": 1, None: THREADS - 1}
    with database.reading() as session:
        assert len(messages_of(session, sender)) == 1


def test_envelope_processed_concurrently_is_split_once(database: Database) -> None:
    sender = unique_phone_number()
    inbox_id = receive(database, envelope(*(message(sender=sender) for _ in range(3))))

    results = at_once(lambda _: process(database, inbox_id), range(THREADS))

    assert Counter(results) == {"processed": 1, None: THREADS - 1}
    with database.reading() as session:
        parts = session.execute(
            text(
                "SELECT id FROM webhook_inbox WHERE position(CAST(:mark AS bytea) IN body) > 0 AND id <> :id"
            ),
            {"mark": sender.encode(), "id": inbox_id},
        )
        assert len(parts.all()) == 3


def test_concurrent_messages_of_a_sender_have_a_single_contact(database: Database) -> None:
    sender = unique_phone_number()
    inbox = [
        receive(database, envelope(message(sender=sender, timestamp=str(1763631000 + number))))
        for number in range(THREADS)
    ]

    results = at_once(lambda inbox_id: process(database, inbox_id), inbox)

    assert results == ["processed"] * THREADS
    with database.reading() as session:
        assert len(messages_of(session, sender)) == THREADS
        contact = row_of(session, "support_contacts", sender_index=sender)
        assert (contact["last_message_at"] - contact["first_message_at"]).total_seconds() == THREADS - 1


@pytest.mark.parametrize("_round", range(5))
def test_concurrent_statuses_of_a_message_keep_the_most_advanced_status(
    database: Database, _round: int
) -> None:
    ours = database.in_transaction(log_delivery)
    words = ["sent", "failed", "delivered", "read"] * 2
    inbox = [receive(database, envelope(status(ours, word))) for word in words]

    results = at_once(lambda inbox_id: process(database, inbox_id), inbox)

    assert unexpected_errors(results) == []
    assert Counter(results)["duplicate"] == 4
    with database.reading() as session:
        assert row_of(session, "notification_delivery_logs", provider_message_id=ours)["status"] == "read"


@pytest.mark.parametrize("_round", range(5))
def test_concurrent_chargeback_and_release_exclude_each_other(database: Database, _round: int) -> None:
    with database.transaction() as session:
        shop = make_shop(session)
        order_id = shipped_order(session, shop)
        row = session.execute(
            text(
                "SELECT i.reference, c.gateway_charge_id FROM gateway_charges c"
                " JOIN payment_intents i ON i.id = c.intent_id"
                " JOIN payment_allocations a ON a.intent_id = i.id WHERE a.order_id = :id"
            ),
            {"id": order_id},
        ).one()
    data = dispute_data(row.reference, int(row.gateway_charge_id))
    inbox = [
        receive(database, event_of(data, f"charge.dispute.{word}"), "gateway")
        for word in ("create", "remind")
    ]

    def do(inbox_id: UUID | None) -> str | None:
        if inbox_id is not None:
            return process(database, inbox_id)
        with database.transaction() as session:
            release(session, shop, order_id)
        return "released"

    results = at_once(do, [*inbox, None])

    assert unexpected_errors(results, IllegalTransitionError) == []
    assert results[:2] == ["processed"] * 2
    released = results[2] == "released"
    with database.reading() as session:
        escrow = row_of(session, "escrows", order_id=order_id)["status"]
        assert (status_of(session, order_id), escrow) == (
            ("delivered", "released") if released else ("disputed", "frozen")
        )
        assert_ledger_is_consistent(session)
