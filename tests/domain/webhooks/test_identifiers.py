"""Webhooks are found by the delivery's id, the gateway event's id, and the reference of a charge or transfer."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select, text
from sqlalchemy.dialects import postgresql

from marketplace.infra.db import Database
from marketplace.kernel.errors import NotFoundError
from marketplace.webhooks import inbox, queries
from marketplace.webhooks.models import InboxEvent
from tests.support import messaging as messages
from tests.support.gateway import event_of
from tests.support.gateway_events import dispute_data, new_id, refund_data
from tests.support.purchases import NOW
from tests.support.query_plans import bulk_load, explain


def process(database: Database, body: bytes, *, provider: str = "gateway", seconds: int = 0) -> UUID:
    """Receive a webhook and make the first attempt."""
    now = NOW + timedelta(seconds=seconds)
    inbox_id = database.in_transaction(inbox.receive_event, provider=provider, body=body, now=now)
    inbox.process_event(database, inbox_id=inbox_id, fee_bearer="platform", now=now, random=lambda: 0.5)
    return inbox_id


def found(database: Database, identifier: str) -> list[UUID]:
    with database.reading() as session:
        return [event.id for event in queries.find_events(session, identifier=identifier)]


def test_all_events_of_a_charge_are_found_in_order_of_arrival(database: Database) -> None:
    reference = f"checkout-{uuid4().hex}"
    refund = refund_data("processed", reference)
    bodies = {
        "refund": (3, event_of(refund | {"transaction_reference": reference}, "refund.processed")),
        "charge": (1, event_of({"id": new_id(), "reference": reference}, "charge.success")),
        "dispute": (2, event_of(dispute_data(reference, new_id()), "charge.dispute.remind")),
    }
    made = {name: process(database, body, seconds=second) for name, (second, body) in bodies.items()}
    process(database, event_of({"id": new_id(), "reference": f"{reference}x"}, "greeted"))

    assert found(database, reference) == [made["charge"], made["dispute"], made["refund"]]


def test_event_is_found_by_its_id_without_duplicates(database: Database) -> None:
    event_id = new_id()
    body = event_of({"id": event_id}, "greeted")
    first, *others = (process(database, body, seconds=number) for number in range(3))

    assert found(database, f"greeted:{event_id}") == [first]
    assert [found(database, str(inbox_id)) for inbox_id in others] == [[inbox_id] for inbox_id in others]


def test_dead_event_is_found_by_event_id_and_reference(database: Database) -> None:
    event_id, reference = new_id(), f"checkout-{uuid4().hex}"
    inbox_id = process(database, event_of({"id": event_id, "reference": reference}, "charge.success"))
    with database.reading() as session:
        assert queries.fetch_event(session, inbox_id=inbox_id).state == "dead"

    assert found(database, f"charge.success:{event_id}") == found(database, reference) == [inbox_id]


def test_reference_in_the_form_of_a_uuid_is_found(database: Database) -> None:
    reference = str(uuid4())
    inbox_id = process(database, event_of({"id": new_id(), "reference": reference}, "greeted"))

    assert found(database, reference) == [inbox_id]


@pytest.mark.parametrize(
    "identifier",
    ["", "no webhook has this id", "01998c2a-7d1e-7c3f-9a43-0e7d1c5b2f10", "a\0b", "x" * 256],
    ids=["empty", "unknown", "unknown UUID", "NUL", "long"],
)
def test_unknown_identifier_is_not_found(database: Database, identifier: str) -> None:
    with pytest.raises(NotFoundError):
        found(database, identifier)


def test_message_is_not_found_by_an_id_that_contains_a_phone_number(database: Database) -> None:
    inbox_id = process(database, messages.envelope(messages.message()), provider="messaging")
    with database.reading() as session:
        dedupe_id = queries.fetch_event(session, inbox_id=inbox_id).dedupe_id
    assert dedupe_id is not None

    with pytest.raises(NotFoundError):
        found(database, dedupe_id)


@pytest.mark.parametrize("reference", [None, 5, "", "x" * 256, {"a": 1}, ["a"]], ids=str)
def test_unusable_reference_does_not_make_an_event_fail(database: Database, reference: Any) -> None:
    inbox_id = process(database, event_of({"id": new_id(), "reference": reference}, "greeted"))

    with database.reading() as session:
        assert queries.fetch_event(session, inbox_id=inbox_id).state == "ignored"


def test_each_kind_of_identifier_uses_an_index(database: Database) -> None:
    condition = queries._has_identifier(str(uuid4()))
    statement = select(InboxEvent.id).where(condition).order_by(InboxEvent.received_at).limit(10)
    sql = str(statement.compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True}))
    with database.transaction() as session:
        with bulk_load(session):
            session.execute(
                text(
                    "INSERT INTO webhook_inbox (provider, body, dedupe_id, reference)"
                    " SELECT 'gateway', '', 'greeted:' || n, 'checkout-' || n FROM generate_series(1, 20000) n"
                )
            )
        session.execute(text("ANALYZE webhook_inbox"))
        nodes, buffers = explain(session, sql, {})
        session.rollback()

    indexes = {"pk_webhook_inbox", "ix_webhook_inbox_dedupe_id", "ix_webhook_inbox_reference"}
    assert indexes <= set(nodes)
    assert buffers < 30
