"""Table of stores."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, CheckConstraint, FetchedValue, ForeignKey, Index, text
from sqlalchemy.dialects.postgresql import JSONB, TSVECTOR
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Entity, Timestamped


class VendorProfile(Timestamped, Entity):
    """A store. Other areas write the rating, the completed and failed orders, and the response times."""

    __tablename__ = "vendor_profiles"
    __table_args__ = (
        CheckConstraint("status IN ('active', 'suspended', 'closed')", name="status"),
        CheckConstraint(
            """
            cardinality(rating_counts) = 5 AND 0 <= ALL (rating_counts)
            AND rating_count
                = rating_counts[1] + rating_counts[2] + rating_counts[3] + rating_counts[4] + rating_counts[5]
            AND rating_sum = rating_counts[1] + 2 * rating_counts[2] + 3 * rating_counts[3] + 4 * rating_counts[4]
                + 5 * rating_counts[5]
            """,
            name="rating_counts",
        ),
        CheckConstraint("is_weekly_hours(weekly_hours)", name="weekly_hours"),
        CheckConstraint("slug ~ '^[a-z0-9][a-z0-9-]{1,58}[a-z0-9]$'", name="slug"),
        Index("uq_vendor_profiles_slug_key", text("store_slug_key(slug)"), unique=True),
        CheckConstraint("NOT suspended_with_owner OR status = 'suspended'", name="suspended_with_owner"),
        Index(
            "ix_vendor_profiles_search",
            "search",
            postgresql_using="gin",
            postgresql_with={"fastupdate": "off"},
        ),
    )

    user_id: Mapped[UUID] = mapped_column(ForeignKey("profiles.id"), unique=True)
    campus_id: Mapped[UUID] = mapped_column(ForeignKey("campuses.id"), index=True)
    display_name: Mapped[str]
    slug: Mapped[str] = mapped_column(unique=True)
    description: Mapped[str] = mapped_column(server_default="")
    verified: Mapped[bool] = mapped_column(server_default=text("false"))
    status: Mapped[str] = mapped_column(server_default="active")
    suspended_with_owner: Mapped[bool] = mapped_column(
        server_default=text("false"),
        comment="Whether the store is suspended only because of the status of the owner's account",
    )
    on_vacation: Mapped[bool] = mapped_column(server_default=text("false"))
    vacation_until: Mapped[datetime | None]
    vacation_note: Mapped[str | None] = mapped_column(info={"personal": "message"})
    policies: Mapped[dict[str, Any]] = mapped_column(
        server_default=text("'{}'"), comment="Texts by policy: returns, delivery, warranty"
    )
    weekly_hours: Mapped[list[dict[str, str]] | None] = mapped_column(
        JSONB(none_as_null=True), comment="Intervals of WeeklyHours; null while the hours are unknown"
    )
    rating_sum: Mapped[int] = mapped_column(server_default=text("0"))
    rating_count: Mapped[int] = mapped_column(server_default=text("0"))
    rating_counts: Mapped[list[int]] = mapped_column(
        ARRAY(BigInteger),
        server_default="{0,0,0,0,0}",
        comment="The numbers of ratings with 1, 2, 3, 4 and 5 stars",
    )
    completed_orders: Mapped[int] = mapped_column(server_default=text("0"))
    failed_orders: Mapped[int] = mapped_column(
        server_default=text("0"),
        comment="Paid orders that the store, staff or the service ended without delivery",
    )
    response_seconds_sum: Mapped[int] = mapped_column(
        server_default=text("0"), comment="The sum of times from payment to acceptance, in seconds"
    )
    response_count: Mapped[int] = mapped_column(server_default=text("0"))
    revision: Mapped[int] = mapped_column(server_default=text("1"))
    # The search index of the name. A database trigger overwrites any given value.
    search: Mapped[Any] = mapped_column(TSVECTOR, server_default=FetchedValue(), deferred=True)
