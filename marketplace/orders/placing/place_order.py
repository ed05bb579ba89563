"""Placing orders, one or a whole checkout: checked, priced, reserved and written in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.cart import operations as cart_operations
from marketplace.cart import queries as cart_queries
from marketplace.catalog import cache_tags, stock
from marketplace.catalog.promotions import flash_sales
from marketplace.identity import operations as identity_operations
from marketplace.identity import queries as identity_queries
from marketplace.identity.queries import Caller
from marketplace.infra.cache import drop_cached
from marketplace.infra.db import Json, Statement
from marketplace.infra.prepared import Prepared
from marketplace.kernel.errors import ConflictError, InvalidParam, ValidationError
from marketplace.orders import states
from marketplace.orders.deadlines import MAX_UNPAID_ORDERS, PAYMENT_WINDOW
from marketplace.orders.placing import wallet
from marketplace.orders.placing.order_validation import RequestedItem, VendorOrder, validate_and_price
from marketplace.orders.placing.wallet import NO_WALLET, WalletUse
from marketplace.orders.pricing import Fees
from marketplace.platform import features
from marketplace.platform import queries as platform_queries

_COUNT_UNPAID_ORDERS = Prepared(
    text("SELECT count(*) AS unpaid FROM orders WHERE buyer_id = :buyer_id AND status = 'pending_payment'")
)
_GENERATE_CHECKOUT_ID = Statement(text("SELECT uuidv7() AS id"))
# An order with its escrow, its lines and the first step of its trail.
_INSERT_ORDER = Prepared(
    text(
        """
        WITH placed AS (
            INSERT INTO orders (buyer_id, vendor_id, campus_id, checkout_id, status, subtotal_minor,
                delivery_fee_minor, service_fee_minor, discount_minor, total_minor, wallet_minor,
                delivery_method, shipping_address, note, expires_at, created_at, updated_at)
            VALUES (:buyer_id, :vendor_id, :campus_id, :checkout_id, :status, :subtotal_minor,
                :delivery_fee_minor, :service_fee_minor, :discount_minor, :total_minor, :wallet_minor,
                :delivery_method, :shipping_address, :note, :expires_at, :now, :now)
            RETURNING id
        ), held AS (
            INSERT INTO escrows (order_id, status, amount_minor, created_at, updated_at)
            SELECT id, :escrow_status, :total_minor, :now, :now FROM placed
        ), told AS (
            INSERT INTO order_events (order_id, to_status, trigger, actor, actor_id, at)
            SELECT id, :status, 'place', 'buyer', :buyer_id, :now FROM placed
        ), listed AS (
            INSERT INTO order_items (order_id, position, product_id, title, image_key, unit_price_minor, quantity,
                line_total_minor, commission_bps, flash_sale_id)
            SELECT placed.id, i.position - 1, i.product_id, i.title, i.image_key, i.price, i.quantity,
                i.price * i.quantity, i.bps, i.sale_id
            FROM placed, unnest(CAST(:products AS uuid[]), CAST(:titles AS text[]), CAST(:images AS text[]),
                CAST(:prices AS bigint[]), CAST(:quantities AS bigint[]), CAST(:commissions AS bigint[]),
                CAST(:sales AS uuid[]))
                WITH ORDINALITY AS i (product_id, title, image_key, price, quantity, bps, sale_id, position)
        )
        SELECT id FROM placed
        """
    )
)
_COPIED_ADDRESS_FIELDS = frozenset(
    {"label", "hostel", "hall", "roomNumber", "latitude", "longitude", "instructions", "phone"}
)


class TooManyUnpaidOrdersError(ConflictError):
    """The buyer has as many unpaid orders as one may have."""


class PriceChangedError(ConflictError):
    """The total is not what the client expected."""


@dataclass(frozen=True)
class Delivery:
    """Where orders go: one of a saved address, an address, or a hub to pick them up at."""

    method: str
    address_id: UUID | None = None
    address: dict[str, Any] | None = None
    hub_id: UUID | None = None


@dataclass(frozen=True)
class OrderRequest:
    """What somebody orders.

    :param buyer: who orders
    :param wishes: what, no product twice; none takes the whole cart
    :param delivery: where it goes
    :param note: for each vendor
    :param expected_total_minor: what the client showed, in kobo, over all orders; another total is refused
    :param wallet: how much of it the buyer's wallet pays
    """

    buyer: Caller
    wishes: Sequence[RequestedItem] | None
    delivery: Delivery
    note: str | None = None
    expected_total_minor: int | None = None
    wallet: WalletUse = NO_WALLET


@dataclass(frozen=True)
class Checkout:
    """What a checkout placed: an order per vendor, and what is still to be paid for them, in kobo."""

    id: UUID
    order_ids: tuple[UUID, ...]
    due_minor: int


@dataclass(frozen=True)
class _PlannedOrder:
    """An order that is about to be written, and what of it the wallet pays, in kobo."""

    parcel: VendorOrder
    wallet_minor: int

    @property
    def due_minor(self) -> int:
        """Give what remains to be paid."""
        return self.parcel.price.total_minor - self.wallet_minor


def place_order(session: Session, *, asked: OrderRequest, now: datetime) -> UUID:
    """Place an order: priced, its stock reserved, its escrow record made.

    It waits for payment, unless the wallet pays all of it. The cart is emptied if it is what was ordered.

    :param asked: what is ordered, all of one vendor
    :param now: the time of the request; payment has 30 minutes from it
    :return: the order's id
    :raises ValidationError: an item, the address or the hub is not to be had, each named
    :raises TooManyUnpaidOrdersError: five wait for payment already
    :raises InsufficientStockError: there is less than wished for
    :raises PriceChangedError: the total differs from the expected one
    :raises InsufficientFundsError: the wallet holds less than it is to pay
    :raises FeatureUnavailableError: nothing is placed for now: it is switched off, or there is maintenance
    """
    wishes = _lock_requested_items(session, asked)
    planned = _plan_orders(session, asked, wishes, one_vendor=True, now=now)
    [order_id] = _write_orders(session, asked, planned, checkout_id=None, now=now)
    if asked.wishes is None:
        cart_operations.clear_cart(session, user_id=asked.buyer.id)
    return order_id


def place_checkout(session: Session, *, asked: OrderRequest, now: datetime) -> Checkout:
    """Place an order with each vendor of what somebody wants: all of them, or none.

    What was ordered is taken out of the cart, and nothing else.

    :param asked: what is ordered; its wallet's part fills the orders one after the other
    :param now: the time of the request
    :raises ValidationError: as for ``place_order``; of several vendors it may be
    :raises TooManyUnpaidOrdersError: with these, more than five would wait for payment
    :raises InsufficientStockError: there is less than wished for
    :raises PriceChangedError: the sum of the totals differs from the expected one
    :raises InsufficientFundsError: the wallet holds less than it is to pay
    :raises FeatureUnavailableError: nothing is placed for now: it is switched off, or there is maintenance
    """
    wishes = _lock_requested_items(session, asked)
    planned = _plan_orders(session, asked, wishes, one_vendor=False, now=now)
    checkout_id: UUID = _GENERATE_CHECKOUT_ID.one(session)["id"]
    order_ids = _write_orders(session, asked, planned, checkout_id=checkout_id, now=now)
    cart_operations.remove_from_cart(
        session,
        user_id=asked.buyer.id,
        quantities={wish.product_id: wish.quantity for wish in wishes},
        now=now,
    )
    return Checkout(checkout_id, tuple(order_ids), sum(order.due_minor for order in planned))


def _lock_requested_items(session: Session, asked: OrderRequest) -> Sequence[RequestedItem]:
    """Give what is wanted. Two orders of one buyer at once come one after the other from here on.

    Otherwise each would count the other out of the limit, and both would order the same cart.
    """
    identity_operations.lock_profile(session, user_id=asked.buyer.id)
    if asked.wishes is not None:
        return asked.wishes
    lines = cart_queries.list_cart_quantities(session, user_id=asked.buyer.id)
    if not lines:
        raise ValidationError.of("items", "The cart is empty: name items or fill the cart first.")
    return [RequestedItem(product_id, quantity) for product_id, quantity in lines]


def _plan_orders(
    session: Session, asked: OrderRequest, wishes: Sequence[RequestedItem], *, one_vendor: bool, now: datetime
) -> list[_PlannedOrder]:
    """Check and price everything, reserve it, and spread the wallet's part; all rows are locked after that."""
    parcels = validate_and_price(
        session,
        wishes,
        buyer=asked.buyer,
        fees=_current_fees(session, now=now),
        delivered=asked.delivery.method == "delivery",
        one_vendor=one_vendor,
        now=now,
    )
    totals = [parcel.price.total_minor for parcel in parcels]
    total = sum(totals)
    if asked.expected_total_minor not in (None, total):
        raise PriceChangedError(
            f"The total is {total} kobo, not {asked.expected_total_minor}.",
            invalid_params=[InvalidParam("expectedTotalMinor", f"The total is {total} by now.")],
        )
    _reserve_stock(session, parcels)
    parts = wallet.allocate_wallet_payment(
        session, buyer_id=asked.buyer.id, use=asked.wallet, totals_minor=totals
    )
    planned = [_PlannedOrder(parcel, part) for parcel, part in zip(parcels, parts, strict=True)]
    unpaid = _COUNT_UNPAID_ORDERS.one(session, buyer_id=asked.buyer.id)["unpaid"]
    more = sum(order.due_minor > 0 for order in planned)
    if more and unpaid + more > MAX_UNPAID_ORDERS:
        advice = "pay or cancel some first" if unpaid else "order from fewer vendors at a time"
        raise TooManyUnpaidOrdersError(
            f"{unpaid + more} orders would wait for payment; at most {MAX_UNPAID_ORDERS} may: {advice}."
        )
    return planned


