"""Webhook replays: an immediate extra attempt, audited, with an exact dry run."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest
from sqlalchemy import text

from commands.webhook_replay import describe_changes
from marketplace.audit.operations import Act
from marketplace.infra import wakeups
from marketplace.infra.db import Database
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.money import format_naira
from marketplace.payments.intents.lifecycle import Intent
from marketplace.payments.refunds import gateway_refund
from marketplace.webhooks import inbox as webhook_inbox, queries
from marketplace.webhooks.change_recorder import OrderChange
from marketplace.webhooks.inbox import RETRY_DELAYS_SECONDS
from marketplace.webhooks.queries import WebhookEventDetail, WebhookEventFilters
from marketplace.webhooks.replay import (
    EventInProgressError,
    ReplayResult,
    dry_run_event,
    replay_event as replay_in,
)
from tests.support import messaging as messages
from tests.support.alerts import alerts_about
from tests.support.finance import audit_entries_of, make_officer, refund, refunds_of
from tests.support.gateway import charge_data, event_of
from tests.support.gateway_events import transfer_data
from tests.support.purchases import (
    NOW,
    Shop,
    assert_ledger_is_consistent,
    later,
    make_intent,
    make_product,
    make_shop,
    paid_order,
    pay,
    place,
    row_of,
    status_of,
)

TABLES = (
    *("ledger_transactions", "ledger_entries", "order_events", "refunds", "notifications", "outbox_events"),
    *("quarantined_charges", "audit_logs", "processed_webhook_events", "alerts"),
)


class UnpaidOrder:
    """A shop, an unpaid order and the event of the payment."""

    def __init__(self, database: Database) -> None:
        self.database = database
        with database.transaction() as session:
            self.shop: Shop = make_shop(session)
            self.order_id = place(session, self.shop, make_product(session, self.shop))
            self.intent: Intent = make_intent(session, self.shop, self.order_id)

    def charge(self, **values: Any) -> bytes:
        """Return the body of the charge event of the order's payment."""
        return event_of(charge_data(self.intent.reference, self.intent.amount_minor, **values))

    def unpaid_reference(self) -> str:
        """Rename the payment so that the event fails, and return the original reference."""
        self.rename(f"checkout-{uuid4().hex}")
        return self.intent.reference

    def rename(self, reference: str) -> None:
        """Change the reference of the payment."""
        with self.database.transaction() as session:
            session.execute(
                text("UPDATE payment_intents SET reference = :reference WHERE id = :id"),
                {"reference": reference, "id": self.intent.id},
            )

    @property
    def status(self) -> str:
        """The order's status."""
        with self.database.reading() as session:
            return status_of(session, self.order_id)


@pytest.fixture
def unpaid_order(database: Database) -> UnpaidOrder:
    return UnpaidOrder(database)


def receive(database: Database, body: bytes, provider: str = "gateway") -> UUID:
    return database.in_transaction(webhook_inbox.receive_event, provider=provider, body=body, now=NOW)


def make_dead_event(database: Database, body: bytes) -> UUID:
    """Create an event and retry until the event is a dead letter."""
    inbox_id, now = receive(database, body), NOW
    while (
        result := webhook_inbox.process_event(
            database, inbox_id=inbox_id, fee_bearer="platform", now=now, random=lambda: 0.5
        )
    ) and result.status == "retrying":
        now = result.due_at or now
    assert fetch_event(database, inbox_id).status == "dead"
    return inbox_id


def fetch_event(database: Database, inbox_id: UUID) -> WebhookEventDetail:
    with database.reading() as session:
        return queries.fetch_event(session, inbox_id=inbox_id)


def replay(database: Database, inbox_id: UUID, *, hours: int = 1) -> ReplayResult:
    with database.reading() as outside:
        return database.in_transaction(
            replay_in,
            outside,
            inbox_id=inbox_id,
            fee_bearer="platform",
            act=Act("operator ada", later(hours=hours)),
        )


def dry_run(database: Database, inbox_id: UUID) -> ReplayResult:
    return dry_run_event(database, inbox_id=inbox_id, fee_bearer="platform", now=later(hours=1))


