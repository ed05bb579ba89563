"""Live events of conversations, for both parties. They name the conversation, and clients read the messages."""

from sqlalchemy.orm import Session

from marketplace.chat.models import ChatMessage
from marketplace.chat.participants import Party
from marketplace.infra.live_events import LiveEvent, publish_after_commit


def publish_message(session: Session, *, party: Party, message: ChatMessage) -> None:
    """Publish that a party sent a message."""
    _publish(
        session,
        party,
        "message",
        {"conversationId": message.conversation_id, "messageId": message.id, "number": message.number},
    )


def publish_read(session: Session, *, party: Party) -> None:
    """Publish that a party read the messages up to a number."""
    _publish(
        session,
        party,
        "read",
        {"conversationId": party.conversation.id, "reader": party.side, "number": party.read_number},
    )


def _publish(session: Session, party: Party, name: str, data: dict[str, object]) -> None:
    for one in (party, party.other):
        publish_after_commit(session, LiveEvent(one.user_id, name, data))
