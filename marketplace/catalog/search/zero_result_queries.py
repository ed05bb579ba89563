"""What students searched in vain, counted by day, so that vendors can offer it."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.catalog.campus_filter import BY_CAMPUS_ID, BY_CAMPUS_SLUG, campus_parameters
from marketplace.catalog.search.tokenizer import mask_personal_data
from marketplace.infra.db import Statement
from marketplace.kernel.ids import parse_uuid
from marketplace.kernel.paging import TablePage, TableRequest
from marketplace.platform.models import Campus
from marketplace.vendors.queries import find_store_of_user

RETENTION = timedelta(days=90)
REPORTING_PERIOD = timedelta(days=30)
SORTS = ("count", "lastAt", "query")

# A campus that does not exist has no students who could have missed anything.
_INCREMENT_COUNT_SQL = """
    INSERT INTO search_misses (query, campus_id, day, last_at)
    SELECT :query, {campus}, :day, :now {source}
    ON CONFLICT ON CONSTRAINT uq_search_misses_day_campus_id_query
    DO UPDATE SET count = search_misses.count + 1, last_at = excluded.last_at
"""
_INCREMENT_COUNT = {
    None: Statement(text(_INCREMENT_COUNT_SQL.format(campus="CAST(NULL AS uuid)", source=""))),
    BY_CAMPUS_ID: Statement(
        text(_INCREMENT_COUNT_SQL.format(campus="c.id", source="FROM campuses c WHERE c.id = :campus_id"))
    ),
    BY_CAMPUS_SLUG: Statement(
        text(_INCREMENT_COUNT_SQL.format(campus="c.id", source="FROM campuses c WHERE c.slug = :campus_slug"))
    ),
}
_DELETE_OLD_COUNTS = Statement(text("DELETE FROM search_misses WHERE day < :before"))
_ORDER_BY = {"count": "searches {0}, query", "lastAt": "last_at {0}, query", "query": "query {0}"}
# What was searched on no campus in particular was missed on all of them.
_SELECT_QUERIES_SQL = """
    SELECT query, CAST(sum(count) AS bigint) AS searches, max(last_at) AS last_at, count(*) OVER () AS total
    FROM search_misses
    WHERE day >= :since AND (CAST(:campus_id AS uuid) IS NULL OR campus_id = :campus_id OR campus_id IS NULL)
    GROUP BY query
    ORDER BY {order}
    LIMIT :limit OFFSET :offset
"""
_SELECT_QUERIES = {
    (sort, descending): Statement(
        text(_SELECT_QUERIES_SQL.format(order=order.format("DESC" if descending else "ASC")))
    )
    for sort, order in _ORDER_BY.items()
    for descending in (False, True)
}
_COUNT_QUERIES = Statement(
    text(
        "SELECT count(DISTINCT query) AS total FROM search_misses WHERE day >= :since"
        " AND (CAST(:campus_id AS uuid) IS NULL OR campus_id = :campus_id OR campus_id IS NULL)"
    )
)
_SELECT_CAMPUS_ID = Statement(text("SELECT id FROM campuses WHERE slug = :slug"))


def record_zero_result(session: Session, *, query: str, campus: str | None, now: datetime) -> None:
    """Count a search that found nothing, in one statement.

    Nothing is kept of who searched; addresses, handles and long numbers are masked.

    :param query: as they were typed
    :param campus: id or slug, or none
    :param now: the time of the request
    """
    campus_values = campus_parameters(campus)
    _INCREMENT_COUNT[next(iter(campus_values), None)].run(
        session, query=mask_personal_data(query), day=now.date(), now=now, **campus_values
    )


def list_zero_result_queries(
    session: Session, *, campus: str | None, vendor_user_id: UUID | None, page: TableRequest, now: datetime
) -> TablePage:
    """List what was searched in vain in the last 30 days.

    :param campus: id or slug; none is the vendor's own campus, or all for staff
    :param vendor_user_id: the vendor's user, or none for staff
    :param page: which page, and its order
    :param now: the time of the request
    """
    campus_id: UUID | None = None
    if campus is not None:
        campus_id = _resolve_campus_id(session, campus)
        if campus_id is None:
            return TablePage([], page, total=0)
    elif vendor_user_id is not None:
        store = find_store_of_user(session, user_id=vendor_user_id)
        campus_id = store.campus_id if store else None
    first_day = (now - REPORTING_PERIOD).date()
    rows = _SELECT_QUERIES[page.sort, page.descending].all(
        session, since=first_day, campus_id=campus_id, limit=page.limit, offset=page.offset
    )
    total_row = rows[0] if rows else _COUNT_QUERIES.one(session, since=first_day, campus_id=campus_id)
    items: list[dict[str, Any]] = [
        {"query": row["query"], "count": row["searches"], "lastAt": row["last_at"]} for row in rows
    ]
    return TablePage(items, page, total=total_row["total"])


def purge_old_counts(session: Session, *, now: datetime) -> int:
    """Delete counts older than ``RETENTION``, and tell how many they were."""
    return _DELETE_OLD_COUNTS.run(session, before=(now - RETENTION).date())


def _resolve_campus_id(session: Session, campus: str) -> UUID | None:
    campus_id = parse_uuid(campus)
    if campus_id is not None:
        return campus_id if session.get(Campus, campus_id) else None
    row = _SELECT_CAMPUS_ID.first(session, slug=campus)
    return row["id"] if row else None
