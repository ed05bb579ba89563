"""The two parties of a conversation, and the access to conversations."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from marketplace.chat import texts
from marketplace.chat.models import ChatBlock, Conversation
from marketplace.identity.models import Profile
from marketplace.identity.public_name import public_name
from marketplace.kernel.errors import ForbiddenError, found
from marketplace.vendors.models import VendorProfile

BUYER, VENDOR = "buyer", "vendor"
SIDES = (BUYER, VENDOR)


class ConversationBlockedError(ForbiddenError):
    """A block by one party stops messages of both."""

    reason = "conversation-blocked"


@dataclass(frozen=True)
class Party:
    """A conversation as one of its parties sees the conversation."""

    conversation: Conversation
    side: str

    @property
    def user_id(self) -> UUID:
        """The profile of the party."""
        conversation = self.conversation
        return conversation.buyer_id if self.side == BUYER else conversation.seller_id

    @property
    def other(self) -> "Party":
        """The other party."""
        return Party(self.conversation, VENDOR if self.side == BUYER else BUYER)

    @property
    def is_muted(self) -> bool:
        """Whether the party gets no notifications of messages."""
        conversation = self.conversation
        return conversation.buyer_muted if self.side == BUYER else conversation.seller_muted

    @property
    def unread(self) -> int:
        """The number of unread messages of the other party."""
        conversation = self.conversation
        return conversation.buyer_unread if self.side == BUYER else conversation.seller_unread

    @property
    def read_number(self) -> int:
        """The number of the last message that the party has read."""
        conversation = self.conversation
        return conversation.buyer_read_number if self.side == BUYER else conversation.seller_read_number


def find_party(session: Session, *, conversation_id: UUID, user_id: UUID, lock: bool = False) -> Party:
    """Find a conversation of a user.

    :param lock: lock the conversation until the end of the transaction
    :raises NotFoundError: the conversation does not exist, or the user is no party
    """
    statement = select(Conversation).where(
        Conversation.id == conversation_id,
        or_(Conversation.buyer_id == user_id, Conversation.seller_id == user_id),
    )
    if lock:
        statement = statement.with_for_update(key_share=True)
    row = session.scalar(statement, execution_options={"populate_existing": True})
    conversation = found(row, texts.CONVERSATION_NOT_FOUND)
    return Party(conversation, BUYER if conversation.buyer_id == user_id else VENDOR)


def ensure_not_blocked(session: Session, *, user_id: UUID, other_id: UUID) -> None:
    """Check that neither of two people has blocked the other.

    :raises ConversationBlockedError: one of the two blocked the other
    """
    blocked = session.scalar(
        select(ChatBlock.blocker_id)
        .where(
            or_(
                (ChatBlock.blocker_id == user_id) & (ChatBlock.blocked_id == other_id),
                (ChatBlock.blocker_id == other_id) & (ChatBlock.blocked_id == user_id),
            )
        )
        .limit(1)
    )
    if blocked is not None:
        raise ConversationBlockedError(texts.CONVERSATION_BLOCKED)


def display_name(session: Session, party: Party) -> str:
    """Return the name of a party for the other party: the store's name, or the buyer's first name and initial."""
    if party.side == VENDOR:
        return session.get_one(VendorProfile, party.conversation.vendor_id).display_name
    return public_name(session.get_one(Profile, party.user_id).name)
