"""Read receipts, and muted conversations."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.chat import texts
from marketplace.chat.live import publish_read
from marketplace.chat.models import ChatBlock, ChatMessage
from marketplace.chat.participants import BUYER, Party, find_party
from marketplace.kernel.errors import ValidationError


def mark_read(session: Session, *, conversation_id: UUID, user_id: UUID, up_to_id: UUID | None) -> Party:
    """Mark the messages of a conversation as read. An earlier message never undoes a later one.

    :param up_to_id: the newest message that the client shows; none marks all messages
    :raises NotFoundError: the conversation does not exist, or the user is no party
    :raises ValidationError: the conversation has no such message
    """
    party = find_party(session, conversation_id=conversation_id, user_id=user_id, lock=True)
    conversation = party.conversation
    number = conversation.message_count
    if up_to_id is not None:
        number = find_number(session, conversation_id=conversation_id, message_id=up_to_id, field="upToId")
    if number <= party.read_number:
        return party
    unread = session.scalar(
        select(func.count())
        .select_from(ChatMessage)
        .where(
            ChatMessage.conversation_id == conversation_id,
            ChatMessage.number > number,
            ChatMessage.sender == party.other.side,
        )
    )
    if party.side == BUYER:
        conversation.buyer_read_number, conversation.buyer_unread = number, unread or 0
    else:
        conversation.seller_read_number, conversation.seller_unread = number, unread or 0
    session.flush()
    publish_read(session, party=party)
    return party


def find_number(session: Session, *, conversation_id: UUID, message_id: UUID, field: str) -> int:
    """Return the number of a message in its conversation.

    :param field: the API field with the id, for the error
    :raises ValidationError: the conversation has no such message
    """
    number = session.scalar(
        select(ChatMessage.number).where(
            ChatMessage.id == message_id, ChatMessage.conversation_id == conversation_id
        )
    )
    if number is None:
        raise ValidationError.of(field, texts.MESSAGE_NOT_FOUND)
    return number


def set_muted(session: Session, *, conversation_id: UUID, user_id: UUID, is_muted: bool) -> Party:
    """Turn the notifications of a conversation off or on.

    :raises NotFoundError: the conversation does not exist, or the user is no party
    """
    party = find_party(session, conversation_id=conversation_id, user_id=user_id, lock=True)
    if party.side == BUYER:
        party.conversation.buyer_muted = is_muted
    else:
        party.conversation.seller_muted = is_muted
    session.flush()
    return party


def block_other_party(session: Session, *, conversation_id: UUID, user_id: UUID, now: datetime) -> Party:
    """Block the other person of a conversation, in all conversations of both people.

    :raises NotFoundError: the conversation does not exist, or the user is no party
    """
    party = find_party(session, conversation_id=conversation_id, user_id=user_id)
    session.execute(
        insert(ChatBlock)
        .values(blocker_id=user_id, blocked_id=party.other.user_id, created_at=now)
        .on_conflict_do_nothing()
    )
    return party


def unblock_other_party(session: Session, *, conversation_id: UUID, user_id: UUID) -> Party:
    """Remove the user's own block of the other person.

    :raises NotFoundError: the conversation does not exist, or the user is no party
    """
    party = find_party(session, conversation_id=conversation_id, user_id=user_id)
    session.execute(
        delete(ChatBlock).where(ChatBlock.blocker_id == user_id, ChatBlock.blocked_id == party.other.user_id)
    )
    return party
