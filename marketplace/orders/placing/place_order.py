"""Place an order or a checkout: validate, price, reserve stock and insert in a single transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Uuid, func, select, text
from sqlalchemy.orm import Session

from marketplace.cart import operations as cart_operations, queries as cart_queries
from marketplace.catalog import cache_tags, stock
from marketplace.catalog.promotions import flash_sales
from marketplace.identity import operations as identity_operations, queries as identity_queries
from marketplace.identity.models import CONTACT
from marketplace.infra.cache import drop_cached
from marketplace.infra.sql.statements import Json, Prepared
from marketplace.kernel.errors import ConflictError, InvalidParam, ValidationError
from marketplace.ledger import accounts
from marketplace.ledger.operations import InsufficientFundsError, Posting, lock_balances, post_transaction
from marketplace.orders import operations, states, texts
from marketplace.orders.deadlines import MAX_UNPAID_ORDERS, PAYMENT_WINDOW
from marketplace.orders.placing.order_validation import VendorOrder, validate_and_price
from marketplace.orders.pricing import Fees, allocate_in_order
from marketplace.orders.transitions import Actor, lock_orders
from marketplace.platform import features, queries as platform_queries


class TooManyUnpaidOrdersError(ConflictError):
    """The buyer has reached the limit of unpaid orders."""

    reason = "too-many-unpaid-orders"


class PriceChangedError(ConflictError):
    """The total differs from the total that the client expected."""

    reason = "price-changed"


class EmptyCartError(ValidationError):
    """The cart is empty, and the request names no items."""

    reason = "cart-empty"


@dataclass(frozen=True)
class Delivery:
    """The destination of orders: a saved address, a given address, or a hub for pickup."""

    method: str
    address_id: UUID | None = None
    address: dict[str, Any] | None = None
    hub_id: UUID | None = None


@dataclass(frozen=True)
class WalletUse:
    """The wallet's part of a payment: an amount in kobo, or the whole balance up to the total."""

    amount_minor: int = 0
    as_much_as_possible: bool = False


NO_WALLET = WalletUse()


@dataclass(frozen=True)
class OrderRequest:
    """A request to place orders.

    :param items: no product twice; none for the whole cart
    :param note: the buyer's note, which each vendor gets
    :param expected_total_minor: the total that the client showed, in kobo over all orders; another total is refused
    """

    buyer: identity_queries.Caller
    items: Sequence[cart_operations.RequestedItem] | None
    delivery: Delivery
    note: str | None = None
    expected_total_minor: int | None = None
    wallet: WalletUse = NO_WALLET


@dataclass(frozen=True)
class Checkout:
    """A placed checkout: an order for each vendor, and the amount left to pay in kobo."""

    id: UUID
    order_ids: tuple[UUID, ...]
    due_minor: int


def place_order(
    session: Session, *, request: OrderRequest, now: datetime, order_id: UUID | None = None
) -> UUID:
    """Place an order with a single vendor, reserve the stock and create the escrow record.

    The order waits 30 minutes for payment, unless the wallet pays all of it. An order of the whole cart empties the
    cart.

    :param order_id: the id of a demo order; None for a new id
    :return: the order's id
    :raises ValidationError: an item, the address or the hub is not available; the error names each
    :raises TooManyUnpaidOrdersError: the buyer already has five unpaid orders
    :raises InsufficientStockError: a quantity exceeds the stock
    :raises PriceChangedError: the total differs from the expected total
    :raises InsufficientFundsError: the requested wallet part exceeds the wallet balance
    :raises FeatureUnavailableError: checkout is switched off, or maintenance is on
    """
    planned = _plan_orders(
        session, request, _lock_requested_items(session, request), single_vendor=True, now=now
    )
    [placed_id] = _write_orders(session, request, planned, checkout_id=None, now=now, order_id=order_id)
    if request.items is None:
        cart_operations.clear_cart(session, user_id=request.buyer.id)
    return placed_id