def counts(database: Database) -> dict[str, int]:
    with database.reading() as session:
        return {
            table: session.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() for table in TABLES
        }


def audit_of(database: Database, inbox_id: UUID) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    with database.reading() as session:
        return audit_entries_of(session, inbox_id)


def open_alert(database: Database, subject: str) -> dict[str, Any] | None:
    with database.reading() as session:
        found = session.execute(
            text(
                "SELECT * FROM alerts WHERE identifier = 'WEBHOOK_DEAD' AND subject = :about AND resolved_at IS NULL"
            ),
            {"about": subject},
        ).mappings()
        return next((dict(one) for one in found), None)


@pytest.fixture
def sent_wakeups() -> Iterator[list[tuple[Any, ...]]]:
    """Wake-ups sent to queues."""
    before, seen = list(wakeups._wakeup_senders), []
    wakeups.set_wakeup_sender(lambda *wakeup: seen.append(wakeup))
    yield seen
    wakeups._wakeup_senders[:] = before


def test_replayed_dead_event_is_applied_and_recorded(unpaid_order: UnpaidOrder) -> None:
    database, reference = unpaid_order.database, unpaid_order.unpaid_reference()
    inbox_id = make_dead_event(database, unpaid_order.charge(id=(charge := uuid4().int % 10**12)))
    unpaid_order.rename(reference)

    result = replay(database, inbox_id)

    assert (result.before, result.after, result.outcome, result.error) == (
        "dead",
        "processed",
        "processed",
        None,
    )
    assert unpaid_order.status == "paid_escrow"
    after = fetch_event(database, inbox_id)
    assert (after.status, after.attempts, after.last_error) == ("processed", 7, None)
    assert after.replayed_at == later(hours=1)
    assert audit_of(database, inbox_id) == [
        ("webhook.replay", {"status": "dead"}, {"status": "processed", "outcome": "processed", "error": None})
    ]
    with database.reading() as session:
        assert row_of(session, "audit_logs", target_id=str(inbox_id))["actor"] == "operator ada"
        row_of(session, "ledger_transactions", source=f"charge:{charge}")
        assert_ledger_is_consistent(session)


def test_replay_and_dry_run_list_every_change(unpaid_order: UnpaidOrder) -> None:
    database, reference = unpaid_order.database, unpaid_order.unpaid_reference()
    inbox_id = make_dead_event(database, unpaid_order.charge(id=77_000_111, fees=150))
    unpaid_order.rename(reference)
    total = unpaid_order.intent.amount_minor
    with database.reading() as session:
        number = row_of(session, "orders", id=unpaid_order.order_id)["number"]

    would = dry_run(database, inbox_id).changes
    did = replay(database, inbox_id).changes

    for changes in (would, did):
        assert changes.orders == [
            OrderChange(unpaid_order.order_id, number, what, before, after)
            for what, before, after in (
                ("status", "pending_payment", "paid_escrow"),
                ("payment", "initialized", "succeeded"),
                ("escrow", "pending", "held"),
            )
        ]
        [posted] = changes.ledger
        assert (posted.kind, posted.source) == ("payment", "charge:77000111")
        buyer = f"wallet:{unpaid_order.shop.buyer.id}"
        entries = [(e.account, e.direction, e.amount_minor, e.order_number) for e in posted.entries]
        assert entries[:4] == [
            ("gateway_clearing", "debit", total, None),
            (buyer, "credit", total, None),
            (buyer, "debit", total, number),
            ("escrow", "credit", total, number),
        ]
        assert {e[0]: e[2] for e in entries[4:]} == {"gateway_fees": 150, "gateway_clearing": 150}
        assert (changes.refunds, changes.quarantined_charges) == ([], [])
        assert {notification.user_id for notification in changes.notifications} == {
            unpaid_order.shop.buyer.id,
            unpaid_order.shop.vendor.id,
        }


