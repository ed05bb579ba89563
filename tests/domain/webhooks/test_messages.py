"""Messages and delivery statuses: taken out of their envelopes, each processed once and by itself."""

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
from marketplace.webhooks import envelopes, inbox as webhook_inbox, queries
from marketplace.webhooks.inbox import RETRY_DELAYS_SECONDS, ProcessingResult
from tests.support.gateway import charge_data, event_of
from tests.support.messaging import (
    MESSAGES,
    envelope,
    log_delivery,
    message,
    messages_of,
    some_id,
    some_number,
    status,
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

SENT_AT = datetime.fromtimestamp(1763631000, UTC)


def receive(database: Database, body: bytes) -> UUID:
    return database.in_transaction(webhook_inbox.receive_event, provider="messaging", body=body, now=NOW)


def process(database: Database, inbox_id: UUID, now: datetime = NOW) -> ProcessingResult | None:
    return webhook_inbox.process_event(
        database, inbox_id=inbox_id, fee_bearer="platform", now=now, random=lambda: 0.5
    )


def take(database: Database, body: bytes) -> str:
    """Have an envelope of one delivered and processed, and tell what became of it."""
    result = process(database, receive(database, body))
    assert result is not None
    return result.status


def inbox(database: Database, inbox_id: UUID) -> queries.WebhookEventDetail:
    with database.reading() as session:
        return queries.fetch_event(session, inbox_id=inbox_id)


def kept(database: Database, sender: str) -> list[dict[str, Any]]:
    with database.reading() as session:
        return messages_of(session, sender)


def parts_of(database: Database, mark: str) -> list[UUID]:
    """Give what an envelope was taken apart into: deliveries that hold a mark, none of them the envelope."""
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
def test_a_message_of_any_type_is_kept(database: Database, kind: str) -> None:
    sender = some_number()
    sent = message(kind, sender=sender, context={"from": "2348000000001", "id": "wamid.before"})
    inbox_id = receive(database, envelope(sent, names={sender: "Ada"}))

    assert process(database, inbox_id) == ProcessingResult("processed")

    known = kind if kind != "hologram" else "unknown"
    [row] = kept(database, sender)
    assert (row["provider_message_id"], row["type"]) == (sent["id"], known)
    assert row["text"] == SHOWN.get(kind)
    assert row["content"] == (MESSAGES[kind] if known == kind else None)
    assert (row["phone"], row["display_name"]) == (f"+{sender}", "Ada")
    assert (row["replies_to"], row["sent_at"], row["received_at"]) == ("wamid.before", SENT_AT, NOW)
    shown = inbox(database, inbox_id)
    assert (shown.event_type, shown.dedupe_id) == (f"message.{known}", sent["id"])
    with database.reading() as session:
        record = row_of(session, "processed_webhook_events", id=sent["id"])
        assert (record["provider"], record["event_type"]) == ("messaging", f"message.{known}")
        assert record["payload"]["entry"][0]["changes"][0]["value"]["messages"] == [sent]


def test_a_list_reply_is_read_too(database: Database) -> None:
    sender = some_number()
    chosen = {"type": "list_reply", "list_reply": {"id": "l1", "title": "Refunds"}}

    assert take(database, envelope(message("interactive", sender=sender, interactive=chosen))) == "processed"

    assert kept(database, sender)[0]["text"] == "Refunds"


def test_a_message_delivered_twice_is_kept_once(database: Database) -> None:
    sender = some_number()
    sent = message(sender=sender)

    assert take(database, envelope(sent)) == "processed"
    assert take(database, envelope(sent, names={sender: "Ada"})) == "duplicate"
    # Another envelope, other words, the same id.
    assert take(database, envelope(sent | {"text": {"body": "changed"}})) == "duplicate"

    assert [row["text"] for row in kept(database, sender)] == ["Where is my lamp?"]


class TestWhoWrote:
    """A contact is linked to the profile that has its number, if there is exactly one."""

    def test_the_profile_with_the_number_is_linked(self, database: Database) -> None:
        sender = some_number()
        person = self.person(database, phone=f"+{sender}")

        take(database, envelope(message(sender=sender)))

        assert kept(database, sender)[0]["profile_id"] == person

    def test_number_claimed_by_several_people_is_linked_to_nobody(self, database: Database) -> None:
        sender = some_number()
        self.person(database, phone=f"+{sender}")
        self.person(database, phone=f"+{sender}")

        take(database, envelope(message(sender=sender)))

        assert kept(database, sender)[0]["profile_id"] is None

    def test_each_message_looks_anew(self, database: Database) -> None:
        sender = some_number()
        take(database, envelope(message(sender=sender, timestamp="1763631500")))
        assert kept(database, sender)[0]["profile_id"] is None
        person = self.person(database, phone=f"+{sender}")

        take(database, envelope(message(sender=sender), names={sender: "Ada"}))
        take(database, envelope(message(sender=sender, timestamp="1763631200")))

        rows = kept(database, sender)
        assert {row["profile_id"] for row in rows} == {person}
        assert {row["display_name"] for row in rows} == {"Ada"}
        with database.reading() as session:
            contact = row_of(session, "support_contacts", sender=sender)
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
    def test_a_sender_of_another_kind_is_kept_as_it_is(
        self, database: Database, sender: str, phone: str | None
    ) -> None:
        sent = message(sender=sender)
        assert take(database, envelope(sent)) == "processed"

        [row] = [row for row in kept(database, sender) if row["provider_message_id"] == sent["id"]]
        assert (row["phone"], row["profile_id"]) == (phone, None)

    @staticmethod
    def person(database: Database, *, phone: str) -> UUID:
        """Make somebody who says that a number is theirs."""
        with database.transaction() as session:
            person = make_person(session)
            profile = session.get(Profile, person.id)
            assert profile is not None
            profile.phone = phone
            return person.id


@pytest.mark.parametrize(
    "timestamp", [None, 1763631000, "", "-5", "99999999999999", "1" * 5_000, "0", "soon", "\u0661"]
)
def test_a_time_that_is_none_is_that_of_its_coming(database: Database, timestamp: Any) -> None:
    sender = some_number()

    assert take(database, envelope(message(sender=sender, timestamp=timestamp))) == "processed"

    assert kept(database, sender)[0]["sent_at"] == NOW


def test_nothing_was_written_after_it_came(database: Database) -> None:
    """Else one message of a wrong clock would stay its contact's latest for good."""
    sender = some_number()

    assert take(database, envelope(message(sender=sender, timestamp="4102444800"))) == "processed"

    assert kept(database, sender)[0]["sent_at"] == NOW
    with database.reading() as session:
        assert row_of(session, "support_contacts", sender=sender)["last_message_at"] == NOW


def test_contacts_that_were_shared_are_kept(database: Database) -> None:
    sender = some_number()
    shared = [{"name": {"formatted_name": "Bola"}}]

    assert take(database, envelope(message("contacts", sender=sender, contacts=shared))) == "processed"

    assert kept(database, sender)[0]["content"] == {"contacts": shared}


class TestEnvelopesOfMany:
    """Each of what an envelope holds becomes a delivery of its own."""

    def test_each_is_processed_by_itself(self, database: Database) -> None:
        mark, sender, other = some_id(), some_number(), some_number()
        ours = database.in_transaction(log_delivery)
        first = message(sender=sender, id=f"{mark}1")
        spoilt = message(id=f"{mark}2") | {"from": None}
        second = message("image", sender=other, id=f"{mark}3")
        told = status(ours, "delivered", mark=mark)
        inbox_id = receive(
            database, envelope(first, spoilt, second, told, names={sender: "Ada", other: "Bayo"})
        )

        assert process(database, inbox_id) == ProcessingResult("processed")

        shown = inbox(database, inbox_id)
        assert (shown.status, shown.event_type, shown.dedupe_id) == ("processed", "envelope", None)
        results = [process(database, part) for part in parts_of(database, mark)]
        assert [result and result.status for result in results] == [
            "processed",
            "dead",
            "processed",
            "processed",
        ]
        assert [row["display_name"] for row in kept(database, sender) + kept(database, other)] == [
            "Ada",
            "Bayo",
        ]
        with database.reading() as session:
            assert row_of(session, "notification_delivery_logs", provider_message_id=ours)["status"] == (
                "delivered"
            )
            [_, dead, *_] = parts_of(database, mark)
            letter = row_of(session, "dead_letter_webhooks", inbox_id=dead)
            assert letter["error"] == "from of the message or status is missing"

    def test_taken_apart_twice_each_still_counts_once(self, database: Database) -> None:
        mark, sender = some_id(), some_number()
        body = envelope(*(message(sender=sender, id=f"{mark}{number}") for number in range(5)))
        for _ in range(2):
            process(database, receive(database, body))

        results = [process(database, part) for part in parts_of(database, mark)]

        assert [result and result.status for result in results] == ["processed"] * 5 + ["duplicate"] * 5
        assert len(kept(database, sender)) == 5

    def test_what_is_taken_apart_is_nudged_after_the_commit(
        self, database: Database, nudged: list[tuple[Any, ...]]
    ) -> None:
        mark = some_id()
        inbox_id = receive(database, envelope(message(id=f"{mark}1"), message(id=f"{mark}2")))

        process(database, inbox_id)

        assert [(queue, table, row_id) for queue, table, row_id, _ in nudged] == [
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
    def test_an_envelope_without_either_is_ignored(self, database: Database, value: Any) -> None:
        body = orjson.dumps({"object": "x", "entry": [{"changes": [{"field": "f", "value": value}]}]})
        inbox_id = receive(database, body)

        assert process(database, inbox_id) == ProcessingResult("ignored")
        assert inbox(database, inbox_id).event_type == "envelope"

    def test_envelope_holds_at_most_a_thousand_messages(self, database: Database) -> None:
        statuses = [status(f"wamid.{number}", "sent") for number in range(envelopes.MAX_ITEMS + 1)]

        assert len(envelopes.split_envelope(envelope(*statuses[:-1]))) == 1_000
        assert take(database, envelope(*statuses)) == "dead"


@pytest.fixture
def nudged() -> Any:
    """What queues were told of."""
    from marketplace.infra import wakeups

    told: list[tuple[Any, ...]] = []
    before = list(wakeups._wakeup_senders)
    wakeups.set_wakeup_sender(lambda *given: told.append(given))
    yield told
    wakeups._wakeup_senders[:] = before


class TestStatuses:
    """An earlier status never undoes a later one."""

    @pytest.mark.parametrize("order", list(permutations(["sent", "delivered", "read"])))
    def test_latest_status_wins_in_any_order(self, database: Database, order: tuple[str, ...]) -> None:
        ours = database.in_transaction(log_delivery)
        best = -1

        for word in order:
            rank = ["sent", "delivered", "read"].index(word)
            told = take(database, envelope(status(ours, word)))
            assert told == ("processed" if rank > best else "ignored")
            best = max(best, rank)

        assert self.log_of(database, ours)["status"] == "read"

    def test_a_failure_keeps_its_number_and_a_delivery_outweighs_it(self, database: Database) -> None:
        ours = database.in_transaction(log_delivery)
        errors = [{"code": 131026, "title": "Message undeliverable to 2348031234567"}]

        assert take(database, envelope(status(ours, "failed", errors=errors))) == "processed"
        row = self.log_of(database, ours)
        assert (row["status"], row["error_code"]) == ("failed", "131026")
        assert row["status_at"] == datetime.fromtimestamp(1763631100, UTC)
        assert take(database, envelope(status(ours, "sent"))) == "ignored"
        assert take(database, envelope(status(ours, "delivered"))) == "processed"
        assert take(database, envelope(status(ours, "failed", errors=errors))) == "duplicate"

        assert self.log_of(database, ours)["status"] == "delivered"

    def test_the_same_status_twice_is_a_duplicate(self, database: Database) -> None:
        ours = database.in_transaction(log_delivery)

        assert take(database, envelope(status(ours, "sent"))) == "processed"
        assert take(database, envelope(status(ours, "sent"))) == "duplicate"

    def test_a_status_nobody_has_heard_of_is_ignored(self, database: Database) -> None:
        ours = database.in_transaction(log_delivery)
        inbox_id = receive(database, envelope(status(ours, "teleported")))

        assert process(database, inbox_id) == ProcessingResult("ignored")

        assert inbox(database, inbox_id).event_type == "status.unknown"
        assert self.log_of(database, ours)["status"] == "queued"

    def test_a_status_before_its_message_is_tried_again(self, database: Database) -> None:
        """The provider may tell before the answer to our own request was kept."""
        ours = some_id()
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

    def test_a_status_of_a_message_that_is_none_of_ours_is_ignored_in_the_end(
        self, database: Database
    ) -> None:
        inbox_id = receive(database, envelope(status(some_id(), "read")))
        now = NOW
        for _ in RETRY_DELAYS_SECONDS:
            result = process(database, inbox_id, now)
            assert result is not None
            assert (result.status, inbox(database, inbox_id).last_error) == (
                "retrying",
                "no sent message has this id",
            )
            assert result.due_at is not None
            now = result.due_at

        assert process(database, inbox_id, now) == ProcessingResult("ignored")

    @staticmethod
    def log_of(database: Database, provider_message_id: str) -> dict[str, Any]:
        """Give the log of a message of ours."""
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
def test_what_can_never_be_processed_is_dead_at_once(database: Database, body: bytes, reason: str) -> None:
    inbox_id = receive(database, body)

    assert process(database, inbox_id) == ProcessingResult("dead")

    with database.reading() as session:
        assert row_of(session, "dead_letter_webhooks", inbox_id=inbox_id)["error"] == reason


def test_no_message_can_be_taken_for_an_event_of_the_gateway(database: Database) -> None:
    """Where messages need not be signed, anybody could otherwise have a payment ignored as a duplicate."""
    with database.transaction() as session:
        shop = make_shop(session)
        order_id = place(session, shop, make_product(session, shop))
        intent = make_intent(session, shop, order_id)
    data = charge_data(intent.reference, intent.amount_minor)
    name = f"charge.success:{data['id']}"
    assert take(database, envelope(message(id=name))) == "processed"
    assert take(database, envelope(status("charge.success", str(data["id"])))) == "ignored"

    inbox_id = database.in_transaction(
        webhook_inbox.receive_event, provider="gateway", body=event_of(data), now=NOW
    )
    assert process(database, inbox_id) == ProcessingResult("processed")

    with database.reading() as session:
        assert status_of(session, order_id) == "paid_escrow"


def test_neither_numbers_nor_words_are_logged(database: Database) -> None:
    sender = some_number()
    sent = message(sender=sender, text={"body": "my-secret-words"})
    with capture_logs() as logs:
        take(database, envelope(sent, names={sender: "Ada Obi"}))
        take(database, envelope(sent))
        take(database, envelope(message(sender=sender) | {"id": None}))

    logged = repr(logs)
    assert "webhook event processed" in logged
    for private in (sender, "my-secret-words", "Ada Obi", sent["id"]):
        assert private not in logged
