"""Tables of disputes."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index, Sequence, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, CreatedAt, Entity, Timestamped

dispute_number = Sequence("dispute_number", start=100001, metadata=Base.metadata)


class Dispute(Timestamped, Entity):
    """A dispute between the buyer and the vendor of an order, whose escrow is frozen until the end."""

    __tablename__ = "disputes"
    __table_args__ = (
        CheckConstraint("opened_by IN ('buyer', 'vendor', 'system')", name="opened_by"),
        CheckConstraint("order_status IN ('paid_escrow', 'processing', 'shipped')", name="order_status"),
        CheckConstraint(
            "reason IN ('not_received', 'not_as_described', 'damaged', 'wrong_item', 'buyer_unreachable', 'other')",
            name="reason",
        ),
        CheckConstraint("desired_outcome IN ('refund', 'partial_refund', 'release')", name="desired_outcome"),
        CheckConstraint("claimed_minor > 0", name="claimed_minor"),
        CheckConstraint(
            "status IN ('open', 'awaiting_response', 'under_review', 'resolved_buyer', 'resolved_vendor',"
            " 'resolved_split', 'withdrawn')",
            name="status",
        ),
        CheckConstraint(
            "(resolved_at IS NOT NULL)"
            " = (status IN ('resolved_buyer', 'resolved_vendor', 'resolved_split', 'withdrawn'))",
            name="resolved",
        ),
        CheckConstraint(
            "(status IN ('resolved_buyer', 'resolved_vendor', 'resolved_split'))"
            " = (buyer_minor IS NOT NULL AND vendor_minor IS NOT NULL AND rationale IS NOT NULL)"
            " AND coalesce(buyer_minor, 0) >= 0 AND coalesce(vendor_minor, 0) >= 0"
            " AND (status <> 'resolved_buyer' OR vendor_minor = 0)"
            " AND (status <> 'resolved_vendor' OR buyer_minor = 0)",
            name="amounts",
        ),
        Index(
            "uq_disputes_open_order", "order_id", unique=True, postgresql_where=text("resolved_at IS NULL")
        ),
        Index("ix_disputes_order", "order_id"),
        Index("ix_disputes_buyer", "buyer_id", text("id DESC")),
        Index("ix_disputes_vendor", "vendor_user_id", text("id DESC")),
        Index("ix_disputes_due", "ruling_due_at", "id", postgresql_where=text("resolved_at IS NULL")),
        Index("ix_disputes_status", "status", text("id DESC")),
    )

    number: Mapped[str] = mapped_column(
        unique=True, server_default=text("'D-' || nextval('dispute_number')::text")
    )
    order_id: Mapped[UUID] = mapped_column(ForeignKey("orders.id"))
    buyer_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    vendor_user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    opened_by: Mapped[str]
    order_status: Mapped[str] = mapped_column(
        comment="Status of the order before the dispute, for a withdrawal"
    )
    reason: Mapped[str] = mapped_column(info={"personal": "message"})
    description: Mapped[str] = mapped_column(info={"personal": "message"})
    desired_outcome: Mapped[str]
    claimed_minor: Mapped[int | None]
    item_ids: Mapped[list[UUID]] = mapped_column(server_default=text("'{}'"))
    status: Mapped[str]
    response_due_at: Mapped[datetime]
    finding_due_at: Mapped[datetime]
    ruling_due_at: Mapped[datetime]
    response: Mapped[str | None] = mapped_column(info={"personal": "message"})
    responded_at: Mapped[datetime | None]
    response_missed_at: Mapped[datetime | None] = mapped_column(
        comment="Time at which the other side had not responded; this counts against that side"
    )
    has_chargeback: Mapped[bool] = mapped_column(server_default=text("false"))
    finding: Mapped[str | None] = mapped_column(info={"personal": "message"})
    finding_at: Mapped[datetime | None]
    buyer_minor: Mapped[int | None] = mapped_column(comment="Refund of the ruling in kobo")
    vendor_minor: Mapped[int | None] = mapped_column(
        comment="Released amount of the ruling in kobo, with the platform's share"
    )
    rationale: Mapped[str | None] = mapped_column(info={"personal": "message"})
    officer_ids: Mapped[list[UUID]] = mapped_column(
        server_default=text("'{}'"), comment="Officers of the ruling, who do not decide the appeal"
    )
    resolved_at: Mapped[datetime | None]
    revision: Mapped[int] = mapped_column(server_default=text("1"))


class DisputeEvent(Base):
    """An entry of a dispute's timeline."""

    __tablename__ = "dispute_events"
    __table_args__ = (Index("ix_dispute_events_dispute", "dispute_id", "id"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    dispute_id: Mapped[UUID] = mapped_column(ForeignKey("disputes.id"))
    event: Mapped[str]
    actor: Mapped[str]
    actor_id: Mapped[UUID | None]
    note: Mapped[str | None] = mapped_column(info={"personal": "message"})
    at: Mapped[datetime]


class DisputeRulingProposal(Base):
    """A ruling that waits for a second officer."""

    __tablename__ = "dispute_ruling_proposals"

    dispute_id: Mapped[UUID] = mapped_column(ForeignKey("disputes.id"), primary_key=True)
    officer_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"))
    content: Mapped[dict[str, Any]]
    proposed_at: Mapped[datetime]
    expires_at: Mapped[datetime]


class DisputeOffer(Entity):
    """A settlement that a party offers. A dispute has at most one pending offer."""

    __tablename__ = "dispute_offers"
    __table_args__ = (
        CheckConstraint("offered_by IN ('buyer', 'vendor')", name="offered_by"),
        CheckConstraint("buyer_minor >= 0", name="buyer_minor"),
        CheckConstraint("status IN ('pending', 'accepted', 'declined', 'replaced')", name="status"),
        CheckConstraint("(status = 'pending') = (decided_at IS NULL)", name="decided"),
        Index("ix_dispute_offers_dispute", "dispute_id", "id"),
        Index(
            "uq_dispute_offers_pending",
            "dispute_id",
            unique=True,
            postgresql_where=text("status = 'pending'"),
        ),
    )

    dispute_id: Mapped[UUID] = mapped_column(ForeignKey("disputes.id"))
    offered_by: Mapped[str]
    buyer_minor: Mapped[int] = mapped_column(
        comment="Refund of the settlement in kobo; the rest of the escrow is released"
    )
    note: Mapped[str | None] = mapped_column(info={"personal": "message"})
    status: Mapped[str]
    expires_at: Mapped[datetime]
    decided_at: Mapped[datetime | None]
    created_at: Mapped[CreatedAt]


class DisputeReturn(Base):
    """A return of goods that a ruling requires, with the ruling that is executed at the receipt."""

    __tablename__ = "dispute_returns"
    __table_args__ = (
        CheckConstraint("status IN ('requested', 'sent', 'received', 'cancelled')", name="status"),
        CheckConstraint(
            "(status = 'received') = (received_at IS NOT NULL) AND (status <> 'sent' OR sent_at IS NOT NULL)",
            name="times",
        ),
    )

    dispute_id: Mapped[UUID] = mapped_column(ForeignKey("disputes.id"), primary_key=True)
    ruling: Mapped[dict[str, Any]] = mapped_column(comment="Ruling that is executed at the receipt")
    officer_ids: Mapped[list[UUID]]
    status: Mapped[str]
    send_due_at: Mapped[datetime]
    tracking_note: Mapped[str | None] = mapped_column(info={"personal": "message"})
    sent_at: Mapped[datetime | None]
    received_at: Mapped[datetime | None]
    created_at: Mapped[CreatedAt]


class DisputeAppeal(Base):
    """The appeal of a party against a ruling. A dispute has at most one."""

    __tablename__ = "dispute_appeals"
    __table_args__ = (
        CheckConstraint("appealed_by IN ('buyer', 'vendor')", name="appealed_by"),
        CheckConstraint("status IN ('pending', 'granted', 'rejected')", name="status"),
        CheckConstraint(
            "(status = 'pending') = (decided_at IS NULL) AND (status = 'pending') = (rationale IS NULL)",
            name="decided",
        ),
        CheckConstraint(
            "(status = 'granted') = (amount_minor IS NOT NULL) AND amount_minor > 0", name="amount"
        ),
        Index("ix_dispute_appeals_due", "decision_due_at", postgresql_where=text("status = 'pending'")),
    )

    dispute_id: Mapped[UUID] = mapped_column(ForeignKey("disputes.id"), primary_key=True)
    appealed_by: Mapped[str]
    reason: Mapped[str] = mapped_column(info={"personal": "message"})
    status: Mapped[str]
    decision_due_at: Mapped[datetime]
    amount_minor: Mapped[int | None] = mapped_column(
        comment="Kobo that the appealing side receives in addition to the ruling"
    )
    rationale: Mapped[str | None] = mapped_column(info={"personal": "message"})
    decided_at: Mapped[datetime | None]
    created_at: Mapped[CreatedAt]


class DisputeEvidence(Entity):
    """A file of a party in a dispute, with the hash of the stored content."""

    __tablename__ = "dispute_evidence"
    __table_args__ = (
        CheckConstraint("sent_by IN ('buyer', 'vendor')", name="sent_by"),
        CheckConstraint("kind IN ('unboxing', 'photo', 'waybill', 'receipt', 'other')", name="kind"),
        CheckConstraint("byte_count > 0", name="byte_count"),
        CheckConstraint("sha256 ~ '^[0-9a-f]{64}$'", name="sha256"),
        Index("ix_dispute_evidence_dispute", "dispute_id", "id"),
        Index("uq_dispute_evidence_document", "document_id", unique=True),
        Index(
            "uq_dispute_evidence_poster",
            "poster_id",
            unique=True,
            postgresql_where=text("poster_id IS NOT NULL"),
        ),
    )

    dispute_id: Mapped[UUID] = mapped_column(ForeignKey("disputes.id"))
    sent_by: Mapped[str]
    kind: Mapped[str]
    note: Mapped[str | None] = mapped_column(info={"personal": "message"})
    document_id: Mapped[UUID] = mapped_column(ForeignKey("private_documents.id"))
    poster_id: Mapped[UUID | None] = mapped_column(ForeignKey("private_documents.id"))
    content_type: Mapped[str]
    byte_count: Mapped[int]
    sha256: Mapped[str]
    duration_ms: Mapped[int | None]
    is_private: Mapped[bool] = mapped_column(server_default=text("false"))
    created_at: Mapped[CreatedAt]
