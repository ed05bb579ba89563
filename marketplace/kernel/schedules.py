"""Timetables of what runs again and again: ``every 15s``, or a crontab expression. All times are UTC.

A timetable's ticks depend on nothing but the time: whoever asks, and whenever the process was started, gets the
same ones. Ticks of an interval are its multiples since 1970, so that ``every 1h`` is the full hour.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

EXAMPLES: Final = (
    "`every 15s`, `every 2h`, or a crontab expression in UTC such as `*/5 * * * *` or `30 2 * * mon-fri`"
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_UNIT_NAMES = {"s": "second", "m": "minute", "h": "hour", "d": "day"}
_MIN_PERIOD = timedelta(seconds=5)  # what runs tasks looks once a second
_MAX_PERIOD = timedelta(days=31)
_MAX_CHARACTERS = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_DAYS_AHEAD = 366 * 8 + 2  # 29 February may be eight years away
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class InvalidScheduleError(ValueError):
    """The text is no timetable; the message says what is wrong with it, with an example."""


@dataclass(frozen=True)
class Schedule(ABC):
    """Ticks at certain times; ``text`` is how it is written."""

    text: str

    @property
    @abstractmethod
    def description(self) -> str:
        """Say when it ticks, for people."""

    @abstractmethod
    def next_after(self, moment: datetime) -> datetime:
        """Give the first tick after a time.

        :param moment: a time with its zone
        """


@dataclass(frozen=True)
class Interval(Schedule):
    """Ticks evenly."""

    period: timedelta

    @property
    def description(self) -> str:
        """Say when it ticks, for people."""
        number, unit = self.text.removeprefix("every ")[:-1], _UNIT_NAMES[self.text[-1]]
        return f"every {unit}" if number == "1" else f"every {number} {unit}s"

    def next_after(self, moment: datetime) -> datetime:
        """Give the first tick after a time."""
        return _EPOCH + ((moment - _EPOCH) // self.period + 1) * self.period


@dataclass(frozen=True)
class Crontab(Schedule):
    """Ticks at full minutes that its five fields name.

    As cron has it: where both days of the month and days of the week are restricted, either will do.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    @property
    def description(self) -> str:
        """Say when it ticks, for people."""
        minute, hour, *rest = self.text.split()
        if rest == ["*", "*", "*"]:
            if hour == "*" and minute == "*":
                return "every minute"
            step = re.fullmatch(r"\*/0*([1-9]\d*)", minute)
            # Any other step begins anew with each hour: after minute 56 of every 7 minutes comes minute 0.
            if hour == "*" and step and 60 % int(step[1]) == 0:
                return "every minute" if step[1] == "1" else f"every {step[1]} minutes"
            if hour == "*" and minute.isdecimal():
                return f"each hour at minute {minute}"
            if hour.isdecimal() and minute.isdecimal():
                return f"daily at {int(hour):02}:{int(minute):02} UTC"
        return f"{self.text} (UTC)"

    def next_after(self, moment: datetime) -> datetime:
        """Give the first tick after a time.

        :raises InvalidScheduleError: there is none within eight years
        """
        earliest = moment.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        for number in range(_MAX_DAYS_AHEAD):
            day = earliest.date() + timedelta(days=number)
            if self._matches(day):
                first = (earliest.hour, earliest.minute) if number == 0 else (0, 0)
                for hour in self.hours:
                    for minute in self.minutes:
                        if (hour, minute) >= first:
                            return datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC)
        raise InvalidScheduleError(f"{self.text!r} never comes: there is no such day. Write {EXAMPLES}.")

    def _matches(self, day: date) -> bool:
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (
            (in_month or in_week) if self.either_day else (in_month and in_week)
        )


def parse_schedule(text: str) -> Schedule:
    """Read a timetable.

    :param text: such as ``every 15s`` (s, m, h, d), or the five fields of a crontab: minute, hour, day of the
        month, month, day of the week (0 or 7 is Sunday), in UTC
    :raises InvalidScheduleError: it is none, or never comes
    """
    plain = " ".join(text.lower().split())
    if plain.startswith("every"):
        return _parse_interval(plain)
    parts = plain.split()
    if len(parts) != 5 or len(plain) > _MAX_CHARACTERS:
        raise InvalidScheduleError(
            f"{plain[:_MAX_CHARACTERS]!r} has {len(parts)} fields where a crontab has 5. Write {EXAMPLES}."
        )
    minutes = _parse_field(parts[0], "minute", 0, 59)
    hours = _parse_field(parts[1], "hour", 0, 23)
    days = _parse_field(parts[2], "day of the month", 1, 31)
    months = _parse_field(parts[3], "month", 1, 12, names=_MONTHS, first=1)
    weekdays = {number % 7 for number in _parse_field(parts[4], "day of the week", 0, 7, names=_WEEKDAYS)}
    schedule = Crontab(
        text=plain,
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=frozenset(days),
        months=frozenset(months),
        weekdays=frozenset(weekdays),
        either_day=not parts[2].startswith("*") and not parts[4].startswith("*"),
    )
    schedule.next_after(_EPOCH)
    return schedule


def _parse_interval(text: str) -> Interval:
    match = re.fullmatch(r"every ([0-9]{1,6}) ?([smhd])", text)
    if not match:
        raise InvalidScheduleError(f"{text!r} is no interval: a number and s, m, h or d. Write {EXAMPLES}.")
    period = timedelta(seconds=int(match[1]) * _UNITS[match[2]])
    if not _MIN_PERIOD <= period <= _MAX_PERIOD:
        raise InvalidScheduleError(f"{text!r} is not from 5 seconds to 31 days. Write {EXAMPLES}.")
    return Interval(f"every {int(match[1])}{match[2]}", period)


def _parse_field(
    text: str, name: str, minimum: int, maximum: int, *, names: tuple[str, ...] = (), first: int = 0
) -> set[int]:
    """Read a field: ``*``, a number, a name, a range, a step, or several of them with commas."""
    numbers_by_name = {word: str(first + place) for place, word in enumerate(names)}
    numbers: set[int] = set()
    for part in text.split(","):
        plain = re.sub(r"[a-z]+", lambda word: numbers_by_name.get(word[0], word[0]), part)
        match = re.fullmatch(r"(?:\*|([0-9]{1,4})(?:-([0-9]{1,4}))?)(?:/([0-9]{1,4}))?", plain)
        if not match:
            raise InvalidScheduleError(f"{part!r} is no {name}. Write {EXAMPLES}.")
        start = int(match[1]) if match[1] else minimum
        # As cron has it, 10/15 goes on to the end, and 10 alone is itself.
        open_end = match[1] is None or match[3] is not None
        end = int(match[2]) if match[2] else (maximum if open_end else start)
        step = int(match[3]) if match[3] else 1
        if not minimum <= start <= end <= maximum or step < 1:
            raise InvalidScheduleError(
                f"{part!r} is no {name} from {minimum} to {maximum}. Write {EXAMPLES}."
            )
        numbers.update(range(start, end + 1, step))
    return numbers
