"""Files of customers' messages: fetched by workers, checked by content, kept in the private bucket."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
import requests
from sqlalchemy import select, update

from marketplace.infra.db import Database
from marketplace.infra.outbox import OutboxEvent
from marketplace.kernel import queues
from marketplace.media.models import PrivateDocument
from marketplace.providers.messaging.media import MessageMediaClient
from marketplace.services import Services
from marketplace.support import media
from marketplace.support.contacts import IncomingMessage, record_message
from marketplace.support.models import SupportContactMessage
from tasks.dispatcher import Dispatcher
from tests.support.gateway import TIMEOUT_SECONDS, TestGateway
from tests.support.messaging import unique_message_id, unique_phone_number
from tests.support.object_storage import InMemoryStorage
from tests.support.pdf_files import active_pdfs, plain_pdf
from tests.support.probes import changed
from tests.support.purchases import NOW
from tests.support.recordings import make_voice_note
from tests.support.sample_images import photo


class Customers:
    """Customers who send files, the worker that fetches them, and the provider's faults."""

    def __init__(self, services: Services, gateway_server: TestGateway) -> None:
        self.database: Database = services.database
        self.inbox = gateway_server.server.inbox
        self.url = gateway_server.server.inbox_url
        self.storage = InMemoryStorage()
        client = MessageMediaClient(
            changed(
                services,
                messaging_url=f"{self.url}/cloud/v23.0",
                messaging_access_token="of-the-tests-only",
            ).settings
        )
        self.worker = Dispatcher(changed(services, storage=self.storage, message_media=client))

    def send(self, content: bytes, kind: str = "image", media_id: str | None = None) -> UUID:
        """Store a message with a file."""
        kept = self.inbox.keep_media(content, "application/octet-stream")
        stored = self.database.in_transaction(
            record_message,
            sender=unique_phone_number(),
            name="Amara",
            message=IncomingMessage(unique_message_id(), kind, None, {"id": media_id or kept}, None, NOW),
            now=NOW,
        )
        assert stored is not None
        return stored

    def plan(self, outcome: str) -> None:
        """Plan the outcome of the next fetch."""
        body = {"channel": "media", "outcome": outcome}
        requests.post(f"{self.url}/sandbox/next", json=body, timeout=TIMEOUT_SECONDS).raise_for_status()

    def work(self) -> None:
        """Process the outbox once."""
        with self.database.reading() as session:
            ids = session.scalars(
                select(OutboxEvent.id).where(OutboxEvent.topic == media.TOPIC, OutboxEvent.done_at.is_(None))
            ).all()
        for event_id in ids:
            self.worker.run_row(queues.AI_MODERATION, "outbox", str(event_id))

    def repeat_event(self) -> None:
        """Process the event again, whether done or delayed."""
        with self.database.transaction() as session:
            session.execute(update(OutboxEvent).values(done_at=None, due_at=NOW))
        self.work()

    def message(self, message_id: UUID) -> SupportContactMessage:
        """Return a stored message."""
        with self.database.reading() as session:
            return session.get_one(SupportContactMessage, message_id)

    def documents(self) -> list[Any]:
        """List status and content type of the documents."""
        with self.database.reading() as session:
            rows = session.execute(select(PrivateDocument.status, PrivateDocument.content_type))
            return [tuple(row) for row in rows]


@pytest.fixture
def customers(paying_services: Services, gateway_server: TestGateway) -> Iterator[Customers]:
    gateway_server.server.inbox.reset()
    made = Customers(paying_services, gateway_server)
    yield made
    for queue in made.worker.queues.values():
        queue.flush()
        queue.storage.pool.disconnect()


@pytest.mark.parametrize(
    ("content", "kind", "stored_type"),
    [
        (photo(), "image", "image/jpeg"),
        (plain_pdf(), "document", "application/pdf"),
        (make_voice_note(), "audio", "audio/ogg"),
    ],
    ids=["picture", "pdf", "voice note"],
)
def test_file_is_fetched_and_stored_privately(
    customers: Customers, content: bytes, kind: str, stored_type: str
) -> None:
    message_id = customers.send(content, kind)
    assert customers.message(message_id).media_status == "pending"
    customers.work()

    message = customers.message(message_id)
    assert (message.media_status, message.media_refusal) == ("stored", None)
    assert customers.documents() == [("ready", stored_type)]
    [stored] = customers.storage.objects.values()
    assert (stored.key.partition("/")[0], stored.content_type) == ("messages", stored_type)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (next(iter(active_pdfs().values())), "scripts, actions or attachments"),
        (b"MZ\x90 a program", "must be a PDF document"),
        (bytes(media.MAX_BYTES + 1), "larger than 16 MB"),
        (b"", "empty"),
    ],
    ids=["active PDF", "program", "too large", "empty"],
)
def test_unacceptable_file_is_refused_with_the_reason(
    customers: Customers, content: bytes, reason: str
) -> None:
    message_id = customers.send(content, "document")
    customers.work()
    message = customers.message(message_id)
    assert message.media_status == "refused"
    assert reason in str(message.media_refusal)
    assert customers.storage.objects == {}


def test_file_deleted_by_the_provider_is_refused(customers: Customers) -> None:
    message_id = customers.send(photo(), media_id="404404")
    customers.work()
    assert customers.message(message_id).media_refusal == "The messaging provider no longer has the file."


@pytest.mark.parametrize("outcome", ["error", "limited"])
def test_unavailable_provider_is_asked_again(customers: Customers, outcome: str) -> None:
    message_id = customers.send(photo())
    customers.plan(outcome)
    customers.work()
    assert customers.message(message_id).media_status == "pending"
    customers.repeat_event()
    assert customers.message(message_id).media_status == "stored"


def test_malformed_id_of_a_file_is_not_requested(customers: Customers) -> None:
    message_id = customers.send(photo(), media_id="../../v23.0/100/messages")
    customers.work()
    assert customers.message(message_id).media_status == "refused"
    assert customers.inbox.calls().get("media") is None


def test_repeated_event_keeps_the_first_copy(customers: Customers) -> None:
    message_id = customers.send(photo())
    customers.work()
    first = customers.message(message_id).document_id
    customers.repeat_event()
    assert customers.message(message_id).document_id == first
    assert customers.storage.puts == 1
