"""The opening status of weekly hours, against a model that looks at each minute."""

from collections.abc import Collection
from datetime import date, datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings, strategies as st

from marketplace.kernel.opening_hours import DAYS, LAGOS, SEARCHED_DAYS, OpenInterval, WeeklyHours
from tests.support.depth import case_count

EXAMPLES = settings(max_examples=case_count(60, deep=2000), deadline=None)
MINUTES_PER_DAY = 24 * 60
# Few distinct times, so that intervals often meet, at midnight too.
MINUTES = st.sampled_from((0, 1, 60, 479, 480, 720, 1380, 1439, MINUTES_PER_DAY))
FIRST_DAY = date(2026, 2, 23)


@st.composite
def weekly_hours(draw: st.DrawFn) -> WeeklyHours:
    """Draw hours from sorted distinct times of each day: pairs of times cannot overlap, but can meet."""
    intervals = []
    for weekday in range(len(DAYS)):
        times = sorted(draw(st.sets(MINUTES, max_size=5)))
        pairs = pairwise(times)
        intervals += [OpenInterval(weekday, *pair) for pair in pairs if draw(st.booleans())]
    return WeeklyHours(tuple(intervals))


moments = st.integers(0, 14 * MINUTES_PER_DAY * 60).map(
    lambda seconds: datetime(2026, 2, 23, tzinfo=LAGOS) + timedelta(seconds=seconds)
)
closures = st.sets(st.integers(0, 20).map(lambda days: FIRST_DAY + timedelta(days=days)), max_size=4)


def is_open_by_model(hours: WeeklyHours, at: datetime, closed_days: Collection[date]) -> bool:
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    return at.date() not in closed_days and any(
        DAYS[at.weekday()] == interval.day
        and midnight + timedelta(minutes=interval.opens_minute)
        <= at
        < midnight + timedelta(minutes=interval.closes_minute)
        for interval in hours.intervals
    )


@EXAMPLES
@given(weekly_hours())
def test_parsing_reads_what_hours_write(hours: WeeklyHours) -> None:
    assert WeeklyHours.parse(reversed(hours.to_json())) == hours


@EXAMPLES
@given(weekly_hours(), moments, closures)
def test_status_agrees_with_the_minutes(hours: WeeklyHours, at: datetime, closed_days: set[date]) -> None:
    status = hours.status(at, closed_days=closed_days)

    assert status.open_now == hours.is_open(at, closed_days=closed_days)
    assert status.open_now == is_open_by_model(hours, at, closed_days)
    changes_at = status.closes_at if status.open_now else status.opens_at
    assert (status.opens_at if status.open_now else status.closes_at) is None
    # The state stays until the change: it can only change at an edge of an interval.
    end = changes_at or datetime(at.year, at.month, at.day, tzinfo=LAGOS) + timedelta(days=SEARCHED_DAYS)
    edges = [
        datetime(at.year, at.month, at.day, tzinfo=LAGOS) + timedelta(days=offset, minutes=minute)
        for offset in range(SEARCHED_DAYS)
        for minute in (0, 1, 60, 479, 480, 720, 1380, 1439)
    ]
    assert all(
        is_open_by_model(hours, edge, closed_days) == status.open_now for edge in edges if at <= edge < end
    )
    if changes_at is not None:
        assert changes_at > at
        local = changes_at.astimezone(LAGOS)
        assert is_open_by_model(hours, local, closed_days) != status.open_now
