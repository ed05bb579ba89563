"""All orders as staff audit them: a table, sorted and filtered, with what escrow holds by the books.

A page takes four queries, however long it is, and one more for a campus: how many there are, the page's orders,
what the books hold for them, and why some of them are stuck.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.infra.db import Row, Statement
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import Page, PageRequest, TablePage, TableRequest, page_of
from marketplace.ledger import accounts
from marketplace.orders import states
from marketplace.orders.deadlines import ACCEPTANCE_DEADLINE, DELIVERY_DEADLINE

STUCK_REASONS = ("not_accepted", "not_delivered", "payment_held_back", "refund_failed")
CAMPUS_REP = "campus_rep"
EXPORT_BATCH_SIZE = 500

# Each is the order of an index, forwards and backwards; ends of a page's order are made sure by the id. Orders that
# nobody paid sort before those that were.
_SORTS: dict[str, tuple[str, ...]] = {
    "createdAt": ("created_at", "id"),
    "total_amount": ("total_minor", "id"),
    "status": ("status", "created_at", "id"),
    "paidAt": ("paid_at", "id"),
}
_NULLABLE_COLUMNS = frozenset({"paid_at"})
SORTS = tuple(_SORTS)

# Each part has an index of its own, so that what is stuck is found without reading what is not.
_STUCK_ORDERS_SQL = """
    SELECT id, 'not_accepted' AS reason FROM orders
    WHERE status = 'paid_escrow' AND paid_at <= :accepted_since
    UNION ALL
    SELECT id, 'not_delivered' FROM orders WHERE status = 'shipped' AND shipped_at <= :delivered_since
    UNION ALL
    SELECT a.order_id, 'payment_held_back'
    FROM quarantined_charges q JOIN payment_allocations a ON a.intent_id = q.intent_id WHERE q.status = 'open'
    UNION ALL
    SELECT order_id, 'refund_failed' FROM refunds
    WHERE status IN ('failed', 'needs_attention') AND order_id IS NOT NULL
"""
_SELECT_STUCK_REASONS = Statement(
    text(
        f"""
        SELECT id, array_agg(DISTINCT reason ORDER BY reason) AS reasons FROM ({_STUCK_ORDERS_SQL}) stuck
        WHERE id = ANY(:order_ids) GROUP BY id
        """
    )
)
_SUM_ESCROW_BALANCES = Statement(
    text(
        """
        SELECT order_id, sum(CASE direction WHEN 'credit' THEN amount_minor ELSE -amount_minor END)::bigint AS minor
        FROM ledger_entries WHERE account_id = :escrow_id AND order_id = ANY(:order_ids) GROUP BY order_id
        """
    )
)
_STATUS_SINCE_SQL = """CASE o.status WHEN 'pending_payment' THEN o.created_at WHEN 'paid_escrow' THEN o.paid_at
    WHEN 'processing' THEN o.accepted_at WHEN 'shipped' THEN o.shipped_at WHEN 'delivered' THEN o.delivered_at
    WHEN 'cancelled' THEN o.cancelled_at WHEN 'expired' THEN o.expired_at WHEN 'disputed' THEN o.disputed_at
    WHEN 'refunded' THEN o.refunded_at END"""
_COLUMNS_SQL = f"""
    o.id, o.number, o.status, s.status AS "escrowStatus", o.total_minor AS total_amount, o.currency,
    o.payment_status AS "paymentStatus", o.created_at AS "createdAt", o.paid_at AS "paidAt",
    o.buyer_id, b.name AS buyer_name, o.vendor_id, v.display_name, v.slug, o.campus_id, c.name AS campus_name,
    c.slug AS campus_slug, floor(extract(epoch FROM :now - o.created_at) / 3600)::bigint AS "ageHours",
    floor(extract(epoch FROM :now - coalesce({_STATUS_SINCE_SQL}, o.updated_at)) / 3600)::bigint AS "statusAgeHours"
