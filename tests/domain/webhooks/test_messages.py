"""Messages and delivery statuses: split from envelopes and each processed once, separately."""

from datetime import UTC, datetime
from itertools import permutations
from typing import Any
from uuid import UUID

import orjson
import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from marketplace.identity.models import Profile
from marketplace.infra.db import Database
from marketplace.notifications.delivery.plan import list_opted_out
from marketplace.webhooks import envelopes, inbox as webhook_inbox, queries
from marketplace.webhooks.inbox import RETRY_DELAYS_SECONDS, ProcessingResult
from tests.support.gateway import charge_data, event_of
from tests.support.messaging import (
    MESSAGES,
    envelope,
    log_delivery,
    message,
    messages_of,
    status,
    unique_message_id,
    unique_phone_number,
)
from tests.support.purchases import (
    NOW,
    later,
    make_intent,
    make_person,
    make_product,
    make_shop,
    place,
    row_of,
    status_of,
)
from tests.support.sealed_payloads import open_payload

SENT_AT = datetime.fromtimestamp(1763631000, UTC)


def receive(database: Database, body: bytes) -> UUID:
    return database.in_transaction(webhook_inbox.receive_event, provider="messaging", body=body, now=NOW)


def process(database: Database, inbox_id: UUID, now: datetime = NOW) -> ProcessingResult | None:
    return webhook_inbox.process_event(
        database, inbox_id=inbox_id, fee_bearer="platform", now=now, random=lambda: 0.5
    )


def deliver(database: Database, body: bytes) -> str:
    """Deliver and process an envelope with a single item, and return the resulting status."""
    result = process(database, receive(database, body))
    assert result is not None
    return result.status


def fetch_event(database: Database, inbox_id: UUID) -> queries.WebhookEventDetail:
    with database.reading() as session:
        return queries.fetch_event(session, inbox_id=inbox_id)


def stored_messages(database: Database, sender: str) -> list[dict[str, Any]]:
    with database.reading() as session:
        return messages_of(session, sender)


def parts_of(database: Database, mark: str) -> list[UUID]:
    """Return ids of the deliveries split from an envelope, found by a mark in the body."""
    with database.reading() as session:
        rows = session.execute(
            text(
                "SELECT id FROM webhook_inbox WHERE position(CAST(:mark AS bytea) IN body) > 0"
                " AND event_type IS DISTINCT FROM 'envelope' ORDER BY id"
            ),
            {"mark": mark.encode()},
        )
        return [row.id for row in rows]


