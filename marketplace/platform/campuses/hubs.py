"""Pickup hubs: opening status, distance, and changes by staff."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import Text, bindparam, cast, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.db import violated_constraint
from marketplace.infra.sql.statements import Prepared
from marketplace.kernel.errors import (
    ConflictError,
    InvalidParam,
    LimitReachedError,
    StaleRevisionError,
    ValidationError,
    found,
)
from marketplace.kernel.opening_hours import LAGOS, OpeningStatus, OpenInterval, WeeklyHours
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.platform import texts
from marketplace.platform.campuses.campus_list import find_active_campus_id, lock_campus
from marketplace.platform.campuses.holidays import ClosedDays, fetch_closed_days
from marketplace.platform.models import Hub

MAX_HUBS = 200  # of a campus; the list by distance reads all of them
_EARTH_RADIUS_METERS = 6_371_009  # mean radius, IUGG
# Hubs without coordinates come last in the list by distance.
_BEYOND_EVERY_HUB = 10**9
_AUDITED_COLUMNS = ("name", "address", "weekly_hours", "latitude", "longitude", "active")
_UNKNOWN = OpeningStatus(open_now=False, opens_at=None, closes_at=None)


class HubNameTakenError(ConflictError):
    """Another active hub of the campus has this name."""

    reason = "hub-name-taken"


@dataclass(frozen=True)
class HubStatus:
    """A hub with its opening status. Without known hours, ``opening_hours`` and ``open_now`` are None.

    :ivar holiday: the name of today's public holiday, which closes the hub
    """

    id: UUID
    campus_id: UUID
    name: str
    address: str
    latitude: float | None
    longitude: float | None
    opening_hours: tuple[OpenInterval, ...] | None
    open_now: bool | None
    opens_at: datetime | None
    closes_at: datetime | None
    holiday: str | None
    active: bool
    revision: int
    updated_at: datetime | None


@dataclass(frozen=True)
class PublicHub(HubStatus):
    """An active hub with its opening status, and the distance in metres from the client's place."""

    distance_meters: int | None


def describe_hub(hub: Hub, *, closed_days: ClosedDays, now: datetime) -> HubStatus:
    """Describe a hub with its opening status."""
    hours = None if hub.weekly_hours is None else WeeklyHours.from_json(hub.weekly_hours)
    return HubStatus(
        **_describe(
            hub,
            hours=hours,
            status=_UNKNOWN
            if hours is None
            else hours.status(now, closed_days=closed_days.of(hub.campus_id)),
            holiday=closed_days.name_on(now.astimezone(LAGOS).date(), hub.campus_id),
        )
    )


@dataclass(frozen=True)
class _HubRow:
    id: UUID
    campus_id: UUID
    name: str
    address: str
    latitude: Decimal | None
    longitude: Decimal | None
    active: bool
    revision: int
    updated_at: datetime | None
    hours_json: str | None


_SELECT_ACTIVE_HUBS = Prepared(
    select(
        *(getattr(Hub, name) for name in _HubRow.__dataclass_fields__ if name != "hours_json"),
        cast(Hub.weekly_hours, Text).label("hours_json"),
    ).where(Hub.campus_id == bindparam("campus_id"), Hub.active),
    row=_HubRow,
)


