"""Public holidays: the days on which hubs are closed, and changes by staff."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Uuid, any_, bindparam, or_, select, tuple_
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.infra.db import violated_constraint
from marketplace.infra.sql.statements import Prepared
from marketplace.kernel.errors import ConflictError, StaleRevisionError, ValidationError, found
from marketplace.kernel.opening_hours import LAGOS, SEARCHED_DAYS
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.platform import texts
from marketplace.platform.models import Campus, PublicHoliday

_AUDITED_COLUMNS = ("date", "name", "campus_id", "active")


class HolidayExistsError(ConflictError):
    """The day already has a holiday with this name for the same campus."""

    reason = "holiday-exists"


@dataclass(frozen=True)
class ClosedDays:
    """The holidays of the next days by campus. The holidays under None close all campuses."""

    names: Mapping[UUID | None, Mapping[date, str]]

    def of(self, campus_id: UUID) -> AbstractSet[date]:
        """Return the closed days of a campus."""
        return self.names.get(None, {}).keys() | self.names.get(campus_id, {}).keys()

    def name_on(self, day: date, campus_id: UUID) -> str | None:
        """Return the name of a campus's holiday on a day; None for a normal day."""
        return self.names.get(campus_id, {}).get(day) or self.names.get(None, {}).get(day)


@dataclass(frozen=True)
class _HolidayRow:
    campus_id: UUID | None
    date: date
    name: str


_SELECT_HOLIDAYS = Prepared(
    select(PublicHoliday.campus_id, PublicHoliday.date, PublicHoliday.name)
    .where(
        PublicHoliday.active,
        PublicHoliday.date.between(bindparam("first_day"), bindparam("last_day")),
        or_(
            PublicHoliday.campus_id.is_(None),
            PublicHoliday.campus_id == any_(bindparam("campus_ids", type_=ARRAY(Uuid))),
        ),
    )
    .order_by(PublicHoliday.id),
    row=_HolidayRow,
)


def fetch_closed_days(session: Session, *, campus_ids: Iterable[UUID], now: datetime) -> ClosedDays:
    """Fetch the holidays that can change an opening status, in one query."""
    today = now.astimezone(LAGOS).date()
    names: defaultdict[UUID | None, dict[date, str]] = defaultdict(dict)
    for row in _SELECT_HOLIDAYS.all(
        session,
        first_day=today,
        last_day=today + timedelta(days=SEARCHED_DAYS),
        campus_ids=list(campus_ids),
    ):
        names[row.campus_id].setdefault(row.date, row.name)
    return ClosedDays(names)


def list_holidays(session: Session, *, from_date: date, page: PageRequest) -> Page:
    """List the holidays from a date on by date, inactive holidays too."""
    day, holiday_id = page.after("text", "id")
    conditions = [PublicHoliday.date >= from_date]
    if day is not None:
        conditions.append(
            tuple_(PublicHoliday.date, PublicHoliday.id) > tuple_(date.fromisoformat(day), UUID(holiday_id))
        )
    rows = session.scalars(
        select(PublicHoliday)
        .where(*conditions)
        .order_by(PublicHoliday.date, PublicHoliday.id)
        .limit(page.limit + 1)
    )
    return page_of(list(rows), request=page, position_of=lambda row: [row.date.isoformat(), str(row.id)])


def create_holiday(session: Session, *, fields: dict[str, Any], act: Act) -> PublicHoliday:
    """Create a holiday for a campus, or for all campuses.

    :param fields: ``date``, ``name`` and maybe ``campus_id``
    :raises ValidationError: the campus does not exist
    :raises HolidayExistsError: the day has a holiday with this name
    """
    campus_id = fields.get("campus_id")
    if campus_id is not None and session.get(Campus, campus_id) is None:
        raise ValidationError.of("campusId", texts.CAMPUS_NOT_FOUND)
    holiday = PublicHoliday(**fields, created_at=act.now, updated_at=act.now)
    with _unique_entry(session):
        session.add(holiday)
    _record(session, act, "create", holiday, before=None)
    return holiday


def update_holiday(
    session: Session, *, holiday_id: UUID, changes: dict[str, Any], revision: int | None, act: Act
) -> PublicHoliday:
    """Correct or cancel a holiday, or restore a cancelled holiday.

    :param changes: ``date``, ``name`` and ``active``
    :param revision: the revision that the client read, or None to skip the check
    :raises NotFoundError: the holiday does not exist
    :raises StaleRevisionError: the revision is not current
    :raises HolidayExistsError: the day has a holiday with this name
    """
    holiday = found(
        session.scalar(
            select(PublicHoliday).where(PublicHoliday.id == holiday_id).with_for_update(key_share=True),
            execution_options={"populate_existing": True},
        ),
        texts.HOLIDAY_NOT_FOUND,
    )
    StaleRevisionError.check(holiday.revision, revision)
    before = _snapshot(holiday)
    with _unique_entry(session):
        for name, value in changes.items():
            setattr(holiday, name, value)
        holiday.revision += 1
        holiday.updated_at = act.now
    _record(session, act, "change", holiday, before=before)
    return holiday


@contextmanager
def _unique_entry(session: Session) -> Iterator[None]:
    """Write the changes of the body, or refuse a second holiday of the same day and name."""
    try:
        with session.begin_nested():
            yield
    except IntegrityError as error:
        if violated_constraint(error) != "uq_public_holidays_entry":
            raise
        raise HolidayExistsError(texts.HOLIDAY_EXISTS) from error


def _snapshot(holiday: PublicHoliday) -> dict[str, Any]:
    values = {name: getattr(holiday, name) for name in _AUDITED_COLUMNS}
    return {name: str(value) if isinstance(value, date | UUID) else value for name, value in values.items()}


def _record(
    session: Session, act: Act, verb: str, holiday: PublicHoliday, *, before: dict[str, Any] | None
) -> None:
    record_audit_entry(
        session,
        act=act,
        action=f"public_holiday.{verb}",
        target_type="public_holiday",
        target_id=str(holiday.id),
        before=before,
        after=_snapshot(holiday),
    )