"""
_JOIN_PARTIES_SQL = """
    JOIN profiles b ON b.id = o.buyer_id
    JOIN vendor_profiles v ON v.id = o.vendor_id
    JOIN campuses c ON c.id = o.campus_id
"""
# By filter. Values are the driver's to write into the text, so that the planner knows them and chooses between the
# index of the order and that of a filter by the table's own statistics.
_CONDITIONS = {
    "status": "o.status = :status",
    "escrow_status": "s.status = :escrow_status",
    "campus": "o.campus_id = :campus",
    "own_campus": "o.campus_id = :own_campus",
    "vendor_id": "o.vendor_id = :vendor_id",
    "buyer_id": "o.buyer_id = :buyer_id",
    "min_total": "o.total_minor >= :min_total",
    "max_total": "o.total_minor <= :max_total",
    "starts": "o.created_at >= :starts",
    "ends": "o.created_at < :ends",
    "stuck": f"o.id IN (SELECT id FROM ({_STUCK_ORDERS_SQL}) stuck)",
    "not_stuck": f"o.id NOT IN (SELECT id FROM ({_STUCK_ORDERS_SQL}) stuck)",
}


@dataclass(frozen=True, kw_only=True)
class OrderFilters:
    """What the table is narrowed to; none means that a filter is not applied.

    :param campus: its id or slug
    :param min_total: kobo, inclusive, as ``max_total`` is
    :param starts: of the time of placing; ``ends`` is exclusive
    :param stuck: true for what an officer should look at, false for all else
    """

    status: str | None = None
    escrow_status: str | None = None
    campus: str | None = None
    vendor_id: UUID | None = None
    buyer_id: UUID | None = None
    min_total: int | None = None
    max_total: int | None = None
    starts: datetime | None = None
    ends: datetime | None = None
    stuck: bool | None = None


def _filtered_orders_sql(conditions: tuple[str, ...]) -> str:
    escrows = "JOIN escrows s ON s.order_id = o.id" if "escrow_status" in conditions else ""
    where = " AND ".join(_CONDITIONS[name] for name in conditions) or "true"
    return f"FROM orders o {escrows} WHERE {where}"


_SELECT_CAMPUS_ID = Statement(text("SELECT id FROM campuses WHERE id::text = :campus OR slug = :campus"))


@lru_cache(maxsize=1024)
def _count_statement(conditions: tuple[str, ...]) -> Statement[Row]:
    return Statement(text(f"SELECT count(*) AS total {_filtered_orders_sql(conditions)}"))


@lru_cache(maxsize=4096)
def _page_statement(sort: str, conditions: tuple[str, ...], *, descending: bool) -> Statement[Row]:
    """Build a page once: read in its index's order before anything is joined to it."""
    order = _order_by_sql(sort, descending=descending)
    return Statement(
        text(
            f"""
            SELECT {_COLUMNS_SQL}
            FROM (SELECT o.* {_filtered_orders_sql(conditions)}
                ORDER BY {order} LIMIT :limit OFFSET :offset) o
                JOIN escrows s ON s.order_id = o.id {_JOIN_PARTIES_SQL}
            ORDER BY {order}
            """
        )
    )


@lru_cache(maxsize=4096)
def _ids_statement(sort: str, conditions: tuple[str, ...], *, descending: bool) -> Statement[Row]:
    source, order = _filtered_orders_sql(conditions), _order_by_sql(sort, descending=descending)
    return Statement(text(f"SELECT o.id {source} ORDER BY {order} LIMIT :most"))


_SELECT_ORDERS_BY_IDS = Statement(
    text(
        f"""
        SELECT {_COLUMNS_SQL}
        FROM unnest(CAST(:ids AS uuid[])) WITH ORDINALITY AS wanted (id, place) JOIN orders o ON o.id = wanted.id
            JOIN escrows s ON s.order_id = o.id {_JOIN_PARTIES_SQL}
        ORDER BY wanted.place
        """
    )
)


