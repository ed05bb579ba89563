"""Tables of counts of the service: for the service objectives, and per day."""

from datetime import date, datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, Index
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base


class SignalCount(Base):
    """The events of an objective, or another signal, in a minute or an hour, by bucket."""

    __tablename__ = "signal_counts"
    __table_args__ = (
        CheckConstraint("minutes IN (1, 60)", name="minutes"),
        CheckConstraint("count > 0", name="count"),
        Index("ix_signal_counts_starts_at", "starts_at"),
    )

    signal: Mapped[str] = mapped_column(primary_key=True)
    minutes: Mapped[int] = mapped_column(primary_key=True, comment="Length of the period: 1 or 60")
    starts_at: Mapped[datetime] = mapped_column(primary_key=True)
    bucket: Mapped[int] = mapped_column(
        primary_key=True,
        comment="Index of the latency bucket; -1 for counts and good events, -2 for bad events",
    )
    count: Mapped[int]


class DailyCount(Base):
    """A count of a day, such as violations of the content security policy."""

    __tablename__ = "daily_counts"
    __table_args__ = (CheckConstraint("count > 0", name="count"),)

    kind: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    label: Mapped[str] = mapped_column(primary_key=True)
    count: Mapped[int]


class SignalBatch(Base):
    """A batch of counts that was added. The row prevents adding the batch twice."""

    __tablename__ = "signal_batches"
    __table_args__ = (Index("ix_signal_batches_applied_at", "applied_at"),)

    id: Mapped[UUID] = mapped_column(primary_key=True)
    applied_at: Mapped[datetime]
