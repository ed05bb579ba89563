"""Queries of the chat: a person's conversations, and the messages of a conversation.

A page of conversations or messages takes a fixed number of statements.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.chat import texts
from marketplace.chat.participants import BUYER, SIDES, VENDOR
from marketplace.chat.reading import find_number
from marketplace.identity.public_name import public_name
from marketplace.infra.sql.statements import Prepared
from marketplace.kernel.errors import found
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.media.images import image_view

# A badge shows no larger number, and counting more rows would take longer.
MAX_UNREAD_COUNT = 100
EXCERPT_LENGTH = 200
OLDER, NEWER = "older", "newer"
DIRECTIONS = (OLDER, NEWER)
_MAX_ID = UUID(int=2**128 - 1)
_MAX_NUMBER = 2**62


@dataclass(frozen=True)
class ConversationView:
    """A conversation with its last message, as one of the parties sees the conversation."""

    id: UUID
    side: str
    vendor_id: UUID
    store_name: str
    store_slug: str
    buyer_id: UUID
    buyer_full_name: str | None
    seller_id: UUID
    unread_count: int
    muted: bool
    their_read_number: int
    blocked_by_you: bool
    is_blocked: bool
    created_at: datetime
    last_message_id: UUID
    last_number: int
    last_sender: str
    last_excerpt: str | None
    last_has_pictures: bool
    last_created_at: datetime

    @property
    def vendor(self) -> dict[str, Any]:
        """The store."""
        return {"id": self.vendor_id, "display_name": self.store_name, "slug": self.store_slug}

    @property
    def buyer(self) -> dict[str, Any]:
        """The buyer's profile id and public name."""
        return {"id": self.buyer_id, "name": public_name(self.buyer_full_name)}

    @property
    def counterpart_id(self) -> UUID:
        """The profile of the other party, for reports."""
        return self.seller_id if self.side == BUYER else self.buyer_id

    @property
    def can_send(self) -> bool:
        """Whether neither party has blocked the other."""
        return not self.is_blocked

    @property
    def last_message(self) -> dict[str, Any]:
        """The last message with the beginning of its text."""
        return {
            "id": self.last_message_id,
            "number": self.last_number,
            "sender": self.last_sender,
            "excerpt": self.last_excerpt,
            "has_pictures": self.last_has_pictures,
            "created_at": self.last_created_at,
        }


def _side_sql(side: str, condition: str) -> str:
    """Build the page of one side. Each side has an index in the order of the page."""
    own, other = ("buyer", "seller") if side == BUYER else ("seller", "buyer")
    return f"""
        (SELECT id, '{side}' AS side, vendor_id, buyer_id, seller_id, {own}_unread AS unread_count,
            {own}_muted AS muted, {other}_read_number AS their_read_number, created_at, last_message_id
        FROM conversations WHERE {own}_id = :user_id {condition.format(own=own)}
        ORDER BY last_message_id DESC LIMIT :limit)
    """


def _conversations_sql(sides: tuple[str, ...], condition: str) -> str:
    pages = " UNION ALL ".join(_side_sql(side, condition) for side in sides)
    return f"""
        SELECT c.id, c.side, c.vendor_id, v.display_name AS store_name, v.slug AS store_slug, c.buyer_id,
            b.name AS buyer_full_name, c.seller_id, c.unread_count, c.muted, c.their_read_number,
            EXISTS (SELECT FROM chat_blocks k WHERE k.blocker_id = :user_id
                AND k.blocked_id = CASE c.side WHEN '{BUYER}' THEN c.seller_id ELSE c.buyer_id END)
                AS blocked_by_you,
            EXISTS (SELECT FROM chat_blocks k WHERE (k.blocker_id, k.blocked_id) = (c.buyer_id, c.seller_id))
            OR EXISTS (SELECT FROM chat_blocks k WHERE (k.blocker_id, k.blocked_id) = (c.seller_id, c.buyer_id))
                AS is_blocked,
            c.created_at, m.id AS last_message_id, m.number AS last_number, m.sender AS last_sender,
            CASE WHEN m.removed_at IS NULL THEN left(m.body, {EXCERPT_LENGTH}) END AS last_excerpt,
            EXISTS (SELECT FROM message_images i WHERE i.message_id = m.id) AS last_has_pictures,
            m.created_at AS last_created_at
        FROM (SELECT * FROM ({pages}) sides ORDER BY last_message_id DESC LIMIT :limit) c
            JOIN messages m ON m.id = c.last_message_id
            JOIN vendor_profiles v ON v.id = c.vendor_id
            JOIN profiles b ON b.id = c.buyer_id
        ORDER BY c.last_message_id DESC
    """


