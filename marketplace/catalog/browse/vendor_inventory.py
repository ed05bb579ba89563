"""The inventory of a store: listings in every state, with fields that only the owner sees."""

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
    any_,
    bindparam,
    case,
    func,
    literal_column,
    null,
    select,
    text,
    tuple_,
)
from sqlalchemy.orm import Session

from marketplace.catalog import states
from marketplace.catalog.browse import listing
from marketplace.catalog.models import Product
from marketplace.catalog.statistics.models import ProductCount
from marketplace.infra.sql.statements import Row, Statement
from marketplace.kernel.paging import TablePage, TableRequest
from marketplace.vendors.models import VendorProfile
from marketplace.vendors.queries import require_store_of_user

DEFAULT_LOW_STOCK = 3
STATUSES = tuple(sorted(states.PRODUCT.states - {"deleted"}))
DEFAULT_SORT = "updated_at"

_SORTS: dict[str, Any] = {
    "updated_at": Product.updated_at,
    "created_at": Product.created_at,
    "title": Product.title,
    "price_minor": Product.price_minor,
    "available": Product.available,
    "popularity": Product.popularity,
}
SORTS = tuple(_SORTS)

# Fields for the owner only, by API name.
_OWNER_COLUMNS: dict[str, Any] = {
    "status": Product.status,
    "status_reason": Product.status_reason,
    "review_state": case(
        (Product.status != literal_column("'in_review'"), null()),
        (Product.held, literal_column("'held'")),
        else_=literal_column("'screening'"),
    ),
    "review_reasons": Product.review_reasons,
    "exclusive": Product.exclusive,
    "quantity": Product.quantity,
    "reserved": Product.reserved,
    "available": Product.available,
    "revision": Product.revision,
    "views": func.coalesce(ProductCount.views, 0),
    "cart_adds": func.coalesce(ProductCount.cart_adds, 0),
    "shares": func.coalesce(ProductCount.shares, 0),
    "created_at": Product.created_at,
    "updated_at": Product.updated_at,
}
_CONDITIONS: dict[str, ColumnElement[bool]] = {
    "status": Product.status == bindparam("status"),
    "low_stock": Product.available <= bindparam("low_stock_at"),
    "well_stocked": Product.available > bindparam("low_stock_at"),
    "words": func.strpos(func.lower(Product.title), func.lower(bindparam("words", type_=Text))) > 0,
    "category_ids": Product.category_id == any_(bindparam("category_ids", type_=ARRAY(Uuid))),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryFilters:
    """Filters of a vendor's inventory; None means no filter.

    :param status: a value of ``STATUSES``
    :param low_stock: True for at most ``low_stock_at`` available units, False for more
    :param words: part of the title, in any case
    :param category: id or slug; subcategories are included
    """

    status: str | None = None
    low_stock: bool | None = None
    low_stock_at: int = DEFAULT_LOW_STOCK
    words: str | None = None
    category: str | None = None


def _apply_filters(clause: Any, conditions: tuple[str, ...]) -> Any:
    # The condition on the status equals the condition of the partial index.
    return clause.where(
        Product.vendor_id == bindparam("vendor_id"), text("products.status <> 'deleted'")
    ).where(*(_CONDITIONS[name] for name in conditions))


@lru_cache(maxsize=2048)  # more than the number of combinations
def _page_statement(
    sort: str, conditions: tuple[str, ...], *, descending: bool, has_cursor: bool
) -> Statement[Row]:
    column = _SORTS[sort]
    clause = (
        select(*listing.CARD_COLUMNS, *_OWNER_COLUMNS.values(), column.label("position"))
        .join(VendorProfile, VendorProfile.id == Product.vendor_id)
        .outerjoin(ProductCount, ProductCount.product_id == Product.id)
        .order_by(*((column.desc(), Product.id.desc()) if descending else (column, Product.id)))
        .limit(bindparam("limit"))
        .offset(bindparam("offset"))
    )
    if has_cursor:
        here = tuple_(column, Product.id)
        clause = clause.where(here < listing.LAST_ROW if descending else here > listing.LAST_ROW)
    return Statement(_apply_filters(clause, conditions))


@lru_cache(maxsize=64)
def _count_statement(conditions: tuple[str, ...]) -> Statement[Row]:
    return Statement(_apply_filters(select(func.count()).select_from(Product), conditions))


def list_inventory(
    session: Session,
    *,
    user_id: UUID,
    filters: InventoryFilters,
    page: TableRequest,
    now: datetime,
    media_base_url: str,
) -> TablePage:
    """List the inventory of the caller's store in four queries, or five with a category.

    :param page: sorted by a name of ``SORTS``
    :return: cards with the owner's fields; ``counts`` by status cover the whole store
    :raises StoreRequiredError: the caller has no store
    """
    store = require_store_of_user(session, user_id=user_id)
    counts = _count_by_status(session, vendor_id=store.id, low_stock_at=filters.low_stock_at)
    parameters = _filter_parameters(session, filters)
    if parameters is None:
        return TablePage([], page, 0, extra_meta={"counts": counts})
    conditions = tuple(parameters)
    values = {**parameters, "vendor_id": store.id, "low_stock_at": filters.low_stock_at}
    total = _count_statement(conditions).scalar(session, **values)
    if page.position is not None:
        values["last_position"], values["last_id"] = page.after(
            listing.cursor_part_type(_SORTS[page.sort]), "id"
        )
    rows = _page_statement(
        page.sort, conditions, descending=page.descending, has_cursor=page.position is not None
    ).tuples(
        session, **values, now=now, media_base_url=media_base_url, limit=page.limit + 1, offset=page.offset
    )
    page_rows = rows[: page.limit]
    return TablePage(
        items=[
            # The owner's columns stand between the card's columns and the sort value.
            vars(listing.build_card(row))
            | dict(zip(_OWNER_COLUMNS, row[len(listing.CARD_COLUMNS) : -1], strict=True))
            for row in page_rows
        ],
        request=page,
        total=total,
        next_position=listing.cursor_position(page_rows[-1]) if len(rows) > page.limit else None,
        extra_meta={"counts": counts},
    )


_COUNT_LISTINGS_BY_STATUS = Statement(
    text(
        """
        SELECT status, count(*) AS listings,
            count(*) FILTER (WHERE available <= :low_stock_at) AS low_stock,
            count(*) FILTER (WHERE available = 0) AS out_of_stock
        FROM products WHERE vendor_id = :vendor_id AND status <> 'deleted' GROUP BY status
        """
    )
)


def _count_by_status(session: Session, *, vendor_id: UUID, low_stock_at: int) -> dict[str, int]:
    rows = _COUNT_LISTINGS_BY_STATUS.all(session, vendor_id=vendor_id, low_stock_at=low_stock_at)
    return (
        dict.fromkeys(STATUSES, 0)
        | {row["status"]: row["listings"] for row in rows}
        | {
            "low_stock": sum(row["low_stock"] for row in rows),
            "out_of_stock": sum(row["out_of_stock"] for row in rows),
        }
    )


def _filter_parameters(session: Session, filters: InventoryFilters) -> dict[str, Any] | None:
    """Return the conditions of the filters with values, or None if no listing can match."""
    parameters: dict[str, Any] = {
        name: value
        for name, value in (("status", filters.status), ("words", filters.words))
        if value is not None
    }
    if filters.category is not None:
        parameters["category_ids"] = listing.list_category_subtree(session, filters.category)
        if not parameters["category_ids"]:
            return None
    if filters.low_stock is not None:
        parameters["low_stock" if filters.low_stock else "well_stocked"] = True
    return parameters
