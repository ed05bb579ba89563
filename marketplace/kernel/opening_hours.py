"""Weekly opening hours in Nigerian time, without change of the clocks in summer (UTC+1)."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

from marketplace.kernel import texts

LAGOS = timezone(timedelta(hours=1), "Africa/Lagos")
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MAX_INTERVALS_PER_DAY = 4
MAX_INTERVALS = MAX_INTERVALS_PER_DAY * len(DAYS)
TIME_PATTERN = "([01][0-9]|2[0-3]):[0-5][0-9]"
# The end of a day is a valid closing time.
CLOSING_TIME_PATTERN = f"({TIME_PATTERN}|24:00)"
# A change of state further ahead is not searched: a place that is closed for so long has no known next opening.
SEARCHED_DAYS = 35

_DAY_MINUTES = 24 * 60
_TIME = re.compile(TIME_PATTERN)
_CLOSING_TIME = re.compile(CLOSING_TIME_PATTERN)


class InvalidHoursError(ValueError):
    """Opening hours are malformed or overlap. ``faults`` holds the reason of each faulty interval by its index."""

    def __init__(self, faults: Mapping[int, str]) -> None:
        self.faults = dict(faults)
        super().__init__("; ".join(f"[{index}]: {reason}" for index, reason in self.faults.items()))


@dataclass(frozen=True, order=True)
class OpenInterval:
    """An interval of opening on a day of the week, in minutes since midnight. Monday is 0."""

    weekday: int
    opens_minute: int
    closes_minute: int

    @property
    def day(self) -> str:
        """The name of the day."""
        return DAYS[self.weekday]

    @cached_property
    def opens(self) -> str:
        """The time of opening, such as ``08:00``."""
        return _format_minute(self.opens_minute)

    @cached_property
    def closes(self) -> str:
        """The time of closing, such as ``17:30``, or ``24:00`` for the end of the day."""
        return _format_minute(self.closes_minute)


@dataclass(frozen=True)
class OpeningStatus:
    """Whether a place is open, and the next change in UTC.

    :ivar opens_at: the next opening; None while the place is open or without a known opening
    :ivar closes_at: the end of the opening; None while the place is closed or if the place never closes
    """

    open_now: bool
    opens_at: datetime | None
    closes_at: datetime | None


@dataclass(frozen=True)
class WeeklyHours:
    """Opening hours of a week: sorted intervals that do not overlap. No interval means always closed.

    An interval ends at 24:00 at the latest. Opening past midnight is a second interval on the next day.
    """

    intervals: tuple[OpenInterval, ...] = ()

    @classmethod
    def parse(cls, intervals: Iterable[Mapping[str, Any]]) -> "WeeklyHours":
        """Parse intervals such as ``{"day": "monday", "opens": "08:00", "closes": "20:00"}`` in any order.

        :raises InvalidHoursError: an interval is malformed, ends before its start or overlaps an earlier interval, or
            a day has too many intervals
        """
        parsed: dict[int, OpenInterval] = {}
        faults: dict[int, str] = {}
        for index, values in enumerate(intervals):
            interval = _parse_interval(values)
            if isinstance(interval, OpenInterval):
                parsed[index] = interval
            else:
                faults[index] = interval
        by_time = sorted(parsed.items(), key=lambda item: (item[1], item[0]))
        for (earlier_index, earlier), (index, interval) in pairwise(by_time):
            if earlier.weekday == interval.weekday and interval.opens_minute < earlier.closes_minute:
                faults[max(index, earlier_index)] = texts.HOURS_OVERLAP
        for weekday in range(len(DAYS)):
            of_day = [index for index, interval in parsed.items() if interval.weekday == weekday]
            faults |= dict.fromkeys(
                of_day[MAX_INTERVALS_PER_DAY:],
                texts.TOO_MANY_HOURS.format(limit=MAX_INTERVALS_PER_DAY),
            )
        if faults:
            raise InvalidHoursError(dict(sorted(faults.items())))
        return cls(tuple(interval for _, interval in by_time))

    @classmethod
    def from_json(cls, intervals: Iterable[Mapping[str, str]]) -> "WeeklyHours":
        """Return stored opening hours, in the form of ``to_json``. The same hours are parsed once."""
        return _parse_stored(tuple((one["day"], one["opens"], one["closes"]) for one in intervals))

    def to_json(self) -> list[dict[str, str]]:
        """Return the intervals in the form that ``parse`` takes, sorted by time."""
        return [
            {"day": interval.day, "opens": interval.opens, "closes": interval.closes}
            for interval in self.intervals
        ]

    def is_open(self, at: datetime, *, closed_days: Collection[date] = ()) -> bool:
        """Return whether the place is open at a time.

        :param at: with a time zone
        :param closed_days: dates in Lagos on which the place is closed all day
        """
        local = at.astimezone(LAGOS)
        minute = local.hour * 60 + local.minute
        return local.date() not in closed_days and any(
            interval.opens_minute <= minute < interval.closes_minute
            for interval in self._by_weekday[local.weekday()]
        )

    def status(self, at: datetime, *, closed_days: Collection[date] = ()) -> OpeningStatus:
        """Return whether the place is open at a time, and the next change within ``SEARCHED_DAYS`` days.

        :param at: with a time zone
        :param closed_days: dates in Lagos on which the place is closed all day
        """
        local = at.astimezone(LAGOS)
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        minute = (local - midnight) / timedelta(minutes=1)
        for opens, closes in self._periods(midnight.date(), closed_days):
            if closes > minute:
                if opens > minute:
                    return OpeningStatus(
                        open_now=False, opens_at=_add_minutes(midnight, opens), closes_at=None
                    )
                closes_at = _add_minutes(midnight, closes) if closes < SEARCHED_DAYS * _DAY_MINUTES else None
                return OpeningStatus(open_now=True, opens_at=None, closes_at=closes_at)
        return OpeningStatus(open_now=False, opens_at=None, closes_at=None)

    def _periods(self, first_day: date, closed_days: Collection[date]) -> Iterator[tuple[int, int]]:
        """Yield the periods of opening in minutes since the start of a day.

        Adjacent intervals, also at midnight, are a single period.
        """
        current: tuple[int, int] | None = None
        for offset in range(SEARCHED_DAYS):
            day = first_day + timedelta(days=offset)
            if day in closed_days:
                continue
            for interval in self._by_weekday[day.weekday()]:
                opens = offset * _DAY_MINUTES + interval.opens_minute
                closes = offset * _DAY_MINUTES + interval.closes_minute
                if current is None:
                    current = opens, closes
                elif current[1] == opens:
                    current = current[0], closes
                else:
                    yield current
                    current = opens, closes
        if current is not None:
            yield current

    @cached_property
    def _by_weekday(self) -> list[list[OpenInterval]]:
        return [
            [interval for interval in self.intervals if interval.weekday == weekday]
            for weekday in range(len(DAYS))
        ]


@lru_cache(maxsize=2_048)
def _parse_stored(intervals: tuple[tuple[str, str, str], ...]) -> WeeklyHours:
    return WeeklyHours.parse(
        {"day": day, "opens": opens, "closes": closes} for day, opens, closes in intervals
    )


def _parse_interval(values: Mapping[str, Any]) -> OpenInterval | str:
    """Parse an interval, or return the fault."""
    day, opens, closes = (values.get(name) for name in ("day", "opens", "closes"))
    if day not in DAYS:
        return texts.UNKNOWN_DAY
    if not isinstance(opens, str) or _TIME.fullmatch(opens) is None:
        return texts.INVALID_OPENING_TIME
    if not isinstance(closes, str) or _CLOSING_TIME.fullmatch(closes) is None:
        return texts.INVALID_CLOSING_TIME
    opens_minute, closes_minute = _parse_minute(opens), _parse_minute(closes)
    if closes_minute <= opens_minute:
        return texts.HOURS_PAST_MIDNIGHT
    return OpenInterval(DAYS.index(day), opens_minute, closes_minute)


def _parse_minute(text: str) -> int:
    hour, minute = text.split(":")
    return int(hour) * 60 + int(minute)


def _format_minute(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


def _add_minutes(midnight: datetime, minutes: int) -> datetime:
    return (midnight + timedelta(minutes=minutes)).astimezone(UTC)
