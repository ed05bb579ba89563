"""Routes of conversations, messages, phone exchanges and the review of blocked messages."""

from typing import Any
from uuid import UUID

from blueprints.chat.schemas import (
    BlockedMessageQuery,
    BlockedMessageView,
    ConversationMeta,
    ConversationQuery,
    ConversationView,
    MarkRead,
    MessageQuery,
    MessageView,
    PhoneExchangeView,
    ReviewBlockedMessage,
    SendMessage,
)
from blueprints.http import (
    AUTHENTICATED,
    CHAT_STAFF,
    Context,
    ContractBlueprint,
    Idempotency,
    SharedLimit,
)
from marketplace.chat import blocked_messages, phone_exchange, queries, reading, send
from marketplace.chat.models import BlockedMessage
from marketplace.chat.participants import ConversationBlockedError
from marketplace.kernel.errors import ConflictOfInterestError, NotFoundError, RateLimitError
from marketplace.kernel.paging import Page

area = ContractBlueprint("conversations", "/api/conversations", "Your conversations with stores and buyers")
send_area = ContractBlueprint("chat", "/api/chat", "Your conversations with stores and buyers")
staff_area = ContractBlueprint(
    "blocked_messages", "/api/admin/blocked-messages", "Messages that the guard refused, for staff"
)

_WRITES = "60/minute"


@area.get(
    "",
    auth=AUTHENTICATED,
    limit=SharedLimit.CALLER_TIER,
    query=ConversationQuery,
    reply=ConversationView(many=True),
    meta=ConversationMeta,
)
def list_conversations(ctx: Context, query: dict[str, Any]) -> Page:
    """List your conversations, the latest message first, with the number of unread ones in `meta.unreadCount`."""
    return queries.list_conversations(ctx.session, user_id=ctx.user.id, page=ctx.page, **query)


@area.get(
    "/<uuid:conversation_id>", auth=AUTHENTICATED, limit=SharedLimit.CALLER_TIER, reply=ConversationView
)
def get_conversation(ctx: Context, conversation_id: UUID) -> queries.ConversationView:
    """Get a conversation with its last message."""
    return _conversation(ctx, conversation_id)


@area.get(
    "/<uuid:conversation_id>/messages",
    auth=AUTHENTICATED,
    limit=SharedLimit.CALLER_TIER,
    query=MessageQuery,
    reply=MessageView(many=True),
)
def list_messages(ctx: Context, conversation_id: UUID, query: dict[str, Any]) -> Page:
    """List messages, from the newest back or from a message on. Reading does not mark messages as read."""
    return queries.list_messages(
        ctx.session,
        conversation_id=conversation_id,
        user_id=ctx.user.id,
        media_base_url=ctx.media_base_url,
        page=ctx.page,
        **query,
    )


@send_area.post(
    "/send",
    auth=AUTHENTICATED,
    limit=_WRITES,
    body=SendMessage,
    reply=MessageView,
    status=201,
    idempotent=Idempotency.OPTIONAL,
    raises=(
        NotFoundError,
        RateLimitError,
        ConversationBlockedError,
        blocked_messages.ContactDetailsError,
        send.OwnStoreConversationError,
        send.StoreUnavailableError,
    ),
)
def send_message(ctx: Context, body: dict[str, Any]) -> queries.MessageView:
    """Send a message. A message with contact or payment details is refused and kept for staff.

    A buyer's first message to a store opens the conversation. A buyer can open 20 conversations a day.
    """
    content = send.MessageContent(
        body=body["body"],
        product_id=body.get("product_id"),
        order_id=body.get("order_id"),
        image_ids=body.get("image_ids", ()),
    )
    if "vendor_id" in body:
        party = send.send_to_store(
            ctx.session, sender_id=ctx.user.id, vendor_id=body["vendor_id"], content=content, now=ctx.now
        )
    else:
        party = send.send_in_conversation(
            ctx.session,
            sender_id=ctx.user.id,
            conversation_id=body["conversation_id"],
            content=content,
            now=ctx.now,
        )
    return queries.fetch_last_own_message(
        ctx.session,
        conversation_id=party.conversation.id,
        side=party.side,
        media_base_url=ctx.media_base_url,
    )


@area.post(
    "/<uuid:conversation_id>/read", auth=AUTHENTICATED, limit=_WRITES, body=MarkRead, reply=ConversationView
)
def mark_conversation_read(
    ctx: Context, conversation_id: UUID, body: dict[str, Any]
) -> queries.ConversationView:
    """Mark messages as read. Send `upToId` to keep later messages unread."""
    reading.mark_read(ctx.session, conversation_id=conversation_id, user_id=ctx.user.id, **body)
    return _conversation(ctx, conversation_id)


