"""Roll up sales and traffic of stores by day.

A run recomputes whole days, so a run can be repeated or interrupted without counting anything twice. The events of
orders name the changed days. A run reads the events of the last ``OVERLAP`` again, because a transaction may commit
after a transaction with a later event. No transaction lasts that long.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.opening_hours import LAGOS

OVERLAP = timedelta(minutes=15)
# Counters of the cache reach the table within minutes, and belong to the hour of the event.
_TRAFFIC_DAYS = 2
_MAX_EVENTS = 20_000
_DAYS_PER_TRANSACTION = 200
_LOCAL_DAY = "(({} AT TIME ZONE 'Africa/Lagos')::date)"


@dataclass(frozen=True)
class StoreDayKey:
    """A day of a store."""

    vendor_id: UUID
    day: date


def roll_up_changes(database: Database, *, now: datetime) -> int:
    """Recompute the days of changed orders, and the traffic of the last two days.

    :return: the number of recomputed days of stores
    """
    days = 0
    while True:
        found, is_last = database.in_transaction(_roll_up_events, now=now)
        days += found
        if is_last:
            break
    today = now.astimezone(LAGOS).date()
    first_day = today - timedelta(days=_TRAFFIC_DAYS - 1)
    database.in_transaction(_roll_up_traffic, vendor_id=None, first_day=first_day, last_day=today)
    return days


# Days with sales, and days with roll-ups, whose orders may be gone.
_SELECT_DAYS = Statement(
    text(
        f"""
        SELECT vendor_id, {_LOCAL_DAY.format("paid_at")} AS day FROM orders
        WHERE paid_at >= (CAST(:first_day AS date)::timestamp AT TIME ZONE 'Africa/Lagos')
            AND paid_at < ((CAST(:last_day AS date) + 1)::timestamp AT TIME ZONE 'Africa/Lagos')
            AND (CAST(:vendor_id AS uuid) IS NULL OR vendor_id = :vendor_id)
        UNION
        SELECT vendor_id, day FROM store_days WHERE day BETWEEN :first_day AND :last_day
            AND (CAST(:vendor_id AS uuid) IS NULL OR vendor_id = :vendor_id)
        ORDER BY 1, 2
        """
    ),
    row=StoreDayKey,
)


def rebuild(
    database: Database,
    *,
    vendor_id: UUID | None,
    first_day: date,
    last_day: date,
    progress: Callable[[int], object],
) -> int:
    """Recompute all days of a period, in batches that commit. Traffic older than its hourly counters stays as it is.

    :param vendor_id: a store, or none for all stores
    :param progress: called with the number of days of each batch
    :return: the number of recomputed days of stores
    """
    with database.reading() as session:
        keys = _SELECT_DAYS.all(session, vendor_id=vendor_id, first_day=first_day, last_day=last_day)
    for batch in _batches(keys):
        database.in_transaction(_recompute_sales, keys=batch)
        progress(len(batch))
    database.in_transaction(_roll_up_traffic, vendor_id=vendor_id, first_day=first_day, last_day=last_day)
    return len(keys)


def _batches(keys: Sequence[StoreDayKey]) -> Iterator[Sequence[StoreDayKey]]:
    for start in range(0, len(keys), _DAYS_PER_TRANSACTION):
        yield keys[start : start + _DAYS_PER_TRANSACTION]


@dataclass(frozen=True)
class _Events:
    last_id: int | None
    settled_id: int | None
    vendor_ids: list[UUID]
    days: list[date]


_SELECT_CHANGED_DAYS = Statement(
    text(
        f"""
        WITH events AS (
            SELECT e.id, e.order_id, e.at FROM order_events e
            WHERE e.id > coalesce((SELECT event_id FROM analytics_progress), 0) ORDER BY e.id LIMIT :limit
        ), changed AS (
            -- A payment that is reported late makes the buyer's later orders repeated orders.
            SELECT DISTINCT o.vendor_id, {_LOCAL_DAY.format("l.paid_at")} AS day
            FROM events e JOIN orders o ON o.id = e.order_id
                JOIN orders l ON l.buyer_id = o.buyer_id AND l.vendor_id = o.vendor_id AND l.paid_at >= o.paid_at
        )
        SELECT (SELECT max(id) FROM events) AS last_id,
            (SELECT max(id) FROM events WHERE at < :settled_before) AS settled_id,
            coalesce((SELECT array_agg(vendor_id ORDER BY vendor_id, day) FROM changed), '{{}}') AS vendor_ids,
            coalesce((SELECT array_agg(day ORDER BY vendor_id, day) FROM changed), '{{}}') AS days
        """
    ),
    row=_Events,
)
_SAVE_PROGRESS = Statement(
    text(
        """
        INSERT INTO analytics_progress (id, event_id, updated_at) VALUES (1, :event_id, :now)
        ON CONFLICT (id) DO UPDATE SET event_id = greatest(analytics_progress.event_id, excluded.event_id),
            updated_at = excluded.updated_at
        """
    )
)
# Only one run at a time changes the roll-ups. Runs wait for each other.
_LOCK_ROLL_UPS = Statement(text("SELECT pg_advisory_xact_lock(hashtext('analytics'))"))


def _roll_up_events(session: Session, *, now: datetime) -> tuple[int, bool]:
    """Recompute the days of the next events.

    :return: the number of days, and whether no event is left
    """
    _LOCK_ROLL_UPS.first(session)
    events = _SELECT_CHANGED_DAYS.one(session, limit=_MAX_EVENTS, settled_before=now - OVERLAP)
    keys = [StoreDayKey(*pair) for pair in zip(events.vendor_ids, events.days, strict=True)]
    _write_sales(session, keys)
    if events.settled_id is not None:
        _SAVE_PROGRESS.run(session, event_id=events.settled_id, now=now)
    # With many recent events, the next run continues after the overlap.
    is_last = events.last_id is None or events.settled_id != events.last_id
    return len(keys), is_last


def _recompute_sales(session: Session, *, keys: Sequence[StoreDayKey]) -> None:
    _LOCK_ROLL_UPS.first(session)
    _write_sales(session, keys)


_KEYS_SQL = "unnest(CAST(:vendor_ids AS uuid[]), CAST(:days AS date[])) AS k (vendor_id, day)"
_PAID_ORDERS_SQL = f"""
    {_KEYS_SQL} JOIN orders o ON o.vendor_id = k.vendor_id
        AND o.paid_at >= (k.day::timestamp AT TIME ZONE 'Africa/Lagos')
        AND o.paid_at < ((k.day + 1)::timestamp AT TIME ZONE 'Africa/Lagos')
