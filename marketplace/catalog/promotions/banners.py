"""Banners: pictures with a title on the pages of one campus, or of all."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.catalog import cache_tags
from marketplace.catalog.promotions import common as promotions
from marketplace.catalog.promotions import listing
from marketplace.catalog.promotions.models import Banner
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import Page, PageRequest

PLACEMENTS = ("hero", "card")

_AUDITED_COLUMNS = (
    *("title", "subtitle", "image_id", "image_url", "link", "placement", "campus_id", "position"),
    *("starts_at", "ends_at", "ended_at"),
)
_SELECT_BANNERS_SQL = f"""
    SELECT t.id, t.title, t.subtitle, {listing.IMAGE_URL_SQL}, t.image_id, t.link, t.placement,
        t.campus_id, t.position, {listing.LIFETIME_COLUMNS_SQL}
    FROM banners t
"""  # noqa: S608 - our own text


def create_banner(session: Session, act: Act, *, fields: dict[str, Any]) -> UUID:
    """Make a banner.

    :param fields: columns: title, subtitle, one of image_id and image_url, link, placement, campus_id (none for
        all), position, starts_at (none for now), ends_at (none for as long as staff like)
    :return: its id
    :raises ValidationError: no such picture or campus, or the window can't be meant
    """
    begins = fields.get("starts_at") or act.now
    promotions.ensure_valid_window(starts_at=begins, ends_at=fields.get("ends_at"), now=act.now)
    promotions.ensure_references_exist(session, fields)
    banner = Banner(
        **fields | {"starts_at": begins},
        created_by=act.person_id,
        created_at=act.now,
        updated_at=act.now,
    )
    session.add(banner)
    session.flush()
    _publish_and_audit(session, act, "create", banner, before=None)
    return banner.id


def update_banner(
    session: Session, act: Act, *, banner_id: UUID, revision: int | None, changes: dict[str, Any]
) -> None:
    """Change a banner that is not over.

    :param revision: the one that the client read, or none not to compare
    :param changes: columns, as for ``create``; a new picture takes the place of the old one
    :raises NotFoundError: there is none
    :raises PromotionEndedError: it is over
    :raises StalePromotionError: the revision is not the current one
    :raises ValidationError: as for ``create``, or it has begun and its beginning would change
    """
    banner = _lock_banner(session, banner_id)
    promotions.ensure_changeable(banner, revision=revision, now=act.now)
    promotions.ensure_window_change_allowed(banner, changes, now=act.now)
    promotions.ensure_references_exist(session, changes)
    before = promotions.audit_snapshot(banner, _AUDITED_COLUMNS)
    promotions.apply_changes(session, banner, changes, now=act.now)
    _publish_and_audit(session, act, "change", banner, before=before)


def end_banner(session: Session, act: Act, *, banner_id: UUID) -> None:
    """Take a banner down now.

    :raises NotFoundError: there is none
    :raises PromotionEndedError: it is over already
    """
    banner = _lock_banner(session, banner_id)
    before = promotions.audit_snapshot(banner, _AUDITED_COLUMNS)
    promotions.end_promotion(banner, act)
    session.flush()
    _publish_and_audit(session, act, "end", banner, before=before)


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
    if campus is not None:
        named, given = listing.campus_sql(campus)
        conditions, parameters = (f"t.campus_id IS NULL OR t.campus_id = {named}",), parameters | given
    if placement is not None:
        conditions, parameters = (
            (*conditions, "t.placement = :placement"),
            parameters | {"placement": placement},
        )
    found = listing.list_running_promotions(
        session, select=_SELECT_BANNERS_SQL, conditions=conditions, parameters=parameters, page=page, now=now
    )
    return Page([_public_view(row) for row in found.items], found.limit, found.next_position)


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
    row = listing.find_promotion(session, select=_SELECT_BANNERS_SQL, row_id=banner_id, parameters=parameters)
    if row is None:
        raise NotFoundError("There is no such banner.")
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


def _lock_banner(session: Session, banner_id: UUID) -> Banner:
    banner = session.scalar(select(Banner).where(Banner.id == banner_id).with_for_update(key_share=True))
    if banner is None:
        raise NotFoundError("There is no such banner.")
    return banner


def _publish_and_audit(
    session: Session, act: Act, verb: str, banner: Banner, *, before: dict[str, Any] | None
) -> None:
    promotions.invalidate_now_and_at_boundaries(session, act, banner, tag=cache_tags.BANNERS)
    after = promotions.audit_snapshot(banner, _AUDITED_COLUMNS)
    promotions.record_audit(
        session, act, action=f"banner.{verb}", row_id=banner.id, before=before, after=after
    )
