"""Times that options take: as such, or so long before or after now."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import click

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(eq=False)
class RelativeTime(click.ParamType[datetime]):
    """A time: ISO 8601 with its zone, or its distance from now.

    :param distance: matches a number and the letter of its unit
    :param sign: 1 for a distance ahead, -1 for an age
    :param examples: of both forms, for the message to who gives another one
    """

    distance: str
    sign: int
    examples: str
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Read a time."""
        if isinstance(value, datetime):
            return value
        distance = re.fullmatch(self.distance, value)
        try:
            if distance:
                return datetime.now(UTC) + self.sign * timedelta(**{_UNITS[distance[2]]: int(distance[1])})
            moment = datetime.fromisoformat(value)
        except OverflowError:
            self.fail("is before all time; take an age such as 90m, 2h or 7d", param, ctx)
        except ValueError:
            self.fail(f"must be {self.examples}", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