def list_public_hubs(
    session: Session,
    *,
    campus: str,
    place: tuple[float, float] | None,
    page: PageRequest,
    now: datetime,
) -> Page:
    """List the active hubs of an active campus, in three queries.

    :param campus: id or slug
    :param place: latitude and longitude of the client, which sort the hubs by distance; None to sort by name
    :raises NotFoundError: the campus does not exist or is inactive
    """
    campus_id = find_active_campus_id(session, campus)
    after = page.after("number", "text", "id")
    closed_days = fetch_closed_days(session, campus_ids=[campus_id], now=now)
    holiday = closed_days.name_on(now.astimezone(LAGOS).date(), campus_id)
    hubs = _SELECT_ACTIVE_HUBS.all(session, campus_id=campus_id)
    # Most hubs of a campus have the same hours, and so the same status.
    hours = {
        text: WeeklyHours.from_json(orjson.loads(text))
        for text in {hub.hours_json for hub in hubs}
        if text is not None
    }
    closed = closed_days.of(campus_id)
    statuses = {text: weekly.status(now, closed_days=closed) for text, weekly in hours.items()}
    measured = sorted(((_measure(hub, place), hub) for hub in hubs), key=lambda pair: _position(*pair))
    rows = [
        PublicHub(
            **_describe(
                hub,
                hours=hours.get(hub.hours_json or ""),
                status=statuses.get(hub.hours_json or "", _UNKNOWN),
                holiday=holiday,
            ),
            distance_meters=distance,
        )
        for distance, hub in measured
        if page.position is None or _position(distance, hub) > after
    ]
    return page_of(rows, request=page, position_of=lambda row: _position(row.distance_meters, row))


def _describe(
    hub: Hub | _HubRow,
    *,
    hours: WeeklyHours | None,
    status: OpeningStatus,
    holiday: str | None,
) -> dict[str, Any]:
    """Return the values of a ``HubStatus``."""
    return {
        "id": hub.id,
        "campus_id": hub.campus_id,
        "name": hub.name,
        "address": hub.address,
        "latitude": _to_float(hub.latitude),
        "longitude": _to_float(hub.longitude),
        "opening_hours": None if hours is None else hours.intervals,
        "open_now": None if hours is None else status.open_now,
        "opens_at": status.opens_at,
        "closes_at": status.closes_at,
        "holiday": holiday,
        "active": hub.active,
        "revision": hub.revision,
        "updated_at": hub.updated_at,
    }


def compute_distance_meters(start: tuple[float, float], end: tuple[float, float]) -> float:
    """Return the great-circle distance of two places in metres, by the haversine formula.

    Source: R. W. Sinnott, "Virtues of the Haversine", Sky and Telescope 68 (1984), page 159.

    :param start: latitude and longitude in degrees
    """
    (latitude, longitude), (end_latitude, end_longitude) = (
        tuple(map(math.radians, place)) for place in (start, end)
    )
    haversine = (
        math.sin((end_latitude - latitude) / 2) ** 2
        + math.cos(latitude) * math.cos(end_latitude) * math.sin((end_longitude - longitude) / 2) ** 2
    )
    # Rounding may exceed 1 for opposite places.
    return 2 * _EARTH_RADIUS_METERS * math.asin(math.sqrt(min(haversine, 1)))


def create_hub(session: Session, *, campus_id: UUID, fields: dict[str, Any], act: Act) -> HubStatus:
    """Create a hub of a campus.

    :param fields: ``name``, ``address``, ``opening_hours`` (WeeklyHours or None), ``latitude`` and ``longitude``
    :raises NotFoundError: the campus does not exist
    :raises HubNameTakenError: an active hub of the campus has the name
    :raises LimitReachedError: the campus has ``MAX_HUBS`` hubs
    """
    lock_campus(session, campus_id=campus_id)
    count = session.scalar(select(func.count()).select_from(Hub).where(Hub.campus_id == campus_id))
    if (count or 0) >= MAX_HUBS:
        raise LimitReachedError(texts.TOO_MANY_HUBS.format(limit=MAX_HUBS))
    hub = Hub(campus_id=campus_id, updated_at=act.now, **_to_columns(fields))
    with _unique_name(session):
        session.add(hub)
    _record(session, act, "create", hub, before=None)
    return show_hub(session, hub=hub, now=act.now)


