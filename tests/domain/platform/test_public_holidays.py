"""Public holidays: closed days of campuses, and unique entries."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.kernel.errors import ValidationError
from marketplace.platform.campuses.holidays import (
    HolidayExistsError,
    create_holiday,
    fetch_closed_days,
    update_holiday,
)
from marketplace.platform.models import PublicHoliday
from tests.support.purchases import NOW, make_campus

ADMIN = Act("admin", NOW, user_id=uuid4())
TODAY = NOW.date()


@pytest.fixture(autouse=True)
def no_holidays(session: Session) -> None:
    """Remove the holidays of other tests, in this test's transaction only."""
    session.execute(delete(PublicHoliday))


def test_holiday_of_campus_closes_only_that_campus(session: Session) -> None:
    here, there = make_campus(session), make_campus(session)
    create_holiday(session, fields={"date": TODAY, "name": "Founders' Day", "campus_id": here}, act=ADMIN)
    create_holiday(session, fields={"date": TODAY + timedelta(days=1), "name": "National Day"}, act=ADMIN)

    closed = fetch_closed_days(session, campus_ids=[here, there], now=NOW)

    assert closed.of(here) == {TODAY, TODAY + timedelta(days=1)}
    assert closed.of(there) == {TODAY + timedelta(days=1)}
    assert (closed.name_on(TODAY, here), closed.name_on(TODAY, there)) == ("Founders' Day", None)


@pytest.mark.parametrize("of_campus", [False, True])
def test_same_holiday_twice_is_refused(session: Session, of_campus: bool) -> None:
    campus_id: UUID | None = make_campus(session) if of_campus else None
    fields = {"date": TODAY, "name": "Founders' Day", "campus_id": campus_id}
    first = create_holiday(session, fields=fields, act=ADMIN)

    with pytest.raises(HolidayExistsError):
        create_holiday(session, fields=fields | {"name": "FOUNDERS' DAY"}, act=ADMIN)

    # A cancelled holiday does not count.
    update_holiday(session, holiday_id=first.id, changes={"active": False}, revision=None, act=ADMIN)
    create_holiday(session, fields=fields, act=ADMIN)
    with pytest.raises(HolidayExistsError):
        update_holiday(session, holiday_id=first.id, changes={"active": True}, revision=None, act=ADMIN)


def test_holiday_of_unknown_campus_is_refused(session: Session) -> None:
    with pytest.raises(ValidationError):
        create_holiday(session, fields={"date": TODAY, "name": "X", "campus_id": uuid4()}, act=ADMIN)