def _reserve_stock(session: Session, parcels: Sequence[VendorOrder]) -> None:
    """Reserve the stock of all parcels, and claim the pieces of flash sales; the products are locked."""
    quantities = {product_id: count for parcel in parcels for product_id, count in parcel.quantities.items()}
    if stock.reserve_stock(session, quantities=quantities):
        drop_cached(session, cache_tags.PRODUCTS)
    lines = [line for parcel in parcels for line in parcel.lines]
    flash_sales.reserve_units(
        session, units_by_sale={line.flash_sale_id: line.quantity for line in lines if line.flash_sale_id}
    )


def _write_orders(
    session: Session,
    asked: OrderRequest,
    planned: Sequence[_PlannedOrder],
    *,
    checkout_id: UUID | None,
    now: datetime,
) -> list[UUID]:
    address = _resolve_delivery_address(
        session, asked.delivery, buyer=asked.buyer, campus_id=planned[0].parcel.campus_id
    )
    order_ids = [
        _insert_order(session, asked, order, address=address, checkout_id=checkout_id, now=now)
        for order in planned
    ]
    parts = [order.wallet_minor for order in planned]
    wallet.pay_from_wallet(
        session, buyer_id=asked.buyer.id, parts_minor=dict(zip(order_ids, parts, strict=True)), now=now
    )
    return order_ids