def place_checkout(session: Session, *, request: OrderRequest, now: datetime) -> Checkout:
    """Place an order with each vendor of the items: all orders, or none.

    The ordered quantities are removed from the cart. The wallet's part fills the orders in sequence.

    :raises ValidationError: as for ``place_order``, but several vendors are allowed
    :raises TooManyUnpaidOrdersError: the buyer would have more than five unpaid orders
    :raises InsufficientStockError: a quantity exceeds the stock
    :raises PriceChangedError: the sum of the totals differs from the expected total
    :raises InsufficientFundsError: the requested wallet part exceeds the wallet balance
    :raises FeatureUnavailableError: checkout is switched off, or maintenance is on
    """
    items = _lock_requested_items(session, request)
    planned = _plan_orders(session, request, items, single_vendor=False, now=now)
    checkout_id = session.scalars(select(func.uuidv7(type_=Uuid))).one()
    order_ids = _write_orders(session, request, planned, checkout_id=checkout_id, now=now)
    cart_operations.remove_from_cart(
        session,
        user_id=request.buyer.id,
        quantities={item.product_id: item.quantity for item in items},
        now=now,
    )
    return Checkout(checkout_id, tuple(order_ids), sum(order.due_minor for order in planned))


def _lock_requested_items(session: Session, request: OrderRequest) -> Sequence[cart_operations.RequestedItem]:
    """Return the requested items after locking the buyer's profile.

    The lock puts concurrent requests of a buyer in sequence. Without the lock, two requests could together exceed the
    limit of unpaid orders, or both order the same cart.
    """
    identity_operations.lock_profile(session, user_id=request.buyer.id)
    if request.items is not None:
        return request.items
    lines = cart_queries.list_cart_items(session, user_id=request.buyer.id)
    if not lines:
        raise EmptyCartError.of("items", texts.EMPTY_CART)
    return [cart_operations.RequestedItem(line.product_id, line.quantity) for line in lines]


_COUNT_UNPAID_ORDERS = Prepared(
    text("SELECT count(*) FROM orders WHERE buyer_id = :buyer_id AND status = 'pending_payment'")
)


def _plan_orders(
    session: Session,
    request: OrderRequest,
    items: Sequence[cart_operations.RequestedItem],
    *,
    single_vendor: bool,
    now: datetime,
) -> list[VendorOrder]:
    """Validate and price the items, reserve stock and allocate the wallet's part.

    Products stay locked until the transaction ends. So does the balance of a wallet that pays a part.
    """
    settings = platform_queries.fetch_platform_settings(session)
    features.ensure_feature_on(settings, features.CHECKOUT, now=now)
    vendor_orders = validate_and_price(
        session,
        items,
        buyer=request.buyer,
        fees=Fees(
            commission_bps=settings["commission_bps"],
            service_fee_minor=settings["service_fee_minor"],
            delivery_fee_minor=settings["delivery_fee_minor"],
        ),
        is_delivery=request.delivery.method == "delivery",
        single_vendor=single_vendor,
        now=now,
    )
    totals_minor = [vendor_order.price.total_minor for vendor_order in vendor_orders]
    total_minor = sum(totals_minor)
    if request.expected_total_minor not in (None, total_minor):
        raise PriceChangedError(
            texts.PRICE_CHANGED.format(total_minor=total_minor, expected_minor=request.expected_total_minor),
            invalid_params=[InvalidParam("expectedTotalMinor", f"The total is now {total_minor}.")],
        )
    _reserve_stock(session, vendor_orders)
    wallet_parts_minor = _allocate_wallet_payment(
        session, buyer_id=request.buyer.id, wallet_use=request.wallet, totals_minor=totals_minor
    )
    planned = [
        replace(vendor_order, wallet_minor=wallet_part_minor)
        for vendor_order, wallet_part_minor in zip(vendor_orders, wallet_parts_minor, strict=True)
    ]
    unpaid = _COUNT_UNPAID_ORDERS.scalar(session, buyer_id=request.buyer.id)
    new_unpaid = sum(order.due_minor > 0 for order in planned)
    if new_unpaid and unpaid + new_unpaid > MAX_UNPAID_ORDERS:
        message = texts.TOO_MANY_UNPAID_ORDERS if unpaid else texts.TOO_MANY_VENDORS
        raise TooManyUnpaidOrdersError(message.format(count=unpaid + new_unpaid, limit=MAX_UNPAID_ORDERS))
    return planned


def _reserve_stock(session: Session, vendor_orders: Sequence[VendorOrder]) -> None:
    """Reserve stock and flash sale units of all orders. The caller holds the locks of the products."""
    quantities = {
        product.id: line.quantity
        for vendor_order in vendor_orders
        for product, line in zip(vendor_order.products, vendor_order.lines, strict=True)
    }
    if stock.reserve_stock(session, quantities=quantities):
        drop_cached(session, cache_tags.PRODUCTS)
    flash_sales.reserve_units(
        session,
        units_by_sale={
            line.flash_sale_id: line.quantity
            for vendor_order in vendor_orders
            for line in vendor_order.lines
            if line.flash_sale_id
        },
    )