"""
_CLEAR_SALES = (
    Statement(
        text(
            f"""
            UPDATE store_days s SET orders = 0, units = 0, revenue_minor = 0, refunded_orders = 0,
                refunded_minor = 0, disputed_orders = 0, lost_disputes = 0
            FROM {_KEYS_SQL} WHERE s.vendor_id = k.vendor_id AND s.day = k.day
            """
        )
    ),
    Statement(
        text(
            f"""
            UPDATE store_product_days s SET units = 0, revenue_minor = 0
            FROM {_KEYS_SQL} WHERE s.vendor_id = k.vendor_id AND s.day = k.day
            """
        )
    ),
    Statement(
        text(
            f"DELETE FROM store_day_buyers s USING {_KEYS_SQL} WHERE s.vendor_id = k.vendor_id AND s.day = k.day"
        )
    ),
)
_WRITE_SALES = (
    Statement(
        text(
            f"""
            INSERT INTO store_days (vendor_id, day, orders, units, revenue_minor, refunded_orders, refunded_minor,
                disputed_orders, lost_disputes)
            SELECT k.vendor_id, k.day, count(*), sum(u.units), sum(o.total_minor - o.service_fee_minor),
                count(*) FILTER (WHERE s.refunded_minor + s.clawed_back_minor > 0),
                sum(s.refunded_minor + s.clawed_back_minor), count(*) FILTER (WHERE o.disputed_at IS NOT NULL),
                count(*) FILTER (WHERE o.disputed_at IS NOT NULL AND s.refunded_minor + s.clawed_back_minor > 0)
            FROM {_PAID_ORDERS_SQL} JOIN escrows s ON s.order_id = o.id
                CROSS JOIN LATERAL (SELECT sum(quantity) AS units FROM order_items WHERE order_id = o.id) u
            GROUP BY k.vendor_id, k.day
            ON CONFLICT (vendor_id, day) DO UPDATE SET orders = excluded.orders, units = excluded.units,
                revenue_minor = excluded.revenue_minor, refunded_orders = excluded.refunded_orders,
                refunded_minor = excluded.refunded_minor, disputed_orders = excluded.disputed_orders,
                lost_disputes = excluded.lost_disputes
            """
        )
    ),
    Statement(
        text(
            f"""
            INSERT INTO store_product_days (vendor_id, day, product_id, units, revenue_minor)
            SELECT k.vendor_id, k.day, i.product_id, sum(i.quantity), sum(i.line_total_minor)
            FROM {_PAID_ORDERS_SQL} JOIN order_items i ON i.order_id = o.id
            GROUP BY k.vendor_id, k.day, i.product_id
            ON CONFLICT (vendor_id, day, product_id)
                DO UPDATE SET units = excluded.units, revenue_minor = excluded.revenue_minor
            """
        )
    ),
    Statement(
        text(
            f"""
            INSERT INTO store_day_buyers (vendor_id, day, buyer_id, orders, had_bought)
            SELECT k.vendor_id, k.day, o.buyer_id, count(*), EXISTS (
                    SELECT FROM orders earlier WHERE earlier.buyer_id = o.buyer_id AND earlier.vendor_id = k.vendor_id
                        AND earlier.paid_at < (k.day::timestamp AT TIME ZONE 'Africa/Lagos'))
            FROM {_PAID_ORDERS_SQL} GROUP BY k.vendor_id, k.day, o.buyer_id
            """
        )
    ),
)


def _write_sales(session: Session, keys: Sequence[StoreDayKey]) -> None:
    if not keys:
        return
    values = {"vendor_ids": [key.vendor_id for key in keys], "days": [key.day for key in keys]}
    for statement in (*_CLEAR_SALES, *_WRITE_SALES):
        statement.run(session, **values)


_ROLL_UP_TRAFFIC = (
    Statement(
        text(
            f"""
            INSERT INTO store_product_days (vendor_id, day, product_id, views, cart_adds)
            SELECT p.vendor_id, {_LOCAL_DAY.format("s.hour")}, s.product_id, sum(s.views), sum(s.cart_adds)
            FROM product_statistics s JOIN products p ON p.id = s.product_id
            WHERE s.hour >= :starts AND s.hour < :ends
                AND (CAST(:vendor_id AS uuid) IS NULL OR p.vendor_id = :vendor_id)
            GROUP BY 1, 2, 3 HAVING sum(s.views) + sum(s.cart_adds) > 0
            ON CONFLICT (vendor_id, day, product_id)
                DO UPDATE SET views = excluded.views, cart_adds = excluded.cart_adds
            """
        )
    ),
    Statement(
        text(
            """
            INSERT INTO store_days (vendor_id, day, views, cart_adds)
            SELECT vendor_id, day, sum(views), sum(cart_adds) FROM store_product_days
            WHERE day >= :first_day AND day <= :last_day
                AND (CAST(:vendor_id AS uuid) IS NULL OR vendor_id = :vendor_id)
            GROUP BY vendor_id, day HAVING sum(views) + sum(cart_adds) > 0
            ON CONFLICT (vendor_id, day) DO UPDATE SET views = excluded.views, cart_adds = excluded.cart_adds
            """
        )
    ),
)


def _roll_up_traffic(session: Session, *, vendor_id: UUID | None, first_day: date, last_day: date) -> None:
    _LOCK_ROLL_UPS.first(session)
    by_hour, by_day = _ROLL_UP_TRAFFIC
    starts = datetime.combine(first_day, datetime.min.time(), tzinfo=LAGOS)
    ends = datetime.combine(last_day + timedelta(days=1), datetime.min.time(), tzinfo=LAGOS)
    by_hour.run(session, vendor_id=vendor_id, starts=starts, ends=ends)
    by_day.run(session, vendor_id=vendor_id, first_day=first_day, last_day=last_day)
