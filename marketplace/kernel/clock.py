"""Time is passed in: a clock is a function, and everything below the edge is given its ``now``."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def system_clock() -> datetime:
    """Tell the current time, in UTC."""
    return datetime.now(UTC)


def iso(moment: datetime) -> str:
    """Write a time as ISO 8601 in UTC with ``Z``, to the microsecond.

    :param moment: a time with its zone
    :raises ValueError: a time without zone
    """
    if moment.tzinfo is None:
        raise ValueError("a time needs its zone")
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
