"""Placing an order: checked, priced and reserved in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.cart import operations as cart_operations
from marketplace.cart import queries as cart_queries
from marketplace.catalog import flash_sales, stock, tags
from marketplace.catalog.stock import LockedProduct
from marketplace.identity import operations as identity_operations
from marketplace.identity import queries as identity_queries
from marketplace.identity.queries import Caller
from marketplace.infra.cache import drop_cached
from marketplace.infra.db import Json, Statement
from marketplace.kernel.errors import ConflictError, InvalidParam, ValidationError
from marketplace.orders import states
from marketplace.orders.models import Escrow, Order, OrderEvent
from marketplace.orders.pricing import Fees, Line, Price, price_of
from marketplace.platform import queries as platform_queries
from marketplace.vendors.queries import find_store

PAYABLE_FOR = timedelta(minutes=30)
MAX_UNPAID_ORDERS = 5
MAX_LINES = 50

_COUNT_UNPAID = Statement(
    text("SELECT count(*) AS unpaid FROM orders WHERE buyer_id = :buyer_id AND status = 'pending_payment'")
)
_INSERT_ORDER = Statement(
    insert(Order).returning(Order.id),
    columns=(
        "buyer_id",
        "vendor_id",
        "campus_id",
        "status",
        "subtotal_minor",
        "delivery_fee_minor",
        "service_fee_minor",
        "discount_minor",
        "total_minor",
        "delivery_method",
        "shipping_address",
        "note",
        "expires_at",
        "created_at",
        "updated_at",
    ),
)
_INSERT_ITEMS = Statement(
    text(
        """
        INSERT INTO order_items (order_id, position, product_id, title, image_key, unit_price_minor, quantity,
            line_total_minor, commission_bps, flash_sale_id)
        SELECT :order_id, i.position - 1, i.product_id, i.title, i.image_key, i.price, i.quantity,
            i.price * i.quantity, i.bps, i.sale_id
        FROM unnest(CAST(:products AS uuid[]), CAST(:titles AS text[]), CAST(:images AS text[]),
            CAST(:prices AS bigint[]), CAST(:quantities AS bigint[]), CAST(:commissions AS bigint[]),
            CAST(:sales AS uuid[]))
            WITH ORDINALITY AS i (product_id, title, image_key, price, quantity, bps, sale_id, position)
        """
    )
)
_INSERT_ESCROW = Statement(
    insert(Escrow), columns=("order_id", "status", "amount_minor", "created_at", "updated_at")
)
_INSERT_EVENT = Statement(
    insert(OrderEvent), columns=("order_id", "to_status", "trigger", "actor", "actor_id", "at")
)


class TooManyUnpaidOrdersError(ConflictError):
    """The buyer has as many unpaid orders as one may have."""


class OutOfStockError(ConflictError):
    """Somebody else was faster."""


class PriceChangedError(ConflictError):
    """The total is not what the client expected."""


@dataclass(frozen=True)
class Wish:
    """What somebody wants of a product."""

    product_id: UUID
    quantity: int


@dataclass(frozen=True)
class Delivery:
    """Where an order goes: one of a saved address, an address, or a hub to pick it up at."""

    method: str
    address_id: UUID | None = None
    address: dict[str, Any] | None = None
    hub_id: UUID | None = None


def place_order(
    session: Session,
    *,
    buyer: Caller,
    wishes: Sequence[Wish] | None,
    delivery: Delivery,
    note: str | None,
    expected_total_minor: int | None,
    now: datetime,
) -> UUID:
    """This function will place an order: priced, its stock reserved, its escrow record made, unpaid.

    :param buyer: who orders
    :param wishes: what; none takes the cart, and empties it
    :param delivery: where it goes
    :param note: for the vendor
    :param expected_total_minor: what the client showed, in kobo; another total is refused
    :param now: the time of the request; payment has 30 minutes from it
    :return: the order's id
    :raises ValidationError: an item, the address or the hub is not to be had, each named
    :raises TooManyUnpaidOrdersError: five wait for payment already
    :raises OutOfStockError: there is less than wished for
    :raises PriceChangedError: the total differs from the expected one
    """
    # Two orders of one buyer at once would each count the other out of the limit.
    identity_operations.lock_profile(session, user_id=buyer.id)
    if _COUNT_UNPAID.one(session, buyer_id=buyer.id)["unpaid"] >= MAX_UNPAID_ORDERS:
        raise TooManyUnpaidOrdersError(
            f"{MAX_UNPAID_ORDERS} orders wait for payment: pay or cancel one first."
        )
    from_cart = wishes is None
    wanted = _wishes_of_cart(session, buyer) if wishes is None else wishes
    products = stock.lock_products(session, product_ids=[wish.product_id for wish in wanted])
    vendor_id, campus_id = _check(session, wanted, products, buyer=buyer, now=now)
    products = flash_sales.with_current_terms(session, products, now=now)
    fees = _fees(session)
    lines = [_line(products[wish.product_id], wish.quantity, fees, now=now) for wish in wanted]
    address = _address(session, delivery, buyer=buyer, campus_id=campus_id)
    price = price_of(lines, fees=fees, delivered=delivery.method == "delivery")
    if expected_total_minor is not None and expected_total_minor != price.total_minor:
        raise PriceChangedError(
            f"The total is {price.total_minor} kobo, not {expected_total_minor}.",
            invalid_params=[InvalidParam("expectedTotalMinor", f"The total is {price.total_minor} by now.")],
        )
    if stock.reserve(session, quantities={wish.product_id: wish.quantity for wish in wanted}):
        drop_cached(session, tags.PRODUCTS)
    flash_sales.claim(
        session, pieces={line.flash_sale_id: line.quantity for line in lines if line.flash_sale_id}
    )
    order_id = _insert(
        session,
        buyer=buyer,
        vendor_id=vendor_id,
        campus_id=campus_id,
        price=price,
        delivery=delivery,
        address=address,
        note=note,
        now=now,
    )
    _insert_items(session, order_id, wanted, products, lines)
    if from_cart:
        cart_operations.clear(session, user_id=buyer.id)
    return order_id


def _wishes_of_cart(session: Session, buyer: Caller) -> list[Wish]:
    lines = cart_queries.lines_for_order(session, user_id=buyer.id)
    if not lines:
        raise ValidationError.of("items", "The cart is empty: name items or fill the cart first.")
    return [Wish(product_id, quantity) for product_id, quantity in lines]


def _check(
    session: Session,
    wishes: Sequence[Wish],
    products: dict[UUID, LockedProduct],
    *,
    buyer: Caller,
    now: datetime,
) -> tuple[UUID, UUID]:
    """Check that everything can be ordered together, and give its vendor and campus."""
    faults = []
    for index, wish in enumerate(wishes):
        product = products.get(wish.product_id)
        if product is None or not product.published:
            faults.append(InvalidParam(f"items[{index}].productId", "There is no such product to be had."))
        elif buyer.campus_id not in (None, product.campus_id):
            faults.append(InvalidParam(f"items[{index}].productId", "Is of another campus than your own."))
    if faults:
        raise ValidationError("Not everything is to be had.", invalid_params=faults)
    vendors = {products[wish.product_id].vendor_id for wish in wishes}
    if len(vendors) > 1:
        raise ValidationError.of("items", "They are of several vendors; an order is of one.")
    store = find_store(session, vendor_id=vendors.pop())
    if store is None or not store.is_open(now):
        raise ValidationError.of("items", "The store takes no orders at the moment.")
    if store.user_id == buyer.id:
        raise ValidationError.of("items", "They are your own store's.")
    short = [
        InvalidParam(f"items[{index}].quantity", f"{products[wish.product_id].available} are left.")
        for index, wish in enumerate(wishes)
        if products[wish.product_id].available < wish.quantity
    ]
    if short:
        raise OutOfStockError("There is less in stock than was ordered.", invalid_params=short)
    return store.id, store.campus_id


def _fees(session: Session) -> Fees:
    settings = platform_queries.platform_settings(session)
    return Fees(
        commission_bps=settings["commission_bps"],
        service_fee_minor=settings["service_fee_minor"],
        delivery_fee_minor=settings["delivery_fee_minor"],
    )


def _line(product: LockedProduct, quantity: int, fees: Fees, *, now: datetime) -> Line:
    """Price a line: at the flash sale's price if one runs that has pieces for all of it."""
    commission = fees.commission_bps if product.commission_bps is None else product.commission_bps
    sale = product.sale
    if sale is not None and sale.honours(quantity=quantity, regular_minor=product.price_minor, now=now):
        return Line(sale.price_minor, quantity, commission, sale.sale_id)
    return Line(product.price_minor, quantity, commission)


