"""Operations on the cart: synchronize with a client, clear, and remove ordered items."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, text
from sqlalchemy.orm import Session

from marketplace.cart import texts
from marketplace.cart.models import CartItem
from marketplace.catalog.sale_price import PRICE_COLUMNS_SQL, PricedRow
from marketplace.identity import operations as identity_operations
from marketplace.identity.queries import Caller
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import InvalidParam, ValidationError
from marketplace.vendors.queries import STORE_IS_OPEN_SQL

MAX_LINES = 50
MAX_QUANTITY = 1_000


@dataclass(frozen=True, slots=True)
class RequestedItem:
    """A product and the number of units that a buyer puts into a cart or an order."""

    product_id: UUID
    quantity: int


class InvalidCartError(ValidationError):
    """The cart has lines that are not allowed. The error names each such line."""

    reason = "cart-invalid"


@dataclass(frozen=True)
class _OfferedProduct(PricedRow):
    id: UUID
    campus_id: UUID
    user_id: UUID
    offered: bool


_SELECT_PRODUCTS = Statement(
    text(
        f"""
        SELECT {PRICE_COLUMNS_SQL}, p.id, p.campus_id, v.user_id,
            p.status = 'published' AND {STORE_IS_OPEN_SQL} AS offered
        FROM products p JOIN vendor_profiles v ON v.id = p.vendor_id
        WHERE p.id = ANY(:ids)
        """
    ),
    row=_OfferedProduct,
)
_UPSERT_LINES = Statement(
    text(
        """
        INSERT INTO cart_items (user_id, product_id, quantity, price_minor_seen, position, updated_at)
        SELECT :user_id, i.product_id, i.quantity, i.price, i.position - 1, :now
        FROM unnest(CAST(:ids AS uuid[]), CAST(:quantities AS bigint[]), CAST(:prices AS bigint[]))
            WITH ORDINALITY AS i (product_id, quantity, price, position)
        ON CONFLICT (user_id, product_id) DO UPDATE
        SET quantity = excluded.quantity, price_minor_seen = excluded.price_minor_seen,
            position = excluded.position, updated_at = excluded.updated_at
        """
    )
)


def synchronise_cart(
    session: Session, *, caller: Caller, lines: Sequence[RequestedItem], now: datetime
) -> None:
    """Replace the lines of the caller's cart.

    Missing stock is not an error: the cart keeps and marks sold-out products. All products must be of the caller's
    campus. If the caller has no campus, all products must be of the first line's campus.

    :param lines: at most ``MAX_LINES``, no product twice
    :raises InvalidCartError: a product is not available, belongs to the caller's own store, or is sold on another
        campus
    """
    identity_operations.lock_profile(session, user_id=caller.id)
    ids = [line.product_id for line in lines]
    products = {product.id: product for product in _SELECT_PRODUCTS.all(session, ids=ids, now=now)}
    _ensure_lines_allowed(lines, products, caller=caller)
    session.execute(delete(CartItem).where(CartItem.user_id == caller.id, CartItem.product_id.not_in(ids)))
    if ids:
        _UPSERT_LINES.run(
            session,
            user_id=caller.id,
            ids=ids,
            quantities=[line.quantity for line in lines],
            prices=[products[line.product_id].unit_price(quantity=line.quantity, now=now) for line in lines],
            now=now,
        )


def clear_cart(session: Session, *, user_id: UUID) -> None:
    """Empty a user's cart."""
    session.execute(delete(CartItem).where(CartItem.user_id == user_id))


_SUBTRACT_QUANTITIES = Statement(
    text(
        """
        WITH taken AS (
            SELECT * FROM unnest(CAST(:ids AS uuid[]), CAST(:quantities AS bigint[])) AS t (product_id, quantity)
        ), gone AS (
            DELETE FROM cart_items c USING taken t
            WHERE c.user_id = :user_id AND c.product_id = t.product_id AND c.quantity <= t.quantity
        )
        UPDATE cart_items c SET quantity = c.quantity - t.quantity, updated_at = :now FROM taken t
        WHERE c.user_id = :user_id AND c.product_id = t.product_id AND c.quantity > t.quantity
        """
    )
)


def remove_from_cart(
    session: Session, *, user_id: UUID, quantities: Mapping[UUID, int], now: datetime
) -> None:
    """Subtract ordered units from a user's cart. Products that are not in the cart are ignored.

    :param quantities: units by product
    """
    _SUBTRACT_QUANTITIES.run(
        session, user_id=user_id, ids=list(quantities), quantities=list(quantities.values()), now=now
    )


def _ensure_lines_allowed(
    lines: Sequence[RequestedItem], products: Mapping[UUID, _OfferedProduct], *, caller: Caller
) -> None:
    faults = []
    campus_id = caller.campus_id
    seen: set[UUID] = set()
    for index, line in enumerate(lines):
        product = products.get(line.product_id)
        reason = None
        if line.product_id in seen:
            reason = texts.DUPLICATE_PRODUCT
        elif product is None or not product.offered:
            reason = "This product is not available."
        elif product.user_id == caller.id:
            reason = "You cannot order from your own store."
        else:
            campus_id = campus_id or product.campus_id
            if product.campus_id != campus_id:
                reason = texts.OTHER_CAMPUS_ITEM
        seen.add(line.product_id)
        if reason:
            faults.append(InvalidParam(f"items[{index}].productId", reason))
    if faults:
        raise InvalidCartError(texts.INVALID_CART, invalid_params=faults)
