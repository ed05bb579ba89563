"""Routes of orders: place, accept, ship, cancel, and release escrow."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from flask import Response

from blueprints.http import (
    AUTHENTICATED,
    AUTHENTICATED_ANY_STATUS,
    MAX_CSV_ROWS,
    ORDER_STAFF,
    STAFF,
    VENDOR_ANY_STATUS,
    Context,
    ContractBlueprint,
    Idempotency,
    RouteLimit,
    SharedLimit,
    csv_response,
    wants_csv,
)
from blueprints.orders.money_trail_schemas import MoneyTrailView
from blueprints.orders.schemas import (
    CancelOrder,
    CheckoutView,
    DeliveryPin,
    FulfilmentUpdate,
    OrderEventView,
    OrderItemView,
    OrderQuery,
    OrderView,
    PlaceOrder,
    VendorOrderCounts,
)
from blueprints.orders.staff_schemas import CampusOrder, CampusOrderQuery, OrderAuditQuery, OrderAuditRow
from marketplace.cart.operations import RequestedItem
from marketplace.kernel.errors import AccountNotActiveError, NotFoundError
from marketplace.kernel.paging import Page, TablePage, TableRequest
from marketplace.kernel.states import IllegalTransitionError
from marketplace.ledger.operations import InsufficientFundsError
from marketplace.orders import admin_table, operations, queries
from marketplace.orders.placing.order_validation import (
    InsufficientStockError,
    OtherCampusError,
    OwnStoreOrderError,
    ProductUnavailableError,
    SeveralVendorsError,
    StoreClosedError,
)
from marketplace.orders.placing.place_order import (
    Delivery,
    EmptyCartError,
    OrderRequest,
    PriceChangedError,
    TooManyUnpaidOrdersError,
    WalletUse,
    place_order as place_one_order,
)
from marketplace.orders.trail import TrailEntry
from marketplace.payments.intents.lifecycle import NotPayableError, check_out
from marketplace.payments.money_trail.build import MoneyTrail, build_money_trail
from marketplace.payments.refunds import order_cancellation
from marketplace.payments.refunds.create import summarize_refunds
from marketplace.platform.features import FeatureUnavailableError
from marketplace.vendors.queries import StoreRequiredError, require_store_of_user

area = ContractBlueprint("orders", "/api/orders", "Orders and escrow")
audit_area = ContractBlueprint("order-audit", "/api/orders", "All orders, for officers")
campus_area = ContractBlueprint("campus-orders", "/api/campus-orders", "Orders of a campus, for staff")
money_area = ContractBlueprint("order-money", "/api/orders", "Money trail of an order")

_PIN_LIMIT = RouteLimit("10/minute", scope="orders.verify")
_PLACE_LIMIT = RouteLimit("30/minute", scope="orders.place")
_PLACE_ERRORS = (
    EmptyCartError,
    FeatureUnavailableError,
    InsufficientFundsError,
    InsufficientStockError,
    OtherCampusError,
    OwnStoreOrderError,
    PriceChangedError,
    ProductUnavailableError,
    StoreClosedError,
    TooManyUnpaidOrdersError,
)
_CSV_COLUMNS = (
    *("number", "status", "escrowStatus", "buyer", "buyerId", "vendor", "vendorId", "campus", "total_amount"),
    *("escrowMinor", "currency", "paymentStatus", "createdAt", "paidAt", "ageHours", "statusAgeHours"),
    *("stuck", "id"),
)


@area.post(
    "", auth=AUTHENTICATED, limit=_PLACE_LIMIT, body=PlaceOrder, reply=OrderView, status=201,
    idempotent=Idempotency.OPTIONAL,
    raises=(*_PLACE_ERRORS, SeveralVendorsError),
)  # fmt: skip
def place_order(ctx: Context, body: dict[str, Any]) -> queries.OrderView:
    """Place an order with a single vendor. The stock is reserved for 30 minutes."""
    order_id = place_one_order(ctx.session, request=_parse_placement(ctx, body), now=ctx.now)
    return _order_view(ctx, order_id, with_pin=False)


@area.post(
    "/checkout", auth=AUTHENTICATED, limit=_PLACE_LIMIT, body=PlaceOrder, reply=CheckoutView, status=201,
    idempotent=Idempotency.REQUIRED,
    raises=(*_PLACE_ERRORS, IllegalTransitionError, NotPayableError),
)  # fmt: skip
def place_checkout(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Place an order with each vendor of the given items or the cart, with a single payment for all orders.

    All orders are placed, or none. Each order has a delivery fee and a service fee.
    """
    done = check_out(ctx.session, placement=_parse_placement(ctx, body), now=ctx.now)
    return {
        "checkout_id": done.checkout_id,
        "orders": queries.list_orders_of_checkout(
            ctx.session,
            checkout_id=done.checkout_id,
            caller=ctx.user,
            context=_view_context(ctx, with_pin=False),
        ),
        "payment": done.payment,
    }


