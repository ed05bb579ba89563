"""Tables of the platform: settings, campuses, hostels, hubs, public holidays and payout halts."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, Index, Numeric, Text, cast, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, column_property, mapped_column

from marketplace.infra.db import Base, CreatedAt, Entity, Timestamped


class PlatformSetting(Base):
    """A setting that officers change while the service runs, such as a fee."""

    __tablename__ = "platform_settings"

    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[Any] = mapped_column(JSONB)
    description: Mapped[str]
    revision: Mapped[int] = mapped_column(server_default=text("1"))
    updated_at: Mapped[CreatedAt]


class Campus(Entity):
    """A campus of the university. An inactive campus is hidden and takes no new users."""

    __tablename__ = "campuses"

    name: Mapped[str]
    slug: Mapped[str] = mapped_column(unique=True)
    active: Mapped[bool] = mapped_column(server_default=text("true"))
    revision: Mapped[int] = mapped_column(server_default=text("1"))
    created_at: Mapped[CreatedAt]
    updated_at: Mapped[datetime | None]


class CampusEmailDomain(Base):
    """An e-mail domain of a campus. New users with the domain or a subdomain belong to the campus."""

    __tablename__ = "campus_email_domains"
    __table_args__ = (
        CheckConstraint(
            "domain ~ '^[a-z0-9-]{1,63}([.][a-z0-9-]{1,63})+$' AND length(domain) <= 253", name="domain"
        ),
    )

    domain: Mapped[str] = mapped_column(primary_key=True)
    campus_id: Mapped[UUID] = mapped_column(ForeignKey("campuses.id"), index=True)


class Hostel(Entity):
    """A hall of residence."""

    __tablename__ = "hostels"

    campus_id: Mapped[UUID] = mapped_column(ForeignKey("campuses.id"), index=True)
    name: Mapped[str]


class Hub(Entity):
    """A pickup place for orders on a campus.

    Earlier versions show ``opening_hours``, which repeats ``weekly_hours`` as a text.
    """

    __tablename__ = "hubs"
    __table_args__ = (
        CheckConstraint("is_weekly_hours(weekly_hours)", name="weekly_hours"),
        CheckConstraint("(latitude IS NULL) = (longitude IS NULL)", name="coordinates"),
        Index("uq_hubs_name", "campus_id", text("lower(name)"), unique=True, postgresql_where=text("active")),
    )

    campus_id: Mapped[UUID] = mapped_column(ForeignKey("campuses.id"), index=True)
    name: Mapped[str]
    address: Mapped[str]
    opening_hours: Mapped[str]
    weekly_hours: Mapped[list[dict[str, str]] | None] = mapped_column(
        JSONB(none_as_null=True), comment="Intervals of WeeklyHours; null while the hours are unknown"
    )
    latitude: Mapped[Decimal | None] = mapped_column(Numeric(9, 6))
    longitude: Mapped[Decimal | None] = mapped_column(Numeric(9, 6))
    active: Mapped[bool] = mapped_column(server_default=text("true"))
    revision: Mapped[int] = mapped_column(server_default=text("1"))
    updated_at: Mapped[datetime | None]


class PublicHoliday(Timestamped, Entity):
    """A day on which the hubs of a campus, or of all campuses, are closed. An inactive holiday is cancelled."""

    __tablename__ = "public_holidays"
    __table_args__ = (
        Index("ix_public_holidays_date", "date", "id"),
        Index(
            "uq_public_holidays_entry",
            "date",
            "campus_id",
            text("lower(name)"),
            unique=True,
            postgresql_where=text("active"),
            postgresql_nulls_not_distinct=True,
        ),
    )

    date: Mapped[date]
    name: Mapped[str]
    campus_id: Mapped[UUID | None] = mapped_column(ForeignKey("campuses.id"), index=True)
    active: Mapped[bool] = mapped_column(server_default=text("true"))
    revision: Mapped[int] = mapped_column(server_default=text("1"))


class PayoutHalt(Entity):
    """A halt of all payouts, until an approved proposal resumes payouts."""

    __tablename__ = "payout_halts"
    __table_args__ = (
        CheckConstraint("(resumed_at IS NULL) = (proposal_id IS NULL)", name="resumed_by_proposal"),
        # At most one halt is open, for any number of reasons.
        Index(
            "uq_payout_halts_open",
            "resumed_at",
            unique=True,
            postgresql_where=text("resumed_at IS NULL"),
            postgresql_nulls_not_distinct=True,
        ),
    )

    reason: Mapped[str]
    findings: Mapped[list[str]] = mapped_column(
        comment="Findings of the halt; a finding known at the resumption does not halt again"
    )
    found: Mapped[dict[str, Any]] = mapped_column(comment="The latest finding of each reason: facts and time")
    halted_at: Mapped[datetime]
    resumed_at: Mapped[datetime | None]
    proposal_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("platform_proposals.id"), unique=True, comment="The proposal that resumed payouts"
    )
    # The hash changes with every finding, because PostgreSQL writes jsonb in a canonical form.
    mark: Mapped[str] = column_property(
        func.encode(func.sha256(func.convert_to(cast(found, Text), "UTF8")), "hex")
    )

    @property
    def state(self) -> str:
        """The state of the halt: ``halted`` or ``resumed``."""
        return "halted" if self.resumed_at is None else "resumed"

    @property
    def finding_count(self) -> int:
        """The number of different findings."""
        return len(self.findings)
