"""Tables of reports: cases, reports and clearances."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text as sql
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, Entity


class ReportCase(Entity):
    """All reports of a target that wait for one decision. A target has at most one open case.

    The counters have no foreign keys to the target, because targets are rows of several tables.
    """

    __tablename__ = "report_cases"
    __table_args__ = (
        CheckConstraint("target_type IN ('product', 'review', 'user', 'message')", name="target_type"),
        CheckConstraint("status IN ('open', 'upheld', 'dismissed')", name="status"),
        CheckConstraint(
            "0 <= counted_reports AND counted_reports <= reports AND reports > 0", name="reports"
        ),
        CheckConstraint(
            "(status = 'open') = (decided_at IS NULL) AND (decided_at IS NULL) = (decided_by IS NULL)"
            " AND (decided_at IS NULL) = (decision_reason IS NULL)",
            name="decided",
        ),
        Index(
            "uq_report_cases_open",
            "target_type",
            "target_id",
            unique=True,
            postgresql_where=sql("status = 'open'"),
        ),
        Index("ix_report_cases_queue", "status", "target_type", "id"),
        Index("ix_report_cases_owner", "owner_id", sql("id DESC")),
    )

    target_type: Mapped[str]
    target_id: Mapped[UUID]
    owner_id: Mapped[UUID] = mapped_column(
        ForeignKey("profiles.id"),
        comment="Author of the review, owner of the product's store, sender, or the person",
    )
    status: Mapped[str] = mapped_column(server_default="open")
    reports: Mapped[int]
    counted_reports: Mapped[int] = mapped_column(
        comment="Reports of accounts and for reasons that count towards the automatic hiding"
    )
    hidden_at: Mapped[datetime | None] = mapped_column(comment="Time of the automatic hiding")
    opened_at: Mapped[datetime]
    last_reported_at: Mapped[datetime]
    decided_by: Mapped[UUID | None] = mapped_column(ForeignKey("profiles.id"))
    decided_at: Mapped[datetime | None]
    decision_reason: Mapped[str | None] = mapped_column(info={"personal": "message"})


class ContentReport(Entity):
    """A report in a case, by a person or by the service."""

    __tablename__ = "content_reports"
    __table_args__ = (
        UniqueConstraint("case_id", "reporter_id"),
        CheckConstraint(
            "reason IN ('scam', 'counterfeit', 'prohibited', 'offensive', 'spam', 'other')", name="reason"
        ),
        Index("ix_content_reports_reporter", "reporter_id", sql("id DESC")),
    )

    case_id: Mapped[UUID] = mapped_column(ForeignKey("report_cases.id"))
    reporter_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("profiles.id"), comment="Null for a report by the service"
    )
    reason: Mapped[str]
    text: Mapped[str | None] = mapped_column(info={"personal": "message"})
    counted: Mapped[bool]
    created_at: Mapped[datetime]


class ReportClearance(Base):
    """A reason that does not count for a target until a time, because staff dismissed reports with this reason."""

    __tablename__ = "report_clearances"

    target_type: Mapped[str] = mapped_column(primary_key=True)
    target_id: Mapped[UUID] = mapped_column(primary_key=True)
    reason: Mapped[str] = mapped_column(primary_key=True)
    until: Mapped[datetime]
