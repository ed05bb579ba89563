"""The table of all orders for staff: sorted, filtered, with each order's escrow balance from the ledger.

A page takes three queries: the total, the ids of the page, and the rows. A filter by campus adds a query.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import String, cast, or_, select, text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.infra.sql.statements import Row, Statement
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import Page, PageRequest, TablePage, TableRequest, page_of
from marketplace.ledger import accounts
from marketplace.orders import states
from marketplace.orders.deadlines import ACCEPTANCE_DEADLINE, DELIVERY_DEADLINE
from marketplace.orders.queries import PARTIES_SQL, OrderParties
from marketplace.platform.models import Campus

STUCK_REASONS = ("not_accepted", "not_delivered", "payment_held_back", "refund_failed")
EXPORT_BATCH_SIZE = 500

# Each sort order matches an index, read forwards or backwards. The id makes the order unique. Ascending by time of
# payment, unpaid orders come first.
_SORTS = {
    "created_at": "o.created_at {direction}, o.id {direction}",
    "total_amount": "o.total_minor {direction}, o.id {direction}",
    "status": "o.status {direction}, o.created_at {direction}, o.id {direction}",
    "paid_at": "o.paid_at {direction} NULLS {nulls}, o.id {direction}",
}
SORTS = tuple(_SORTS)

# Each part uses its own index, so the query does not read orders that are not stuck.
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
# SQL conditions by filter. The driver writes values into the text, so the planner knows the values. By the table's
# statistics, the planner chooses between the index of the sort order and the index of a filter.
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
    """Filters of the table of orders. None means that a filter is not applied.

    :param campus: the campus's id or slug
    :param min_total: kobo, inclusive; ``max_total`` likewise
    :param starts: the earliest time of placing, inclusive; ``ends`` is exclusive
    :param stuck: true for orders that need an officer, false for all others
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


@dataclass(frozen=True)
class OrderCampus:
    """The campus of an order."""

    id: UUID
    name: str
    slug: str


@dataclass(frozen=True)
class _OrderOnCampus(OrderParties):
    """The columns of ``_ORDER_ON_CAMPUS_SQL``."""

    id: UUID
    number: str
    status: str
    campus_id: UUID
    campus_name: str
    campus_slug: str

    @property
    def campus(self) -> OrderCampus:
        """The campus with its names."""
        return OrderCampus(self.campus_id, self.campus_name, self.campus_slug)


_ORDER_ON_CAMPUS_SQL = (
    f"{PARTIES_SQL}, o.id, o.number, o.status, o.campus_id, c.name AS campus_name, c.slug AS campus_slug"
)
_JOIN_PARTIES_SQL = """
    JOIN profiles b ON b.id = o.buyer_id
    JOIN vendor_profiles v ON v.id = o.vendor_id
    JOIN campuses c ON c.id = o.campus_id
"""


@dataclass(frozen=True)
class AuditedOrder(_OrderOnCampus):
    """A row of the table of orders. ``escrow_minor`` is the ledger's balance in kobo. Ages are whole hours."""

    escrow_status: str
    total_minor: int
    escrow_minor: int
    currency: str
    payment_status: str | None
    created_at: datetime
    paid_at: datetime | None
    age_hours: int
    status_age_hours: int
    stuck: list[str]


_STATUS_SINCE_SQL = """CASE o.status WHEN 'pending_payment' THEN o.created_at WHEN 'paid_escrow' THEN o.paid_at
    WHEN 'processing' THEN o.accepted_at WHEN 'shipped' THEN o.shipped_at WHEN 'delivered' THEN o.delivered_at
    WHEN 'cancelled' THEN o.cancelled_at WHEN 'expired' THEN o.expired_at WHEN 'disputed' THEN o.disputed_at
    WHEN 'refunded' THEN o.refunded_at END"""