@area.get(
    "",
    auth=AUTHENTICATED_ANY_STATUS,
    limit=SharedLimit.CALLER_TIER,
    query=OrderQuery,
    reply=OrderView(many=True),
)
def list_orders(ctx: Context, query: dict[str, Any]) -> Page:
    """List your orders as a buyer, the latest first. A restricted or suspended account sees paid orders only."""
    return queries.list_orders(
        ctx.session,
        role="buyer",
        owner_id=ctx.user.id,
        status=query["status"],
        paid_only=ctx.user.account_status != "active",
        page=ctx.page,
        context=_view_context(ctx),
    )


@area.get(
    "/vendor",
    auth=VENDOR_ANY_STATUS,
    limit=SharedLimit.CALLER_TIER,
    query=OrderQuery,
    reply=OrderView(many=True),
    raises=(StoreRequiredError,),
)
def list_vendor_orders(ctx: Context, query: dict[str, Any]) -> Page:
    """List the paid orders of your store, the latest first."""
    return queries.list_orders(
        ctx.session,
        role="vendor",
        owner_id=require_store_of_user(ctx.session, user_id=ctx.user.id).id,
        status=query["status"],
        page=ctx.page,
        context=_view_context(ctx),
    )


@area.get(
    "/vendor/counts",
    auth=VENDOR_ANY_STATUS,
    limit=SharedLimit.CALLER_TIER,
    reply=VendorOrderCounts,
    raises=(StoreRequiredError,),
)
def count_vendor_orders(ctx: Context) -> queries.VendorOrderCounts:
    """Count the paid orders of your store by status."""
    return queries.count_orders_of_vendor(
        ctx.session, vendor_id=require_store_of_user(ctx.session, user_id=ctx.user.id).id
    )


@area.get(
    "/<uuid:order_id>",
    auth=AUTHENTICATED_ANY_STATUS,
    raises=(AccountNotActiveError,),
    limit=SharedLimit.CALLER_TIER,
    reply=OrderView,
)
def get_order(ctx: Context, order_id: UUID) -> queries.OrderView:
    """Get an order, as the buyer, the vendor or staff."""
    return _order_view(ctx, order_id)


@area.get(
    "/<uuid:order_id>/items",
    auth=AUTHENTICATED_ANY_STATUS,
    raises=(AccountNotActiveError,),
    limit=SharedLimit.CALLER_TIER,
    reply=OrderItemView(many=True),
)
def list_order_items(ctx: Context, order_id: UUID) -> list[queries.OrderLineView]:
    """List an order's items."""
    return queries.list_order_items(
        ctx.session,
        order_id=order_id,
        caller=ctx.user,
        media_base_url=ctx.services.settings.media_base_url,
    )


@area.get(
    "/<uuid:order_id>/events",
    auth=AUTHENTICATED_ANY_STATUS,
    raises=(AccountNotActiveError,),
    limit=SharedLimit.CALLER_TIER,
    reply=OrderEventView(many=True),
)
def list_order_events(ctx: Context, order_id: UUID) -> list[TrailEntry]:
    """List an order's events, the earliest first."""
    return queries.list_order_events(ctx.session, order_id=order_id, caller=ctx.user)


@area.post(
    "/<uuid:order_id>/accept",
    auth=VENDOR_ANY_STATUS,
    limit="30/minute",
    reply=OrderView,
    raises=(IllegalTransitionError,),
)
def accept_order(ctx: Context, order_id: UUID) -> queries.OrderView:
    """Accept a paid order, as the vendor."""
    operations.accept_order(ctx.session, order_id=order_id, caller=ctx.user, now=ctx.now)
    return _order_view(ctx, order_id)


