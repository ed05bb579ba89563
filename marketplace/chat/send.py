"""Send messages. The first message of a buyer to a store opens their conversation."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from marketplace.catalog.models import Product
from marketplace.chat import texts
from marketplace.chat.blocked_messages import refuse_contact_details
from marketplace.chat.guard import find_contact_details
from marketplace.chat.live import publish_message
from marketplace.chat.models import ChatMessage, ChatMessageImage, Conversation
from marketplace.chat.participants import BUYER, Party, display_name, ensure_not_blocked, find_party
from marketplace.identity.operations import lock_profile
from marketplace.kernel.errors import ConflictError, InvalidParam, RateLimitError, ValidationError, found
from marketplace.media.images import CHAT, claim_images
from marketplace.notifications.operations import notify
from marketplace.notifications.phrases import say
from marketplace.orders.models import Order
from marketplace.vendors.models import VendorProfile

MAX_BODY_LENGTH = 2_000
MAX_PICTURES = 4
MAX_NEW_CONVERSATIONS = 20
_DAY = timedelta(days=1)
# A number may be split over messages. Older messages are not read again.
SPLIT_WINDOW = timedelta(minutes=2)
_MAX_SPLIT_MESSAGES = 15


class OwnStoreConversationError(ValidationError):
    """The store belongs to the sender."""

    reason = "own-store-conversation"


class StoreUnavailableError(ConflictError):
    """The store is suspended or closed, and has no conversation with the buyer."""

    reason = "store-unavailable"


@dataclass(frozen=True)
class MessageContent:
    """The content of a message. A product or an order is shown as a card.

    :ivar image_ids: at most ``MAX_PICTURES`` without duplicates
    """

    body: str
    product_id: UUID | None = None
    order_id: UUID | None = None
    image_ids: Sequence[UUID] = ()


def send_to_store(
    session: Session, *, sender_id: UUID, vendor_id: UUID, content: MessageContent, now: datetime
) -> Party:
    """Send a message of a buyer to a store. The first message opens the conversation.

    :return: the conversation as the buyer sees the conversation
    :raises NotFoundError: the store does not exist
    :raises OwnStoreConversationError: the store belongs to the sender
    :raises StoreUnavailableError: the store accepts no new conversations
    :raises RateLimitError: the sender started ``MAX_NEW_CONVERSATIONS`` within a day
    :raises ConversationBlockedError: one of the parties blocked the other
    :raises ContactDetailsError: the guard refused the message
    :raises ValidationError: the product, the order or a picture is not allowed here
    """
    store = found(session.get(VendorProfile, vendor_id), texts.STORE_NOT_FOUND)
    if store.user_id == sender_id:
        raise OwnStoreConversationError(texts.OWN_STORE)
    # Two first messages of a buyer run one after the other, so that both reach the same conversation.
    lock_profile(session, user_id=sender_id)
    conversation = session.scalar(
        select(Conversation)
        .where(Conversation.buyer_id == sender_id, Conversation.vendor_id == vendor_id)
        .with_for_update(key_share=True),
        execution_options={"populate_existing": True},
    )
    if conversation is not None:
        return _send(session, Party(conversation, BUYER), content, now)
    if store.status != "active":
        raise StoreUnavailableError(texts.STORE_CLOSED)
    _ensure_may_open(session, buyer_id=sender_id, now=now)
    opened = Conversation(
        buyer_id=sender_id,
        seller_id=store.user_id,
        vendor_id=vendor_id,
        message_count=0,
        created_at=now,
        buyer_read_number=0,
        seller_read_number=0,
        buyer_unread=0,
        seller_unread=0,
        buyer_muted=False,
        seller_muted=False,
    )
    return _send(session, Party(opened, BUYER), content, now)


def send_in_conversation(
    session: Session, *, sender_id: UUID, conversation_id: UUID, content: MessageContent, now: datetime
) -> Party:
    """Send a message in a conversation of the sender. Errors are as in ``send_to_store``.

    :raises NotFoundError: the conversation does not exist, or the sender is no party
    """
    party = find_party(session, conversation_id=conversation_id, user_id=sender_id, lock=True)
    return _send(session, party, content, now)


def _ensure_may_open(session: Session, *, buyer_id: UUID, now: datetime) -> None:
    """Check the limit of new conversations. The caller holds the lock of the buyer's profile."""
    times = session.scalars(
        select(Conversation.created_at)
        .where(Conversation.buyer_id == buyer_id, Conversation.created_at > now - _DAY)
        .order_by(Conversation.created_at.desc())
        .limit(MAX_NEW_CONVERSATIONS)
    ).all()
    if len(times) == MAX_NEW_CONVERSATIONS:
        raise RateLimitError(
            texts.TOO_MANY_CONVERSATIONS.format(limit=MAX_NEW_CONVERSATIONS),
            retry_after_seconds=max(1, int((times[-1] + _DAY - now).total_seconds())),
        )


