"""Tables of payouts."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, CreatedAt, Id


class PayoutException(Base):
    """A transfer that failed, came back, or is none of ours, as the gateway told of it; finance sees to it."""

    __tablename__ = "payout_exceptions"
    __table_args__ = (
        CheckConstraint("outcome IN ('failed', 'reversed', 'unexpected')", name="outcome"),
        CheckConstraint("(resolved_at IS NULL) = (resolved_by IS NULL)", name="resolved"),
        UniqueConstraint("gateway_transfer_id", "outcome"),
        Index("ix_payout_exceptions_reference", "reference"),
        Index("ix_payout_exceptions_open", "created_at", postgresql_where=text("resolved_at IS NULL")),
    )

    id: Mapped[Id]
    gateway_transfer_id: Mapped[str]
    reference: Mapped[str]
    outcome: Mapped[str]
    amount_minor: Mapped[int]
    currency: Mapped[str]
    created_at: Mapped[CreatedAt]
    resolved_at: Mapped[datetime | None]
    resolved_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