_SELECT_ORDERS_BY_IDS = Statement(
    text(
        f"""
        SELECT {_ORDER_ON_CAMPUS_SQL}, s.status AS escrow_status, o.total_minor,
            (SELECT coalesce(sum(CASE direction WHEN 'credit' THEN amount_minor ELSE -amount_minor END), 0)::bigint
                FROM ledger_entries WHERE account_id = :escrow_id AND order_id = o.id) AS escrow_minor,
            o.currency, o.payment_status, o.created_at, o.paid_at,
            floor(extract(epoch FROM :now - o.created_at) / 3600)::bigint AS age_hours,
            floor(extract(epoch FROM :now - coalesce({_STATUS_SINCE_SQL}, o.updated_at)) / 3600)::bigint
                AS status_age_hours,
            ARRAY(SELECT DISTINCT reason FROM ({_STUCK_ORDERS_SQL}) found WHERE found.id = o.id ORDER BY reason)
                AS stuck
        FROM unnest(CAST(:ids AS uuid[])) WITH ORDINALITY AS wanted (id, place) JOIN orders o ON o.id = wanted.id
            JOIN escrows s ON s.order_id = o.id {_JOIN_PARTIES_SQL}
        ORDER BY wanted.place
        """
    ),
    row=AuditedOrder,
)


def list_orders_for_staff(
    session: Session, *, caller: Caller, filters: OrderFilters, table: TableRequest, now: datetime
) -> TablePage:
    """Fetch a page of the table of all orders.

    :param caller: an officer; a campus representative sees only orders of the representative's campus
    :param table: the page, sorted by one of ``SORTS``
    :param now: the time at which ages are measured
    """
    parameters = _filter_parameters(session, caller, filters, now)
    if parameters is None:
        return TablePage(items=[], request=table, total=0)
    conditions = _condition_names(parameters)
    ids = _ids_statement(table.sort, conditions, descending=table.descending).scalars(
        session, **parameters, limit=table.limit, offset=table.offset
    )
    return TablePage(
        _SELECT_ORDERS_BY_IDS.all(
            session,
            ids=ids,
            escrow_id=accounts.ESCROW.id,
            now=now,
            **_stuck_cutoffs(now),
        ),
        table,
        total=_count_statement(conditions).scalar(session, **parameters),
    )


def export_orders(
    session: Session, *, caller: Caller, filters: OrderFilters, table: TableRequest, now: datetime
) -> Iterator[AuditedOrder]:
    """Yield the first rows of the table of orders.

    Rows are read in batches, so a long export needs little memory. One query selects the ids first, so an order that
    changes meanwhile is neither missed nor repeated.

    :param table: the maximum number of rows and the sort order; the offset is ignored
    """
    parameters = _filter_parameters(session, caller, filters, now)
    if parameters is None:
        return
    ids = _ids_statement(table.sort, _condition_names(parameters), descending=table.descending).scalars(
        session, **parameters, limit=table.limit, offset=0
    )
    for start in range(0, len(ids), EXPORT_BATCH_SIZE):
        yield from _SELECT_ORDERS_BY_IDS.all(
            session,
            ids=ids[start : start + EXPORT_BATCH_SIZE],
            escrow_id=accounts.ESCROW.id,
            now=now,
            **_stuck_cutoffs(now),
        )


@lru_cache(maxsize=1024)
def _count_statement(conditions: tuple[str, ...]) -> Statement[Row]:
    return Statement(text(f"SELECT count(*) {_filtered_orders_sql(conditions)}"))


@lru_cache(maxsize=4096)
def _ids_statement(sort: str, conditions: tuple[str, ...], *, descending: bool) -> Statement[Row]:
    """Compile the query of a page's ids, which reads an index in order before any join."""
    direction, nulls = ("DESC", "LAST") if descending else ("ASC", "FIRST")
    order = _SORTS[sort].format(direction=direction, nulls=nulls)
    return Statement(
        text(f"SELECT o.id {_filtered_orders_sql(conditions)} ORDER BY {order} LIMIT :limit OFFSET :offset")
    )


def _filtered_orders_sql(conditions: tuple[str, ...]) -> str:
    escrows = "JOIN escrows s ON s.order_id = o.id" if "escrow_status" in conditions else ""
    return f"FROM orders o {escrows} WHERE {' AND '.join(_CONDITIONS[name] for name in conditions) or 'true'}"


