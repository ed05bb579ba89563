"""Tables of the health area: counts for the service objectives and per day, and incidents."""

from datetime import date, datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, Entity


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


class Incident(Entity):
    """A fault that staff announce on the status page, with the affected components."""

    __tablename__ = "incidents"
    __table_args__ = (
        CheckConstraint("impact IN ('minor', 'major', 'critical')", name="impact"),
        CheckConstraint("components <@ ARRAY['database', 'cache', 'payments', 'payouts']", name="components"),
        CheckConstraint("resolved_at >= started_at", name="resolved"),
        Index("ix_incidents_started_at", "started_at", "id"),
    )

    title: Mapped[str]
    impact: Mapped[str]
    components: Mapped[list[str]]
    started_at: Mapped[datetime]
    resolved_at: Mapped[datetime | None]


class IncidentNote(Entity):
    """A public note about an incident, with the status from then on."""

    __tablename__ = "incident_notes"
    __table_args__ = (
        CheckConstraint("status IN ('investigating', 'identified', 'monitoring', 'resolved')", name="status"),
    )

    incident_id: Mapped[UUID] = mapped_column(ForeignKey("incidents.id"), index=True)
    status: Mapped[str]
    message: Mapped[str]
    author_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), index=True)
    created_at: Mapped[datetime]