def _allocate_wallet_payment(
    session: Session, *, buyer_id: UUID, wallet_use: WalletUse, totals_minor: Sequence[int]
) -> list[int]:
    """Lock the wallet's balance and allocate the wallet's part to orders.

    Earlier orders are filled first, so at most one order is paid partially.

    :param totals_minor: the orders' totals in kobo
    :return: the wallet's part of each order in kobo, in the same order
    :raises ValidationError: the requested amount exceeds the sum of the totals
    :raises InsufficientFundsError: the requested amount exceeds the balance
    """
    total = sum(totals_minor)
    if wallet_use.amount_minor > total:
        raise ValidationError.of("walletMinor", f"Exceeds the total ({total}).")
    if not wallet_use.amount_minor and not wallet_use.as_much_as_possible:
        return [0] * len(totals_minor)
    [balance] = lock_balances(session, accounts=[accounts.wallet(buyer_id)]).values()
    amount_minor = min(balance, total) if wallet_use.as_much_as_possible else wallet_use.amount_minor
    if amount_minor > balance:
        raise InsufficientFundsError(
            f"`walletMinor` must not exceed the wallet balance ({balance}).",
            invalid_params=[InvalidParam("walletMinor", f"Exceeds the wallet balance ({balance}).")],
        )
    return allocate_in_order(amount_minor, totals_minor)


def _write_orders(
    session: Session,
    request: OrderRequest,
    planned: Sequence[VendorOrder],
    *,
    checkout_id: UUID | None,
    now: datetime,
    order_id: UUID | None = None,
) -> list[UUID]:
    address = _resolve_delivery_address(
        session, request.delivery, buyer=request.buyer, campus_id=planned[0].campus_id
    )
    order_ids = [
        _insert_order(
            session, request, order, address=address, checkout_id=checkout_id, now=now, order_id=order_id
        )
        for order in planned
    ]
    _pay_from_wallet(
        session,
        buyer_id=request.buyer.id,
        amounts_minor=dict(zip(order_ids, (order.wallet_minor for order in planned), strict=True)),
        now=now,
    )
    return order_ids


_COPIED_ADDRESS_FIELDS = {
    "label": "label",
    "hostel": "hostel",
    "hall": "hall",
    "roomNumber": "room_number",
    "latitude": "latitude",
    "longitude": "longitude",
    "instructions": "instructions",
    "phone": "phone",
}


def _resolve_delivery_address(
    session: Session, delivery: Delivery, *, buyer: identity_queries.Caller, campus_id: UUID
) -> dict[str, Any]:
    """Copy the destination, so that later changes of the address do not change the order.

    :raises ValidationError: the address does not exist, or the hub is not on the vendor's campus
    """
    if delivery.method == "pickup":
        hub = platform_queries.find_open_hub(session, hub_id=delivery.hub_id) if delivery.hub_id else None
        if hub is None or hub.campus_id != campus_id:
            raise ValidationError.of("hubId", "Must be a hub on the vendor's campus.")
        return {"hubId": str(hub.id), "hub": hub.name, "address": hub.address}
    if delivery.address is not None:
        return delivery.address
    for address in identity_queries.list_addresses(session, user_id=buyer.id):
        if address.id == delivery.address_id or (delivery.address_id is None and address.is_default):
            return {
                key: getattr(address, name)
                for key, name in _COPIED_ADDRESS_FIELDS.items()
                if getattr(address, name) is not None
            }
    raise ValidationError.of("addressId", texts.ADDRESS_NOT_FOUND)


