"""Clocks: functions that return the current time. Only the edge calls a clock; the domain receives ``now``."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def system_clock() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def iso(moment: datetime) -> str:
    """Format a time as ISO 8601 in UTC with ``Z`` and microseconds.

    :raises ValueError: the time has no time zone
    """
    if moment.tzinfo is None:
        raise ValueError("the time has no time zone")
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