SHOWN = {
    "text": "Where is my lamp?",
    "image": "It came broken",
    "video": "Look",
    "button": "Yes, it came",
    "interactive": "Talk to somebody",
    "reaction": "\N{THUMBS UP SIGN}",
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_message_of_each_type_is_stored(database: Database, kind: str) -> None:
    sender = unique_phone_number()
    sent = message(kind, sender=sender, context={"from": "2348000000001", "id": "wamid.before"})
    inbox_id = receive(database, envelope(sent, names={sender: "Ada"}))

    assert process(database, inbox_id) == ProcessingResult("processed")

    known = kind if kind != "hologram" else "unknown"
    [row] = stored_messages(database, sender)
    assert (row["provider_message_id"], row["type"]) == (sent["id"], known)
    assert row["text"] == SHOWN.get(kind)
    assert row["content"] == (MESSAGES[kind] if known == kind else None)
    assert (row["phone"], row["display_name"]) == (f"+{sender}", "Ada")
    assert (row["replies_to"], row["sent_at"], row["received_at"]) == ("wamid.before", SENT_AT, NOW)
    shown = fetch_event(database, inbox_id)
    assert shown.event_type == f"message.{known}"
    assert shown.body == envelope(sent, names={sender: "Ada"})
    with database.reading() as session:
        record = row_of(session, "processed_webhook_events", id=shown.dedupe_id)
        assert (record["provider"], record["event_type"]) == ("messaging", f"message.{known}")
        assert sender not in str(record)
        opened = open_payload(session, record["payload"])
        assert opened["entry"][0]["changes"][0]["value"]["messages"] == [sent]


def test_list_reply_is_stored_with_the_title_as_text(database: Database) -> None:
    sender = unique_phone_number()
    chosen = {"type": "list_reply", "list_reply": {"id": "l1", "title": "Refunds"}}

    assert (
        deliver(database, envelope(message("interactive", sender=sender, interactive=chosen))) == "processed"
    )

    assert stored_messages(database, sender)[0]["text"] == "Refunds"


def test_message_delivered_twice_is_stored_once(database: Database) -> None:
    sender = unique_phone_number()
    sent = message(sender=sender)

    assert deliver(database, envelope(sent)) == "processed"
    assert deliver(database, envelope(sent, names={sender: "Ada"})) == "duplicate"
    # Messages are deduplicated by id, not by text.
    assert deliver(database, envelope(sent | {"text": {"body": "changed"}})) == "duplicate"

    assert [row["text"] for row in stored_messages(database, sender)] == ["Where is my lamp?"]


class TestSenderProfile:
    """A contact is linked to the profile with the verified phone number."""

    def test_sender_is_linked_to_the_profile_with_same_number(self, database: Database) -> None:
        sender = unique_phone_number()
        person = self.person(database, phone=f"+{sender}")

        deliver(database, envelope(message(sender=sender)))

        assert stored_messages(database, sender)[0]["profile_id"] == person

    def test_unverified_number_is_not_linked(self, database: Database) -> None:
        sender = unique_phone_number()
        self.person(database, phone=f"+{sender}", verified=False)

        deliver(database, envelope(message(sender=sender)))

        assert stored_messages(database, sender)[0]["profile_id"] is None

    def test_later_message_links_a_new_profile_to_the_contact(self, database: Database) -> None:
        sender = unique_phone_number()
        deliver(database, envelope(message(sender=sender, timestamp="1763631500")))
        assert stored_messages(database, sender)[0]["profile_id"] is None
        person = self.person(database, phone=f"+{sender}")

        deliver(database, envelope(message(sender=sender), names={sender: "Ada"}))
        deliver(database, envelope(message(sender=sender, timestamp="1763631200")))

        rows = stored_messages(database, sender)
        assert {row["profile_id"] for row in rows} == {person}
        assert {row["display_name"] for row in rows} == {"Ada"}
        with database.reading() as session:
            contact = row_of(session, "support_contacts", sender_index=sender)
        assert contact["first_message_at"] == SENT_AT
        assert contact["last_message_at"] == datetime.fromtimestamp(1763631500, UTC)

    @pytest.mark.parametrize(
        ("sender", "phone"),
        [
            ("447911123456", "+447911123456"),
            ("US.13491208655302741918", None),
            ("0803", None),
            ("1" * 16, None),
            ("\u0661" * 11, None),
        ],
    )
    def test_unusual_sender_id_is_stored_without_profile(
        self, database: Database, sender: str, phone: str | None
    ) -> None:
        sent = message(sender=sender)
        assert deliver(database, envelope(sent)) == "processed"

        [row] = [row for row in stored_messages(database, sender) if row["provider_message_id"] == sent["id"]]
        assert (row["phone"], row["profile_id"]) == (phone, None)

    @staticmethod
    def person(database: Database, *, phone: str, verified: bool = True) -> UUID:
        """Create a person with a phone number in the profile."""
        with database.transaction() as session:
            person = make_person(session)
            profile = session.get(Profile, person.id)
            assert profile is not None
            profile.phone = phone
            profile.phone_verified_at = NOW if verified else None
            return person.id


@pytest.mark.parametrize(
    "timestamp", [None, 1763631000, "", "-5", "99999999999999", "1" * 5_000, "0", "soon", "\u0661"]
)
def test_invalid_timestamp_is_replaced_by_the_time_of_receipt(database: Database, timestamp: Any) -> None:
    sender = unique_phone_number()

    assert deliver(database, envelope(message(sender=sender, timestamp=timestamp))) == "processed"

    assert stored_messages(database, sender)[0]["sent_at"] == NOW


def test_future_timestamp_is_replaced_by_the_time_of_receipt(database: Database) -> None:
    """A timestamp in the future would otherwise stay the contact's latest message forever."""
    sender = unique_phone_number()

    assert deliver(database, envelope(message(sender=sender, timestamp="4102444800"))) == "processed"

    assert stored_messages(database, sender)[0]["sent_at"] == NOW
    with database.reading() as session:
        assert row_of(session, "support_contacts", sender_index=sender)["last_message_at"] == NOW


def test_shared_contacts_are_stored(database: Database) -> None:
    sender = unique_phone_number()
    shared = [{"name": {"formatted_name": "Bola"}}]

    assert deliver(database, envelope(message("contacts", sender=sender, contacts=shared))) == "processed"

    assert stored_messages(database, sender)[0]["content"] == {"contacts": shared}


class TestSplitEnvelopes:
    """Each message or status of an envelope becomes a separate delivery."""

    def test_items_of_an_envelope_are_processed_separately(self, database: Database) -> None:
        mark, sender, other = unique_message_id(), unique_phone_number(), unique_phone_number()
        ours = database.in_transaction(log_delivery)
        first = message(sender=sender, id=f"{mark}1")
        spoilt = message(id=f"{mark}2") | {"from": None}
        second = message("image", sender=other, id=f"{mark}3")
        delivered = status(ours, "delivered", mark=mark)
        inbox_id = receive(
            database, envelope(first, spoilt, second, delivered, names={sender: "Ada", other: "Bayo"})
        )

        assert process(database, inbox_id) == ProcessingResult("processed")

        shown = fetch_event(database, inbox_id)
        assert (shown.status, shown.event_type, shown.dedupe_id) == ("processed", "envelope", None)
        parts = parts_of(database, mark)
        results = [process(database, part) for part in parts]
        assert [result and result.status for result in results] == [
            "processed",
            "dead",
            "processed",
            "processed",
        ]
        assert [
            row["display_name"]
            for row in stored_messages(database, sender) + stored_messages(database, other)
        ] == [
            "Ada",
            "Bayo",
        ]
        with database.reading() as session:
            assert row_of(session, "notification_delivery_logs", provider_message_id=ours)["status"] == (
                "delivered"
            )
            letter = row_of(session, "dead_letter_webhooks", inbox_id=parts[1])
            assert letter["error"] == "from of the message or status is missing"

    def test_envelope_delivered_twice_stores_each_message_once(self, database: Database) -> None:
        mark, sender = unique_message_id(), unique_phone_number()
        body = envelope(*(message(sender=sender, id=f"{mark}{number}") for number in range(5)))
        for _ in range(2):
            process(database, receive(database, body))

        results = [process(database, part) for part in parts_of(database, mark)]

        assert [result and result.status for result in results] == ["processed"] * 5 + ["duplicate"] * 5
        assert len(stored_messages(database, sender)) == 5

    def test_split_deliveries_are_queued_after_the_commit(
        self, database: Database, sent_wakeups: list[tuple[Any, ...]]
    ) -> None:
        mark = unique_message_id()
        inbox_id = receive(database, envelope(message(id=f"{mark}1"), message(id=f"{mark}2")))

        process(database, inbox_id)

        assert [(queue, table, row_id) for queue, table, row_id, _ in sent_wakeups] == [
            ("webhooks", "inbox", part) for part in parts_of(database, mark)
        ]

    @pytest.mark.parametrize(
        "value",
        [
            None,
            {},
            {"messages": [], "statuses": []},
            {"event": "APPROVED", "message_template_id": 7},
            {"messages": None, "statuses": {"id": "x"}},
        ],
    )
    def test_envelope_without_messages_and_statuses_is_ignored(self, database: Database, value: Any) -> None:
        body = orjson.dumps({"object": "x", "entry": [{"changes": [{"field": "f", "value": value}]}]})
        inbox_id = receive(database, body)

        assert process(database, inbox_id) == ProcessingResult("ignored")
        assert fetch_event(database, inbox_id).event_type == "envelope"

    def test_envelope_of_more_than_a_thousand_items_is_a_dead_letter(self, database: Database) -> None:
        statuses = [status(f"wamid.{number}", "sent") for number in range(envelopes.MAX_ITEMS + 1)]

        assert len(envelopes.split_envelope(envelope(*statuses[:-1]))) == 1_000
        assert deliver(database, envelope(*statuses)) == "dead"


@pytest.fixture
def sent_wakeups() -> Any:
    """Wake-ups sent to queues."""
    from marketplace.infra import wakeups

    sent: list[tuple[Any, ...]] = []
    before = list(wakeups._wakeup_senders)
    wakeups.set_wakeup_sender(lambda *given: sent.append(given))
    yield sent
    wakeups._wakeup_senders[:] = before


class TestStatuses:
    """An earlier status never replaces a later status."""

    @pytest.mark.parametrize("order", list(permutations(["sent", "delivered", "read"])))
    def test_latest_status_wins_in_any_order(self, database: Database, order: tuple[str, ...]) -> None:
        ours = database.in_transaction(log_delivery)
        best = -1

        for word in order:
            rank = ["sent", "delivered", "read"].index(word)
            outcome = deliver(database, envelope(status(ours, word)))
            assert outcome == ("processed" if rank > best else "ignored")
            best = max(best, rank)

        assert self.log_of(database, ours)["status"] == "read"

    def test_failed_status_keeps_the_error_code_and_is_replaced_by_delivered(
        self, database: Database
    ) -> None:
        ours = database.in_transaction(log_delivery)
        errors = [{"code": 131026, "title": "Message undeliverable to 2348031234567"}]

        assert deliver(database, envelope(status(ours, "failed", errors=errors))) == "processed"
        row = self.log_of(database, ours)
        assert (row["status"], row["error_code"]) == ("failed", "131026")
        assert row["status_at"] == datetime.fromtimestamp(1763631100, UTC)
        assert deliver(database, envelope(status(ours, "sent"))) == "ignored"
        assert deliver(database, envelope(status(ours, "delivered"))) == "processed"
        assert deliver(database, envelope(status(ours, "failed", errors=errors))) == "duplicate"

        assert self.log_of(database, ours)["status"] == "delivered"

    def test_repeated_status_is_a_duplicate(self, database: Database) -> None:
        ours = database.in_transaction(log_delivery)

        assert deliver(database, envelope(status(ours, "sent"))) == "processed"
        assert deliver(database, envelope(status(ours, "sent"))) == "duplicate"

    def test_unknown_status_is_ignored(self, database: Database) -> None:
        ours = database.in_transaction(log_delivery)
        inbox_id = receive(database, envelope(status(ours, "teleported")))

        assert process(database, inbox_id) == ProcessingResult("ignored")

        assert fetch_event(database, inbox_id).event_type == "status.unknown"
        assert self.log_of(database, ours)["status"] == "queued"

    def test_status_before_the_stored_message_is_retried(self, database: Database) -> None:
        """The provider may report a status before the response to our request is stored."""
        ours = unique_message_id()
        inbox_id = receive(database, envelope(status(ours, "sent")))
        assert process(database, inbox_id) == ProcessingResult("retrying", later(seconds=1))

        with database.transaction() as session:
            kept_id = log_delivery(session)
            session.execute(
                text(
                    "UPDATE notification_delivery_logs SET provider_message_id = :ours"
                    " WHERE provider_message_id = :kept"
                ),
                {"ours": ours, "kept": kept_id},
            )

        assert process(database, inbox_id, later(seconds=1)) == ProcessingResult("processed")
        assert self.log_of(database, ours)["status"] == "sent"

    def test_status_of_unrecognized_message_is_ignored_after_the_last_retry(self, database: Database) -> None:
        inbox_id = receive(database, envelope(status(unique_message_id(), "read")))
        now = NOW
        for _ in RETRY_DELAYS_SECONDS:
            result = process(database, inbox_id, now)
            assert result is not None
            assert (result.status, fetch_event(database, inbox_id).last_error) == (
                "retrying",
                "no sent message has this id",
            )
            assert result.due_at is not None
            now = result.due_at

        assert process(database, inbox_id, now) == ProcessingResult("ignored")

    @staticmethod
    def log_of(database: Database, provider_message_id: str) -> dict[str, Any]:
        """Return the delivery log of a sent message."""
        with database.reading() as session:
            return row_of(session, "notification_delivery_logs", provider_message_id=provider_message_id)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"not JSON", "the body is not JSON"),
        (b"[]", "the body is not an envelope"),
        (b"{}", "the body is not an envelope"),
        (b'{"entry":{}}', "the body is not an envelope"),
        (envelope(message() | {"id": None}), "id of the message or status is missing"),
        (envelope(message() | {"id": 7}), "id of the message or status is missing"),
        (envelope(message() | {"id": "x" * 300}), "id of the message or status is too long"),
        (envelope(message() | {"id": ":" * 250}), "the id is too long"),
        (envelope(message() | {"from": ""}), "from of the message or status is missing"),
        (envelope(message() | {"from": "1" * 65}), "from of the message or status is too long"),
        (
            envelope(status("wamid.x", "sent") | {"status": None}),
            "status of the message or status is missing",
        ),
        (envelope(status("x" * 250, "sent")), "the id is too long"),
        (b'{"entry":[{"changes":[{"value":{"messages":["x"]}}]}]}', "the message or status is not an object"),
    ],
    ids=lambda value: value if isinstance(value, str) else "body",
)
def test_malformed_message_is_a_dead_letter_at_once(database: Database, body: bytes, reason: str) -> None:
    inbox_id = receive(database, body)

    assert process(database, inbox_id) == ProcessingResult("dead")

    with database.reading() as session:
        assert row_of(session, "dead_letter_webhooks", inbox_id=inbox_id)["error"] == reason


