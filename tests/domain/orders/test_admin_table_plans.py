"""Query plans of the admin order table: no sort or filter reads all orders for a page."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.infra.db import Database
from marketplace.kernel.paging import TableRequest
from marketplace.orders import admin_table
from marketplace.orders.admin_table import OrderFilters
from tests.support.finance import make_officer
from tests.support.purchases import NOW, make_shop, neighbours, with_buyer
from tests.support.query_plans import StatementStatistics, bulk_load, run_and_explain
from tests.support.resource_usage import peak_memory

ROWS = 20_000
LIMIT = 50
# Every 500th order is disputed, and every 500th belongs to the small store with a separate campus and buyer.
RARE = 500
_RARE_COUNT = ROWS // RARE

_ORDERS = text(
    """
    INSERT INTO orders (id, buyer_id, vendor_id, campus_id, status, subtotal_minor, delivery_fee_minor,
        service_fee_minor, discount_minor, total_minor, delivery_method, shipping_address, expires_at, created_at,
        updated_at, paid_at, accepted_at, shipped_at)
    SELECT uuidv7(), CASE WHEN n % :rare = 1 THEN CAST(:rare_buyer AS uuid) ELSE :buyer END,
        CASE WHEN n % :rare = 1 THEN CAST(:rare_store AS uuid) ELSE :store END,
        CASE WHEN n % :rare = 1 THEN CAST(:rare_campus AS uuid) ELSE :campus END, status, total, 0, 0, 0, total,
        'delivery', '{}', at, at, at, CASE WHEN status NOT IN ('pending_payment', 'expired') THEN at END,
        CASE WHEN status IN ('shipped', 'delivered') THEN at END,
        CASE WHEN status IN ('shipped', 'delivered') THEN at END
    FROM (
        SELECT n, 1000 + n::bigint * 104729 % 900000 AS total,
            CAST(:now AS timestamptz) - n * interval '1 minute' AS at,
            CASE WHEN n % :rare = 2 THEN 'disputed' WHEN n % 200 = 3 THEN 'paid_escrow' WHEN n % 200 = 4 THEN 'shipped'
                WHEN n % 3 = 0 THEN 'expired' ELSE 'delivered' END AS status
        FROM generate_series(1, :rows) AS n
    ) made
    """
)
_ESCROWS = text(
    """
    INSERT INTO escrows (order_id, status, amount_minor)
    SELECT id, CASE status WHEN 'disputed' THEN 'frozen' WHEN 'delivered' THEN 'released' WHEN 'expired' THEN 'pending'
        ELSE 'held' END, total_minor
    FROM orders o WHERE NOT EXISTS (SELECT FROM escrows s WHERE s.order_id = o.id)
    """
)


@dataclass(frozen=True)
class Orders:
    """Many orders of a large store and few of a small store."""

    session: Session
    filters: dict[str, dict[str, Any]]

    def page(
        self, sort: str, given: dict[str, Any], *, descending: bool, offset: int = 0
    ) -> StatementStatistics:
        """Read a page and return the plan figures."""
        statement = admin_table._ids_statement(sort, tuple(given), descending=descending)
        values = given | self.since | {"limit": LIMIT, "offset": offset}
        return run_and_explain(self.session, statement, values, table="orders")

    @property
    def since(self) -> dict[str, Any]:
        """Time limits of stuck orders: paid or shipped more than a week ago."""
        return dict.fromkeys(("accepted_since", "delivered_since"), NOW - timedelta(days=7))


@pytest.fixture(scope="module")
def orders(own_database: Database) -> Iterator[Orders]:
    with own_database.engine.connect() as connection, Session(connection) as session:
        large, small = make_shop(session), with_buyer(session, neighbours(session, make_shop(session), 2)[1])
        session.flush()
        values = {
            "buyer": large.buyer.id,
            "store": large.store_id,
            "campus": large.campus_id,
            "rare_buyer": small.buyer.id,
            "rare_store": small.store_id,
            "rare_campus": small.campus_id,
        }
        with bulk_load(session):
            session.execute(_ORDERS, values | {"now": NOW, "rows": ROWS, "rare": RARE})
            session.execute(_ESCROWS)
        session.execute(text("ANALYZE orders, escrows, profiles, vendor_profiles, campuses"))
        yield Orders(session, _filters(large.campus_id, values))
        session.rollback()


def _filters(campus_id: UUID, values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        "none": {},
        "common status": {"status": "delivered"},
        "common campus": {"campus": campus_id},
        "own campus": {"own_campus": campus_id},
        "common store": {"vendor_id": values["store"]},
        "common buyer": {"buyer_id": values["buyer"]},
        "common escrow": {"escrow_status": "released"},
        "wide amounts": {"min_total": 2_000, "max_total": 800_000},
        "not stuck": {"not_stuck": True},
        "rare status": {"status": "disputed"},
        "rare campus": {"campus": values["rare_campus"]},
        "rare store": {"vendor_id": values["rare_store"]},
        "rare buyer": {"buyer_id": values["rare_buyer"]},
        "rare escrow": {"escrow_status": "frozen"},
        "narrow amounts": {"min_total": 500_000, "max_total": 502_000},
        "last hour": {"starts": NOW - timedelta(hours=1)},
        "older than": {"ends": NOW - timedelta(minutes=ROWS - 60)},
        "stuck": {"stuck": True},
        "unknown buyer": {"buyer_id": uuid4()},
    }


COMMON_FILTERS = (
    *(
        "none",
        "common status",
        "common campus",
        "own campus",
        "common store",
        "common buyer",
        "common escrow",
    ),
    *("wide amounts", "not stuck"),
)
RARE_FILTERS = (
    *("rare status", "rare campus", "rare store", "rare buyer", "rare escrow", "narrow amounts", "last hour"),
    *("older than", "stuck", "unknown buyer"),
)
both_directions = pytest.mark.parametrize("descending", [True, False], ids=["latest first", "earliest first"])


@both_directions
@pytest.mark.parametrize("sort", admin_table.SORTS)
def test_unfiltered_page_reads_only_rows_up_to_page_end(
    orders: Orders, sort: str, *, descending: bool
) -> None:
    first = orders.page(sort, {}, descending=descending)
    later = orders.page(sort, {}, descending=descending, offset=20 * LIMIT)

    assert first.rows == later.rows == LIMIT
    # Joining buyers and vendors sorts the rows of the page again.
    assert first.scanned_rows <= LIMIT, first.plan
    assert later.scanned_rows <= 21 * LIMIT, later.plan


@both_directions
@pytest.mark.parametrize("sort", admin_table.SORTS)
@pytest.mark.parametrize("filtered", COMMON_FILTERS)
def test_page_of_common_filter_is_full_and_reads_few_rows(
    orders: Orders, filtered: str, sort: str, *, descending: bool
) -> None:
    found = orders.page(sort, orders.filters[filtered], descending=descending)

    assert found.rows == LIMIT
    # Sorted by time or amount, matching orders are frequent.
    if sort in ("created_at", "total_amount"):
        assert found.scanned_rows <= 10 * LIMIT, found.plan


@both_directions
@pytest.mark.parametrize("sort", admin_table.SORTS)
@pytest.mark.parametrize("filtered", RARE_FILTERS)
def test_page_of_rare_filter_reads_only_few_rows(
    orders: Orders, filtered: str, sort: str, *, descending: bool
) -> None:
    found = orders.page(sort, orders.filters[filtered], descending=descending)

    assert (found.rows > 0) == (not filtered.startswith("unknown"))
    # Only the few matching rows; stuck orders are selected from all paid or shipped orders.
    assert found.scanned_rows <= 12 * _RARE_COUNT, found.plan


def test_export_does_not_hold_all_rows_in_memory(orders: Orders) -> None:
    table = TableRequest(10_000, number=1, sort="created_at", descending=True)
    caller = make_officer(orders.session)

    with peak_memory() as peak:
        rows = admin_table.export_orders(
            orders.session, caller=caller, filters=OrderFilters(), table=table, now=NOW
        )
        count = sum(1 for _ in rows)

    assert count == 10_000
    # All ids and a batch of rows take two mebibytes. Garbage of earlier batches can wait for its collection.
    # All rows at once would exceed twenty mebibytes.
    assert peak.mebibytes < 16