def update_hub(
    session: Session,
    *,
    campus_id: UUID,
    hub_id: UUID,
    changes: dict[str, Any],
    revision: int | None,
    act: Act,
) -> HubStatus:
    """Change, close or reopen a hub. Open orders keep a closed hub.

    :param changes: as for ``create_hub``, and ``active``
    :param revision: the revision that the client read, or None to skip the check
    :raises NotFoundError: the hub does not exist, or belongs to another campus
    :raises StaleRevisionError: the revision is not current
    :raises HubNameTakenError: another active hub of the campus has the name
    :raises ValidationError: only one of the coordinates is left
    """
    hub = found(
        session.scalar(
            select(Hub).where(Hub.id == hub_id, Hub.campus_id == campus_id).with_for_update(key_share=True),
            execution_options={"populate_existing": True},
        ),
        texts.HUB_NOT_FOUND,
    )
    StaleRevisionError.check(hub.revision, revision)
    before = _snapshot(hub)
    columns = _to_columns(changes)
    coordinates = [columns.get(name, getattr(hub, name)) for name in ("latitude", "longitude")]
    if coordinates.count(None) == 1:
        raise ValidationError.of("latitude", texts.COORDINATES_TOGETHER)
    with _unique_name(session):
        for name, value in columns.items():
            setattr(hub, name, value)
        hub.revision += 1
        hub.updated_at = act.now
    _record(session, act, "change", hub, before=before)
    return show_hub(session, hub=hub, now=act.now)


def show_hub(session: Session, *, hub: Hub, now: datetime) -> HubStatus:
    """Describe a single hub with its opening status."""
    session.refresh(hub)
    closed_days = fetch_closed_days(session, campus_ids=[hub.campus_id], now=now)
    return describe_hub(hub, closed_days=closed_days, now=now)


def list_hubs_after(
    session: Session, *, campus_id: UUID | None, after: UUID | None, limit: int
) -> Sequence[Hub]:
    """List hubs by id, active or not.

    :param campus_id: None for all campuses
    """
    conditions = [
        *([Hub.campus_id == campus_id] if campus_id else []),
        *([Hub.id > after] if after else []),
    ]
    return session.scalars(select(Hub).where(*conditions).order_by(Hub.id).limit(limit)).all()


def _measure(hub: _HubRow, place: tuple[float, float] | None) -> int | None:
    if place is None or hub.latitude is None or hub.longitude is None:
        return None
    return round(compute_distance_meters(place, (float(hub.latitude), float(hub.longitude))))


def _position(distance: int | None, hub: _HubRow | HubStatus) -> list[Any]:
    return [_BEYOND_EVERY_HUB if distance is None else distance, hub.name, str(hub.id)]


def _to_columns(fields: dict[str, Any]) -> dict[str, Any]:
    columns = {name: value for name, value in fields.items() if name != "opening_hours"}
    for name in ("latitude", "longitude"):
        if columns.get(name) is not None:
            columns[name] = round(Decimal(str(columns[name])), 6)
    if "opening_hours" in fields:
        hours: WeeklyHours | None = fields["opening_hours"]
        columns["weekly_hours"] = None if hours is None else hours.to_json()
        columns["opening_hours"] = "" if hours is None else format_hours(hours)
    return columns


def format_hours(hours: WeeklyHours) -> str:
    """Format hours for earlier versions, such as ``Mo 08:00-12:00; Tu 08:00-20:00``."""
    return "; ".join(
        f"{interval.day[:2].capitalize()} {interval.opens}-{interval.closes}" for interval in hours.intervals
    )


def _to_float(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


@contextmanager
def _unique_name(session: Session) -> Iterator[None]:
    """Write the changes of the body, or refuse a second active hub with the same name."""
    try:
        with session.begin_nested():
            yield
    except IntegrityError as error:
        if violated_constraint(error) != "uq_hubs_name":
            raise
        raise HubNameTakenError(
            texts.HUB_NAME_TAKEN, invalid_params=[InvalidParam("name", texts.HUB_NAME_TAKEN)]
        ) from error


def _snapshot(hub: Hub) -> dict[str, Any]:
    values = {name: getattr(hub, name) for name in _AUDITED_COLUMNS}
    return {name: str(value) if isinstance(value, Decimal) else value for name, value in values.items()}


def _record(session: Session, act: Act, verb: str, hub: Hub, *, before: dict[str, Any] | None) -> None:
    record_audit_entry(
        session,
        act=act,
        action=f"hub.{verb}",
        target_type="hub",
        target_id=str(hub.id),
        before=before,
        after=_snapshot(hub),
    )
