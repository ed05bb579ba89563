"""Table of proposals."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Entity, Timestamped


class PlatformProposal(Timestamped, Entity):
    """A change of the platform that an officer proposes. The database holds that another one approves it."""

    __tablename__ = "platform_proposals"
    __table_args__ = (
        CheckConstraint(
            "kind IN ('fee', 'category_commission', 'payout_resume', 'feature_flag', 'maintenance')",
            name="kind",
        ),
        CheckConstraint("status IN ('pending', 'approved', 'active', 'rejected', 'expired')", name="status"),
        CheckConstraint("approved_by <> proposed_by", name="four_eyes"),
        CheckConstraint("(approved_by IS NULL) = (approved_at IS NULL)", name="approved"),
        CheckConstraint(
            "status NOT IN ('approved', 'active') OR approved_by IS NOT NULL", name="approved_first"
        ),
        CheckConstraint("(status = 'active') = (activated_at IS NOT NULL)", name="activated"),
        CheckConstraint("(status = 'rejected') = (rejected_at IS NOT NULL)", name="rejected"),
        CheckConstraint("(status = 'expired') = (expired_at IS NOT NULL)", name="expired"),
        Index("ix_platform_proposals_status", "status", text("id DESC")),
        Index("ix_platform_proposals_kind", "kind", text("id DESC")),
        # What the schedule looks for: it is little, however many there were.
        Index("ix_platform_proposals_expiring", "expires_at", postgresql_where=text("status = 'pending'")),
        Index("ix_platform_proposals_due", "effective_at", postgresql_where=text("status = 'approved'")),
    )

    kind: Mapped[str]
    target: Mapped[str] = mapped_column(comment="What it changes: a setting's key, a category's id, ...")
    payload: Mapped[dict[str, Any]] = mapped_column(comment="As it was proposed")
    reason: Mapped[str] = mapped_column(info={"personal": "message"})
    status: Mapped[str]
    before: Mapped[dict[str, Any]] = mapped_column(comment="What it changes, as it was when it was proposed")
    after: Mapped[dict[str, Any]]
    effect: Mapped[dict[str, Any]] = mapped_column(comment="What it does to a sample order, and the like")
    proposed_by: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), index=True)
    effective_at: Mapped[datetime | None] = mapped_column(comment="None: as soon as it is approved")
    expires_at: Mapped[datetime] = mapped_column(comment="Unless it is approved by then")
    approved_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"), index=True)
    approved_at: Mapped[datetime | None]
    activated_at: Mapped[datetime | None]
    rejected_by: Mapped[UUID | None] = mapped_column(
        ForeignKey("profiles.id"),
        index=True,
        comment="None of a rejected one: it no longer fitted when it was due",
    )
    rejected_at: Mapped[datetime | None]
    rejection_reason: Mapped[str | None] = mapped_column(info={"personal": "message"})
    expired_at: Mapped[datetime | None]
