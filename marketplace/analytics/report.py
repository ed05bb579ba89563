"""The report of a store's figures: totals, the previous period, a filled series, top products and unmet demand."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, timedelta
from operator import attrgetter
from typing import Literal
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import NotFoundError
from marketplace.vendors.queries import is_store_owner

Interval = Literal["day", "week", "month"]
INTERVALS: tuple[Interval, ...] = ("day", "week", "month")
MAX_DAYS = 366
DEFAULT_DAYS = 30
_TOP_PRODUCTS = 10
_MAX_SEARCHES = 10
# Rare queries could tell something about a person.
_MIN_SEARCHES = 3


@dataclass(frozen=True)
class Figures:
    """The figures of a period. Amounts are kobo.

    :ivar average_order_minor: rounded half up; none without orders
    :ivar lost_disputes: disputed orders with a refund, full or partial
    :ivar conversion: orders per view; none without views
    """

    orders: int
    units: int
    revenue_minor: int
    refunded_orders: int
    refunded_minor: int
    disputed_orders: int
    lost_disputes: int
    views: int
    cart_adds: int

    @property
    def average_order_minor(self) -> int | None:
        """The average total of an order."""
        return (2 * self.revenue_minor + self.orders) // (2 * self.orders) if self.orders else None

    @property
    def conversion(self) -> float | None:
        """The number of orders per view, with four decimals."""
        return round(self.orders / self.views, 4) if self.views else None


_SUMS = tuple(field.name for field in fields(Figures))
_NO_FIGURES = dict.fromkeys(_SUMS, 0)
_read_sums = attrgetter(*_SUMS)


@dataclass(frozen=True)
class PeriodTotals(Figures):
    """The figures of the whole period with the buyers. A repeat buyer paid at least two orders up to the end."""

    buyers: int
    repeat_buyers: int


@dataclass(frozen=True)
class SeriesPoint(Figures):
    """The figures of a day, week or month of the period. The first and last week or month may be cut."""

    starts: date
    ends: date


@dataclass(frozen=True)
class TopProduct:
    """A product with the highest revenue of the period."""

    product_id: UUID
    title: str
    units: int
    revenue_minor: int
    views: int


@dataclass(frozen=True)
class UnmetSearch:
    """A search in the store's categories without results."""

    query: str
    count: int


@dataclass(frozen=True)
class Report:
    """The figures of a store from a day to a day, both included."""

    starts: date
    ends: date
    interval: str
    totals: PeriodTotals
    previous_starts: date
    previous_ends: date
    previous: PeriodTotals
    series: Sequence[SeriesPoint]
    top_products: Sequence[TopProduct]
    unmet_searches: Sequence[UnmetSearch]


@dataclass(frozen=True)
class _IntervalSums(Figures):
    is_current: bool
    starts: date | None  # none for the previous period, which has no series


@dataclass(frozen=True)
class _Buyers:
    is_current: bool
    buyers: int
    repeat_buyers: int


_SUM_BY_INTERVAL = Statement(
    text(
        f"""
        SELECT {", ".join(f"CAST(sum({name}) AS bigint) AS {name}" for name in _SUMS)},
            day >= :starts AS is_current,
            CASE WHEN day >= :starts THEN CAST(date_trunc(:interval, CAST(day AS timestamp)) AS date) END AS starts
        FROM store_days WHERE vendor_id = :vendor_id AND day BETWEEN :first_day AND :last_day
        GROUP BY is_current, starts
        """
    ),
    row=_IntervalSums,
)
_COUNT_BUYERS = Statement(
    text(
        """
        SELECT is_current, count(*) AS buyers, count(*) FILTER (WHERE repeats) AS repeat_buyers
        FROM (
            SELECT buyer_id, day >= :starts AS is_current, bool_or(had_bought) OR sum(orders) >= 2 AS repeats
            FROM store_day_buyers WHERE vendor_id = :vendor_id AND day BETWEEN :first_day AND :last_day
            GROUP BY 1, 2
        ) by_buyer GROUP BY is_current
        """
    ),
    row=_Buyers,
)
_SELECT_TOP_PRODUCTS = Statement(
    text(
        f"""
        SELECT t.product_id, p.title, t.units, t.revenue_minor, t.views
        FROM (
            SELECT product_id, CAST(sum(units) AS bigint) AS units, CAST(sum(revenue_minor) AS bigint) AS revenue_minor,
                CAST(sum(views) AS bigint) AS views
            FROM store_product_days WHERE vendor_id = :vendor_id AND day BETWEEN :starts AND :ends
            GROUP BY product_id HAVING sum(units) > 0
            ORDER BY sum(revenue_minor) DESC, product_id LIMIT {_TOP_PRODUCTS}
        ) t JOIN products p ON p.id = t.product_id
        ORDER BY t.revenue_minor DESC, t.product_id
        """
    ),
    row=TopProduct,
)
# A search in a category above the store's category counts too.
_SELECT_UNMET_SEARCHES = Statement(
    text(
        f"""
        SELECT m.query, CAST(sum(m.count) AS bigint) AS count FROM category_search_misses m
        WHERE m.day BETWEEN :starts AND :ends AND m.category_id IN (
            SELECT unnest(c.lineage) FROM categories c WHERE c.id IN (
                SELECT p.category_id FROM products p
                WHERE p.vendor_id = :vendor_id AND p.status IN ('published', 'paused')))
        GROUP BY m.query HAVING sum(m.count) >= {_MIN_SEARCHES}
        ORDER BY sum(m.count) DESC, m.query LIMIT {_MAX_SEARCHES}
        """
    ),
    row=UnmetSearch,
)


