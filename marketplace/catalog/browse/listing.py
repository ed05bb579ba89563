"""The public product listing: cards, filters, sort orders and keyset pages.

A card is the short form of a product in every listing. Each combination of filters and sort order is built once.

Values of narrowing filters are literals in the SQL statement. The planner then knows the values and can choose
between the index of the sort order and the index of the filter. Pages of the default length without narrowing filters
always use the index of the sort order, so their statements are prepared.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Text,
    Uuid,
    and_,
    any_,
    bindparam,
    cast,
    exists,
    literal_column,
    select,
    text,
    tuple_,
)
from sqlalchemy.orm import Session

from marketplace.catalog.campus_filter import (
    BY_CAMPUS_ID,
    BY_CAMPUS_SLUG,
    campus_condition,
    campus_parameters,
)
from marketplace.catalog.models import Product
from marketplace.catalog.sale_price import CURRENT_SALE, sale_view
from marketplace.catalog.statistics.models import ProductCount
from marketplace.infra.sql.statements import Prepared, Row, Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.ids import parse_uuid
from marketplace.kernel.money import CURRENCY
from marketplace.kernel.paging import DEFAULT_LIMIT, CursorValueType, Page, PageRequest, page_of
from marketplace.kernel.ratings import average_rating
from marketplace.vendors.models import VendorProfile
from marketplace.vendors.queries import STORE_IS_OPEN

# Sort value and id of the last page's last row. The literals are untyped: the server infers the types.
LAST_ROW = tuple_(bindparam("last_position", type_=Text), bindparam("last_id", type_=Text))
# Ids are read as text, because the driver would build UUID objects that are converted to text again.
CARD_COLUMNS: tuple[ColumnElement[Any], ...] = (
    cast(Product.id, Text).label("id"),
    Product.title.label("title"),
    Product.price_minor.label("price_minor"),
    Product.condition.label("condition"),
    (bindparam("media_base_url", type_=Text) + "/" + Product.cover_key).label("image_url"),
    cast(Product.campus_id, Text).label("campus_id"),
    cast(Product.category_id, Text).label("category_id"),
    cast(VendorProfile.id, Text).label("vendor_id"),
    VendorProfile.display_name.label("vendor_name"),
    VendorProfile.slug.label("vendor_slug"),
    VendorProfile.verified.label("vendor_verified"),
    VendorProfile.rating_sum.label("vendor_rating_sum"),
    VendorProfile.rating_count.label("vendor_rating_count"),
    (Product.available > 0).label("in_stock"),
    Product.rating_sum.label("rating_sum"),
    Product.rating_count.label("rating_count"),
    Product.published_at.label("published_at"),
    CURRENT_SALE.label("sale"),
)


@dataclass
class StoreSummary:
    """The store of a card's product."""

    id: str
    display_name: str
    slug: str
    verified: bool
    rating: float | None


@dataclass
class ProductCard:
    """A product in a listing.

    The class is not frozen, because creating a frozen card takes three times as long.
    """

    id: str
    title: str
    price_minor: int
    currency: str
    flash_sale: dict[str, Any] | None
    condition: str
    image_url: str | None
    campus_id: str
    category_id: str
    vendor: StoreSummary
    in_stock: bool
    rating_average: float | None
    rating_count: int
    published_at: datetime


def build_card(row: tuple[Any, ...]) -> ProductCard:
    """Build a card from a row that begins with ``CARD_COLUMNS``; further columns are ignored."""
    (
        product_id,
        title,
        price_minor,
        condition,
        image_url,
        campus_id,
        category_id,
        vendor_id,
        vendor_name,
        vendor_slug,
        vendor_verified,
        vendor_rating_sum,
        vendor_rating_count,
        in_stock,
        rating_sum,
        rating_count,
        published_at,
        sale,
    ) = row[:18]
    vendor_rating = average_rating(vendor_rating_sum, vendor_rating_count)
    return ProductCard(
        product_id,
        title,
        price_minor,
        CURRENCY,
        sale_view(sale, price_minor=price_minor),
        condition,
        image_url,
        campus_id,
        category_id,
        StoreSummary(vendor_id, vendor_name, vendor_slug, vendor_verified, vendor_rating),
        in_stock,
        average_rating(rating_sum, rating_count),
        rating_count,
        published_at,
    )


