"""Flash sale listings for the public and for staff."""

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import BindParameter, and_, bindparam, case, func, literal_column, or_, select, tuple_
from sqlalchemy.orm import Session

from marketplace.catalog.browse.listing import CARD_COLUMNS, LAST_ROW, build_card
from marketplace.catalog.campus_filter import campus_condition, campus_parameters
from marketplace.catalog.models import Product
from marketplace.catalog.promotions.flash_sales import MAX_SALE_DURATION
from marketplace.catalog.promotions.listing import ENDED, RUNNING, UPCOMING
from marketplace.catalog.promotions.models import FlashSale
from marketplace.catalog.sale_price import percent_off
from marketplace.infra.sql.statements import Row, Statement
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import found
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.vendors.models import VendorProfile
from marketplace.vendors.queries import STORE_IS_OPEN

SOLD_OUT = "sold_out"
PUBLIC_STATES = (UPCOMING, RUNNING, SOLD_OUT)
FLASH_SALE_STATES = (*PUBLIC_STATES, ENDED)

_NOW: BindParameter[Any] = bindparam("now")
_HAS_BEGUN = FlashSale.starts_at <= _NOW
_HAS_NOT_ENDED = and_(FlashSale.over_at > _NOW, FlashSale.over_at > FlashSale.starts_at)
_HAS_UNITS_LEFT = or_(FlashSale.quantity.is_(None), FlashSale.sold < FlashSale.quantity)
_STATE_CONDITIONS = {
    UPCOMING: and_(FlashSale.starts_at > _NOW, _HAS_NOT_ENDED),
    RUNNING: and_(_HAS_BEGUN, _HAS_NOT_ENDED, _HAS_UNITS_LEFT),
    SOLD_OUT: and_(_HAS_BEGUN, _HAS_NOT_ENDED, FlashSale.sold >= FlashSale.quantity),
    ENDED: or_(FlashSale.over_at <= _NOW, FlashSale.over_at <= FlashSale.starts_at),
}

_SALE_COLUMNS = (
    FlashSale.id.label("sale_id"),
    FlashSale.sale_price_minor.label("sale_price_minor"),
    FlashSale.starts_at.label("starts_at"),
    FlashSale.over_at.label("over_at"),
    FlashSale.quantity.label("quantity"),
    FlashSale.sold.label("sold"),
)


@lru_cache(maxsize=64)
def _public_statement(*, state: str | None, campus: str | None, has_cursor: bool) -> Statement[Row]:
    """Select public sales that have not ended; running sales are ordered by end, all others by start."""
    clause = (
        select(*CARD_COLUMNS, *_SALE_COLUMNS)
        .join(Product, Product.id == FlashSale.product_id)
        .join(VendorProfile, VendorProfile.id == Product.vendor_id)
        .where(
            Product.status == literal_column("'published'"),
            STORE_IS_OPEN,
            FlashSale.sale_price_minor < Product.price_minor,
            _HAS_NOT_ENDED if state is None else _STATE_CONDITIONS[state],
        )
        .limit(bindparam("limit"))
    )
    if campus is not None:
        clause = clause.where(campus_condition(Product.campus_id, campus))
    order: Any = FlashSale.over_at if state == RUNNING else FlashSale.starts_at
    if state != RUNNING:
        # No sale lasts longer, so older sales cannot match.
        clause = clause.where(FlashSale.starts_at > bindparam("oldest"))
    if has_cursor:
        clause = clause.where(tuple_(order, FlashSale.id) > LAST_ROW)
    return Statement(clause.order_by(order, FlashSale.id))


