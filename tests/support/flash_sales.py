"""Flash sales for tests of orders: created by domain functions, and queried."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from marketplace.audit.operations import Act
from marketplace.catalog.promotions import flash_sales
from marketplace.catalog.promotions.flash_sales import Discount
from tests.support.purchases import NOW, make_person, row_of

SALE_PRICE = 200_000


def act_of_new_officer(session: Session, now: datetime = NOW) -> Act:
    """Build an act of a new officer."""
    officer = make_person(session, role="staff", staff_role="moderator")
    return Act("moderator", now, user_id=officer.id)


def put_on_sale(session: Session, product_id: UUID, *, now: datetime = NOW, **terms: Any) -> UUID:
    """Create a flash sale of a product at ``SALE_PRICE``, by default for an hour from now."""
    given: dict[str, Any] = {
        "discount": Discount(price_minor=SALE_PRICE),
        "starts_at": None,
        "ends_at": now + timedelta(hours=1),
        "quantity": None,
    }
    return flash_sales.create_flash_sale(
        session, act_of_new_officer(session, now), product_id=product_id, **given | terms
    )


def item_of(session: Session, order_id: UUID) -> tuple[int, UUID | None]:
    """Return the unit price and the flash sale id of an order's single item."""
    item = row_of(session, "order_items", order_id=order_id)
    return item["unit_price_minor"], item["flash_sale_id"]


def units_sold_in(session: Session, sale_id: UUID) -> int:
    """Return the number of sold units of a flash sale."""
    sold: int = row_of(session, "flash_sales", id=sale_id)["sold"]
    return sold


def sale_units_left(session: Session, product_id: UUID) -> int | None:
    """Return the remaining units of a product's flash sale."""
    left: int | None = row_of(session, "products", id=product_id)["sale_left"]
    return left