def card_page(
    rows: list[tuple[Any, ...]], request: PageRequest, *, position_of: Callable[[tuple[Any, ...]], list[Any]]
) -> Page:
    """Build a page of cards.

    :param rows: at most one row more than the page holds, each beginning with ``CARD_COLUMNS``
    :param position_of: returns the sort key of a row
    """
    page = page_of(rows, request=request, position_of=position_of)
    return Page([build_card(row) for row in page.items], page.limit, page.next_position)


@dataclass(frozen=True, slots=True)
class _Sort:
    """A sort order: the first column of an index, and the product id as the last column."""

    column: Any
    descending: bool
    id_column: Any = Product.id


_SORTS = {
    "newest": _Sort(Product.published_at, descending=True),
    "price_asc": _Sort(Product.price_minor, descending=False),
    "price_desc": _Sort(Product.price_minor, descending=True),
    "popular": _Sort(Product.popularity, descending=True),
    "rating": _Sort(Product.rating_bayes, descending=True),
    # Covers counted products only, so clients cannot choose this order.
    "trending": _Sort(ProductCount.trending, descending=True, id_column=ProductCount.product_id),
}
SORTS = tuple(name for name in _SORTS if name != "trending")
DEFAULT_SORT = "newest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductFilters:
    """Filters of the public listing; None means no filter.

    :param campus: id or slug
    :param category: id or slug; subcategories are included
    :param min_price_minor: kobo, inclusive
    :param max_price_minor: kobo, inclusive
    :param vendor_id: id of the vendor profile
    :param in_stock: True for products in stock, False for sold-out products
    :param published_after: exclusive bound of the first publication
    :param exclusive: True for exclusive products of verified stores
    """

    campus: str | None = None
    category: str | None = None
    min_price_minor: int | None = None
    max_price_minor: int | None = None
    condition: str | None = None
    vendor_id: UUID | None = None
    in_stock: bool | None = None
    published_after: datetime | None = None
    exclusive: bool = False


_CONDITIONS: dict[str, ColumnElement[bool]] = {
    **{by: campus_condition(Product.campus_id, by) for by in (BY_CAMPUS_ID, BY_CAMPUS_SLUG)},
    "category_ids": Product.category_id == any_(bindparam("category_ids", type_=ARRAY(Uuid))),
    "min_price": Product.price_minor >= bindparam("min_price"),
    "max_price": Product.price_minor <= bindparam("max_price"),
    "condition": Product.condition == bindparam("condition"),
    "vendor_id": Product.vendor_id == bindparam("vendor_id"),
    "in_stock": Product.available > 0,
    "sold_out": Product.available == 0,
    "published_after": Product.published_at > bindparam("published_after"),
    "exclusive": and_(Product.exclusive, VendorProfile.verified),
    "trends": and_(ProductCount.product_id == Product.id, ProductCount.trending.is_not(None)),
    "trends_not": ~exists().where(ProductCount.product_id == Product.id, ProductCount.trending.is_not(None)),
}
# The index of the sort order stays the best plan with these filters. A campus filter is included only for the default
# sort, which has an index by campus. In the other indexes, a small campus has few rows among many.
_INDEX_FRIENDLY_FILTERS = frozenset({"condition", "in_stock", "published_after", "trends", "trends_not"})
_INDEX_FRIENDLY_IN_DEFAULT_SORT = _INDEX_FRIENDLY_FILTERS | {BY_CAMPUS_ID, BY_CAMPUS_SLUG}


@lru_cache(maxsize=2048)  # more than the number of combinations
def _listing_statement(
    sort: str, conditions: tuple[str, ...], *, has_cursor: bool, is_default_page: bool
) -> Statement[Row]:
    """Build a listing statement once; ``is_default_page`` needs the default length and index-friendly filters."""
    column, id_column, descending = _SORTS[sort].column, _SORTS[sort].id_column, _SORTS[sort].descending
    clause = (
        select(*CARD_COLUMNS, column.label("position"))
        .join(VendorProfile, VendorProfile.id == Product.vendor_id)
        .where(Product.status == literal_column("'published'"), STORE_IS_OPEN)
        .where(*(_CONDITIONS[name] for name in conditions))
        .order_by(*((column.desc(), id_column.desc()) if descending else (column, id_column)))
    )
    if has_cursor:
        here = tuple_(column, id_column)
        clause = clause.where(here < LAST_ROW if descending else here > LAST_ROW)
    if is_default_page:
        return Prepared(clause.limit(DEFAULT_LIMIT + 1))
    return Statement(clause.limit(bindparam("limit")))


