"""Banners: pictures with a title on the pages of one campus, or of all."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.catalog import cache_tags
from marketplace.catalog.promotions import listing
from marketplace.catalog.promotions.common import PromotionType
from marketplace.catalog.promotions.models import Banner
from marketplace.kernel.paging import Page, PageRequest

PLACEMENTS = ("hero", "card")

_BANNERS = PromotionType(
    Banner,
    name="banner",
    audited_columns=(
        *("title", "subtitle", "image_id", "image_url", "link", "placement", "campus_id", "position"),
        *("starts_at", "ends_at", "ended_at"),
    ),
    tag=cache_tags.BANNERS,
)
_SELECT_BANNERS_SQL = f"""
    SELECT t.id, t.title, t.subtitle, {listing.IMAGE_URL_SQL}, t.image_id, t.link, t.placement,
        t.campus_id, t.position, {listing.LIFETIME_COLUMNS_SQL}
    FROM banners t
"""


def create_banner(session: Session, act: Act, *, fields: dict[str, Any]) -> UUID:
    """Make a banner.

    :param fields: columns: title, subtitle, one of image_id and image_url, link, placement, campus_id (none for
        all), position, starts_at (none for now), ends_at (none for as long as staff like)
    :return: its id
    :raises ValidationError: no such picture or campus, or the window can't be meant
    """
    return _BANNERS.insert(session, act, _BANNERS.build(session, act, fields))


def update_banner(
    session: Session, act: Act, *, banner_id: UUID, revision: int | None, changes: dict[str, Any]
) -> None:
    """Change a banner that is not over.

    :param revision: the one that the client read, or none not to compare
    :param changes: columns, as for ``create_banner``; a new picture takes the place of the old one
    :raises NotFoundError: there is none
    :raises PromotionEndedError: it is over
    :raises StaleRevisionError: the revision is not the current one
    :raises ValidationError: as for ``create_banner``, or it has begun and its beginning would change
    """
    banner = _BANNERS.lock_to_change(session, act, banner_id, revision=revision, changes=changes)
    _BANNERS.change(session, act, banner, changes)


def end_banner(session: Session, act: Act, *, banner_id: UUID) -> None:
    """Take a banner down now.

    :raises NotFoundError: there is none
    :raises PromotionEndedError: it is over already
    """
    _BANNERS.end(session, act, banner_id)


def list_running_banners(
    session: Session,
    *,
    campus: str | None,
    placement: str | None,
    page: PageRequest,
    now: datetime,
    media_base_url: str,
) -> Page:
    """List the banners whose time it is, by their position.

    :param campus: its id or slug: its banners and those of all campuses; none for every banner
    :param placement: one of ``PLACEMENTS``, or none for all
    """
    conditions: tuple[str, ...] = ()
    parameters: dict[str, Any] = {"media_base_url": media_base_url}
    if placement is not None:
        conditions = ("t.placement = :placement",)
        parameters["placement"] = placement
    running = listing.list_running_promotions(
        session,
        select=_SELECT_BANNERS_SQL,
        campus=campus,
        conditions=conditions,
        parameters=parameters,
        page=page,
        now=now,
    )
    return Page([_public_view(row) for row in running.items], running.limit, running.next_position)


def list_banners_for_staff(
    session: Session, *, state: str | None, page: PageRequest, now: datetime, media_base_url: str
) -> Page:
    """List banners of any state, or of one, the last made first."""
    return listing.list_promotions_for_staff(
        session,
        select=_SELECT_BANNERS_SQL,
        state=state,
        parameters={"media_base_url": media_base_url},
        page=page,
        now=now,
        view=lambda row: _staff_view(row, now),
    )


def fetch_banner_for_staff(
    session: Session, *, banner_id: UUID, now: datetime, media_base_url: str
) -> dict[str, Any]:
    """Give a banner as staff see it.

    :raises NotFoundError: there is none
    """
    parameters = {"media_base_url": media_base_url}
    row = listing.fetch_promotion(
        session, select=_SELECT_BANNERS_SQL, row_id=banner_id, parameters=parameters, name="banner"
    )
    return _staff_view(row, now)


def _public_view(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"],
        "title": row["title"],
        "subtitle": row["subtitle"],
        "imageUrl": row["shown_image_url"],
        "link": row["link"],
        "placement": row["placement"],
        "campusId": row["campus_id"],
        "position": row["position"],
        "startsAt": row["starts_at"],
        "endsAt": row["ends_at"],
    }


def _staff_view(row: dict[str, Any], now: datetime) -> dict[str, Any]:
    own = {"imageId": row["image_id"]}
    return _public_view(row) | own | listing.lifetime_view(row, now=now)
