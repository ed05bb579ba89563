"""Weekly opening hours: parsing, and opening status over the week, at midnight and on closed days."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import marshmallow
import pytest

from blueprints.http.fields import OpeningHours
from marketplace.kernel.opening_hours import (
    DAYS,
    LAGOS,
    MAX_INTERVALS_PER_DAY,
    SEARCHED_DAYS,
    InvalidHoursError,
    OpeningStatus,
    WeeklyHours,
)

WORKDAYS = DAYS[:5]
MONDAY = date(2026, 3, 2)


def interval(day: str, opens: str, closes: str) -> dict[str, str]:
    return {"day": day, "opens": opens, "closes": closes}


def every_day(opens: str, closes: str, *, days: tuple[str, ...] = DAYS) -> WeeklyHours:
    return WeeklyHours.parse(interval(day, opens, closes) for day in days)


def in_lagos(day: date, hour: int, minute: int = 0) -> datetime:
    return datetime(day.year, day.month, day.day, hour, minute, tzinfo=LAGOS)


OFFICE_HOURS = every_day("08:00", "18:00", days=WORKDAYS)


class TestParsing:
    def test_intervals_are_sorted_by_time(self) -> None:
        parsed = WeeklyHours.parse(
            [
                interval("tuesday", "08:00", "09:00"),
                interval("monday", "14:00", "24:00"),
                interval("monday", "08:00", "12:30"),
            ]
        )

        assert parsed.to_json() == [
            interval("monday", "08:00", "12:30"),
            interval("monday", "14:00", "24:00"),
            interval("tuesday", "08:00", "09:00"),
        ]

    @pytest.mark.parametrize(
        ("values", "reason"),
        [
            ({}, "day"),
            (interval("Monday", "08:00", "09:00"), "day"),
            (interval("monday", "24:00", "24:00"), "opening time"),
            (interval("monday", "8:00", "09:00"), "opening time"),
            (interval("monday", "08:60", "09:00"), "opening time"),
            (interval("monday", "08:00", "24:01"), "closing time"),
            (interval("monday", "08:00", "09:00\n"), "closing time"),
            (interval("monday", "08:00", "\u0660\u0669:00"), "closing time"),
            (interval("monday", "08:00", "08:00"), "next day"),
            (interval("monday", "22:00", "02:00"), "next day"),
            ({"day": ["monday"], "opens": 8, "closes": None}, "day"),
        ],
    )
    def test_malformed_interval_is_refused(self, values: dict[str, Any], reason: str) -> None:
        with pytest.raises(InvalidHoursError) as caught:
            WeeklyHours.parse([interval("sunday", "08:00", "09:00"), values])

        assert list(caught.value.faults) == [1]
        assert reason in caught.value.faults[1]

    def test_overlap_on_same_day_is_refused(self) -> None:
        with pytest.raises(InvalidHoursError) as caught:
            WeeklyHours.parse([interval("monday", "11:59", "14:00"), interval("monday", "08:00", "12:00")])

        assert list(caught.value.faults) == [1]

    def test_adjacent_intervals_are_accepted(self) -> None:
        assert WeeklyHours.parse([interval("monday", "08:00", "12:00"), interval("monday", "12:00", "14:00")])

    def test_day_with_too_many_intervals_is_refused(self) -> None:
        intervals = [interval("monday", f"{hour:02d}:00", f"{hour:02d}:30") for hour in range(5)]
        assert WeeklyHours.parse(intervals[:MAX_INTERVALS_PER_DAY])

        with pytest.raises(InvalidHoursError):
            WeeklyHours.parse(intervals)


class TestStatus:
    @pytest.mark.parametrize(
        ("at", "expected"),
        [
            # Monday before, at and after the opening, and around the closing.
            (in_lagos(MONDAY, 7, 59), OpeningStatus(False, in_lagos(MONDAY, 8), None)),
            (in_lagos(MONDAY, 8), OpeningStatus(True, None, in_lagos(MONDAY, 18))),
            (in_lagos(MONDAY, 17, 59), OpeningStatus(True, None, in_lagos(MONDAY, 18))),
            (
                in_lagos(MONDAY, 18),
                OpeningStatus(False, in_lagos(MONDAY + timedelta(days=1), 8), None),
            ),
            # Friday evening and the weekend.
            (
                in_lagos(MONDAY + timedelta(days=4), 19),
                OpeningStatus(False, in_lagos(MONDAY + timedelta(days=7), 8), None),
            ),
        ],
    )
    def test_status_over_the_week(self, at: datetime, expected: OpeningStatus) -> None:
        assert OFFICE_HOURS.status(at) == expected
        assert OFFICE_HOURS.is_open(at) == expected.open_now

    def test_day_of_the_week_is_the_day_in_lagos(self) -> None:
        # 23:30 UTC on Sunday is 00:30 on Monday in Lagos.
        at = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
        assert every_day("00:00", "01:00", days=("monday",)).is_open(at)
        assert not every_day("00:00", "24:00", days=("sunday",)).is_open(at)

    def test_intervals_that_meet_at_midnight_are_one_opening(self) -> None:
        late = WeeklyHours.parse(
            [interval("friday", "20:00", "24:00"), interval("saturday", "00:00", "02:00")]
        )
        friday = MONDAY + timedelta(days=4)

        status = late.status(in_lagos(friday, 23))

        assert status.closes_at == in_lagos(friday + timedelta(days=1), 2)
        assert late.status(in_lagos(friday + timedelta(days=1), 0)).closes_at == status.closes_at

    def test_closed_day_is_skipped(self) -> None:
        closed = {MONDAY, MONDAY + timedelta(days=1)}

        assert OFFICE_HOURS.status(in_lagos(MONDAY, 10), closed_days=closed) == OpeningStatus(
            False, in_lagos(MONDAY + timedelta(days=2), 8), None
        )
        assert not OFFICE_HOURS.is_open(in_lagos(MONDAY, 10), closed_days=closed)

    def test_closed_day_ends_round_the_clock_opening_at_midnight(self) -> None:
        always = every_day("00:00", "24:00")
        closed = {MONDAY + timedelta(days=2)}

        status = always.status(in_lagos(MONDAY, 10), closed_days=closed)

        assert status == OpeningStatus(True, None, in_lagos(MONDAY + timedelta(days=2), 0))

    def test_place_that_never_closes_has_no_next_change(self) -> None:
        assert every_day("00:00", "24:00").status(in_lagos(MONDAY, 10)) == OpeningStatus(True, None, None)

    def test_place_without_hours_never_opens(self) -> None:
        assert WeeklyHours().status(in_lagos(MONDAY, 10)) == OpeningStatus(False, None, None)

    def test_opening_beyond_searched_days_is_unknown(self) -> None:
        closed = {MONDAY + timedelta(days=offset) for offset in range(SEARCHED_DAYS + 1)}

        assert OFFICE_HOURS.status(in_lagos(MONDAY, 10), closed_days=closed).opens_at is None

    @pytest.mark.parametrize("month", range(1, 13))
    def test_lagos_has_no_summer_time(self, month: int) -> None:
        at = datetime(2026, month, 1, 7, 30, tzinfo=UTC)

        assert at.astimezone(LAGOS).utcoffset() == at.astimezone(ZoneInfo("Africa/Lagos")).utcoffset()


class TestField:
    def test_hours_are_loaded_as_weekly_hours(self) -> None:
        assert OpeningHours().deserialize([interval("monday", "08:00", "18:00")]) == every_day(
            "08:00", "18:00", days=("monday",)
        )
        assert OpeningHours().deserialize([]) == WeeklyHours()

    def test_faults_name_the_interval(self) -> None:
        first = interval("monday", "08:00", "18:00")
        with pytest.raises(marshmallow.ValidationError) as overlapping:
            OpeningHours().deserialize([first, first])
        with pytest.raises(marshmallow.ValidationError) as malformed:
            OpeningHours().deserialize([first, interval("monday", "8", "18:00") | {"note": "x"}])

        assert overlapping.value.messages_dict == {1: ["Overlaps another interval of the same day."]}
        assert malformed.value.messages_dict.keys() == {1}
        assert malformed.value.messages_dict[1].keys() == {"opens", "note"}

    def test_too_many_intervals_are_refused(self) -> None:
        with pytest.raises(marshmallow.ValidationError):
            OpeningHours().deserialize([interval("monday", "08:00", "18:00")] * 29)
