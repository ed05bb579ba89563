"""Listings of banners, vibes and featured products: SQL for states and images, and pages."""

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.campus_filter import campus_parameters, campus_sql
from marketplace.infra.sql.statements import Row, Statement
from marketplace.kernel.errors import found
from marketplace.kernel.paging import Page, PageRequest, page_of

UPCOMING = "upcoming"
RUNNING = "running"
ENDED = "ended"
PROMOTION_STATES = (UPCOMING, RUNNING, ENDED)

# SQL conditions for the table alias ``t``. ``ended_at`` is never in the future, so no comparison with now is needed.
IS_RUNNING_SQL = "t.ended_at IS NULL AND t.starts_at <= :now AND (t.ends_at IS NULL OR t.ends_at > :now)"
_STATE_CONDITIONS = {
    UPCOMING: "t.ended_at IS NULL AND t.starts_at > :now",
    RUNNING: IS_RUNNING_SQL,
    ENDED: "(t.ended_at IS NOT NULL OR t.ends_at <= :now)",
}
# An uploaded image is shown in its largest size, or in the original size without renditions.
IMAGE_URL_SQL = """
    coalesce(t.image_url, :media_base_url || '/' || (
        SELECT coalesce((
            SELECT r ->> 'key' FROM jsonb_array_elements(i.renditions) r
            WHERE r ->> 'contentType' = 'image/webp' ORDER BY CAST(r ->> 'width' AS integer) DESC LIMIT 1
        ), i.key)
        FROM images i WHERE i.id = t.image_id
    )) AS image_url
"""
LIFETIME_COLUMNS_SQL = """
    CASE WHEN t.ended_at IS NOT NULL OR t.ends_at <= :now THEN 'ended' WHEN t.starts_at > :now THEN 'upcoming'
        ELSE 'running' END AS state,
    t.starts_at, t.ends_at, t.created_by, t.created_at, t.updated_at, t.ended_at, t.ended_by, t.revision
"""
PRODUCT_SQL = """
    jsonb_build_object('id', p.id, 'title', p.title, 'status', p.status, 'price_minor', p.price_minor,
        'campus_id', p.campus_id, 'vendor_id', p.vendor_id) AS product
"""


@lru_cache(maxsize=128)
def _listing_statement(select: str, conditions: tuple[str, ...], order: str) -> Statement[Row]:
    where = " AND ".join(f"({condition})" for condition in conditions) or "true"
    return Statement(text(f"{select} WHERE {where} ORDER BY {order} LIMIT :limit"))


@dataclass(frozen=True)
class PromotionTable:
    """The listings of a kind of promotion for API responses.

    :param select: the SELECT without WHERE; the table alias is ``t``, and position and id are among the columns
    :param name: name of the kind in errors
    """

    select: str
    name: str

    def list_running(
        self,
        session: Session,
        *,
        campus: str | None,
        condition: str = "true",
        page: PageRequest,
        now: datetime,
        **parameters: Any,
    ) -> Page:
        """List running promotions by position.

        :param campus: id or slug: promotions of that campus and of all campuses; None for every promotion
        :param condition: a further SQL condition
        :param parameters: the values of the other parameters of the statement
        """
        campus_values = campus_parameters(campus)
        conditions = [IS_RUNNING_SQL, condition]
        conditions += [f"t.campus_id IS NULL OR {campus_sql('t.campus_id', by)}" for by in campus_values]
        if page.position is not None:
            conditions.append("(t.position, t.id) > (:last_position, :last_id)")
            parameters["last_position"], parameters["last_id"] = page.after("number", "id")
        statement = _listing_statement(self.select, tuple(conditions), "t.position, t.id")
        rows = statement.all(session, **parameters, **campus_values, now=now, limit=page.limit + 1)
        return page_of(rows, request=page, position_of=lambda row: [row["position"], str(row["id"])])

    def list_for_staff(
        self, session: Session, *, state: str | None, page: PageRequest, now: datetime, media_base_url: str
    ) -> Page:
        """List promotions newest first, in any state or in one state of ``PROMOTION_STATES``."""
        [last_id] = page.after("id")
        conditions = [] if state is None else [_STATE_CONDITIONS[state]]
        conditions += [] if last_id is None else ["t.id < :last_id"]
        rows = _listing_statement(self.select, tuple(conditions), "t.id DESC").all(
            session, last_id=last_id, now=now, media_base_url=media_base_url, limit=page.limit + 1
        )
        return page_of(rows, request=page, position_of=lambda row: [str(row["id"])])

    def fetch_for_staff(self, session: Session, row_id: UUID, *, now: datetime, media_base_url: str) -> Row:
        """Fetch a promotion in any state.

        :raises NotFoundError: the promotion does not exist
        """
        row = _listing_statement(self.select, ("t.id = :row_id",), "t.id").first(
            session, row_id=row_id, now=now, media_base_url=media_base_url, limit=1
        )
        return found(row, f"{self.name.capitalize()} not found.")
