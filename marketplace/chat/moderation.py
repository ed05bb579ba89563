"""Functions of staff on messages: find the sender, read a reported message in its context, and remove a message."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import and_, case, or_, select, update
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.chat.models import ChatMessage, Conversation
from marketplace.chat.participants import BUYER

CONTEXT_MESSAGES = 10
_SENDER_ID = case((ChatMessage.sender == BUYER, Conversation.buyer_id), else_=Conversation.seller_id)


def find_sender(session: Session, *, message_id: UUID, reader_id: UUID) -> UUID | None:
    """Find the sender of a message of a reader's conversation.

    :return: none if the message does not exist, is removed, or belongs to other people
    """
    return session.scalar(
        select(_SENDER_ID)
        .select_from(ChatMessage)
        .join(Conversation, Conversation.id == ChatMessage.conversation_id)
        .where(
            ChatMessage.id == message_id,
            ChatMessage.removed_at.is_(None),
            or_(Conversation.buyer_id == reader_id, Conversation.seller_id == reader_id),
        )
    )


def list_context(session: Session, *, message_id: UUID) -> Sequence[ChatMessage]:
    """List a reported message and the messages before it, the oldest first, at most ``CONTEXT_MESSAGES``."""
    reported = select(ChatMessage.conversation_id, ChatMessage.number).where(ChatMessage.id == message_id)
    target = reported.subquery()
    rows = session.scalars(
        select(ChatMessage)
        .join(
            target,
            and_(
                ChatMessage.conversation_id == target.c.conversation_id,
                ChatMessage.number <= target.c.number,
            ),
        )
        .order_by(ChatMessage.number.desc())
        .limit(CONTEXT_MESSAGES)
    ).all()
    return rows[::-1]


def remove_message(session: Session, *, message_id: UUID, act: Act) -> None:
    """Hide the text and the pictures of a message from both parties. The row stays as evidence."""
    session.execute(
        update(ChatMessage)
        .where(ChatMessage.id == message_id, ChatMessage.removed_at.is_(None))
        .values(removed_at=act.now)
    )