def _address(session: Session, delivery: Delivery, *, buyer: Caller, campus_id: UUID) -> dict[str, Any]:
    """Copy where the order goes, so that it stays what it was when it was placed."""
    if delivery.method == "pickup":
        hub = platform_queries.find_hub(session, hub_id=delivery.hub_id) if delivery.hub_id else None
        if hub is None or hub["campus_id"] != campus_id:
            raise ValidationError.of("hubId", "There is no such hub on the vendor's campus.")
        return {"hubId": str(hub["id"]), "hub": hub["name"], "address": hub["address"]}
    if delivery.address is not None:
        return delivery.address
    saved = identity_queries.addresses_of(session, user_id=buyer.id)
    for address in saved:
        if address["id"] == delivery.address_id or (delivery.address_id is None and address["isDefault"]):
            return {name: value for name, value in address.items() if name in _COPIED and value is not None}
    raise ValidationError.of("addressId", "There is no such address; save one or send shippingAddress.")


_COPIED = frozenset(
    {"label", "hostel", "hall", "roomNumber", "latitude", "longitude", "instructions", "phone"}
)


def _insert(
    session: Session,
    *,
    buyer: Caller,
    vendor_id: UUID,
    campus_id: UUID,
    price: Price,
    delivery: Delivery,
    address: dict[str, Any],
    note: str | None,
    now: datetime,
) -> UUID:
    order_id: UUID = _INSERT_ORDER.one(
        session,
        buyer_id=buyer.id,
        vendor_id=vendor_id,
        campus_id=campus_id,
        status=states.ORDER.initial,
        subtotal_minor=price.subtotal_minor,
        delivery_fee_minor=price.delivery_fee_minor,
        service_fee_minor=price.service_fee_minor,
        discount_minor=price.discount_minor,
        total_minor=price.total_minor,
        delivery_method=delivery.method,
        shipping_address=Json(address),
        note=note,
        expires_at=now + PAYABLE_FOR,
        created_at=now,
        updated_at=now,
    )["id"]
    _INSERT_ESCROW.run(
        session,
        order_id=order_id,
        status=states.ESCROW.initial,
        amount_minor=price.total_minor,
        created_at=now,
        updated_at=now,
    )
    _INSERT_EVENT.run(
        session,
        order_id=order_id,
        to_status=states.ORDER.initial,
        trigger="place",
        actor="buyer",
        actor_id=buyer.id,
        at=now,
    )
    return order_id


def _insert_items(
    session: Session,
    order_id: UUID,
    wishes: Sequence[Wish],
    products: dict[UUID, LockedProduct],
    lines: Sequence[Line],
) -> None:
    _INSERT_ITEMS.run(
        session,
        order_id=order_id,
        products=[wish.product_id for wish in wishes],
        titles=[products[wish.product_id].title for wish in wishes],
        images=[products[wish.product_id].cover_key for wish in wishes],
        prices=[line.unit_price_minor for line in lines],
        quantities=[line.quantity for line in lines],
        commissions=[line.commission_bps for line in lines],
        sales=[line.flash_sale_id for line in lines],
    )