def _send(session: Session, party: Party, content: MessageContent, now: datetime) -> Party:
    """Check and write a message. A conversation without an id is new, and is written with the message."""
    conversation = party.conversation
    ensure_not_blocked(session, user_id=party.user_id, other_id=party.other.user_id)
    earlier = [] if conversation.id is None else _recent_bodies(session, party, now)
    found_details = find_contact_details(content.body, earlier=earlier)
    if found_details:
        refuse_contact_details(session, party=party, body=content.body, details=found_details, now=now)
    _ensure_shareable(session, party, content)
    message_id: UUID = session.scalars(select(func.uuidv7())).one()
    conversation.message_count += 1
    conversation.last_message_id = message_id
    if party.side == BUYER:
        conversation.seller_unread += 1
        is_first_unread = conversation.seller_unread == 1
    else:
        conversation.buyer_unread += 1
        is_first_unread = conversation.buyer_unread == 1
    session.add(conversation)
    session.flush()
    message = ChatMessage(
        id=message_id,
        conversation_id=conversation.id,
        number=conversation.message_count,
        sender=party.side,
        body=content.body,
        product_id=content.product_id,
        order_id=content.order_id,
        created_at=now,
    )
    session.add(message)
    session.flush()
    _attach_pictures(session, party, message, content.image_ids)
    publish_message(session, party=party, message=message)
    # One notification for a run of unread messages, so that a lively conversation does not fill the feed.
    if is_first_unread and not party.other.is_muted:
        notify(
            session,
            user_id=party.other.user_id,
            type="message_received",
            title=say(texts.MESSAGE_RECEIVED_TITLE, sender=display_name(session, party)),
            body=say(texts.MESSAGE_RECEIVED_BODY),
            link=f"/conversations/{conversation.id}",
            cause=f"conversation:{conversation.id}:{party.other.side}:from:{message.number}",
            now=now,
        )
    return party


def _recent_bodies(session: Session, party: Party, now: datetime) -> list[str]:
    """List the latest messages of the sender, the oldest first."""
    rows = session.scalars(
        select(ChatMessage.body)
        .where(
            ChatMessage.conversation_id == party.conversation.id,
            ChatMessage.number > party.conversation.message_count - 2 * _MAX_SPLIT_MESSAGES,
            ChatMessage.sender == party.side,
            ChatMessage.created_at > now - SPLIT_WINDOW,
        )
        .order_by(ChatMessage.number.desc())
        .limit(_MAX_SPLIT_MESSAGES)
    )
    return list(rows)[::-1]


def _ensure_shareable(session: Session, party: Party, content: MessageContent) -> None:
    """Check that a card shows a product of the store, or an order of both parties."""
    conversation = party.conversation
    if content.product_id is not None:
        product_id = session.scalar(
            select(Product.id).where(
                Product.id == content.product_id,
                Product.vendor_id == conversation.vendor_id,
                Product.status == "published",
            )
        )
        if product_id is None:
            raise ValidationError.of("productId", texts.PRODUCT_NOT_IN_STORE)
    if content.order_id is not None:
        order_id = session.scalar(
            select(Order.id).where(
                Order.id == content.order_id,
                Order.vendor_id == conversation.vendor_id,
                Order.buyer_id == conversation.buyer_id,
                # Unpaid orders are not shown to vendors.
                *(() if party.side == BUYER else (Order.paid_at.is_not(None),)),
            )
        )
        if order_id is None:
            raise ValidationError.of("orderId", texts.ORDER_NOT_SHARED)


def _attach_pictures(session: Session, party: Party, message: ChatMessage, image_ids: Sequence[UUID]) -> None:
    if not image_ids:
        return
    claim_images(session, image_ids=image_ids, owner_id=party.user_id, purpose=CHAT, parameter="imageIds")
    # The images are locked, so no other message takes them in the meantime.
    taken = set(
        session.scalars(select(ChatMessageImage.image_id).where(ChatMessageImage.image_id.in_(image_ids)))
    )
    if taken:
        raise ValidationError(
            texts.IMAGES_IN_OTHER_MESSAGE,
            invalid_params=[
                InvalidParam(f"imageIds[{index}]", texts.IMAGE_IN_OTHER_MESSAGE)
                for index, image_id in enumerate(image_ids)
                if image_id in taken
            ],
        )
    session.add_all(
        ChatMessageImage(message_id=message.id, position=position, image_id=image_id)
        for position, image_id in enumerate(image_ids)
    )
    session.flush()