def test_message_id_cannot_make_a_gateway_event_a_duplicate(database: Database) -> None:
    """Unsigned messages could otherwise make a payment event look like a duplicate."""
    with database.transaction() as session:
        shop = make_shop(session)
        order_id = place(session, shop, make_product(session, shop))
        intent = make_intent(session, shop, order_id)
    data = charge_data(intent.reference, intent.amount_minor)
    name = f"charge.success:{data['id']}"
    assert deliver(database, envelope(message(id=name))) == "processed"
    assert deliver(database, envelope(status("charge.success", str(data["id"])))) == "ignored"

    inbox_id = database.in_transaction(
        webhook_inbox.receive_event, provider="gateway", body=event_of(data), now=NOW
    )
    assert process(database, inbox_id) == ProcessingResult("processed")

    with database.reading() as session:
        assert status_of(session, order_id) == "paid_escrow"


def test_phone_numbers_and_texts_are_not_logged(database: Database) -> None:
    sender = unique_phone_number()
    sent = message(sender=sender, text={"body": "my-secret-words"})
    with capture_logs() as logs:
        deliver(database, envelope(sent, names={sender: "Ada Obi"}))
        deliver(database, envelope(sent))
        deliver(database, envelope(message(sender=sender) | {"id": None}))

    logged = repr(logs)
    assert "webhook event processed" in logged
    for private in (sender, "my-secret-words", "Ada Obi", sent["id"]):
        assert private not in logged


