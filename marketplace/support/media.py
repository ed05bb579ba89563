"""Files of incoming messages: fetch from the messaging provider, check, and keep in the private bucket."""

import tempfile
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from marketplace.infra import outbox
from marketplace.infra.db import Database
from marketplace.infra.outbox import LastPhase
from marketplace.kernel import queues
from marketplace.kernel.errors import UnsupportedMediaTypeError, ValidationError
from marketplace.media import documents
from marketplace.media.models import PrivateDocument
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.messaging.media import MediaTooLargeError, MessageMediaClient
from marketplace.providers.storage import ObjectStorage
from marketplace.support import texts
from marketplace.support.models import SupportAttachment, SupportContactMessage, SupportTicketMessage

TOPIC = "support.media-received"
MEDIA_TYPES = frozenset({"image", "sticker", "document", "audio", "video"})
# The provider's own limit for audio and video.
MAX_BYTES = 16 * 1024 * 1024
_FOLDER = "messages"


def media_id_of(message_type: str, content: dict[str, Any] | None) -> str | None:
    """Return the provider's id of a message's file, or none for a message without a file."""
    media_id = (content or {}).get("id")
    return media_id if message_type in MEDIA_TYPES and isinstance(media_id, str) else None


def request_fetch(session: Session, *, message_id: UUID, now: datetime) -> None:
    """Let a worker fetch the file of a message."""
    outbox.enqueue(
        session,
        queue=queues.AI_MODERATION,
        topic=TOPIC,
        payload={"messageId": str(message_id)},
        due_at=now,
    )


def fetch_media(
    database: Database,
    storage: ObjectStorage,
    media: MessageMediaClient,
    *,
    bucket: str,
    message_id: UUID,
    now: datetime,
) -> LastPhase | None:
    """Fetch and check the file of a message, in several phases.

    A repeated call stores another copy, and the copy that no message names is deleted after a day.

    :param bucket: the private bucket
    :return: the last phase; none if the file was fetched or refused before
    :raises ProviderUnavailableError: the provider or the storage failed
    """
    with database.reading() as session:
        message = session.get_one(SupportContactMessage, message_id)
        media_id = media_id_of(message.type, message.content)
        if message.media_status != "pending" or media_id is None:
            return None
    with tempfile.TemporaryFile() as file:
        try:
            media.download(media_id, into=file, max_bytes=MAX_BYTES)
            document_id = documents.store_file(
                database,
                storage,
                bucket=bucket,
                folder=_FOLDER,
                checked=documents.check_file(file),
                now=now,
            )
        except MediaTooLargeError:
            refusal = texts.MEDIA_TOO_LARGE.format(limit=MAX_BYTES // 1024**2)
        except ProviderRefusedError:
            refusal = texts.MEDIA_UNAVAILABLE
        except (UnsupportedMediaTypeError, ValidationError) as error:
            refusal = str(error)
        else:
            return partial(_attach_document, message_id=message_id, document_id=document_id)
    return partial(_record_refusal, message_id=message_id, refusal=refusal)


def _attach_document(session: Session, *, message_id: UUID, document_id: UUID, now: datetime) -> None:
    status = session.scalar(
        select(SupportContactMessage.media_status)
        .where(SupportContactMessage.id == message_id)
        .with_for_update()
    )
    if status != "pending":
        return
    documents.keep_document(session, document_id=document_id)
    session.execute(
        update(SupportContactMessage)
        .where(SupportContactMessage.id == message_id)
        .values(media_status="stored", document_id=document_id)
    )
    _attach_to_ticket(session, message_id=message_id, document_id=document_id)


def _attach_to_ticket(session: Session, *, message_id: UUID, document_id: UUID) -> None:
    """Show the file of a contact's message in the ticket, under the kind of the message and the file's suffix."""
    row = session.execute(
        select(SupportTicketMessage.id, SupportContactMessage.type, PrivateDocument.key)
        .join(SupportContactMessage, SupportContactMessage.id == SupportTicketMessage.contact_message_id)
        .join(PrivateDocument, PrivateDocument.id == document_id)
        .where(SupportTicketMessage.contact_message_id == message_id)
    ).first()
    if row is not None:
        name = f"{row.type}.{row.key.rpartition('.')[2]}"
        session.add(SupportAttachment(document_id=document_id, message_id=row.id, name=name))
        session.flush()


def _record_refusal(session: Session, *, message_id: UUID, refusal: str, now: datetime) -> None:
    session.execute(
        update(SupportContactMessage)
        .where(SupportContactMessage.id == message_id, SupportContactMessage.media_status == "pending")
        .values(media_status="refused", media_refusal=refusal)
    )
