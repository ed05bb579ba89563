"""Searches without results, counted by day, so that vendors see unmet demand."""

from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import delete, func, or_, select, text
from sqlalchemy.orm import Session

from marketplace.catalog.campus_filter import BY_CAMPUS_ID, BY_CAMPUS_SLUG, campus_parameters
from marketplace.catalog.search.models import CategorySearchMiss, SearchMiss
from marketplace.catalog.search.tokenizer import mask_personal_data
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.ids import parse_uuid
from marketplace.kernel.paging import TablePage, TableRequest
from marketplace.platform.models import Campus
from marketplace.vendors.queries import find_store_of_user

RETENTION = timedelta(days=90)
REPORTING_PERIOD = timedelta(days=30)
SORTS = ("count", "last_at", "query")


# An unknown campus inserts no row.
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


def record_zero_result(session: Session, *, query: str, campus: str | None, now: datetime) -> None:
    """Count a search without results in a single statement.

    The user is not recorded. Addresses, handles and long numbers are masked.

    :param query: as typed by the user
    :param campus: id or slug, or None
    """
    campus_values = campus_parameters(campus)
    _INCREMENT_COUNT[next(iter(campus_values), None)].run(
        session, query=mask_personal_data(query), day=now.date(), now=now, **campus_values
    )


_INCREMENT_CATEGORY_COUNT = Statement(
    text(
        """
        INSERT INTO category_search_misses (category_id, day, query)
        SELECT id, :day, :query FROM categories WHERE id = :category_id OR slug = :slug
        ON CONFLICT (category_id, day, query) DO UPDATE SET count = category_search_misses.count + 1
        """
    )
)


def record_zero_result_in_category(session: Session, *, query: str, category: str, now: datetime) -> None:
    """Count a search in a category without results, for the figures of the category's stores.

    :param query: as typed by the user; personal data is masked
    :param category: id or slug
    """
    category_id = parse_uuid(category)
    _INCREMENT_CATEGORY_COUNT.run(
        session,
        query=mask_personal_data(query),
        day=now.date(),
        category_id=category_id,
        slug=category if category_id is None else None,
    )


_ORDER_BY = {"count": "count {0}, query", "last_at": "last_at {0}, query", "query": "query {0}"}
# Searches without a campus count for every campus.
_SELECT_QUERIES_SQL = """
    SELECT query, CAST(sum(count) AS bigint) AS count, max(last_at) AS last_at, count(*) OVER () AS total
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


def list_zero_result_queries(
    session: Session, *, campus: str | None, vendor_user_id: UUID | None, page: TableRequest, now: datetime
) -> TablePage:
    """List searches without results of the last 30 days.

    :param campus: id or slug; None for the vendor's own campus, or for all campuses as staff
    :param vendor_user_id: None for staff
    """
    campus_id: UUID | None = None
    if campus is not None:
        named_id = parse_uuid(campus)
        is_named = Campus.slug == campus if named_id is None else Campus.id == named_id
        campus_id = session.scalar(select(Campus.id).where(is_named))
        if campus_id is None:
            return TablePage([], page, total=0)
    elif vendor_user_id is not None:
        store = find_store_of_user(session, user_id=vendor_user_id)
        campus_id = store.campus_id if store else None
    first_day = (now - REPORTING_PERIOD).date()
    rows = _SELECT_QUERIES[page.sort, page.descending].all(
        session, since=first_day, campus_id=campus_id, limit=page.limit, offset=page.offset
    )
    if rows:
        return TablePage(rows, page, total=rows[0]["total"])
    missed = select(func.count(SearchMiss.query.distinct())).where(SearchMiss.day >= first_day)
    if campus_id is not None:
        missed = missed.where(or_(SearchMiss.campus_id == campus_id, SearchMiss.campus_id.is_(None)))
    return TablePage(rows, page, total=session.scalar(missed) or 0)


def purge_old_counts(session: Session, *, now: datetime) -> int:
    """Delete counts older than ``RETENTION``.

    :return: the number of deleted rows
    """
    before = (now - RETENTION).date()
    session.execute(delete(CategorySearchMiss).where(CategorySearchMiss.day < before))
    old = delete(SearchMiss).where(SearchMiss.day < before)
    return len(session.scalars(old.returning(SearchMiss.id)).all())
