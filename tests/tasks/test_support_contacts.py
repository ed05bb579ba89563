"""Tickets of contacts: messages of the messaging provider become tickets, and answers go back the same way."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import requests
from sqlalchemy import select, update

from marketplace.audit.operations import Act
from marketplace.identity.queries import find_caller
from marketplace.infra.db import Database
from marketplace.infra.outbox import OutboxEvent
from marketplace.providers.messaging.media import MessageMediaClient
from marketplace.providers.messaging.templates import MessagingClient
from marketplace.services import Services
from marketplace.support import staff, tickets
from marketplace.support.models import SupportAttachment, SupportContact, SupportTicket, SupportTicketMessage
from marketplace.webhooks import inbox as webhook_inbox
from tasks.dispatcher import Dispatcher
from tests.support.gateway import TIMEOUT_SECONDS, TestGateway
from tests.support.market import Market
from tests.support.messaging import envelope, message, unique_phone_number
from tests.support.object_storage import InMemoryStorage
from tests.support.probes import changed
from tests.support.purchases import NOW
from tests.support.sample_images import photo


class Contacts:
    """A contact who writes, staff who answer, and the messaging provider's stand-in."""

    def __init__(self, services: Services, gateway_server: TestGateway) -> None:
        self.database: Database = services.database
        self.inbox = gateway_server.server.inbox
        self.url = gateway_server.server.inbox_url
        wired = changed(
            services,
            messaging_url=f"{self.url}/cloud/v23.0",
            messaging_access_token="of-the-tests-only",
            messaging_phone_id="100200300",
        )
        self.worker = Dispatcher(
            changed(
                wired,
                storage=InMemoryStorage(),
                messaging=MessagingClient(wired.settings),
                message_media=MessageMediaClient(wired.settings),
            )
        )
        self.market = Market(self.database)
        self.officer_id = self.market.staff("support")
        self.sender = unique_phone_number()

    def write(self, words: str = "Where is my lamp?", **fields: Any) -> None:
        """Write to the platform as the contact."""
        sent = message(sender=self.sender, timestamp=str(int(NOW.timestamp())), **fields)
        if sent["type"] == "text":
            sent["text"] = {"body": words}
        self.inbox.note_customer(self.sender)
        inbox_id = self.database.in_transaction(
            webhook_inbox.receive_event, provider="messaging", body=envelope(sent), now=NOW
        )
        webhook_inbox.process_event(
            self.database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=lambda: 0.5
        )

    def tickets(self) -> list[SupportTicket]:
        """List the contact's tickets."""
        with self.database.reading() as session:
            return list(
                session.scalars(
                    select(SupportTicket)
                    .join(SupportContact, SupportContact.id == SupportTicket.contact_id)
                    .where(SupportContact.sender_index == self.sender)
                    .order_by(SupportTicket.id)
                )
            )

    def messages(self) -> list[SupportTicketMessage]:
        """List the messages of the contact's first ticket."""
        [ticket, *_] = self.tickets()
        with self.database.reading() as session:
            return list(
                session.scalars(
                    select(SupportTicketMessage)
                    .where(SupportTicketMessage.ticket_id == ticket.id)
                    .order_by(SupportTicketMessage.number)
                )
            )

    def answer(self, words: str | None = "It waits at the hub.") -> UUID:
        """Answer the contact's first ticket as staff."""
        [ticket, *_] = self.tickets()
        with self.database.transaction() as session:
            caller = find_caller(session, user_id=self.officer_id, aal="aal1", now=NOW)
            assert caller is not None
            return tickets.reply(
                session, ticket_id=ticket.id, caller=caller, message=tickets.NewMessage(words), now=NOW
            ).id

    def resolve(self) -> None:
        """Resolve the contact's first ticket."""
        [ticket, *_] = self.tickets()
        act = Act("support", NOW, self.officer_id)
        self.database.in_transaction(staff.resolve, ticket_id=ticket.id, act=act)

    def work(self) -> None:
        """Process the outbox once."""
        with self.database.reading() as session:
            rows = session.execute(
                select(OutboxEvent.id, OutboxEvent.queue).where(OutboxEvent.done_at.is_(None))
            ).all()
        for event_id, queue in rows:
            self.worker.run_row(queue, "outbox", str(event_id))

    def sent(self) -> list[dict[str, Any]]:
        """List what the provider sent to the contact."""
        return [dict(sent["content"]) for sent in self.inbox.list_messages(to=self.sender)]


@pytest.fixture
def contacts(paying_services: Services, gateway_server: TestGateway) -> Iterator[Contacts]:
    gateway_server.server.inbox.reset()
    made = Contacts(paying_services, gateway_server)
    yield made
    for queue in made.worker.queues.values():
        queue.flush()
        queue.storage.pool.disconnect()


