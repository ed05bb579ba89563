"""Schedules of periodic tasks: ``every 15s`` or a crontab expression. All times are UTC.

The ticks of a schedule depend only on the time, so all processes compute the same ticks regardless of their start.
The ticks of an interval are multiples of the period since 1970. For example, ``every 1h`` ticks on the full hour.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cronsim import CronSim, CronSimError

from marketplace.kernel import texts

EXAMPLES: Final = (
    "`every 15s`, `every 2h`, or a crontab expression in UTC such as `*/5 * * * *` or `30 2 * * mon-fri`"
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_UNIT_NAMES = {"s": "second", "m": "minute", "h": "hour", "d": "day"}
_MAX_CHARACTERS = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# cronsim reads 5-5/10 as 5/10, which also ticks after 5. A range that mixes a number and a name (mon-1) can have
# equal bounds, too.
_UNCLEAR_STEP = re.compile(r"\b0*(\w+)-0*\1/|[a-z]-\d+/|\d-[a-z]+/")
_FIELDS = (
    "minute (0 to 59)",
    "hour (0 to 23)",
    "day of the month (1 to 31)",
    "month (1 to 12)",
    "day of the week (0 to 7)",
)


class InvalidScheduleError(ValueError):
    """The text is not a valid schedule. The message gives the reason and examples."""


@dataclass(frozen=True)
class Schedule(ABC):
    """A schedule of ticks. ``text`` is the notation that ``parse_schedule`` reads."""

    text: str

    @property
    @abstractmethod
    def description(self) -> str:
        """A description of the schedule for people."""

    @abstractmethod
    def next_after(self, moment: datetime) -> datetime:
        """Return the first tick after a time, which must have a time zone."""


@dataclass(frozen=True)
class Interval(Schedule):
    """A schedule with a tick per period."""

    period: timedelta

    @property
    def description(self) -> str:
        """A description of the interval for people."""
        number, unit = self.text.removeprefix("every ")[:-1], _UNIT_NAMES[self.text[-1]]
        return f"every {unit}" if number == "1" else f"every {number} {unit}s"

    def next_after(self, moment: datetime) -> datetime:
        """Return the first tick after a time."""
        return _EPOCH + ((moment - _EPOCH) // self.period + 1) * self.period


@dataclass(frozen=True)
class Crontab(Schedule):
    """A crontab expression with five fields. Ticks are full minutes.

    As in cron, if both the day of the month and the day of the week are restricted, a match of either is enough.
    """

    @property
    def description(self) -> str:
        """A description of the crontab expression for people."""
        minute, hour, *rest = self.text.split()
        if rest == ["*", "*", "*"]:
            if hour == "*" and minute == "*":
                return "every minute"
            step = re.fullmatch(r"\*/0*([1-9]\d*)", minute)
            # Other steps restart every hour: with a step of 7 minutes, minute 0 follows minute 56.
            if hour == "*" and step and 60 % int(step[1]) == 0:
                return "every minute" if step[1] == "1" else f"every {step[1]} minutes"
            if hour == "*" and minute.isdecimal():
                return f"each hour at minute {minute}"
            if hour.isdecimal() and minute.isdecimal():
                return f"daily at {int(hour):02}:{int(minute):02} UTC"
        return f"{self.text} (UTC)"

    def next_after(self, moment: datetime) -> datetime:
        """Return the first tick after a time."""
        return next(CronSim(self.text, moment.astimezone(UTC)))


def parse_schedule(text: str) -> Schedule:
    """Parse a schedule.

    The fields of a crontab are minute, hour, day of the month, month and day of the week (0 or 7 is Sunday).

    :param text: an interval such as ``every 15s`` (s, m, h or d), or a crontab expression in UTC
    :raises InvalidScheduleError: the text is not a schedule, or the schedule never occurs
    """
    plain = " ".join(text.lower().split())
    if plain.startswith("every"):
        return _parse_interval(plain)
    parts = plain.split()
    if len(parts) != 5 or len(plain) > _MAX_CHARACTERS:
        raise _invalid_schedule(
            texts.CRONTAB_WRONG_FIELD_COUNT.format(schedule=plain[:_MAX_CHARACTERS], count=len(parts))
        )
    if _UNCLEAR_STEP.search(plain):
        raise _invalid_schedule(texts.CRONTAB_AMBIGUOUS_STEP.format(schedule=plain))
    try:
        schedule = Crontab(plain)
        schedule.next_after(_EPOCH)
    except (CronSimError, StopIteration) as error:
        raise _invalid_schedule(_crontab_fault(parts)) from error
    return schedule


def _invalid_schedule(fault: str) -> InvalidScheduleError:
    return InvalidScheduleError(f"{fault} {texts.SCHEDULE_EXAMPLES.format(examples=EXAMPLES)}")


def _crontab_fault(parts: list[str]) -> str:
    """Describe the first invalid item of a crontab."""
    for place, (part, name) in enumerate(zip(parts, _FIELDS, strict=True)):
        for item in part.split(","):
            try:
                CronSim(f"{'* ' * place}{item}{' *' * (len(_FIELDS) - 1 - place)}", _EPOCH)
            except CronSimError:
                return texts.CRONTAB_INVALID_VALUE.format(value=item, field=name)
    return texts.CRONTAB_NEVER_DUE.format(schedule=" ".join(parts))


def _parse_interval(text: str) -> Interval:
    match = re.fullmatch(r"every ([0-9]{1,6}) ?([smhd])", text)
    if not match:
        raise _invalid_schedule(texts.INTERVAL_MALFORMED.format(schedule=text))
    period = timedelta(seconds=int(match[1]) * _UNITS[match[2]])
    # The scheduler checks once a second, so shorter periods would be inexact.
    if not timedelta(seconds=5) <= period <= timedelta(days=31):
        raise _invalid_schedule(texts.INTERVAL_OUT_OF_RANGE.format(schedule=text))
    return Interval(f"every {int(match[1])}{match[2]}", period)