@area.post(
    "/<uuid:order_id>/status",
    auth=VENDOR_ANY_STATUS,
    limit="30/minute",
    body=FulfilmentUpdate,
    reply=OrderView,
    raises=(IllegalTransitionError,),
)
def update_order_status(ctx: Context, order_id: UUID, body: dict[str, Any]) -> queries.OrderView:
    """Mark an accepted order as shipped, as the vendor."""
    operations.ship_order(
        ctx.session, order_id=order_id, caller=ctx.user, tracking_note=body.get("tracking_note"), now=ctx.now
    )
    return _order_view(ctx, order_id)


@area.post(
    "/<uuid:order_id>/verify-code", auth=VENDOR_ANY_STATUS, limit=_PIN_LIMIT, body=DeliveryPin, reply=OrderView,
    idempotent=Idempotency.OPTIONAL,
    raises=(IllegalTransitionError, operations.PinLockedError, operations.WrongPinError),
)  # fmt: skip
def verify_delivery_pin(ctx: Context, order_id: UUID, body: dict[str, Any]) -> queries.OrderView:
    """Submit the buyer's delivery PIN, as the vendor, to release the escrow."""
    return _release_on_pin(ctx, order_id, body)


@area.post(
    "/<uuid:order_id>/verify-delivery", auth=VENDOR_ANY_STATUS, limit=_PIN_LIMIT, body=DeliveryPin, reply=OrderView,
    idempotent=Idempotency.REQUIRED,
    raises=(IllegalTransitionError, operations.PinLockedError, operations.WrongPinError),
)  # fmt: skip
def verify_delivery(ctx: Context, order_id: UUID, body: dict[str, Any]) -> queries.OrderView:
    """Submit the delivery PIN like `verify-code`, with a required Idempotency-Key."""
    return _release_on_pin(ctx, order_id, body)


@area.post(
    "/<uuid:order_id>/cancel", auth=AUTHENTICATED_ANY_STATUS, limit="15/minute", body=CancelOrder, reply=OrderView,
    idempotent=Idempotency.OPTIONAL,
    raises=(AccountNotActiveError, IllegalTransitionError),
)  # fmt: skip
def cancel_order(ctx: Context, order_id: UUID, body: dict[str, Any]) -> queries.OrderView:
    """Cancel an unshipped order. All payments are returned."""
    order_cancellation.cancel_order(
        ctx.session, order_id=order_id, caller=ctx.user, reason=body.get("reason"), now=ctx.now
    )
    return _order_view(ctx, order_id)


@area.post(
    "/<uuid:order_id>/confirm", auth=AUTHENTICATED_ANY_STATUS, limit="20/minute", reply=OrderView,
    idempotent=Idempotency.OPTIONAL,
    raises=(AccountNotActiveError, IllegalTransitionError),
)  # fmt: skip
def confirm_order(ctx: Context, order_id: UUID) -> queries.OrderView:
    """Confirm receipt, as the buyer, to release the escrow."""
    operations.confirm_receipt(ctx.session, order_id=order_id, caller=ctx.user, now=ctx.now)
    return _order_view(ctx, order_id)


def _release_on_pin(ctx: Context, order_id: UUID, body: dict[str, Any]) -> queries.OrderView:
    operations.release_on_pin(
        ctx.session,
        order_id=order_id,
        caller=ctx.user,
        pin=body["pin"],
        pin_key=ctx.services.settings.delivery_pin_key,
        now=ctx.now,
    )
    return _order_view(ctx, order_id)


def _order_view(ctx: Context, order_id: UUID, *, with_pin: bool = True) -> queries.OrderView:
    return queries.fetch_order_view(
        ctx.session, order_id=order_id, caller=ctx.user, context=_view_context(ctx, with_pin=with_pin)
    )


def _parse_placement(ctx: Context, body: dict[str, Any]) -> OrderRequest:
    return OrderRequest(
        buyer=ctx.user,
        items=[RequestedItem(**item) for item in body["items"]] if "items" in body else None,
        delivery=Delivery(
            method=body.get("delivery_method") or ("pickup" if "hub_id" in body else "delivery"),
            address_id=body.get("address_id"),
            address=_to_api_field_names(body["shipping_address"]) if "shipping_address" in body else None,
            hub_id=body.get("hub_id"),
        ),
        note=body.get("note"),
        expected_total_minor=body.get("expected_total_minor"),
        wallet=WalletUse(body.get("wallet_minor", 0), as_much_as_possible=body.get("use_wallet", False)),
    )