def _order_by_sql(sort: str, *, descending: bool) -> str:
    return ", ".join(f"o.{column} {_direction_sql(column, descending=descending)}" for column in _SORTS[sort])


def _direction_sql(column: str, *, descending: bool) -> str:
    if column not in _NULLABLE_COLUMNS:
        return "DESC" if descending else "ASC"
    return "DESC NULLS LAST" if descending else "ASC NULLS FIRST"


def list_orders_for_staff(
    session: Session, *, caller: Caller, filters: OrderFilters, table: TableRequest, now: datetime
) -> TablePage:
    """Give a page of the table of all orders.

    :param caller: an officer; a campus representative sees the own campus alone
    :param filters: what is wanted
    :param table: the page, sorted by one of ``SORTS``
    :param now: the time of the request, from which ages count
    """
    parameters = _filter_parameters(session, caller, filters, now)
    if parameters is None:
        return TablePage(items=[], request=table, total=0)
    conditions = _condition_names(parameters)
    total: int = _count_statement(conditions).one(session, **parameters)["total"]
    rows = _page_statement(table.sort, conditions, descending=table.descending).all(
        session, **parameters, now=now, limit=table.limit, offset=table.offset
    )
    return TablePage(items=_order_views(session, rows, now), request=table, total=total)


def export_orders(
    session: Session, *, caller: Caller, filters: OrderFilters, table: TableRequest, now: datetime
) -> Iterator[dict[str, Any]]:
    """Give the first rows of the table, read in batches, so that a long file needs little memory.

    Which rows they are is settled by one query: orders that change meanwhile are neither left out nor given twice.

    :param table: how many rows at most, and their order; from the first on
    """
    parameters = _filter_parameters(session, caller, filters, now)
    if parameters is None:
        return
    statement = _ids_statement(table.sort, _condition_names(parameters), descending=table.descending)
    ids = [order_id for (order_id,) in statement.tuples(session, **parameters, most=table.limit)]
    for start in range(0, len(ids), EXPORT_BATCH_SIZE):
        batch = ids[start : start + EXPORT_BATCH_SIZE]
        yield from _order_views(session, _SELECT_ORDERS_BY_IDS.all(session, ids=batch, now=now), now)


def _filter_parameters(
    session: Session, caller: Caller, filters: OrderFilters, now: datetime
) -> dict[str, Any] | None:
    """Give the conditions that apply, with their values; none if nothing can meet them."""
    parameters = vars(filters) | {"own_campus": _restricted_campus_id(caller)}
    if filters.campus is not None:
        # Looked up first: by a value that the planner knows, a small campus is found by its index.
        campus_row = _SELECT_CAMPUS_ID.first(session, campus=filters.campus)
        if campus_row is None:
            return None
        parameters["campus"] = campus_row["id"]
    stuck = parameters.pop("stuck")
    if stuck is not None:
        parameters["stuck" if stuck else "not_stuck"] = True
    return {name: value for name, value in parameters.items() if value is not None} | _stuck_cutoffs(now)