def _filter_parameters(
    session: Session, caller: Caller, filters: OrderFilters, now: datetime
) -> dict[str, Any] | None:
    """Collect the values of the filters that apply; None if no order can match."""
    parameters = vars(filters) | {"own_campus": _restricted_campus_id(caller)}
    if filters.campus is not None:
        # Look up the id first: with a known value, the planner uses the index for a small campus.
        parameters["campus"] = _find_campus_id(session, filters.campus)
        if parameters["campus"] is None:
            return None
    stuck = parameters.pop("stuck")
    if stuck is not None:
        parameters["stuck" if stuck else "not_stuck"] = True
    return {name: value for name, value in parameters.items() if value is not None} | _stuck_cutoffs(now)


def _condition_names(parameters: dict[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in parameters if name in _CONDITIONS)


def _stuck_cutoffs(now: datetime) -> dict[str, datetime]:
    return {"accepted_since": now - ACCEPTANCE_DEADLINE, "delivered_since": now - DELIVERY_DEADLINE}


def _find_campus_id(session: Session, campus: str) -> UUID | None:
    """Find the id of a campus by id or slug."""
    return session.scalar(
        select(Campus.id).where(or_(cast(Campus.id, String) == campus, Campus.slug == campus))
    )


def _restricted_campus_id(caller: Caller) -> UUID | None:
    """Return the campus that a caller is restricted to, or None."""
    # No campus has the id 0: a representative without a campus sees no orders.
    return (caller.campus_id or UUID(int=0)) if caller.staff_role == "campus_rep" else None


@dataclass(frozen=True)
class PickupHub:
    """The hub where the buyer picks up an order."""

    id: str
    name: str


@dataclass(frozen=True)
class CampusOrder(_OrderOnCampus):
    """A paid order in the list for staff of a campus."""

    delivery_method: str
    shipping_address: dict[str, Any]
    paid_at: datetime
    accepted_at: datetime | None
    shipped_at: datetime | None
    delivered_at: datetime | None

    @property
    def hub(self) -> PickupHub | None:
        """The hub of a pickup order; None for a delivery."""
        address = self.shipping_address
        return PickupHub(address["hubId"], address["hub"]) if "hubId" in address else None

    @property
    def delivery_status(self) -> str:
        """The progress of the goods."""
        return states.delivery_status(self.status, was_shipped=self.shipped_at is not None)


_SELECT_ORDERS_ON_CAMPUS = Statement(
    text(
        f"""
        SELECT {_ORDER_ON_CAMPUS_SQL}, o.delivery_method, o.shipping_address, o.paid_at, o.accepted_at, o.shipped_at,
            o.delivered_at
        FROM orders o {_JOIN_PARTIES_SQL}
        WHERE o.paid_at IS NOT NULL
            AND (CAST(:campus_id AS uuid) IS NULL OR o.campus_id = :campus_id)
            AND (CAST(:status AS text) IS NULL OR o.status = :status)
            AND (CAST(:method AS text) IS NULL OR o.delivery_method = :method)
            AND (CAST(:after AS uuid) IS NULL OR o.id < :after)
        ORDER BY o.id DESC LIMIT :limit
        """
    ),
    row=CampusOrder,
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
    """List the paid orders of a campus, or of all campuses, the latest first.

    :param caller: staff; a campus representative sees only orders of the representative's campus
    :param campus: the campus's id or slug; None for every campus that the caller may see
    :param status: None for every status
    :param delivery_method: ``delivery`` or ``pickup``; None for both
    :raises NotFoundError: the campus does not exist, or is not the representative's
    """
    campus_id = _restricted_campus_id(caller)
    if campus is not None:
        requested_id = _find_campus_id(session, campus)
        if requested_id is None or campus_id not in (None, requested_id):
            raise NotFoundError("Campus not found.")
        campus_id = requested_id
    return page_of(
        _SELECT_ORDERS_ON_CAMPUS.all(
            session,
            campus_id=campus_id,
            status=status,
            method=delivery_method,
            after=page.after("id")[0],
            limit=page.limit + 1,
        ),
        request=page,
        position_of=lambda row: [str(row.id)],
    )
