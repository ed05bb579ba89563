"""Timetables of what runs again and again: ``every 15s``, or a crontab expression. All times are UTC.

A timetable's ticks depend on nothing but the time: whoever asks, and whenever the process was started, gets the
same ones. Ticks of an interval are its multiples since 1970, so that ``every 1h`` is the full hour.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cronsim import CronSim, CronSimError

EXAMPLES: Final = (
    "`every 15s`, `every 2h`, or a crontab expression in UTC such as `*/5 * * * *` or `30 2 * * mon-fri`"
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_UNIT_NAMES = {"s": "second", "m": "minute", "h": "hour", "d": "day"}
_MAX_CHARACTERS = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# cronsim reads 5-5/10 as 5/10. Ranges of a number and a name may be such a range as well.
_UNCLEAR_STEP = re.compile(r"\b0*(\w+)-0*\1/|[a-z]-\d+/|\d-[a-z]+/")
_FIELDS = (
    "minute from 0 to 59",
    "hour from 0 to 23",
    "day of the month from 1 to 31",
    "month from 1 to 12",
    "day of the week from 0 to 7",
)


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
        """Give the first tick after a time."""
        return next(CronSim(self.text, moment.astimezone(UTC)))


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
    if _UNCLEAR_STEP.search(plain):
        raise InvalidScheduleError(
            f"{plain!r} has a step over one value, or over a number and a name. Write {EXAMPLES}."
        )
    try:
        schedule = Crontab(plain)
        schedule.next_after(_EPOCH)
    except (CronSimError, StopIteration) as error:
        raise InvalidScheduleError(f"{_crontab_fault(parts)} Write {EXAMPLES}.") from error
    return schedule


def _crontab_fault(parts: list[str]) -> str:
    """Name the first item of a crontab that no field can have."""
    for place, (part, name) in enumerate(zip(parts, _FIELDS, strict=True)):
        for item in part.split(","):
            try:
                CronSim(f"{'* ' * place}{item}{' *' * (len(_FIELDS) - 1 - place)}", _EPOCH)
            except CronSimError:
                return f"{item!r} is no {name}."
    return f"{' '.join(parts)!r} never comes: there is no such day."


def _parse_interval(text: str) -> Interval:
    match = re.fullmatch(r"every ([0-9]{1,6}) ?([smhd])", text)
    if not match:
        raise InvalidScheduleError(f"{text!r} is no interval: a number and s, m, h or d. Write {EXAMPLES}.")
    period = timedelta(seconds=int(match[1]) * _UNITS[match[2]])
    # The scheduler looks once a second.
    if not timedelta(seconds=5) <= period <= timedelta(days=31):
        raise InvalidScheduleError(f"{text!r} is not from 5 seconds to 31 days. Write {EXAMPLES}.")
    return Interval(f"every {int(match[1])}{match[2]}", period)