def list_products(
    session: Session,
    *,
    filters: ProductFilters,
    sort: str,
    page: PageRequest,
    now: datetime,
    media_base_url: str,
) -> Page:
    """List published products of open stores in a single query, or two with a category.

    :param sort: a name of ``SORTS``
    :param page: the cursor position holds the sort value and the id of the last product shown
    :return: product cards; none for a campus or category that does not exist
    """
    conditions = build_conditions(session, filters)
    if conditions is None:
        return Page(items=[], limit=page.limit, next_position=None)
    rows = fetch_listing_rows(
        session, sort=sort, conditions=conditions, page=page, now=now, media_base_url=media_base_url
    )
    return card_page(rows, page, position_of=cursor_position)


def fetch_listing_rows(
    session: Session,
    *,
    sort: str,
    conditions: dict[str, Any],
    page: PageRequest,
    now: datetime,
    media_base_url: str,
) -> list[tuple[Any, ...]]:
    """Fetch the rows of a page, and a further row if the listing goes on, in a single query.

    :param sort: any sort order of this module, including ``trending``
    :param conditions: result of ``build_conditions``
    :return: rows that begin with ``CARD_COLUMNS`` and end with the sort value
    """
    statement = _listing_statement(
        sort,
        tuple(conditions),
        has_cursor=page.position is not None,
        is_default_page=page.limit == DEFAULT_LIMIT
        and (_INDEX_FRIENDLY_IN_DEFAULT_SORT if sort == DEFAULT_SORT else _INDEX_FRIENDLY_FILTERS).issuperset(
            conditions
        ),
    )
    last: dict[str, Any] = {}
    if page.position is not None:
        last["last_position"], last["last_id"] = page.after(cursor_part_type(_SORTS[sort].column), "id")
    return statement.tuples(
        session, **conditions, **last, now=now, media_base_url=media_base_url, limit=page.limit + 1
    )


_CURSOR_PART_TYPES: dict[type, CursorValueType] = {datetime: "time", str: "text"}


def cursor_part_type(column: Any) -> CursorValueType:
    """Return the cursor value type of a sort column."""
    return _CURSOR_PART_TYPES.get(column.type.python_type, "number")


def cursor_position(row: tuple[Any, ...]) -> list[Any]:
    """Return the cursor position of a row: sort value and product id."""
    value = row[-1]
    return [iso(value) if isinstance(value, datetime) else value, row[0]]


def build_conditions(session: Session, filters: ProductFilters) -> dict[str, Any] | None:
    """Build the conditions of the filters with values, in a fixed order.

    :return: None if no product can match, because the category does not exist
    """
    conditions = campus_parameters(filters.campus)
    if filters.category is not None:
        conditions["category_ids"] = list_category_subtree(session, filters.category)
        if not conditions["category_ids"]:
            return None
    conditions |= {
        name: value
        for name, value in (
            ("min_price", filters.min_price_minor),
            ("max_price", filters.max_price_minor),
            ("condition", filters.condition),
            ("vendor_id", filters.vendor_id),
            ("published_after", filters.published_after),
        )
        if value is not None
    }
    if filters.in_stock is not None:
        conditions["in_stock" if filters.in_stock else "sold_out"] = True
    if filters.exclusive:
        conditions["exclusive"] = True
    return conditions


_SELECT_CATEGORY_SUBTREE = Prepared(
    text(
        """
        SELECT id FROM categories
        WHERE lineage @> ARRAY[coalesce(CAST(:category_id AS uuid), (SELECT id FROM categories WHERE slug = :slug))]
        """
    )
)


def list_category_subtree(session: Session, category: str) -> list[UUID]:
    """List the ids of a category and of all subcategories.

    :param category: id or slug
    :return: empty if the category does not exist
    """
    return _SELECT_CATEGORY_SUBTREE.scalars(session, category_id=parse_uuid(category), slug=category)