def _current_fees(session: Session, *, now: datetime) -> Fees:
    """Give what the platform takes; nothing is placed while that is switched off."""
    settings = platform_queries.fetch_platform_settings(session)
    features.ensure_feature_on(settings, features.CHECKOUT, now=now)
    return Fees(
        commission_bps=settings["commission_bps"],
        service_fee_minor=settings["service_fee_minor"],
        delivery_fee_minor=settings["delivery_fee_minor"],
    )


def _resolve_delivery_address(
    session: Session, delivery: Delivery, *, buyer: Caller, campus_id: UUID
) -> dict[str, Any]:
    """Copy where the order goes, so that it stays what it was when it was placed."""
    if delivery.method == "pickup":
        hub = platform_queries.find_hub(session, hub_id=delivery.hub_id) if delivery.hub_id else None
        if hub is None or hub["campus_id"] != campus_id:
            raise ValidationError.of("hubId", "There is no such hub on the vendor's campus.")
        return {"hubId": str(hub["id"]), "hub": hub["name"], "address": hub["address"]}
    if delivery.address is not None:
        return delivery.address
    saved = identity_queries.list_addresses(session, user_id=buyer.id)
    for address in saved:
        if address["id"] == delivery.address_id or (delivery.address_id is None and address["isDefault"]):
            return {
                name: value
                for name, value in address.items()
                if name in _COPIED_ADDRESS_FIELDS and value is not None
            }
    raise ValidationError.of("addressId", "There is no such address; save one or send shippingAddress.")


def _insert_order(
    session: Session,
    asked: OrderRequest,
    order: _PlannedOrder,
    *,
    address: dict[str, Any],
    checkout_id: UUID | None,
    now: datetime,
) -> UUID:
    parcel, price = order.parcel, order.parcel.price
    order_id: UUID = _INSERT_ORDER.one(
        session,
        buyer_id=asked.buyer.id,
        vendor_id=parcel.vendor_id,
        campus_id=parcel.campus_id,
        checkout_id=checkout_id,
        status=states.ORDER.initial,
        escrow_status=states.ESCROW.initial,
        subtotal_minor=price.subtotal_minor,
        delivery_fee_minor=price.delivery_fee_minor,
        service_fee_minor=price.service_fee_minor,
        discount_minor=price.discount_minor,
        total_minor=price.total_minor,
        wallet_minor=order.wallet_minor,
        delivery_method=asked.delivery.method,
        shipping_address=Json(address),
        note=asked.note,
        expires_at=now + PAYMENT_WINDOW,
        now=now,
        products=[product.id for product in parcel.products],
        titles=[product.title for product in parcel.products],
        images=[product.cover_key for product in parcel.products],
        prices=[line.unit_price_minor for line in parcel.lines],
        quantities=[line.quantity for line in parcel.lines],
        commissions=[line.commission_bps for line in parcel.lines],
        sales=[line.flash_sale_id for line in parcel.lines],
    )["id"]
    return order_id