def build_report(
    session: Session, *, vendor_id: UUID, user_id: UUID, starts: date, ends: date, interval: Interval
) -> Report:
    """Build the report of a store for its owner, in five queries.

    :param starts: first day in Nigeria
    :param ends: last day, at most ``MAX_DAYS`` days after the first
    :raises NotFoundError: the store does not exist or belongs to another person
    """
    if not is_store_owner(session, vendor_id=vendor_id, user_id=user_id):
        raise NotFoundError("Store not found.")
    length = (ends - starts).days + 1
    first_day = starts - timedelta(days=length)
    period = {"vendor_id": vendor_id, "first_day": first_day, "last_day": ends}
    sums = _SUM_BY_INTERVAL.all(session, starts=starts, interval=interval, **period)
    buyers = {row.is_current: row for row in _COUNT_BUYERS.all(session, starts=starts, **period)}
    searched = {"vendor_id": vendor_id, "starts": starts, "ends": ends}
    return Report(
        starts=starts,
        ends=ends,
        interval=interval,
        totals=_total(sums, buyers, is_current=True),
        previous_starts=first_day,
        previous_ends=starts - timedelta(days=1),
        previous=_total(sums, buyers, is_current=False),
        series=_series(sums, starts=starts, ends=ends, interval=interval),
        top_products=_SELECT_TOP_PRODUCTS.all(session, **searched),
        unmet_searches=_SELECT_UNMET_SEARCHES.all(session, **searched),
    )


def _total(
    sums: Iterable[_IntervalSums], buyers: Mapping[bool, _Buyers], *, is_current: bool
) -> PeriodTotals:
    counted = buyers.get(is_current)
    columns = zip(*(_read_sums(row) for row in sums if row.is_current == is_current), strict=True)
    return PeriodTotals(
        **_NO_FIGURES | dict(zip(_SUMS, map(sum, columns), strict=False)),
        buyers=counted.buyers if counted else 0,
        repeat_buyers=counted.repeat_buyers if counted else 0,
    )


def _series(
    sums: Iterable[_IntervalSums], *, starts: date, ends: date, interval: Interval
) -> list[SeriesPoint]:
    """Return all days, weeks or months of the period, also those without figures."""
    by_start = {row.starts: row for row in sums}
    points, start = [], _interval_start(starts, interval)
    while start <= ends:
        following = _next_start(start, interval)
        row = by_start.get(start)
        figures = _NO_FIGURES if row is None else dict(zip(_SUMS, _read_sums(row), strict=True))
        points.append(
            SeriesPoint(**figures, starts=max(start, starts), ends=min(following - timedelta(days=1), ends))
        )
        start = following
    return points


def _interval_start(day: date, interval: Interval) -> date:
    """Return the first day of the day's interval. Weeks begin on Monday."""
    if interval == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if interval == "month" else day


def _next_start(start: date, interval: Interval) -> date:
    if interval == "month":
        return (start.replace(day=28) + timedelta(days=4)).replace(day=1)
    return start + timedelta(days=7 if interval == "week" else 1)
