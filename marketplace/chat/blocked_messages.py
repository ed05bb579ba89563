"""Messages that the guard refused: record, list and review."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, NoReturn
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.chat import texts
from marketplace.chat.guard import ContactDetails
from marketplace.chat.models import BlockedMessage
from marketplace.chat.participants import Party
from marketplace.infra.outbox import enqueue
from marketplace.kernel import queues
from marketplace.kernel.errors import (
    ConflictError,
    ConflictOfInterestError,
    InvalidParam,
    ValidationError,
    found,
)
from marketplace.kernel.paging import Page, PageRequest, page_of

REPEATED_BLOCKS_TOPIC = "chat.repeated-blocks"
# Blocked messages within a day that raise a report of the sender.
REPORTED_BLOCKS = 3
CORRECT, MISTAKEN = "correct", "mistaken"
VERDICTS = (CORRECT, MISTAKEN)
_DAY = timedelta(days=1)


class ContactDetailsError(ValidationError):
    """The message contains contact or payment details. The refused message is kept for staff."""

    reason = "contact-details"
    keeps_changes: ClassVar[bool] = True


class AlreadyReviewedMessageError(ConflictError):
    """The blocked message has a verdict."""

    reason = "blocked-message-reviewed"


def refuse_contact_details(
    session: Session, *, party: Party, body: str, details: ContactDetails, now: datetime
) -> NoReturn:
    """Record a refused message, and refuse the request.

    Each third refused message within a day enqueues a report of the sender.

    :raises ContactDetailsError: always
    """
    session.add(
        BlockedMessage(
            sender_id=party.user_id,
            recipient_id=party.other.user_id,
            vendor_id=party.conversation.vendor_id,
            body=body,
            earlier_messages=list(details.earlier_messages),
            kinds=sorted(kind.name.lower() for kind in details.kinds),
            created_at=now,
        )
    )
    session.flush()
    count = session.scalar(
        select(func.count())
        .select_from(BlockedMessage)
        .where(BlockedMessage.sender_id == party.user_id, BlockedMessage.created_at > now - _DAY)
    )
    if count and count % REPORTED_BLOCKS == 0:
        enqueue(
            session,
            queue=queues.NOTIFICATIONS,
            topic=REPEATED_BLOCKS_TOPIC,
            payload={"userId": str(party.user_id)},
            due_at=now,
        )
    kinds = " and ".join(sorted(kind.value for kind in details.kinds))
    field = texts.CONTACT_DETAILS_TOGETHER_FIELD if details.earlier_messages else texts.CONTACT_DETAILS_FIELD
    raise ContactDetailsError(
        texts.CONTACT_DETAILS.format(kinds=kinds),
        invalid_params=[InvalidParam("body", field.format(kinds=kinds))],
    )


@dataclass(frozen=True)
class BlockedMessageFilters:
    """Filters of blocked messages."""

    is_reviewed: bool
    sender_id: UUID | None = None


def list_blocked_messages(session: Session, *, filters: BlockedMessageFilters, page: PageRequest) -> Page:
    """List blocked messages: open messages from the earliest, reviewed messages from the latest."""
    reviewed_at, message_id = BlockedMessage.reviewed_at, BlockedMessage.id
    if filters.is_reviewed:
        statement = select(BlockedMessage).where(reviewed_at.is_not(None)).order_by(message_id.desc())
    else:
        statement = select(BlockedMessage).where(reviewed_at.is_(None)).order_by(message_id)
    [after] = page.after("id")
    if after is not None:
        statement = statement.where(message_id < after if filters.is_reviewed else message_id > after)
    if filters.sender_id is not None:
        statement = statement.where(BlockedMessage.sender_id == filters.sender_id)
    rows = session.scalars(statement.limit(page.limit + 1)).all()
    return page_of(list(rows), request=page, position_of=lambda message: [str(message.id)])


def review_blocked_message(
    session: Session, *, message_id: UUID, verdict: str, act: Act, officer_id: UUID
) -> BlockedMessage:
    """Record whether the guard was right. A wrong verdict does not send the message: the sender can write again.

    :param verdict: ``correct`` or ``mistaken``
    :raises NotFoundError: the message does not exist
    :raises ConflictOfInterestError: the officer is a party
    :raises AlreadyReviewedMessageError: the message has a verdict
    """
    message = found(
        session.get(BlockedMessage, message_id, with_for_update=True), texts.BLOCKED_MESSAGE_NOT_FOUND
    )
    if officer_id in (message.sender_id, message.recipient_id):
        raise ConflictOfInterestError(texts.PARTY_TO_MESSAGE)
    if message.reviewed_at is not None:
        raise AlreadyReviewedMessageError(texts.ALREADY_REVIEWED)
    message.verdict, message.reviewed_by, message.reviewed_at = verdict, officer_id, act.now
    session.flush()
    record_audit_entry(
        session,
        act=act,
        action="chat.blocked-message-reviewed",
        target_type="blocked_message",
        target_id=str(message.id),
        before={"verdict": None},
        after={"verdict": verdict},
    )
    return message
