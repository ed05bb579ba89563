"""Times in options: absolute, or relative to now."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import click

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(eq=False)
class RelativeTime(click.ParamType[datetime]):
    """A time in ISO 8601, by default in UTC, or a distance from now.

    :param distance: pattern of a number and the letter of a unit
    :param sign: 1 for a distance ahead, -1 for an age
    :param examples: examples of both forms, for error messages
    """

    distance: str
    sign: int
    examples: str
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Parse a time."""
        if isinstance(value, datetime):
            return value
        distance = re.fullmatch(self.distance, value)
        try:
            moment = (
                datetime.now(UTC) + self.sign * timedelta(**{_UNITS[distance[2]]: int(distance[1])})
                if distance
                else datetime.fromisoformat(value)
            )
        except OverflowError:
            self.fail(f"is out of range; must be {self.examples}", param, ctx)
        except ValueError:
            self.fail(f"must be {self.examples}", param, ctx)
        # Callers calculate with dates some years before and after this time.
        if not 2000 <= moment.year <= 2999:
            self.fail(f"is in the year {moment.year}; use a year from 2000 to 2999", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