def _to_api_field_names(address: dict[str, Any]) -> dict[str, Any]:
    """Rename an address's fields to the API's names."""
    return {("roomNumber" if name == "room_number" else name): value for name, value in address.items()}


def _view_context(ctx: Context, *, with_pin: bool = True) -> queries.OrderViewContext:
    """Build the context of order views. A response stored for replays must not contain the PIN."""
    settings = ctx.services.settings
    return queries.OrderViewContext(
        media_base_url=settings.media_base_url,
        pin_key=settings.delivery_pin_key if with_pin else None,
        summarize_refunds=summarize_refunds,
        now=ctx.now,
    )


@audit_area.get(
    "/admin", auth=ORDER_STAFF, limit="60/minute", query=OrderAuditQuery,
    reply=OrderAuditRow(many=True), csv=True,
)  # fmt: skip
def list_orders_for_staff(ctx: Context, query: dict[str, Any]) -> TablePage | Response:
    """List the orders of all campuses with escrow balances, as pages of JSON or as a CSV file."""
    as_csv = wants_csv(query.pop("format", None))
    table, filters = ctx.table, _build_filters(ctx, query)
    if not as_csv:
        return admin_table.list_orders_for_staff(
            ctx.session, caller=ctx.user, filters=filters, table=table, now=ctx.now
        )
    rows = admin_table.export_orders(
        ctx.session,
        caller=ctx.user,
        filters=filters,
        table=TableRequest(MAX_CSV_ROWS + 1, number=1, sort=table.sort, descending=table.descending),
        now=ctx.now,
    )
    return csv_response("orders", columns=_CSV_COLUMNS, rows=map(_flatten_row, rows), max_rows=MAX_CSV_ROWS)


@campus_area.get(
    "",
    auth=STAFF,
    limit=SharedLimit.CALLER_TIER,
    query=CampusOrderQuery,
    reply=CampusOrder(many=True),
    raises=(NotFoundError,),
)
def list_campus_orders(ctx: Context, query: dict[str, Any]) -> Page:
    """List the paid orders of a campus, the latest first. A campus representative sees only orders of their campus."""
    return admin_table.list_orders_on_campus(
        ctx.session,
        caller=ctx.user,
        campus=query["campus"],
        status=query["status"],
        delivery_method=query["delivery_method"],
        page=ctx.page,
    )


def _build_filters(ctx: Context, query: dict[str, Any]) -> admin_table.OrderFilters:
    """Build the filters. The earlier of `to` and the limit of `olderThanHours` ends the period."""
    hours = query.pop("older_than_hours", None)
    ends = [query.pop("to", None), None if hours is None else ctx.now - timedelta(hours=hours)]
    return admin_table.OrderFilters(
        starts=query.pop("from_", None),
        ends=min((end for end in ends if end is not None), default=None),
        vendor_id=query.pop("vendor", None),
        buyer_id=query.pop("buyer", None),
        **query,
    )


def _flatten_row(row: admin_table.AuditedOrder) -> dict[str, Any]:
    """Convert a row for the CSV file: names beside ids, all reasons in a single cell."""
    cells = (
        *(
            row.number,
            row.status,
            row.escrow_status,
            row.buyer_name,
            row.buyer_id,
            row.vendor_name,
            row.vendor_id,
        ),
        *(
            row.campus_slug,
            row.total_minor,
            row.escrow_minor,
            row.currency,
            row.payment_status,
            row.created_at,
        ),
        *(row.paid_at, row.age_hours, row.status_age_hours, " ".join(row.stuck), row.id),
    )
    return dict(zip(_CSV_COLUMNS, cells, strict=True))


@money_area.get(
    "/<uuid:order_id>/money",
    auth=AUTHENTICATED_ANY_STATUS,
    raises=(AccountNotActiveError,),
    limit=SharedLimit.CALLER_TIER,
    reply=MoneyTrailView,
)
def get_money_trail(ctx: Context, order_id: UUID) -> MoneyTrail:
    """Get the money trail of an order: the holders of the money and the next steps."""
    return build_money_trail(ctx.session, order_id=order_id, caller=ctx.user)