def test_dry_run_stores_nothing_and_sends_no_wakeups(
    unpaid_order: UnpaidOrder, sent_wakeups: list[Any]
) -> None:
    """A charge of an already paid order is returned, which queues work and a notification."""
    database = unpaid_order.database
    with database.transaction() as session:
        pay(session, unpaid_order.shop, unpaid_order.order_id)
    inbox_id = receive(database, unpaid_order.charge())
    sent_wakeups.clear()
    before, event = counts(database), fetch_event(database, inbox_id)

    result = dry_run(database, inbox_id)

    assert (result.before, result.after, result.outcome) == ("received", "processed", "processed")
    assert [(one.before, one.after, one.amount_minor) for one in result.changes.refunds] == [
        (None, "pending", unpaid_order.intent.amount_minor)
    ]
    assert result.changes.work
    assert [one.type for one in result.changes.notifications] == ["payment_returned"]
    assert counts(database) == before
    assert fetch_event(database, inbox_id) == event
    assert sent_wakeups == []
    # The real replay makes every change of the dry run.
    replay(database, inbox_id)
    assert {wakeup[0] for wakeup in sent_wakeups} == {work.queue for work in result.changes.work}
    assert counts(database)["refunds"] == before["refunds"] + 1


def test_dry_run_of_unrecognized_transfer_shows_exception_and_alert(database: Database) -> None:
    data = transfer_data("success")
    inbox_id = receive(database, orjson.dumps({"event": "transfer.success", "data": data}))

    result = dry_run(database, inbox_id)

    [exception] = result.changes.payout_exceptions
    subject = f"payout-exception:{exception.id}"
    [alert] = result.changes.alerts
    assert (alert.event, alert.identifier, alert.subject) == ("raised", "TRANSFER_UNKNOWN", subject)
    # The delivery of the alert to channels is not listed as work.
    assert result.changes.work == []
    assert describe_changes(result) == [
        f"payout exception: transfer {data['reference']} unexpected, {format_naira(data['amount'])}",
        (
            "alert raised: SEV-2 TRANSFER_UNKNOWN,"
            f" The gateway made a transfer that this service did not request ({subject})"
        ),
    ]
    with database.reading() as session:
        assert alerts_about(session, subject) == []


def test_dry_run_of_processed_refund_shows_the_status_change(database: Database) -> None:
    with database.transaction() as session:
        order_id = paid_order(session, make_shop(session))
        refund(session, order_id, make_officer(session))
        [made] = refunds_of(session, order_id)
        session.execute(
            text("UPDATE refunds SET status = 'submitted', asked_at = :now WHERE id = :id"),
            {"now": NOW, "id": made["id"]},
        )
    data = {
        "id": uuid4().int % 10**12,
        "status": "processed",
        "amount": str(made["amount_minor"]),
        "merchant_note": gateway_refund.refund_reference(made["id"], 1),
    }
    inbox_id = receive(database, event_of(data, "refund.processed"))

    result = dry_run(database, inbox_id)

    assert result.error is None
    assert [(one.id, one.before, one.after) for one in result.changes.refunds] == [
        (made["id"], "submitted", "processed")
    ]
    [posted] = result.changes.ledger
    assert {entry.account for entry in posted.entries} == {"refunds_in_transit", "gateway_clearing"}
    assert replay(database, inbox_id).changes.refunds == result.changes.refunds


def test_dry_run_of_underpaid_charge_shows_the_quarantine(unpaid_order: UnpaidOrder) -> None:
    inbox_id = receive(
        unpaid_order.database, unpaid_order.charge(amount=unpaid_order.intent.amount_minor - 1)
    )

    changes = dry_run(unpaid_order.database, inbox_id).changes

    [held] = changes.quarantined_charges
    assert (held.reason, held.amount_minor) == ("amount_below_total", unpaid_order.intent.amount_minor - 1)
    assert {(one.what, one.after) for one in changes.orders} == {("payment", "quarantined")}


