"""How banners, vibes and featured products are listed: their windows, their pictures, their pages."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Row, Statement
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.ids import parse_uuid
from marketplace.kernel.paging import Page, PageRequest, page_of

UPCOMING = "upcoming"
RUNNING = "running"
ENDED = "ended"
PROMOTION_STATES = (UPCOMING, RUNNING, ENDED)

# Of statements that name the table ``t``. What is ended was ended before now, whatever its window.
IS_RUNNING_SQL = "t.ended_at IS NULL AND t.starts_at <= :now AND (t.ends_at IS NULL OR t.ends_at > :now)"
_STATE_CONDITIONS = {
    UPCOMING: "t.ended_at IS NULL AND t.starts_at > :now",
    RUNNING: IS_RUNNING_SQL,
    ENDED: "(t.ended_at IS NOT NULL OR t.ends_at <= :now)",
}
# An uploaded picture is shown in its largest size; one that has no sizes, as it is.
IMAGE_URL_SQL = """
    coalesce(t.image_url, :media_base_url || '/' || (
        SELECT coalesce((
            SELECT r ->> 'key' FROM jsonb_array_elements(i.renditions) r
            WHERE r ->> 'contentType' = 'image/webp' ORDER BY CAST(r ->> 'width' AS integer) DESC LIMIT 1
        ), i.key)
        FROM images i WHERE i.id = t.image_id
    )) AS shown_image_url
"""
LIFETIME_COLUMNS_SQL = (
    "t.starts_at, t.ends_at, t.created_by, t.created_at, t.updated_at, t.ended_at, t.ended_by, t.revision"
)

_CAMPUS_BY_ID_SQL = "CAST(:campus_id AS uuid)"
_CAMPUS_BY_SLUG_SQL = "(SELECT k.id FROM campuses k WHERE k.slug = :campus_slug)"


def _campus_sql(campus: str) -> tuple[str, dict[str, Any]]:
    """Give a campus that is named by id or slug, as SQL and its parameter."""
    campus_id = parse_uuid(campus)
    if campus_id is None:
        return _CAMPUS_BY_SLUG_SQL, {"campus_slug": campus}
    return _CAMPUS_BY_ID_SQL, {"campus_id": campus_id}


@lru_cache(maxsize=128)
def _listing_statement(select: str, conditions: tuple[str, ...], order: str) -> Statement[Row]:
    where = " AND ".join(f"({condition})" for condition in conditions) or "true"
    return Statement(text(f"{select} WHERE {where} ORDER BY {order} LIMIT :limit"))


def list_running_promotions(
    session: Session,
    *,
    select: str,
    campus: str | None,
    conditions: tuple[str, ...] = (),
    parameters: dict[str, Any],
    page: PageRequest,
    now: datetime,
) -> Page:
    """List what is in its window, by its position; rows as the database gives them.

    :param select: up to its WHERE; the table is ``t``, its position and id are among the columns
    :param campus: its id or slug: its promotions and those of all campuses; none for every promotion
    :param conditions: further ones
    :param parameters: of the statement
    """
    values = dict(parameters)
    if campus is not None:
        campus_expression, campus_values = _campus_sql(campus)
        conditions = (f"t.campus_id IS NULL OR t.campus_id = {campus_expression}", *conditions)
        values |= campus_values
    conditions = (IS_RUNNING_SQL, *conditions)
    if page.position is not None:
        conditions = (*conditions, "(t.position, t.id) > (:last_position, :last_id)")
        values["last_position"], values["last_id"] = page.after("number", "id")
    statement = _listing_statement(select, conditions, "t.position, t.id")
    rows = statement.all(session, **values, now=now, limit=page.limit + 1)
    return page_of(rows, request=page, position_of=lambda row: [row["position"], str(row["id"])])


def list_promotions_for_staff(
    session: Session,
    *,
    select: str,
    state: str | None,
    parameters: dict[str, Any],
    page: PageRequest,
    now: datetime,
    view: Callable[[dict[str, Any]], dict[str, Any]],
) -> Page:
    """List what staff made, in any state or in one of ``PROMOTION_STATES``, the last made first.

    :param select: up to its WHERE; the table is ``t``
    :param parameters: of the statement
    :param view: makes of a row what is shown
    """
    conditions = () if state is None else (_STATE_CONDITIONS[state],)
    values = dict(parameters)
    if page.position is not None:
        conditions = (*conditions, "t.id < :last_id")
        [values["last_id"]] = page.after("id")
    statement = _listing_statement(select, conditions, "t.id DESC")
    rows = statement.all(session, **values, now=now, limit=page.limit + 1)
    promotions = page_of(rows, request=page, position_of=lambda row: [str(row["id"])])
    return Page([view(row) for row in promotions.items], promotions.limit, promotions.next_position)


def fetch_promotion(
    session: Session, *, select: str, row_id: Any, parameters: dict[str, Any], name: str
) -> dict[str, Any]:
    """Fetch one, in any state.

    :param select: up to its WHERE; the table is ``t``
    :param name: of its kind
    :raises NotFoundError: there is none
    """
    statement = _listing_statement(select, ("t.id = :row_id",), "t.id")
    row = statement.first(session, **parameters, row_id=row_id, limit=1)
    if row is None:
        raise NotFoundError(f"There is no such {name}.")
    return row


def lifetime_view(row: dict[str, Any], *, now: datetime) -> dict[str, Any]:
    """Write what staff see of each promotion: its state, window, makers and revision."""
    return {
        "state": _promotion_state(row, now),
        "startsAt": row["starts_at"],
        "endsAt": row["ends_at"],
        "createdBy": row["created_by"],
        "createdAt": row["created_at"],
        "updatedAt": row["updated_at"],
        "endedAt": row["ended_at"],
        "endedBy": row["ended_by"],
        "revision": row["revision"],
    }


def promoted_product_view(row: dict[str, Any]) -> dict[str, Any]:
    """Write a promoted product as staff see it."""
    return {
        "id": row["product_id"],
        "title": row["title"],
        "status": row["product_status"],
        "priceMinor": row["price_minor"],
        "campusId": row["campus_id"],
        "vendorId": row["vendor_id"],
    }


def _promotion_state(row: dict[str, Any], now: datetime) -> str:
    if row["ended_at"] is not None or (row["ends_at"] is not None and row["ends_at"] <= now):
        return ENDED
    return UPCOMING if row["starts_at"] > now else RUNNING
