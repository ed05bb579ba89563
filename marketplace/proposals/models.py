"""Table of proposals."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Entity, Timestamped


class PlatformProposal(Timestamped, Entity):
    """An officer's proposal to change the platform. The database requires the approval of another officer."""

    __tablename__ = "platform_proposals"
    __table_args__ = (
        CheckConstraint(
            "kind IN ('fee', 'category_commission', 'payout_resume', 'feature_flag', 'maintenance',"
            " 'wallet_adjustment')",
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
        # Partial indexes for the schedule: few proposals are pending or approved at a time.
        Index("ix_platform_proposals_expiring", "expires_at", postgresql_where=text("status = 'pending'")),
        Index("ix_platform_proposals_due", "effective_at", postgresql_where=text("status = 'approved'")),
    )

    kind: Mapped[str]
    target: Mapped[str] = mapped_column(
        comment="Target of the change, such as a setting's key or a category's id"
    )
    payload: Mapped[dict[str, Any]] = mapped_column(comment="Proposed change")
    reason: Mapped[str] = mapped_column(info={"personal": "message"})
    status: Mapped[str]
    before: Mapped[dict[str, Any]] = mapped_column(comment="State of the target when the proposal was filed")
    after: Mapped[dict[str, Any]]
    effect: Mapped[dict[str, Any]] = mapped_column(
        comment="Effect of the change, such as the price of a sample order"
    )
    proposed_by: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), index=True)
    effective_at: Mapped[datetime | None] = mapped_column(
        comment="Time when the change takes effect; null means on approval"
    )
    expires_at: Mapped[datetime] = mapped_column(comment="Deadline for the approval")
    approved_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"), index=True)
    approved_at: Mapped[datetime | None]
    activated_at: Mapped[datetime | None]
    rejected_by: Mapped[UUID | None] = mapped_column(
        ForeignKey("profiles.id"),
        index=True,
        comment="Null if the schedule rejected a stale proposal",
    )
    rejected_at: Mapped[datetime | None]
    rejection_reason: Mapped[str | None] = mapped_column(info={"personal": "message"})
    expired_at: Mapped[datetime | None]