class TestOptOuts:
    """STOP ends template messages to the sender's number, and START resumes them."""

    @staticmethod
    def has_opted_out(database: Database, sender: str) -> bool:
        with database.reading() as session:
            return bool(list_opted_out(session, phones={f"+{sender}"}))

    def send(self, database: Database, sender: str, words: str) -> None:
        assert deliver(database, envelope(message(sender=sender, text={"body": words}))) == "processed"

    @pytest.mark.parametrize("words", ["STOP", "stop.", " Unsubscribe! ", "opt-out", "Stop all"])
    def test_stop_word_ends_messages_at_once(self, database: Database, words: str) -> None:
        sender = unique_phone_number()
        self.send(database, sender, words)
        self.send(database, sender, words)

        assert self.has_opted_out(database, sender)

    @pytest.mark.parametrize("words", ["Please stop sending me the wrong size", "Where is my order?", "..."])
    def test_ordinary_message_does_not_end_messages(self, database: Database, words: str) -> None:
        sender = unique_phone_number()
        self.send(database, sender, words)

        assert not self.has_opted_out(database, sender)

    def test_start_word_resumes_messages(self, database: Database) -> None:
        sender = unique_phone_number()
        self.send(database, sender, "STOP")
        self.send(database, sender, "start")

        assert not self.has_opted_out(database, sender)


def test_status_finds_the_attempt_whose_response_was_lost(database: Database) -> None:
    ours = unique_message_id()
    with database.transaction() as session:
        kept_id = log_delivery(session, status="failed")
        delivery_id = row_of(session, "notification_delivery_logs", provider_message_id=kept_id)["id"]
        session.execute(
            text("UPDATE notification_delivery_logs SET provider_message_id = NULL WHERE id = :id"),
            {"id": delivery_id},
        )
    body = envelope(status(ours, "delivered", biz_opaque_callback_data=str(delivery_id)))

    assert deliver(database, body) == "processed"
    with database.reading() as session:
        row = row_of(session, "notification_delivery_logs", id=delivery_id)
    assert (row["status"], row["provider_message_id"]) == ("delivered", ours)