def _condition_names(parameters: dict[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in parameters if name in _CONDITIONS)


def _stuck_cutoffs(now: datetime) -> dict[str, datetime]:
    return {"accepted_since": now - ACCEPTANCE_DEADLINE, "delivered_since": now - DELIVERY_DEADLINE}


def _order_views(session: Session, rows: list[dict[str, Any]], now: datetime) -> list[dict[str, Any]]:
    """Shape rows, with what the books hold for each, and why it is stuck."""
    ids = [row["id"] for row in rows]
    escrow_balances = {
        row["order_id"]: row["minor"]
        for row in _SUM_ESCROW_BALANCES.all(session, escrow_id=accounts.ESCROW.id, order_ids=ids)
    }
    reasons = {
        row["id"]: row["reasons"]
        for row in _SELECT_STUCK_REASONS.all(session, order_ids=ids, **_stuck_cutoffs(now))
    }
    return [
        _order_view(row)
        | {"escrowMinor": escrow_balances.get(row["id"], 0), "stuck": list(reasons.get(row["id"], ()))}
        for row in rows
    ]


def _order_view(row: dict[str, Any]) -> dict[str, Any]:
    """Shape a row: who buys, who sells, and where."""
    view = dict(row)
    buyer_name, vendor_name, slug = view.pop("buyer_name"), view.pop("display_name"), view.pop("slug")
    campus_name, campus_slug = view.pop("campus_name"), view.pop("campus_slug")
    view["buyer"] = {"id": view.pop("buyer_id"), "name": buyer_name}
    view["vendor"] = {"id": view.pop("vendor_id"), "displayName": vendor_name, "slug": slug}
    view["campus"] = {"id": view.pop("campus_id"), "name": campus_name, "slug": campus_slug}
    return view


# A representative without a campus sees nothing: this is nobody's.
_NO_CAMPUS = UUID(int=0)


def _restricted_campus_id(caller: Caller) -> UUID | None:
    """Give the campus that a caller is bound to, or none where all are theirs to see."""
    return (caller.campus_id or _NO_CAMPUS) if caller.staff_role == CAMPUS_REP else None


_SELECT_ORDERS_ON_CAMPUS = Statement(
    text(
        f"""
        SELECT o.id, o.number, o.status, o.delivery_method AS "deliveryMethod", o.shipping_address AS address,
            o.buyer_id, b.name AS buyer_name, o.vendor_id, v.display_name, v.slug, o.campus_id,
            c.name AS campus_name, c.slug AS campus_slug, o.paid_at AS "paidAt", o.accepted_at AS "acceptedAt",
            o.shipped_at AS "shippedAt", o.delivered_at AS "deliveredAt"
        FROM orders o {_JOIN_PARTIES_SQL}
        WHERE o.paid_at IS NOT NULL
            AND (CAST(:campus_id AS uuid) IS NULL OR o.campus_id = :campus_id)
            AND (CAST(:status AS text) IS NULL OR o.status = :status)
            AND (CAST(:method AS text) IS NULL OR o.delivery_method = :method)
            AND (CAST(:after AS uuid) IS NULL OR o.id < :after)
        ORDER BY o.id DESC LIMIT :most
        """
    )
)


def list_orders_on_campus(
    session: Session,
    *,
    caller: Caller,
    campus: str | None,
    status: str | None,
    delivery_method: str | None,
    page: PageRequest,
) -> Page:
    """List the paid orders that are handed over on a campus, or on all, the latest first.

    :param caller: staff; a campus representative sees the own campus alone
    :param campus: its id or slug, or none for all that the caller may see
    :param status: one status, or none for all
    :param delivery_method: delivery or pickup, or none for both
    :param page: how many, and after which
    :raises NotFoundError: there is no such campus, or it is not the representative's
    """
    campus_id = _restricted_campus_id(caller)
    if campus is not None:
        campus_row = _SELECT_CAMPUS_ID.first(session, campus=campus)
        if campus_row is None or campus_id not in (None, campus_row["id"]):
            raise NotFoundError("There is no such campus.")
        campus_id = campus_row["id"]
    [after] = page.after("id")
    rows = _SELECT_ORDERS_ON_CAMPUS.all(
        session,
        campus_id=campus_id,
        status=status,
        method=delivery_method,
        after=UUID(after) if after else None,
        most=page.limit + 1,
    )
    cut = page_of(rows, request=page, position_of=lambda row: [str(row["id"])])
    return Page([_on_campus_view(row) for row in cut.items], cut.limit, cut.next_position)


def _on_campus_view(row: dict[str, Any]) -> dict[str, Any]:
    view = _order_view(row)
    address = view.pop("address")
    view["hub"] = {"id": address["hubId"], "name": address["hub"]} if "hubId" in address else None
    view["deliveryStatus"] = states.delivery_status(row["status"], was_shipped=row["shippedAt"] is not None)
    return view
