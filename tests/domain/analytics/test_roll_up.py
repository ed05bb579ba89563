"""Roll-ups of stores: after any history, the figures equal a recount of orders and counters."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.analytics import roll_up
from marketplace.analytics.roll_up import OVERLAP, rebuild, roll_up_changes
from marketplace.infra.db import Database
from marketplace.orders import operations
from marketplace.orders.transitions import SYSTEM, lock_order
from marketplace.payments.refunds import order_cancellation
from tests.support.depth import case_count
from tests.support.finance import make_officer, refund
from tests.support.purchases import (
    NOW,
    Shop,
    make_product,
    make_shop,
    pay,
    place,
    with_buyer,
)

_HISTORIES = case_count(15, deep=150)
FIRST_DAY, LAST_DAY = date(2026, 11, 1), date(2026, 12, 31)
# Around midnight in Nigeria, which is 23:00 UTC.
_HOURS = strategies.integers(0, 60)
_STEPS = strategies.lists(
    strategies.tuples(
        strategies.sampled_from(("buy", "buy", "buy", "refund", "cancel", "dispute", "view", "run", "crash")),
        _HOURS,
        strategies.integers(0, 9),
    ),
    min_size=1,
    max_size=14,
)

_RECOUNT = """
    SELECT (o.paid_at AT TIME ZONE 'Africa/Lagos')::date AS day, count(*) AS orders,
        sum((SELECT sum(quantity) FROM order_items WHERE order_id = o.id)) AS units,
        sum(o.total_minor - o.service_fee_minor) AS revenue_minor,
        count(*) FILTER (WHERE s.refunded_minor + s.clawed_back_minor > 0) AS refunded_orders,
        sum(s.refunded_minor + s.clawed_back_minor) AS refunded_minor,
        count(*) FILTER (WHERE o.disputed_at IS NOT NULL) AS disputed_orders,
        count(*) FILTER (WHERE o.disputed_at IS NOT NULL AND s.refunded_minor + s.clawed_back_minor > 0)
            AS lost_disputes
    FROM orders o JOIN escrows s ON s.order_id = o.id
    WHERE o.vendor_id = :vendor_id AND o.paid_at IS NOT NULL GROUP BY 1 ORDER BY 1
"""
_STORED = """
    SELECT day, orders, units, revenue_minor, refunded_orders, refunded_minor, disputed_orders,
        lost_disputes
    FROM store_days WHERE vendor_id = :vendor_id AND orders > 0 ORDER BY day
"""
_VIEWS = """
    SELECT day, sum(views) FROM store_product_days WHERE vendor_id = :vendor_id AND views > 0 GROUP BY day
"""
_BUYERS = "SELECT day, buyer_id, orders, had_bought FROM store_day_buyers WHERE vendor_id = :vendor_id"
_ORDERS = """
    SELECT (paid_at AT TIME ZONE 'Africa/Lagos')::date AS day, buyer_id FROM orders
    WHERE vendor_id = :vendor_id AND paid_at IS NOT NULL ORDER BY paid_at