def list_public_flash_sales(
    session: Session,
    *,
    state: str | None,
    campus: str | None,
    page: PageRequest,
    now: datetime,
    media_base_url: str,
) -> Page:
    """List upcoming, running and sold-out flash sales of publicly visible products.

    A sale is not listed if the regular price is equal or lower. Running sales are sorted by end, the next to end
    first. All others are sorted by start.

    :param state: a value of ``PUBLIC_STATES``, or None for all of these states
    :param campus: id or slug, or None for all campuses
    """
    campus_values = campus_parameters(campus)
    statement = _public_statement(
        state=state, campus=next(iter(campus_values), None), has_cursor=page.position is not None
    )
    last_position, last_id = page.after("time", "id")
    rows = statement.tuples(
        session,
        **campus_values,
        last_position=last_position,
        last_id=last_id,
        now=now,
        oldest=now - MAX_SALE_DURATION - timedelta(seconds=1),
        media_base_url=media_base_url,
        limit=page.limit + 1,
    )
    moment = "ends_at" if state == RUNNING else "starts_at"
    return page_of(
        [_public_view(row, now=now) for row in rows],
        request=page,
        position_of=lambda sale: [iso(sale[moment]), str(sale["id"])],
    )


def _public_view(row: tuple[Any, ...], *, now: datetime) -> dict[str, Any]:
    sale_id, sale_price_minor, starts_at, over_at, quantity, sold = row[-len(_SALE_COLUMNS) :]
    product = build_card(row)
    begun_state = SOLD_OUT if quantity is not None and sold >= quantity else RUNNING
    return {
        "id": sale_id,
        "state": UPCOMING if starts_at > now else begun_state,
        "price_minor": sale_price_minor,
        "regular_price_minor": product.price_minor,
        "percent_off": percent_off(product.price_minor, sale_price_minor=sale_price_minor),
        "starts_at": starts_at,
        "ends_at": over_at,
        "quantity": quantity,
        "left": None if quantity is None else quantity - sold,
        "product": product,
    }


_STAFF_COLUMNS = (
    FlashSale.id,
    case(
        (_STATE_CONDITIONS[ENDED], ENDED),
        (FlashSale.starts_at > _NOW, UPCOMING),
        (FlashSale.sold >= FlashSale.quantity, SOLD_OUT),
        else_=RUNNING,
    ).label("state"),
    func.jsonb_build_object(
        *("id", Product.id, "title", Product.title, "status", Product.status),
        *("price_minor", Product.price_minor, "campus_id", Product.campus_id, "vendor_id", Product.vendor_id),
    ).label("product"),
    FlashSale.sale_price_minor,
    FlashSale.percent_off,
    FlashSale.starts_at,
    FlashSale.ends_at,
    FlashSale.quantity,
    FlashSale.sold,
    FlashSale.created_by,
    FlashSale.created_at,
    FlashSale.updated_at,
    FlashSale.ended_at,
    FlashSale.ended_by,
    FlashSale.revision,
)


def list_flash_sales_for_staff(
    session: Session, *, state: str | None, product_id: UUID | None, page: PageRequest, now: datetime
) -> Page:
    """List flash sales in any state, newest first.

    :param state: a value of ``FLASH_SALE_STATES``, or None for all
    """
    [last_id] = page.after("id")
    clause = select(*_STAFF_COLUMNS).join(Product, Product.id == FlashSale.product_id)
    if state is not None:
        clause = clause.where(_STATE_CONDITIONS[state])
    if product_id is not None:
        clause = clause.where(FlashSale.product_id == product_id)
    if last_id is not None:
        clause = clause.where(FlashSale.id < last_id)
    rows = session.execute(clause.order_by(FlashSale.id.desc()).limit(page.limit + 1), {"now": now}).all()
    return page_of(list(rows), request=page, position_of=lambda row: [str(row.id)])


def fetch_flash_sale_for_staff(session: Session, *, sale_id: UUID, now: datetime) -> Any:
    """Fetch a flash sale in any state.

    :raises NotFoundError: the sale does not exist
    """
    clause = select(*_STAFF_COLUMNS).join(Product, Product.id == FlashSale.product_id)
    return found(
        session.execute(clause.where(FlashSale.id == sale_id), {"now": now}).one_or_none(),
        "Flash sale not found.",
    )
