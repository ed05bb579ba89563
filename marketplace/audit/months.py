"""Months of the audit trail, in UTC."""

from datetime import UTC, date, datetime, timedelta


def following(month: date) -> date:
    """Return the first day of the month after."""
    return (month + timedelta(days=32)).replace(day=1)


def start_of(month: date) -> datetime:
    """Return the time at which a month starts."""
    return datetime(month.year, month.month, 1, tzinfo=UTC)