"""


class History:
    """Orders of a store at any times, and runs of the roll-up."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.shop: Shop = database.in_transaction(make_shop)
        self.buyers = [self.shop, database.in_transaction(with_buyer, self.shop)]
        self.product_id = database.in_transaction(make_product, self.shop, quantity=1_000)
        self.orders: list[UUID] = []
        self.views: Counter[date] = Counter()

    def apply(self, kind: str, hour: int, number: int) -> None:
        at = NOW + timedelta(hours=hour)
        if kind == "buy":
            self.orders.append(self.database.in_transaction(self._buy, number, at))
        elif kind == "run":
            roll_up_changes(self.database, now=at)
        elif kind == "crash":
            with pytest.raises(ZeroDivisionError):
                self.database.in_transaction(self._crash, at)
        elif kind == "view":
            self.database.in_transaction(self._view, at)
        elif self.orders:
            self.database.in_transaction(self._change, kind, self.orders[number % len(self.orders)])

    def _buy(self, session: Session, number: int, at: datetime) -> UUID:
        order_id = place(session, self.buyers[number % 2], self.product_id, quantity=number % 3 + 1)
        pay(session, self.buyers[number % 2], order_id)
        session.execute(text("UPDATE orders SET paid_at = :at WHERE id = :id"), {"at": at, "id": order_id})
        return order_id

    def _change(self, session: Session, kind: str, order_id: UUID) -> None:
        order = lock_order(session, order_id=order_id)
        if order.status != "paid_escrow":
            return
        if kind == "refund":
            refund(session, order_id, make_officer(session), amount_minor=order.escrow_balance_minor // 2)
        elif kind == "cancel":
            order_cancellation.cancel_order(
                session, order_id=order_id, caller=self.shop.vendor, reason=None, now=NOW
            )
        else:
            operations.freeze_order(session, order=order, trigger="dispute", actor=SYSTEM, note="", now=NOW)

    def _crash(self, session: Session, at: datetime) -> None:
        """Roll up, and end before the commit."""
        roll_up._roll_up_events(session, now=at)
        _ = 1 // 0

    def _view(self, session: Session, at: datetime) -> None:
        hour = at.replace(minute=0, second=0, microsecond=0)
        session.execute(
            text(
                "INSERT INTO product_statistics (product_id, hour, views) VALUES (:id, :hour, 1)"
                " ON CONFLICT (product_id, hour) DO UPDATE SET views = product_statistics.views + 1"
            ),
            {"id": self.product_id, "hour": hour},
        )
        self.views[(at + timedelta(hours=1)).date()] += 1

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.database.reading() as session:
            return [tuple(row) for row in session.execute(text(sql), {"vendor_id": self.shop.store_id})]

    def check(self) -> None:
        assert self.rows(_STORED) == self.rows(_RECOUNT)
        bought: set[UUID] = set()
        expected: dict[tuple[date, UUID], list[Any]] = {}
        for day, buyer_id in self.rows(_ORDERS):
            known = expected.setdefault((day, buyer_id), [0, buyer_id in bought])
            known[0] += 1
            bought.add(buyer_id)
        assert {(day, buyer): [orders, had] for day, buyer, orders, had in self.rows(_BUYERS)} == expected


@given(_STEPS)
@settings(max_examples=_HISTORIES)
def test_figures_equal_a_recount_after_any_history(
    committed_database: Database, steps: list[tuple[str, int, int]]
) -> None:
    history = History(committed_database)
    for step in steps:
        history.apply(*step)
    roll_up_changes(committed_database, now=NOW + timedelta(days=4))
    history.check()
    rebuild(
        committed_database,
        vendor_id=history.shop.store_id,
        first_day=FIRST_DAY,
        last_day=LAST_DAY,
        progress=lambda _days: None,
    )
    history.check()
    assert dict(history.rows(_VIEWS)) == dict(history.views)


def test_rebuild_repairs_damaged_figures(committed_database: Database) -> None:
    history = History(committed_database)
    for number in range(3):
        history.apply("buy", 20 * number, number)
    roll_up_changes(committed_database, now=NOW)
    with committed_database.transaction() as session:
        session.execute(
            text("UPDATE store_days SET orders = 99, revenue_minor = 1 WHERE vendor_id = :id"),
            {"id": history.shop.store_id},
        )
        session.execute(
            text("INSERT INTO store_days (vendor_id, day, orders) VALUES (:id, '2026-11-02', 7)"),
            {"id": history.shop.store_id},
        )
    seen: list[int] = []
    days = rebuild(
        committed_database,
        vendor_id=history.shop.store_id,
        first_day=FIRST_DAY,
        last_day=LAST_DAY,
        progress=seen.append,
    )
    assert sum(seen) == days
    history.check()


def test_order_that_commits_during_a_run_counts_in_the_next_run(committed_database: Database) -> None:
    """The earlier event commits after a later event was rolled up."""
    history, later_history = History(committed_database), History(committed_database)
    with committed_database.transaction() as session:
        history._buy(session, 0, NOW)
        later_history.apply("buy", 0, 0)
        # The later event is not old enough to be passed.
        roll_up_changes(committed_database, now=NOW + OVERLAP)
    history.orders.append(UUID(int=0))
    roll_up_changes(committed_database, now=NOW + OVERLAP)
    history.check()
    later_history.check()
    assert history.rows(_STORED)


def test_views_are_kept_when_their_counters_are_purged(committed_database: Database) -> None:
    history = History(committed_database)
    history.apply("view", 0, 0)
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    roll_up_changes(committed_database, now=now)
    with committed_database.transaction() as session:
        session.execute(
            text("DELETE FROM product_statistics WHERE product_id = :id"), {"id": history.product_id}
        )
    roll_up_changes(committed_database, now=now + timedelta(days=1))
    assert dict(history.rows(_VIEWS)) == dict(history.views)