_BEFORE_SQL = "AND last_message_id < :before"
_UNREAD_SQL = "AND {own}_unread > 0"
# Statements by sides and filter. Each filter has an index.
_SELECT_CONVERSATIONS = {
    (sides, unread): Prepared(
        text(_conversations_sql(sides, f"{_BEFORE_SQL} {_UNREAD_SQL if unread else ''}")),
        row=ConversationView,
    )
    for sides in (SIDES, (BUYER,), (VENDOR,))
    for unread in (False, True)
}


def list_conversations(
    session: Session, *, user_id: UUID, side: str | None, unread: bool, page: PageRequest
) -> Page:
    """List a user's conversations, the latest message first, with the number of unread conversations.

    :param side: only conversations as ``buyer`` or as ``vendor``; none for both
    :param unread: only conversations with unread messages
    """
    [before] = page.after("id")
    statement = _SELECT_CONVERSATIONS[SIDES if side is None else (side,), unread]
    rows = statement.all(
        session,
        user_id=user_id,
        before=_MAX_ID if before is None else UUID(before),
        limit=page.limit + 1,
    )
    listed = page_of(list(rows), request=page, position_of=lambda row: [str(row.last_message_id)])
    listed.extra_meta["unread_count"] = count_unread_conversations(session, user_id=user_id)
    return listed


_COUNT_UNREAD = Prepared(
    text(
        f"""
        SELECT count(*) FROM (
            (SELECT FROM conversations WHERE buyer_id = :user_id AND buyer_unread > 0 LIMIT {MAX_UNREAD_COUNT})
            UNION ALL
            (SELECT FROM conversations WHERE seller_id = :user_id AND seller_unread > 0 LIMIT {MAX_UNREAD_COUNT})
            LIMIT {MAX_UNREAD_COUNT}
        ) unread
        """
    )
)


def count_unread_conversations(session: Session, *, user_id: UUID) -> int:
    """Count the conversations with unread messages, up to ``MAX_UNREAD_COUNT``."""
    return int(_COUNT_UNREAD.scalar(session, user_id=user_id))


_SELECT_CONVERSATION = Prepared(
    text(_conversations_sql(SIDES, "AND id = :conversation_id").replace(":limit", "1")), row=ConversationView
)


def fetch_conversation(session: Session, *, conversation_id: UUID, user_id: UUID) -> ConversationView:
    """Fetch a conversation of a user.

    :raises NotFoundError: the conversation does not exist, or the user is no party
    """
    row = _SELECT_CONVERSATION.first(session, conversation_id=conversation_id, user_id=user_id)
    return found(row, texts.CONVERSATION_NOT_FOUND)


@dataclass(frozen=True)
class MessageView:
    """A message with its pictures and its card."""

    id: UUID
    conversation_id: UUID
    number: int
    sender: str
    body: str | None
    removed: bool
    read: bool
    created_at: datetime
    product_id: UUID | None
    product_title: str | None
    product_price_minor: int | None
    product_cover_key: str | None
    product_status: str | None
    order_id: UUID | None
    order_number: str | None
    order_status: str | None
    order_total_minor: int | None
    raw_images: list[list[str]]
    media_base_url: str

    @property
    def images(self) -> list[dict[str, Any]]:
        """The pictures in order."""
        return [
            image_view(image_id, key, orjson.loads(renditions), media_base_url=self.media_base_url)
            for image_id, key, renditions in self.raw_images
        ]

    @property
    def product(self) -> dict[str, Any] | None:
        """The card of the product."""
        if self.product_id is None:
            return None
        key = self.product_cover_key
        return {
            "id": self.product_id,
            "title": self.product_title,
            "price_minor": self.product_price_minor,
            "image_url": f"{self.media_base_url}/{key}" if key else None,
            "available": self.product_status == "published",
        }

    @property
    def order(self) -> dict[str, Any] | None:
        """The card of the order."""
        if self.order_id is None:
            return None
        return {
            "id": self.order_id,
            "number": self.order_number,
            "status": self.order_status,
            "total_minor": self.order_total_minor,
        }