def test_messages_of_a_contact_continue_the_same_ticket(contacts: Contacts) -> None:
    contacts.write("Where is my lamp?")
    contacts.write("I paid on Monday.")
    [ticket] = contacts.tickets()
    assert (ticket.subject, ticket.creator_id, ticket.category) == ("Where is my lamp?", None, "other")
    assert [one.body for one in contacts.messages()] == ["Where is my lamp?", "I paid on Monday."]


def test_contact_with_a_verified_number_sees_the_ticket_in_the_app(contacts: Contacts) -> None:
    person = contacts.market.person(phone=f"+{contacts.sender}", phone_verified_at=NOW)
    contacts.write()
    assert [ticket.creator_id for ticket in contacts.tickets()] == [person]


@pytest.mark.parametrize("words", ["STOP", "start"])
def test_word_for_opting_out_opens_no_ticket(contacts: Contacts, words: str) -> None:
    contacts.write(words)
    assert contacts.tickets() == []


def test_reaction_opens_no_ticket(contacts: Contacts) -> None:
    contacts.write(kind="reaction")
    assert contacts.tickets() == []


def test_resolved_ticket_is_reopened_but_not_a_closed_ticket(contacts: Contacts) -> None:
    contacts.write()
    contacts.resolve()
    contacts.write("Still not here.")
    assert [(ticket.status, ticket.reopenings) for ticket in contacts.tickets()] == [("pending_staff", 1)]
    contacts.resolve()
    staff.close_resolved_tickets(contacts.database, now=NOW + timedelta(days=8))
    contacts.write("Hello again.")
    assert [ticket.status for ticket in contacts.tickets()] == ["closed", "open"]


def test_picture_of_a_contact_is_attached_to_the_ticket(contacts: Contacts) -> None:
    media_id = contacts.inbox.keep_media(photo(400, 300), "image/jpeg")
    contacts.write(kind="image", image={"id": media_id, "caption": "Look"})
    contacts.work()
    [written] = contacts.messages()
    with contacts.database.reading() as session:
        [attachment] = session.scalars(
            select(SupportAttachment).where(SupportAttachment.message_id == written.id)
        )
    assert (written.body, attachment.name) == ("Look", "image.jpeg")


def test_answer_within_a_day_goes_back_as_text(contacts: Contacts) -> None:
    contacts.write()
    contacts.answer("It waits at the hub.")
    contacts.work()
    [sent] = contacts.sent()
    assert (sent["type"], sent["text"]["body"]) == ("text", "It waits at the hub.")
    assert contacts.messages()[-1].delivery_status == "sent"
    contacts.work()
    assert len(contacts.sent()) == 1


@pytest.mark.parametrize("provider_knows", [True, False], ids=["by our clock", "by the provider's"])
def test_answer_after_a_day_uses_the_template(contacts: Contacts, provider_knows: bool) -> None:
    contacts.write()
    if provider_knows:
        with contacts.database.transaction() as session:
            long_ago = NOW - timedelta(days=2)
            session.execute(
                update(SupportContact).values(first_message_at=long_ago, last_message_at=long_ago)
            )
    else:
        contacts.inbox.reset()
    contacts.answer("It waits at the hub.")
    contacts.work()
    [sent] = contacts.sent()
    assert sent["template"]["name"] == "support_answer"
    assert "It waits at the hub." in str(sent["template"]["components"])


def test_answer_waits_for_an_unavailable_provider(contacts: Contacts) -> None:
    contacts.write()
    contacts.answer()
    plan = {"channel": "messaging", "outcome": "error"}
    requests.post(f"{contacts.url}/sandbox/next", json=plan, timeout=TIMEOUT_SECONDS).raise_for_status()
    contacts.work()
    assert contacts.messages()[-1].delivery_status == "queued"
    with contacts.database.transaction() as session:
        session.execute(update(OutboxEvent).where(OutboxEvent.done_at.is_(None)).values(due_at=NOW))
    contacts.work()
    assert contacts.messages()[-1].delivery_status == "sent"


def test_person_who_opted_out_gets_no_answer(contacts: Contacts) -> None:
    contacts.write()
    contacts.write("STOP")
    contacts.answer()
    contacts.work()
    assert contacts.sent() == []
    last = contacts.messages()[-1]
    assert (last.delivery_status, last.delivery_error) == ("failed", "opted_out")


def test_receipt_updates_the_answer(contacts: Contacts) -> None:
    contacts.write()
    answer_id = contacts.answer()
    contacts.work()
    for word, expected in (("delivered", "delivered"), ("sent", "delivered"), ("read", "read")):
        status = {
            "id": "wamid.x",
            "status": word,
            "timestamp": "1763631100",
            "recipient_id": contacts.sender,
            "biz_opaque_callback_data": str(answer_id),
        }
        inbox_id = contacts.database.in_transaction(
            webhook_inbox.receive_event, provider="messaging", body=envelope(status), now=NOW
        )
        webhook_inbox.process_event(
            contacts.database, inbox_id=inbox_id, fee_bearer="platform", now=NOW, random=lambda: 0.5
        )
        assert contacts.messages()[-1].delivery_status == expected
