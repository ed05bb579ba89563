"""Tables of conversations, messages, blocked people, blocked messages and phone exchanges."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text as sql
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, Entity


class Conversation(Entity):
    """The conversation of a buyer with a store. ``seller_id`` is the owner of the store.

    A conversation exists from its first message. The row of a conversation is locked while a message is sent, so that
    messages are numbered without gaps.
    """

    __tablename__ = "conversations"
    __table_args__ = (
        UniqueConstraint("buyer_id", "vendor_id"),
        CheckConstraint("buyer_id <> seller_id", name="two_people"),
        CheckConstraint(
            "message_count > 0 AND buyer_read_number BETWEEN 0 AND message_count"
            " AND seller_read_number BETWEEN 0 AND message_count"
            " AND buyer_unread BETWEEN 0 AND message_count - buyer_read_number"
            " AND seller_unread BETWEEN 0 AND message_count - seller_read_number",
            name="numbers",
        ),
        Index("ix_conversations_buyer", "buyer_id", sql("last_message_id DESC")),
        Index("ix_conversations_seller", "seller_id", sql("last_message_id DESC")),
        Index(
            "ix_conversations_buyer_unread",
            "buyer_id",
            sql("last_message_id DESC"),
            postgresql_where=sql("buyer_unread > 0"),
        ),
        Index(
            "ix_conversations_seller_unread",
            "seller_id",
            sql("last_message_id DESC"),
            postgresql_where=sql("seller_unread > 0"),
        ),
        Index("ix_conversations_opened", "buyer_id", "created_at"),
        Index("ix_conversations_vendor", "vendor_id"),
    )

    buyer_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    seller_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    vendor_id: Mapped[UUID] = mapped_column(ForeignKey("vendor_profiles.id"))
    message_count: Mapped[int]
    last_message_id: Mapped[UUID] = mapped_column(comment="Sort key of lists: ids are ordered by time")
    buyer_read_number: Mapped[int] = mapped_column(
        server_default=sql("0"), comment="Number of the last message that the buyer has read"
    )
    seller_read_number: Mapped[int] = mapped_column(server_default=sql("0"))
    buyer_unread: Mapped[int] = mapped_column(
        server_default=sql("0"), comment="Messages of the store after buyer_read_number"
    )
    seller_unread: Mapped[int] = mapped_column(server_default=sql("0"))
    buyer_muted: Mapped[bool] = mapped_column(server_default=sql("false"))
    seller_muted: Mapped[bool] = mapped_column(server_default=sql("false"))
    created_at: Mapped[datetime]


class ChatMessage(Entity):
    """A message of a conversation. Messages count from 1 within their conversation."""

    __tablename__ = "messages"
    __table_args__ = (
        UniqueConstraint("conversation_id", "number"),
        CheckConstraint("sender IN ('buyer', 'vendor')", name="sender"),
        CheckConstraint("number > 0", name="number"),
        CheckConstraint("length(body) BETWEEN 1 AND 2000", name="body"),
    )

    conversation_id: Mapped[UUID] = mapped_column(ForeignKey("conversations.id"))
    number: Mapped[int]
    sender: Mapped[str]
    body: Mapped[str] = mapped_column(info={"personal": "message"})
    product_id: Mapped[UUID | None] = mapped_column(ForeignKey("products.id"))
    order_id: Mapped[UUID | None] = mapped_column(ForeignKey("orders.id"))
    removed_at: Mapped[datetime | None] = mapped_column(comment="Time at which staff removed the message")
    created_at: Mapped[datetime]


class ChatMessageImage(Base):
    """A picture of a message. A picture belongs to one message."""

    __tablename__ = "message_images"
    __table_args__ = (
        UniqueConstraint("image_id"),
        CheckConstraint("position BETWEEN 0 AND 3", name="position"),
    )

    message_id: Mapped[UUID] = mapped_column(ForeignKey("messages.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    image_id: Mapped[UUID] = mapped_column(ForeignKey("images.id"))


class ChatBlock(Base):
    """A person who receives no messages from another person, and can send none to that person."""

    __tablename__ = "chat_blocks"
    __table_args__ = (
        CheckConstraint("blocker_id <> blocked_id", name="two_people"),
        Index("ix_chat_blocks_blocked", "blocked_id"),
    )

    blocker_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), primary_key=True)
    blocked_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), primary_key=True)
    created_at: Mapped[datetime]


class BlockedMessage(Entity):
    """A message that the guard refused because of contact or payment details. Staff review these messages."""

    __tablename__ = "blocked_messages"
    __table_args__ = (
        CheckConstraint("sender_id <> recipient_id", name="two_people"),
        CheckConstraint("cardinality(kinds) > 0", name="kinds"),
        CheckConstraint("verdict IN ('correct', 'mistaken')", name="verdict"),
        CheckConstraint(
            "(verdict IS NULL) = (reviewed_at IS NULL) AND (reviewed_at IS NULL) = (reviewed_by IS NULL)",
            name="reviewed",
        ),
        CheckConstraint("reviewed_by <> sender_id AND reviewed_by <> recipient_id", name="not_own"),
        Index("ix_blocked_messages_open", "id", postgresql_where=sql("reviewed_at IS NULL")),
        Index("ix_blocked_messages_sender", "sender_id", "created_at"),
        Index("ix_blocked_messages_recipient", "recipient_id"),
    )

    sender_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    recipient_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    vendor_id: Mapped[UUID] = mapped_column(ForeignKey("vendor_profiles.id"))
    body: Mapped[str] = mapped_column(info={"personal": "message"})
    earlier_messages: Mapped[list[str]] = mapped_column(
        info={"personal": "message"},
        comment="Messages of the last two minutes that contain the details together with the body",
    )
    kinds: Mapped[list[str]] = mapped_column(comment="Kinds of details that the guard found")
    verdict: Mapped[str | None]
    reviewed_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    reviewed_at: Mapped[datetime | None]
    created_at: Mapped[datetime]


class PhoneExchange(Base):
    """The consent of a conversation's parties to see each other's phone numbers."""

    __tablename__ = "phone_exchanges"
    __table_args__ = (
        CheckConstraint("buyer_agreed_at IS NOT NULL OR seller_agreed_at IS NOT NULL", name="agreed"),
    )

    conversation_id: Mapped[UUID] = mapped_column(ForeignKey("conversations.id"), primary_key=True)
    buyer_agreed_at: Mapped[datetime | None]
    seller_agreed_at: Mapped[datetime | None]
