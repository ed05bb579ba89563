"""Answers of staff to contacts, sent through the messaging provider.

The provider accepts any text within 24 hours of the contact's last message, and an approved template after that. An
answer whose outcome is unknown is sent again: twice is better than never.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from sqlalchemy import text, update
from sqlalchemy.orm import Session

from marketplace.identity.models import CONTACT
from marketplace.infra import outbox
from marketplace.infra.db import Database
from marketplace.infra.outbox import LastPhase
from marketplace.infra.sql.statements import Statement
from marketplace.kernel import queues
from marketplace.notifications.delivery.plan import list_opted_out
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.messaging.templates import MessagingClient
from marketplace.support import texts
from marketplace.support.models import SupportTicketMessage

TOPIC = "support.answer"
TEMPLATE, TEMPLATE_LANGUAGE = "support_answer", "en"
# A minute less than the provider's window, because a call takes time.
REPLY_WINDOW = timedelta(hours=23, minutes=59)
QUEUED, SENT, FAILED = "queued", "sent", "failed"
STATUSES = (QUEUED, SENT, "delivered", "read", FAILED)
# A later state of an answer never returns to an earlier one.
_RECEIPT_ORDER = (SENT, "delivered", "read")
_WINDOW_CLOSED_CODE = "131047"
_OPTED_OUT, _NOT_CONFIGURED = "opted_out", "not_configured"


def request_answer(session: Session, *, message_id: UUID, now: datetime) -> None:
    """Let a worker send an answer to the ticket's contact."""
    outbox.enqueue(
        session,
        queue=queues.NOTIFICATIONS,
        topic=TOPIC,
        payload={"messageId": str(message_id)},
        due_at=now,
    )


@dataclass(frozen=True)
class _Answer:
    body: str | None
    delivery_status: str | None
    sender: str
    phone: str | None
    last_message_at: datetime


_SELECT_ANSWER = Statement(
    text(
        """
        SELECT m.body, m.delivery_status, c.sender, c.phone, c.last_message_at
        FROM support_ticket_messages m JOIN support_tickets t ON t.id = m.ticket_id
            JOIN support_contacts c ON c.id = t.contact_id
        WHERE m.id = :message_id
        """
    ),
    row=_Answer,
    encrypted={"sender": CONTACT, "phone": CONTACT},
)


def send_answer(
    database: Database, client: MessagingClient, *, message_id: UUID, is_configured: bool, now: datetime
) -> LastPhase | None:
    """Send an answer in two phases, and return the phase that records the outcome.

    :param is_configured: whether a messaging provider is configured
    :return: none if the answer was sent before
    :raises ProviderUnavailableError: the outcome is unknown or the provider is down
    """
    with database.reading() as session:
        answer = _SELECT_ANSWER.one(session, message_id=message_id)
        opted_out = answer.phone is not None and list_opted_out(session, phones=[answer.phone])
    if answer.delivery_status != QUEUED:
        return None
    if opted_out or not is_configured:
        error = _OPTED_OUT if opted_out else _NOT_CONFIGURED
        return partial(_record_outcome, message_id=message_id, status=FAILED, error=error)
    body = answer.body or texts.FILE_IN_APP
    within_window = now < answer.last_message_at + REPLY_WINDOW
    try:
        provider_id = _send(client, answer.sender, body, message_id, within_window=within_window)
    except ProviderRefusedError as error:
        return partial(_record_outcome, message_id=message_id, status=FAILED, error=error.code or None)
    return partial(_record_outcome, message_id=message_id, status=SENT, provider_message_id=provider_id)


def _send(client: MessagingClient, phone: str, body: str, message_id: UUID, *, within_window: bool) -> str:
    if within_window:
        try:
            return client.send_text(phone=phone, body=body, delivery_id=message_id)
        except ProviderRefusedError as error:
            if error.code != _WINDOW_CLOSED_CODE:
                raise
    return client.send_template(
        phone=phone,
        template=TEMPLATE,
        language=TEMPLATE_LANGUAGE,
        parameters=[body],
        button=None,
        delivery_id=message_id,
    )


def _record_outcome(
    session: Session,
    *,
    message_id: UUID,
    status: str,
    now: datetime,
    error: str | None = None,
    provider_message_id: str | None = None,
) -> None:
    session.execute(
        update(SupportTicketMessage)
        .where(SupportTicketMessage.id == message_id, SupportTicketMessage.delivery_status == QUEUED)
        .values(delivery_status=status, delivery_error=error, provider_message_id=provider_message_id)
    )


def record_receipt(session: Session, *, message_id: UUID, status: str, error_code: str | None) -> bool | None:
    """Record the provider's status of an answer.

    :param message_id: the id that the provider returns in receipts
    :param status: ``sent``, ``delivered``, ``read`` or ``failed``
    :return: whether the status changed; none if no answer has the id
    """
    message = session.get(SupportTicketMessage, message_id, with_for_update={"key_share": True})
    if message is None or message.delivery_status is None:
        return None
    current = message.delivery_status
    later = status == FAILED and current not in ("delivered", "read", FAILED)
    if status in _RECEIPT_ORDER:
        earlier = (QUEUED, *_RECEIPT_ORDER[: _RECEIPT_ORDER.index(status)])
        later = current in earlier
    if later:
        message.delivery_status, message.delivery_error = status, error_code
        session.flush()
    return later
