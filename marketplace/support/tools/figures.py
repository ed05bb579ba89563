"""Figures of support: volume, response and resolution times against their targets, and satisfaction."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import ValidationError
from marketplace.support import texts

MAX_DAYS, DEFAULT_DAYS = 366, 28
_LAGOS = ZoneInfo("Africa/Lagos")


@dataclass(frozen=True)
class TicketFigures:
    """The figures of the tickets that were opened in a period. Merged tickets do not count.

    :ivar category: none for all categories
    :ivar week: the Monday of the week in Nigeria; none for the whole period
    :ivar response_seconds: the median time to the first answer; none without answers
    :ivar responses_on_time: the number of first answers by their target time
    :ivar resolution_seconds: the median time to the resolution; none without resolutions
    :ivar resolutions_on_time: the number of resolutions by their target time
    :ivar satisfaction: the average rating; none without ratings
    """

    category: str | None
    week: date | None
    opened: int
    responded: int
    response_seconds: int | None
    responses_on_time: int
    resolved: int
    resolution_seconds: int | None
    resolutions_on_time: int
    reopened: int
    ratings: int
    satisfaction: float | None


@dataclass(frozen=True)
class SupportFigures:
    """The figures of a period: in total, by category, and by week."""

    first_day: date
    last_day: date
    overall: TicketFigures
    by_category: list[TicketFigures]
    by_week: list[TicketFigures]


_SELECT_FIGURES = Statement(
    text(
        """
        SELECT category, week, count(*) AS opened, count(first_responded_at) AS responded,
            round(extract(epoch FROM percentile_cont(0.5) WITHIN GROUP (ORDER BY first_responded_at - created_at)))::int
                AS response_seconds,
            count(*) FILTER (WHERE first_responded_at <= response_due_at) AS responses_on_time,
            count(resolved_at) AS resolved,
            round(extract(epoch FROM percentile_cont(0.5) WITHIN GROUP (ORDER BY resolved_at - created_at)))::int
                AS resolution_seconds,
            count(*) FILTER (WHERE resolved_at <= resolution_due_at) AS resolutions_on_time,
            count(*) FILTER (WHERE reopenings > 0) AS reopened, count(rating) AS ratings,
            round(avg(rating), 2)::float AS satisfaction
        FROM (
            SELECT t.*, date_trunc('week', t.created_at AT TIME ZONE 'Africa/Lagos')::date AS week
            FROM support_tickets t
            WHERE t.created_at >= :starts_at AND t.created_at < :ends_at AND t.merged_into_id IS NULL
        ) tickets
        GROUP BY GROUPING SETS ((), (category), (week))
        ORDER BY category NULLS FIRST, week NULLS FIRST
        """
    ),
    row=TicketFigures,
)


def fetch_figures(
    session: Session, *, first_day: date | None, last_day: date | None, now: datetime
) -> SupportFigures:
    """Fetch the figures of the tickets that were opened in a period of days in Nigeria.

    :param first_day: none for ``DEFAULT_DAYS`` before the last day
    :param last_day: none for today
    :raises ValidationError: the period ends before its start, or is too long
    """
    last = last_day or now.astimezone(_LAGOS).date()
    first = first_day or last - timedelta(days=DEFAULT_DAYS - 1)
    if first > last:
        raise ValidationError.of("from", texts.PERIOD_REVERSED)
    if (last - first).days >= MAX_DAYS:
        raise ValidationError.of("from", texts.PERIOD_TOO_LONG.format(limit=MAX_DAYS))
    rows = _SELECT_FIGURES.all(
        session,
        starts_at=datetime.combine(first, time(), _LAGOS),
        ends_at=datetime.combine(last + timedelta(days=1), time(), _LAGOS),
    )
    [overall] = [row for row in rows if row.category is None and row.week is None]
    return SupportFigures(
        first,
        last,
        overall,
        [row for row in rows if row.category is not None],
        [row for row in rows if row.week is not None],
    )
