"""Schemas of conversations, messages, phone exchanges and blocked messages."""

from functools import partial
from typing import Any

import marshmallow
from marshmallow import fields, validates_schema

from blueprints.http.envelope import CursorMetaSchema
from blueprints.http.field_docs import doc
from blueprints.http.fields import (
    BooleanParameter,
    Choice,
    Created,
    CursorQuery,
    Identified,
    Schema,
    StrictInteger,
    Text,
    Timestamp,
    UniqueList,
    Uuid,
)
from blueprints.http.image_views import ImageView
from marketplace.chat import blocked_messages, phone_exchange, queries
from marketplace.chat.participants import BUYER, SIDES
from marketplace.chat.send import MAX_BODY_LENGTH, MAX_PICTURES
from marketplace.kernel import demo_ids
from marketplace.kernel.contact_detection import KIND_NAMES
from marketplace.orders.states import ORDER

_BODY = "Is the lamp still available?"
_side = partial(Choice, *SIDES)
_number = partial(StrictInteger, minimum=1, required=True)


class SendMessage(Schema):
    """A message in a conversation, or a buyer's first message to a store."""

    example_omits = frozenset({"conversation_id", "order_id"})

    conversation_id = Uuid(metadata=doc("The conversation. Leave out `vendorId`.", demo_ids.CONVERSATION))
    vendor_id = Uuid(
        metadata=doc("The store that you write to as a buyer. Leave out `conversationId`.", demo_ids.STORE)
    )
    body = Text(
        max_length=MAX_BODY_LENGTH, required=True, metadata=doc("The text, without contact details.", _BODY)
    )
    product_id = Uuid(metadata=doc("A product of the store, shown as a card.", demo_ids.PRODUCT))
    order_id = Uuid(metadata=doc("An order of both parties, shown as a card.", demo_ids.ORDER))
    image_ids = UniqueList(
        Uuid(),
        max_length=MAX_PICTURES,
        metadata=doc("Pictures that you uploaded with the purpose `chat`, at most 4.", []),
    )

    @validates_schema
    def check_recipient(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Check that the body names either the conversation or the store."""
        if ("conversation_id" in data) == ("vendor_id" in data):
            raise marshmallow.ValidationError("Send either conversationId or vendorId.", "conversation_id")


class MessageProduct(Identified):
    """A product that a message is about."""

    example_id = demo_ids.PRODUCT

    title = fields.String(required=True)
    price_minor = StrictInteger(minimum=0, required=True)
    image_url = fields.String(required=True, allow_none=True, metadata=doc("Cover; null without one.", None))
    available = fields.Boolean(required=True, metadata=doc("Whether the product is published.", True))


class MessageOrder(Identified):
    """An order that a message is about."""

    example_id = demo_ids.ORDER

    number = fields.String(required=True, metadata=doc("Number of the order.", "CM-1042"))
    status = Choice(*sorted(ORDER.states), required=True, metadata=doc("Status of the order.", "shipped"))
    total_minor = StrictInteger(minimum=0, required=True)


class MessageView(Created):
    """A message of a conversation."""

    example_id = demo_ids.MESSAGE

    conversation_id = Uuid(required=True, metadata=doc("Id of the conversation.", demo_ids.CONVERSATION))
    number = _number(metadata=doc("Position in the conversation, from 1 without gaps.", 1))
    sender = _side(required=True, metadata=doc("The party that sent the message.", BUYER))
    body = fields.String(
        required=True, allow_none=True, metadata=doc("The text; null after staff removed the message.", _BODY)
    )
    removed = fields.Boolean(required=True, metadata=doc("Whether staff removed the message.", False))
    read = fields.Boolean(required=True, metadata=doc("Whether the recipient has read the message.", False))
    images = fields.List(fields.Nested(ImageView), required=True, metadata=doc("Pictures, at most 4.", []))
    product = fields.Nested(
        MessageProduct, required=True, allow_none=True, metadata=doc("Card of a product; null without one.")
    )
    order = fields.Nested(
        MessageOrder,
        required=True,
        allow_none=True,
        metadata=doc("Card of an order; null without one.", None),
    )


class MessageQuery(CursorQuery):
    """The direction and the start of a page of messages."""

    direction = Choice(
        *queries.DIRECTIONS,
        load_default=queries.OLDER,
        metadata=doc("`older` lists the newest first, `newer` the oldest first.", queries.OLDER),
    )
    from_id = Uuid(
        load_default=None,
        metadata=doc("List from this message, without this message.", demo_ids.MESSAGE),
    )


class ConversationQuery(CursorQuery):
    """Filters of conversations."""

    side = _side(load_default=None, metadata=doc("Only conversations in which you are this party.", BUYER))
    unread = BooleanParameter(
        load_default=False, metadata=doc("True leaves out conversations without unread messages.", True)
    )


class ConversationMeta(CursorMetaSchema):
    """The ``meta`` of conversations."""

    unread_count = StrictInteger(
        data_key="unreadCount",
        minimum=0,
        maximum=queries.MAX_UNREAD_COUNT,
        required=True,
        metadata=doc(
            f"Number of conversations with unread messages, counted up to {queries.MAX_UNREAD_COUNT}.", 1
        ),
    )


class ConversationStore(Identified):
    """The store of a conversation."""

    example_id = demo_ids.STORE

    display_name = fields.String(required=True)
    slug = fields.String(required=True)


class ConversationBuyer(Identified):
    """The buyer of a conversation."""

    example_id = demo_ids.BUYER

    name = fields.String(required=True, metadata=doc("First name and initial.", "Amara O."))


class LastMessage(Created):
    """The last message of a conversation."""

    example_id = demo_ids.MESSAGE

    number = _number(metadata=doc("Position in the conversation.", 1))
    sender = _side(required=True, metadata=doc("The party that sent the message.", BUYER))
    excerpt = fields.String(
        required=True,
        allow_none=True,
        metadata=doc(
            f"The first {queries.EXCERPT_LENGTH} characters; null after staff removed the message.", _BODY
        ),
    )
    has_pictures = fields.Boolean(required=True, metadata=doc("Whether the message has pictures.", False))


class ConversationView(Created):
    """A conversation of a buyer with a store."""

    example_id = demo_ids.CONVERSATION

    side = _side(required=True, metadata=doc("Your side in the conversation.", BUYER))
    vendor = fields.Nested(ConversationStore, required=True, metadata=doc("The store."))
    buyer = fields.Nested(ConversationBuyer, required=True, metadata=doc("The buyer."))
    counterpart_id = Uuid(
        required=True,
        metadata=doc("Profile of the other party, to report the person.", demo_ids.VENDOR_OWNER),
    )
    last_message = fields.Nested(LastMessage, required=True, metadata=doc("The last message."))
    unread_count = StrictInteger(minimum=0, required=True, metadata=doc("Number of unread messages.", 0))
    their_read_number = StrictInteger(
        minimum=0,
        required=True,
        metadata=doc("Number of the last message that the other party has read; 0 before.", 0),
    )
    muted = fields.Boolean(required=True, metadata=doc("Whether you get no notifications.", False))
    blocked_by_you = fields.Boolean(required=True, metadata=doc("Whether you blocked the person.", False))
    can_send = fields.Boolean(required=True, metadata=doc("False after a block by either party.", True))


class MarkRead(Schema):
    """The messages to mark."""

    up_to_id = Uuid(
        load_default=None,
        metadata=doc("Newest message that you show. Without it, all are marked.", demo_ids.MESSAGE),
    )


class PhoneExchangeView(Schema):
    """The exchange of phone numbers in a conversation."""

    status = Choice(
        *phone_exchange.STATUSES,
        required=True,
        metadata=doc("`requested` after one party agreed, `shared` after both.", phone_exchange.NONE),
    )
    available = fields.Boolean(
        required=True, metadata=doc("Whether an order is shipped, so that you can agree.", True)
    )
    you_agreed = fields.Boolean(required=True, metadata=doc("Whether you agreed.", False))
    they_agreed = fields.Boolean(required=True, metadata=doc("Whether the other party agreed.", False))
    your_phone = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Your verified number; null without one.", "+2348031234567"),
    )
    their_phone = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("Their verified number, masked until both agreed; null without one.", "+234********21"),
    )


class BlockedMessageQuery(CursorQuery):
    """Filters of blocked messages."""

    reviewed = BooleanParameter(
        load_default=False, metadata=doc("True lists reviewed messages, the latest first.", True)
    )
    sender_id = Uuid(load_default=None, metadata=doc("Only messages of this person.", demo_ids.BUYER))


class BlockedMessageView(Created):
    """A message that the guard refused."""

    example_id = demo_ids.BLOCKED_MESSAGE

    sender_id = Uuid(required=True, metadata=doc("Profile of the sender.", demo_ids.BUYER))
    recipient_id = Uuid(required=True, metadata=doc("Profile of the recipient.", demo_ids.VENDOR_OWNER))
    vendor_id = Uuid(required=True, metadata=doc("Store of the conversation.", demo_ids.STORE))
    body = fields.String(required=True, metadata=doc("The refused text.", "Call me on 0803 123 4567"))
    earlier_messages = fields.List(
        fields.String(),
        required=True,
        metadata=doc("Sent messages that contain the details together with the text.", []),
    )
    kinds = fields.List(
        Choice(*KIND_NAMES),
        required=True,
        metadata=doc("Kinds of details that the guard found.", ["phone"]),
    )
    verdict = Choice(
        *blocked_messages.VERDICTS,
        required=True,
        allow_none=True,
        metadata=doc("Whether the guard was right; null before the review.", None),
    )
    reviewed_by = Uuid(required=True, allow_none=True, metadata=doc("Reviewing officer; null before.", None))
    reviewed_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the review; null before.", None)
    )


class ReviewBlockedMessage(Schema):
    """The verdict about a refused message."""

    verdict = Choice(
        *blocked_messages.VERDICTS,
        required=True,
        metadata=doc("`mistaken` if the message contains no contact details.", blocked_messages.CORRECT),
    )