# A single statement inserts the order, the escrow, the lines and the first event.
_INSERT_ORDER = Prepared(
    text(
        """
        WITH placed AS (
            INSERT INTO orders (id, buyer_id, vendor_id, campus_id, checkout_id, status, subtotal_minor,
                delivery_fee_minor, service_fee_minor, discount_minor, total_minor, wallet_minor,
                delivery_method, shipping_address, delivery_phone, note, expires_at, created_at, updated_at)
            VALUES (coalesce(CAST(:order_id AS uuid), uuidv7()),
                :buyer_id, :vendor_id, :campus_id, :checkout_id, :status, :subtotal_minor,
                :delivery_fee_minor, :service_fee_minor, :discount_minor, :total_minor, :wallet_minor,
                :delivery_method, :shipping_address, :delivery_phone, :note, :expires_at, :now, :now)
            RETURNING id
        ), held AS (
            INSERT INTO escrows (order_id, status, amount_minor, created_at, updated_at)
            SELECT id, :escrow_status, :total_minor, :now, :now FROM placed
        ), recorded AS (
            INSERT INTO order_events (order_id, to_status, trigger, actor, actor_id, at)
            SELECT id, :status, 'place', 'buyer', :buyer_id, :now FROM placed
        ), listed AS (
            INSERT INTO order_items (order_id, position, product_id, title, image_key, product_revision, image_ids,
                unit_price_minor, quantity, line_total_minor, commission_bps, flash_sale_id)
            SELECT placed.id, i.position - 1, i.product_id, i.title, i.image_key,
                (SELECT p.revision FROM products p WHERE p.id = i.product_id),
                ARRAY(SELECT m.image_id FROM product_images m WHERE m.product_id = i.product_id ORDER BY m.position),
                i.price, i.quantity, i.price * i.quantity, i.bps, i.sale_id
            FROM placed, unnest(CAST(:products AS uuid[]), CAST(:titles AS text[]), CAST(:images AS text[]),
                CAST(:prices AS bigint[]), CAST(:quantities AS bigint[]), CAST(:commissions AS bigint[]),
                CAST(:sales AS uuid[]))
                WITH ORDINALITY AS i (product_id, title, image_key, price, quantity, bps, sale_id, position)
        )
        SELECT id FROM placed
        """
    ),
    encrypted={"delivery_phone": CONTACT},
)


def _insert_order(
    session: Session,
    request: OrderRequest,
    order: VendorOrder,
    *,
    address: dict[str, Any],
    checkout_id: UUID | None,
    now: datetime,
    order_id: UUID | None,
) -> UUID:
    price = order.price
    inserted_id: UUID = _INSERT_ORDER.scalar(
        session,
        order_id=order_id,
        buyer_id=request.buyer.id,
        vendor_id=order.vendor_id,
        campus_id=order.campus_id,
        checkout_id=checkout_id,
        status=states.ORDER.initial,
        escrow_status=states.ESCROW.initial,
        subtotal_minor=price.subtotal_minor,
        delivery_fee_minor=price.delivery_fee_minor,
        service_fee_minor=price.service_fee_minor,
        discount_minor=price.discount_minor,
        total_minor=price.total_minor,
        wallet_minor=order.wallet_minor,
        delivery_method=request.delivery.method,
        shipping_address=Json({key: value for key, value in address.items() if key != "phone"}),
        delivery_phone=address.get("phone"),
        note=request.note,
        expires_at=now + PAYMENT_WINDOW,
        now=now,
        products=[product.id for product in order.products],
        titles=[product.title for product in order.products],
        images=[product.cover_key for product in order.products],
        prices=[line.unit_price_minor for line in order.lines],
        quantities=[line.quantity for line in order.lines],
        commissions=[line.commission_bps for line in order.lines],
        sales=[line.flash_sale_id for line in order.lines],
    )
    return inserted_id


def _pay_from_wallet(
    session: Session, *, buyer_id: UUID, amounts_minor: Mapping[UUID, int], now: datetime
) -> None:
    """Move the wallet's part of orders into escrow, and mark fully paid orders as paid.

    :param amounts_minor: kobo by order; the orders were inserted in this transaction with these wallet parts
    :raises InsufficientFundsError: the wallet balance is less than the sum of the amounts
    """
    order_ids = sorted(order_id for order_id, minor in amounts_minor.items() if minor)
    if not order_ids:
        return
    orders = lock_orders(session, order_ids=order_ids)
    fully_paid = [order for order in orders if not order.due_minor]
    for order in fully_paid:
        operations.mark_paid(
            session,
            order=order,
            reference=f"wallet-{order.id.hex}",
            channel="wallet",
            paid_at=now,
            actor=Actor("buyer", buyer_id),
            now=now,
        )
    if fully_paid:
        operations.consume_stock(session, paid_orders=fully_paid)
    for order in orders:
        post_transaction(
            session,
            kind="wallet_payment",
            source=f"order:{order.id}",
            description=f"Wallet pays for order {order.number}",
            postings=[
                Posting(accounts.wallet(order.buyer_id), "debit", order.wallet_minor, order.id),
                Posting(accounts.ESCROW, "credit", order.wallet_minor, order.id),
            ],
            now=now,
        )