def test_dry_run_omits_changes_of_concurrent_transactions(
    unpaid_order: UnpaidOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = unpaid_order.database
    inbox_id = receive(database, unpaid_order.charge())
    perform = webhook_inbox.apply_event

    def apply_beside_another_order(*args: Any, **kwargs: Any) -> Any:
        with database.transaction() as session:
            paid_order(session, make_shop(session))
        return perform(*args, **kwargs)

    monkeypatch.setattr(webhook_inbox, "apply_event", apply_beside_another_order)
    changes = dry_run(database, inbox_id).changes

    assert len(changes.ledger) == 1
    assert {one.id for one in changes.orders} == {unpaid_order.order_id}


@pytest.mark.parametrize("kind", ["processed", "ignored", "duplicate"])
def test_replay_of_final_webhook_changes_nothing(unpaid_order: UnpaidOrder, kind: str) -> None:
    database, body = unpaid_order.database, unpaid_order.charge()
    if kind == "ignored":
        body = event_of({"id": uuid4().hex}, "customer.greeted")
    inbox_id = receive(database, body)
    webhook_inbox.process_event(
        database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=lambda: 0.5
    )
    if kind == "duplicate":
        inbox_id = receive(database, body)
        webhook_inbox.process_event(
            database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=lambda: 0.5
        )
    before, event = counts(database), fetch_event(database, inbox_id)

    results = [dry_run(database, inbox_id), replay(database, inbox_id), replay(database, inbox_id)]

    assert results == [ReplayResult(kind, kind, "unchanged")] * 3
    assert fetch_event(database, inbox_id) == event
    # Only the audit log grows.
    assert counts(database) == before | {"audit_logs": before["audit_logs"] + 2}
    assert [after["outcome"] for _, _, after in audit_of(database, inbox_id)] == ["unchanged"] * 2


def test_replay_of_second_dead_delivery_of_same_event_is_a_duplicate(unpaid_order: UnpaidOrder) -> None:
    database, reference = unpaid_order.database, unpaid_order.unpaid_reference()
    body = unpaid_order.charge()
    one, two = make_dead_event(database, body), make_dead_event(database, body)
    unpaid_order.rename(reference)

    assert replay(database, one).outcome == "processed"
    again = replay(database, two)

    assert (again.before, again.after, again.outcome) == ("dead", "duplicate", "ignored")
    assert again.changes.ledger == []


def test_failed_replay_leaves_the_event_dead(unpaid_order: UnpaidOrder) -> None:
    database = unpaid_order.database
    unpaid_order.unpaid_reference()
    inbox_id = make_dead_event(database, unpaid_order.charge())
    died_at = fetch_event(database, inbox_id).died_at

    result = replay(database, inbox_id)

    assert result == ReplayResult("dead", "dead", "failed", "no payment has this reference")
    after = fetch_event(database, inbox_id)
    assert (after.status, after.attempts, after.died_at) == ("dead", 7, died_at)
    assert after.replayed_at is None
    [(_, _, audit)] = audit_of(database, inbox_id)
    assert audit == {"status": "dead", "outcome": "failed", "error": "no payment has this reference"}


def test_failed_replays_do_not_use_up_scheduled_retries(unpaid_order: UnpaidOrder) -> None:
    database = unpaid_order.database
    unpaid_order.unpaid_reference()
    inbox_id = receive(database, unpaid_order.charge())
    webhook_inbox.process_event(
        database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=lambda: 0.5
    )
    before = fetch_event(database, inbox_id)

    results = [replay(database, inbox_id) for _ in range(6)]

    assert results == [ReplayResult("retrying", "retrying", "failed", "no payment has this reference")] * 6
    after = fetch_event(database, inbox_id)
    assert (after.status, after.attempts, after.due_at) == ("retrying", 1, before.due_at)


def test_replay_keeps_retrying_a_status_without_message(database: Database) -> None:
    inbox_id = receive(
        database, messages.envelope(messages.status(messages.unique_message_id(), "sent")), "messaging"
    )
    now = NOW
    for _ in RETRY_DELAYS_SECONDS:
        result = webhook_inbox.process_event(
            database, inbox_id=inbox_id, fee_bearer="platform", now=now, random=lambda: 0.5
        )
        assert result is not None
        assert result.due_at is not None
        now = result.due_at

    assert replay(database, inbox_id).outcome == "failed"

    assert fetch_event(database, inbox_id).status == "retrying"


def test_replay_with_unexpected_failure_changes_nothing(unpaid_order: UnpaidOrder) -> None:
    """Remove the order's stock reservation, so that a database constraint fails halfway."""
    database = unpaid_order.database
    inbox_id = receive(database, unpaid_order.charge())
    with database.transaction() as session:
        session.execute(
            text("UPDATE products SET reserved = 0 WHERE vendor_id = :id"), {"id": unpaid_order.shop.store_id}
        )
    before = counts(database)

    assert dry_run(database, inbox_id).error == "CheckViolation 23514"
    result = replay(database, inbox_id)

    assert (result.outcome, result.error) == ("failed", "CheckViolation 23514")
    assert unpaid_order.status == "pending_payment"
    assert counts(database) == before | {"audit_logs": before["audit_logs"] + 1}
    assert fetch_event(database, inbox_id).status == "received"
    with database.transaction() as session:
        session.execute(
            text("UPDATE products SET reserved = 1 WHERE vendor_id = :id"), {"id": unpaid_order.shop.store_id}
        )
    assert replay(database, inbox_id).outcome == "processed"


def test_webhook_waiting_for_retry_may_be_replayed_now(unpaid_order: UnpaidOrder) -> None:
    database, reference = unpaid_order.database, unpaid_order.unpaid_reference()
    inbox_id = receive(database, unpaid_order.charge())
    webhook_inbox.process_event(
        database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=lambda: 0.5
    )
    due_at = fetch_event(database, inbox_id).due_at

    assert replay(database, inbox_id).outcome == "failed"
    waiting = fetch_event(database, inbox_id)
    assert (waiting.status, waiting.due_at) == ("retrying", due_at)

    unpaid_order.rename(reference)
    assert replay(database, inbox_id).outcome == "processed"


def test_replay_of_leased_webhook_is_refused(unpaid_order: UnpaidOrder) -> None:
    database = unpaid_order.database
    inbox_id = receive(database, unpaid_order.charge())
    with database.transaction() as session:
        session.execute(text("SELECT 1 FROM webhook_inbox WHERE id = :id FOR UPDATE"), {"id": inbox_id})
        for attempt in (replay, dry_run):
            with pytest.raises(EventInProgressError) as refused:
                attempt(database, inbox_id)
            assert refused.value.retry_after_seconds == 2
    assert replay(database, inbox_id).outcome == "processed"


def test_replay_of_missing_webhook_is_not_found(database: Database) -> None:
    for attempt in (replay, dry_run):
        with pytest.raises(NotFoundError):
            attempt(database, uuid4())


def test_dead_letter_alert_stays_open_until_the_last_event_is_replayed(database: Database) -> None:
    """Use a unique event type, so that dead letters of other tests do not count."""
    event_type = f"refund.{uuid4().hex}"
    subject = f"gateway:{event_type}"
    one, two = (
        make_dead_event(database, event_of({"id": uuid4().hex, "amount": "x"}, event_type)) for _ in range(2)
    )

    alert = open_alert(database, subject)
    assert alert is not None
    assert (alert["severity"], alert["occurrences"]) == ("SEV-2", 2)
    assert alert["facts"]["inboxId"] == str(one)
    # Simulate a newer release that accepts the event.
    for inbox_id, still in ((one, True), (two, False)):
        with database.transaction() as session:
            session.execute(
                text("UPDATE webhook_inbox SET body = :body WHERE id = :id"),
                {"body": event_of({"id": uuid4().hex}, "customer.greeted"), "id": inbox_id},
            )
        replay(database, inbox_id)
        assert (open_alert(database, subject) is not None) is still


def test_dry_run_shows_parts_of_envelopes_and_stored_messages(database: Database) -> None:
    two = messages.envelope(messages.message(), messages.message("image"))
    whole = receive(database, two, provider="messaging")
    one = receive(database, messages.envelope(messages.message()), provider="messaging")

    assert len(dry_run(database, whole).changes.parts) == 2
    assert [kept.type for kept in dry_run(database, one).changes.messages] == ["text"]
    for inbox_id in (whole, one):
        assert replay(database, inbox_id).outcome == "processed"
        with database.reading() as session:
            shown = queries.fetch_event(session, inbox_id=inbox_id)
        # Event id and message id contain the sender's phone number.
        assert shown.event_id is None
        assert "wamid" not in str(shown.payload)


class TestLists:
    def test_dead_events_are_filtered_by_literal_error_text(self, database: Database) -> None:
        event_type = f"refund.{uuid4().hex}"
        bodies = [event_of({"id": uuid4().hex, "amount": "x"}, event_type), b"100% {"]
        inbox = [make_dead_event(database, body) for body in bodies]

        def found(**wanted: Any) -> list[UUID]:
            with database.reading() as session:
                rows, matching = queries.list_dead_events(
                    session, filters=WebhookEventFilters(**wanted), limit=1_000
                )
            assert matching == len(rows)
            return [one.id for one in rows if one.id in inbox]

        assert found() == inbox
        assert found(error="NOT JSON") == [inbox[1]]
        assert found(error="n_t JSON") == found(error="%") == []
        assert found(event_type=event_type) == [inbox[0]]
        assert found(provider="messaging") == []
        assert found(since=later(seconds=1)) == []

    def test_failing_webhooks_do_not_block_other_webhooks(self, database: Database) -> None:
        event_type = f"refund.{uuid4().hex}"

        def make_dead() -> UUID:
            return make_dead_event(database, event_of({"id": uuid4().hex, "amount": "x"}, event_type))

        def list_dead(most: int) -> tuple[list[UUID], int]:
            with database.reading() as session:
                rows, matching = queries.list_dead_events(
                    session, filters=WebhookEventFilters(None, event_type), limit=most
                )
            return [one.id for one in rows], matching

        inbox = [make_dead() for _ in range(4)]
        assert list_dead(2) == (inbox[:2], 4)
        # The second replay has a clock behind the last attempt.
        for inbox_id, hours in zip(inbox[:2], (2, -5), strict=True):
            assert replay(database, inbox_id, hours=hours).outcome == "failed"
        assert list_dead(2) == (inbox[2:], 4)

        assert replay(database, inbox[2], hours=1).outcome == "failed"
        inbox.append(make_dead())
        assert list_dead(5) == ([inbox[number] for number in (3, 4, 1, 2, 0)], 5)

    def test_dead_events_are_counted_by_type_and_cause(self, database: Database) -> None:
        event_type = f"refund.{uuid4().hex}"
        for data in ({"amount": "x"}, {"amount": 5}, {"amount": 6}):
            status = {"status": "processed"} if data["amount"] == "x" else {}
            make_dead_event(database, event_of({"id": uuid4().int % 10**9, **data, **status}, event_type))

        with database.reading() as session:
            found = queries.list_failure_causes(
                session, filters=WebhookEventFilters("dead", event_type), limit=10
            )
            most = queries.list_failure_causes(
                session, filters=WebhookEventFilters("dead", event_type), limit=1
            )

        causes = [(row.event_type, row.last_error, row.events) for row in found]
        assert causes == [
            (event_type, "data.status is not a string", 2),
            (event_type, "data.amount is not an integer", 1),
        ]
        assert (found[0].first_at, found[0].last_at) == (NOW, NOW)
        assert most == found[:1]

    def test_payload_is_shown_without_personal_data(self, database: Database) -> None:
        body = event_of(
            {
                "id": 5,
                "amount": 700,
                "reference": "r",
                "customer": {"id": 9, "email": "ada@example.com", "first_name": "Ada"},
                "authorization": {"authorization_code": "AUTH_x", "last4": "4081", "bank": "A Bank"},
                "metadata": {"userId": str(uuid4()), "orderId": "o"},
                "gateway_response": "Call 08031234567",
                "log": [{"type": "action", "message": "Ada paid"}],
            }
        )
        with database.reading() as session:
            shown = queries.fetch_event(session, inbox_id=receive(database, body))
            unreadable = queries.fetch_event(session, inbox_id=receive(database, b"["))
            deep = queries.fetch_event(
                session, inbox_id=receive(database, b'{"a":' * 900 + b"1" + b"}" * 900)
            )

        assert shown.payload == {
            "event": "charge.success",
            "data": {
                "id": 5,
                "amount": 700,
                "reference": "r",
                "customer": {"id": 9},
                "metadata": {"orderId": "o"},
                "gateway_response": "Call [REDACTED]",
                "log": [{"type": "action"}],
            },
        }
        assert (unreadable.payload, unreadable.body_bytes) == (None, 1)
        assert "1" not in str(deep.payload)
