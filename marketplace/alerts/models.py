"""Tables of alerts."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.alerts.kinds import ALERT_KINDS, Severity
from marketplace.infra.db import Base, Entity

_OPEN = text("resolved_at IS NULL")


class Alert(Entity):
    """An incident for an operator. Repeats of an open alert are counted in the same row."""

    __tablename__ = "alerts"
    __table_args__ = (
        CheckConstraint("identifier ~ '^[A-Z][A-Z0-9_]{2,63}$'", name="identifier"),
        CheckConstraint("severity IN ('SEV-1', 'SEV-2', 'SEV-3')", name="severity"),
        CheckConstraint("occurrences > 0", name="occurrences"),
        CheckConstraint("resolution IN ('officer', 'operator', 'rule')", name="resolution"),
        CheckConstraint("(resolved_at IS NULL) = (resolution IS NULL)", name="resolved"),
        CheckConstraint("resolution IS DISTINCT FROM 'officer' OR resolved_by IS NOT NULL", name="officer"),
        Index("uq_alerts_open", "identifier", "subject", unique=True, postgresql_where=_OPEN),
        Index("ix_alerts_raised", text("raised_at DESC"), text("id DESC")),
        Index("ix_alerts_unresolved", text("raised_at DESC"), text("id DESC"), postgresql_where=_OPEN),
    )

    identifier: Mapped[str]
    severity: Mapped[Severity] = mapped_column(Text, comment="The worst severity so far")
    subject: Mapped[str] = mapped_column(comment="The thing concerned; one alert is open for each")
    title: Mapped[str]
    facts: Mapped[dict[str, Any]] = mapped_column(comment="Ids, counts and amounts of the first occurrence")
    latest_facts: Mapped[dict[str, Any]]
    occurrences: Mapped[int] = mapped_column(server_default=text("1"))
    raised_at: Mapped[datetime]
    last_raised_at: Mapped[datetime]
    resolved_at: Mapped[datetime | None]
    resolution: Mapped[str | None] = mapped_column(comment="Resolved by the rule itself, or by a person")
    resolved_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    note: Mapped[str | None] = mapped_column(
        comment="The reason of the resolution", info={"personal": "message"}
    )

    @property
    def state(self) -> str:
        """The alert's state: ``open`` or ``resolved``."""
        return "open" if self.resolved_at is None else "resolved"

    @property
    def meaning(self) -> str | None:
        """The meaning of the alert's kind; none for a kind that no longer exists."""
        return kind.meaning if (kind := ALERT_KINDS.get(self.identifier)) else None

    @property
    def first_step(self) -> str | None:
        """The first steps of the alert's kind; none for a kind that no longer exists."""
        return kind.first_step if (kind := ALERT_KINDS.get(self.identifier)) else None


class AlertDelivery(Base):
    """The delivery of an alert on a channel: one for ``raised`` and one for ``resolved``.

    A channel is the chat, or one e-mail recipient. A worker leases a delivery before sending. An expired lease belongs
    to a dead worker.
    """

    __tablename__ = "alert_messages"
    __table_args__ = (CheckConstraint("event IN ('raised', 'resolved')", name="event"),)

    alert_id: Mapped[UUID] = mapped_column(ForeignKey("alerts.id"), primary_key=True)
    channel: Mapped[str] = mapped_column(primary_key=True)
    event: Mapped[str] = mapped_column(primary_key=True)
    sending_until: Mapped[datetime]
    sent_at: Mapped[datetime | None]