@area.post("/<uuid:conversation_id>/mute", auth=AUTHENTICATED, limit=_WRITES, reply=ConversationView)
def mute_conversation(ctx: Context, conversation_id: UUID) -> queries.ConversationView:
    """Turn off the notifications of a conversation."""
    reading.set_muted(ctx.session, conversation_id=conversation_id, user_id=ctx.user.id, is_muted=True)
    return _conversation(ctx, conversation_id)


@area.delete("/<uuid:conversation_id>/mute", auth=AUTHENTICATED, limit=_WRITES, reply=ConversationView)
def unmute_conversation(ctx: Context, conversation_id: UUID) -> queries.ConversationView:
    """Turn on the notifications of a conversation."""
    reading.set_muted(ctx.session, conversation_id=conversation_id, user_id=ctx.user.id, is_muted=False)
    return _conversation(ctx, conversation_id)


@area.post("/<uuid:conversation_id>/block", auth=AUTHENTICATED, limit=_WRITES, reply=ConversationView)
def block_person(ctx: Context, conversation_id: UUID) -> queries.ConversationView:
    """Block the other person. Neither of you can send messages to the other in any conversation. Orders continue."""
    reading.block_other_party(ctx.session, conversation_id=conversation_id, user_id=ctx.user.id, now=ctx.now)
    return _conversation(ctx, conversation_id)


@area.delete("/<uuid:conversation_id>/block", auth=AUTHENTICATED, limit=_WRITES, reply=ConversationView)
def unblock_person(ctx: Context, conversation_id: UUID) -> queries.ConversationView:
    """Remove your block of the other person."""
    reading.unblock_other_party(ctx.session, conversation_id=conversation_id, user_id=ctx.user.id)
    return _conversation(ctx, conversation_id)


@area.get(
    "/<uuid:conversation_id>/phone-exchange",
    auth=AUTHENTICATED,
    limit=SharedLimit.CALLER_TIER,
    reply=PhoneExchangeView,
)
def get_phone_exchange(ctx: Context, conversation_id: UUID) -> phone_exchange.PhoneExchangeView:
    """Get the exchange of phone numbers. Their number is masked until both of you agreed."""
    return phone_exchange.fetch_exchange(ctx.session, conversation_id=conversation_id, user_id=ctx.user.id)


@area.post(
    "/<uuid:conversation_id>/phone-exchange",
    auth=AUTHENTICATED,
    limit="10/minute",
    reply=PhoneExchangeView,
    raises=(
        ConversationBlockedError,
        phone_exchange.NoShippedOrderError,
        phone_exchange.PhoneNotVerifiedError,
    ),
)
def agree_to_phone_exchange(ctx: Context, conversation_id: UUID) -> phone_exchange.PhoneExchangeView:
    """Agree to exchange phone numbers, after an order is shipped. You need a verified number."""
    return phone_exchange.agree(
        ctx.session, conversation_id=conversation_id, user_id=ctx.user.id, now=ctx.now
    )


@area.delete(
    "/<uuid:conversation_id>/phone-exchange",
    auth=AUTHENTICATED,
    limit="10/minute",
    reply=PhoneExchangeView,
)
def end_phone_exchange(ctx: Context, conversation_id: UUID) -> phone_exchange.PhoneExchangeView:
    """End the exchange. Both numbers are masked again."""
    return phone_exchange.end(ctx.session, conversation_id=conversation_id, user_id=ctx.user.id)


@staff_area.get(
    "",
    auth=CHAT_STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=BlockedMessageQuery,
    reply=BlockedMessageView(many=True),
)
def list_blocked_messages(ctx: Context, query: dict[str, Any]) -> Page:
    """List refused messages that wait for a review, the earliest first."""
    filters = blocked_messages.BlockedMessageFilters(
        is_reviewed=query["reviewed"], sender_id=query["sender_id"]
    )
    return blocked_messages.list_blocked_messages(ctx.session, filters=filters, page=ctx.page)


@staff_area.post(
    "/<uuid:blocked_message_id>/review",
    auth=CHAT_STAFF,
    limit=_WRITES,
    body=ReviewBlockedMessage,
    reply=BlockedMessageView,
    raises=(ConflictOfInterestError, blocked_messages.AlreadyReviewedMessageError),
)
def review_blocked_message(ctx: Context, blocked_message_id: UUID, body: dict[str, Any]) -> BlockedMessage:
    """Record whether the guard was right. The message is not sent."""
    return blocked_messages.review_blocked_message(
        ctx.session,
        message_id=blocked_message_id,
        verdict=body["verdict"],
        act=ctx.act,
        officer_id=ctx.user.id,
    )


def _conversation(ctx: Context, conversation_id: UUID) -> queries.ConversationView:
    return queries.fetch_conversation(ctx.session, conversation_id=conversation_id, user_id=ctx.user.id)