_MESSAGES_SQL = f"""
    SELECT m.id, m.conversation_id, m.number, m.sender,
        CASE WHEN m.removed_at IS NULL THEN m.body END AS body, m.removed_at IS NOT NULL AS removed,
        m.number <= CASE m.sender WHEN '{BUYER}' THEN c.seller_read_number ELSE c.buyer_read_number END AS read,
        m.created_at, p.id AS product_id, p.title AS product_title, p.price_minor AS product_price_minor,
        p.cover_key AS product_cover_key, p.status AS product_status, o.id AS order_id,
        o.number AS order_number, o.status AS order_status, o.total_minor AS order_total_minor,
        ARRAY(
            SELECT ARRAY[CAST(i.id AS text), i.key, CAST(i.renditions AS text)]
            FROM message_images x JOIN images i ON i.id = x.image_id
            WHERE x.message_id = m.id AND m.removed_at IS NULL ORDER BY x.position
        ) AS raw_images, CAST(:media_base_url AS text) AS media_base_url
    FROM messages m JOIN conversations c ON c.id = m.conversation_id
        LEFT JOIN products p ON p.id = m.product_id LEFT JOIN orders o ON o.id = m.order_id
    WHERE m.conversation_id = :conversation_id
"""
_SELECT_MESSAGES = {
    OLDER: Prepared(
        text(f"{_MESSAGES_SQL} AND m.number < :from_number ORDER BY m.number DESC LIMIT :limit"),
        row=MessageView,
    ),
    NEWER: Prepared(
        text(f"{_MESSAGES_SQL} AND m.number > :from_number ORDER BY m.number LIMIT :limit"), row=MessageView
    ),
}
_SELECT_PARTICIPATION = Prepared(
    text(
        """
        SELECT id FROM conversations
        WHERE id = :conversation_id AND (buyer_id = :user_id OR seller_id = :user_id)
        """
    )
)


def list_messages(
    session: Session,
    *,
    conversation_id: UUID,
    user_id: UUID,
    direction: str,
    from_id: UUID | None,
    media_base_url: str,
    page: PageRequest,
) -> Page:
    """List the messages of a conversation before or after a message.

    :param direction: ``older`` lists the newest first, ``newer`` lists the oldest first
    :param from_id: list from this message, without this message; none lists from the end or the beginning
    :raises NotFoundError: the conversation does not exist, or the user is no party
    :raises ValidationError: the conversation has no message ``from_id``
    """
    [position] = page.after("number")
    found(
        _SELECT_PARTICIPATION.first(session, conversation_id=conversation_id, user_id=user_id),
        texts.CONVERSATION_NOT_FOUND,
    )
    if position is None:
        position = _MAX_NUMBER if direction == OLDER else 0
        if from_id is not None:
            position = find_number(
                session, conversation_id=conversation_id, message_id=from_id, field="fromId"
            )
    rows = _SELECT_MESSAGES[direction].all(
        session,
        conversation_id=conversation_id,
        from_number=position,
        media_base_url=media_base_url,
        limit=page.limit + 1,
    )
    return page_of(list(rows), request=page, position_of=lambda row: [row.number])


_SELECT_LAST_OWN_MESSAGE = Prepared(
    text(f"{_MESSAGES_SQL} AND m.sender = :side ORDER BY m.number DESC LIMIT 1"), row=MessageView
)


def fetch_last_own_message(
    session: Session, *, conversation_id: UUID, side: str, media_base_url: str
) -> MessageView:
    """Fetch the latest message of a party, in the transaction that sent the message."""
    row = _SELECT_LAST_OWN_MESSAGE.first(
        session, conversation_id=conversation_id, side=side, media_base_url=media_base_url
    )
    return found(row, texts.MESSAGE_NOT_FOUND)
