"""Orders: placed, paid for elsewhere, accepted, shipped, released on the buyer's PIN."""

from typing import Any
from uuid import UUID

from blueprints.http.contract import AUTHENTICATED, VENDOR, Idempotency, RouteLimit, Shared
from blueprints.http.endpoint import Area, Context
from blueprints.orders.schemas import (
    Cancellation,
    CheckoutView,
    DeliveryPin,
    FulfilmentUpdate,
    OrderEventView,
    OrderItemView,
    OrderQuery,
    OrderView,
    PlaceOrder,
    VendorCounts,
)
from marketplace.kernel.errors import ForbiddenError
from marketplace.kernel.paging import Page
from marketplace.orders import operations, queries
from marketplace.orders.placing.order_validation import Wish
from marketplace.orders.placing.place_order import Delivery, Placement, place_order
from marketplace.orders.placing.wallet import WalletUse
from marketplace.payments.intents.checkout import check_out
from marketplace.payments.refunds import order_cancellation
from marketplace.payments.refunds.order_summary import with_refunds
from marketplace.vendors.queries import store_of_user

area = Area("orders", "/api/orders", "Orders and their escrow")

_PIN_LIMIT = RouteLimit("10/minute", scope="orders.verify")
_PLACE_LIMIT = RouteLimit("30/minute", scope="orders.place")


@area.post(
    "", auth=AUTHENTICATED, limit=_PLACE_LIMIT, body=PlaceOrder, reply=OrderView, status=201,
    idempotent=Idempotency.OPTIONAL,
)  # fmt: skip
def place(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Place an order of one vendor's products and reserve their stock for 30 minutes."""
    order_id = place_order(ctx.session, asked=_placement(ctx, body), now=ctx.now)
    return _order(ctx, order_id, with_pin=False)


@area.post(
    "/checkout", auth=AUTHENTICATED, limit=_PLACE_LIMIT, body=PlaceOrder, reply=CheckoutView, status=201,
    idempotent=Idempotency.REQUIRED,
)  # fmt: skip
def checkout(ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    """Place an order with each vendor of the cart, or of named items, and make one payment for all.

    All are placed or none. Each order has its own delivery fee and service fee.
    """
    done = check_out(ctx.session, asked=_placement(ctx, body), now=ctx.now)
    payment = done.payment
    return {
        "checkoutId": done.checkout_id,
        "orders": with_refunds(
            ctx.session,
            queries.orders_of_checkout(
                ctx.session, checkout_id=done.checkout_id, caller=ctx.user, view=_view(ctx, with_pin=False)
            ),
        ),
        "payment": payment
        and {"reference": payment.reference, "amountMinor": payment.amount_minor, "status": payment.status},
    }


@area.get("", auth=AUTHENTICATED, limit=Shared.GLOBAL, query=OrderQuery, reply=OrderView(many=True))
def list_own(ctx: Context, query: dict[str, Any]) -> Page:
    """List the caller's orders, the latest first."""
    page = queries.orders_of_buyer(
        ctx.session, caller=ctx.user, status=query["status"], page=ctx.page, view=_view(ctx)
    )
    with_refunds(ctx.session, page.items)
    return page


@area.get("/vendor", auth=VENDOR, limit=Shared.GLOBAL, query=OrderQuery, reply=OrderView(many=True))
def list_inbound(ctx: Context, query: dict[str, Any]) -> Page:
    """List the paid orders of the caller's store, the latest first."""
    store = store_of_user(ctx.session, user_id=ctx.user.id)
    if store is None:
        raise ForbiddenError("The account has no store.")
    page = queries.orders_of_vendor(
        ctx.session, vendor_id=store.id, status=query["status"], page=ctx.page, view=_view(ctx)
    )
    with_refunds(ctx.session, page.items)
    return page


@area.get("/vendor/counts", auth=VENDOR, limit=Shared.GLOBAL, reply=VendorCounts)
def count_inbound(ctx: Context) -> dict[str, Any]:
    """Count the paid orders of the caller's store by how far they are."""
    store = store_of_user(ctx.session, user_id=ctx.user.id)
    if store is None:
        raise ForbiddenError("The account has no store.")
    return queries.counts_of_vendor(ctx.session, vendor_id=store.id)


@area.get("/<uuid:order_id>", auth=AUTHENTICATED, limit=Shared.GLOBAL, reply=OrderView)
def detail(ctx: Context, order_id: UUID) -> dict[str, Any]:
    """Give an order to its buyer, its vendor or staff."""
    return _order(ctx, order_id)


@area.get("/<uuid:order_id>/items", auth=AUTHENTICATED, limit=Shared.GLOBAL, reply=OrderItemView(many=True))
def items(ctx: Context, order_id: UUID) -> list[dict[str, Any]]:
    """List an order's items."""
    return queries.items_for(ctx.session, order_id=order_id, caller=ctx.user, view=_view(ctx))


@area.get("/<uuid:order_id>/events", auth=AUTHENTICATED, limit=Shared.GLOBAL, reply=OrderEventView(many=True))
def events(ctx: Context, order_id: UUID) -> list[dict[str, Any]]:
    """List an order's trail, the earliest step first."""
    return queries.events_for(ctx.session, order_id=order_id, caller=ctx.user)


@area.post("/<uuid:order_id>/accept", auth=VENDOR, limit="30/minute", reply=OrderView)
def accept(ctx: Context, order_id: UUID) -> dict[str, Any]:
    """Have the vendor accept a paid order."""
    operations.accept(ctx.session, order_id=order_id, caller=ctx.user, now=ctx.now)
    return _order(ctx, order_id)


@area.post("/<uuid:order_id>/status", auth=VENDOR, limit="30/minute", body=FulfilmentUpdate, reply=OrderView)
def update_status(ctx: Context, order_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Have the vendor ship an accepted order."""
    operations.ship(
        ctx.session, order_id=order_id, caller=ctx.user, tracking_note=body.get("tracking_note"), now=ctx.now
    )
    return _order(ctx, order_id)


@area.post(
    "/<uuid:order_id>/verify-code", auth=VENDOR, limit=_PIN_LIMIT, body=DeliveryPin, reply=OrderView,
    idempotent=Idempotency.OPTIONAL,
)  # fmt: skip
def verify_code(ctx: Context, order_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Release escrow once the vendor submits the buyer's PIN."""
    return _release(ctx, order_id, body)


@area.post(
    "/<uuid:order_id>/verify-delivery", auth=VENDOR, limit=_PIN_LIMIT, body=DeliveryPin, reply=OrderView,
    idempotent=Idempotency.REQUIRED,
)  # fmt: skip
def verify_delivery(ctx: Context, order_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Release escrow like verify-code, under a required Idempotency-Key."""
    return _release(ctx, order_id, body)


@area.post(
    "/<uuid:order_id>/cancel", auth=AUTHENTICATED, limit="15/minute", body=Cancellation, reply=OrderView,
    idempotent=Idempotency.OPTIONAL,
)  # fmt: skip
def cancel(ctx: Context, order_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    """Cancel an order that is not shipped; what was paid goes back."""
    order_cancellation.cancel(
        ctx.session, order_id=order_id, caller=ctx.user, reason=body.get("reason"), now=ctx.now
    )
    return _order(ctx, order_id)


@area.post(
    "/<uuid:order_id>/confirm", auth=AUTHENTICATED, limit="20/minute", reply=OrderView,
    idempotent=Idempotency.OPTIONAL,
)  # fmt: skip
def confirm(ctx: Context, order_id: UUID) -> dict[str, Any]:
    """Release escrow once the buyer confirms that the order has come."""
    operations.confirm(ctx.session, order_id=order_id, caller=ctx.user, now=ctx.now)
    return _order(ctx, order_id)


def _release(ctx: Context, order_id: UUID, body: dict[str, Any]) -> dict[str, Any]:
    operations.release_on_pin(
        ctx.session,
        order_id=order_id,
        caller=ctx.user,
        pin=body["pin"],
        pin_key=ctx.services.settings.delivery_pin_key,
        now=ctx.now,
    )
    return _order(ctx, order_id)


def _order(ctx: Context, order_id: UUID, *, with_pin: bool = True) -> dict[str, Any]:
    view = _view(ctx, with_pin=with_pin)
    order = queries.order_for(ctx.session, order_id=order_id, caller=ctx.user, view=view)
    return with_refunds(ctx.session, [order])[0]


def _placement(ctx: Context, body: dict[str, Any]) -> Placement:
    return Placement(
        buyer=ctx.user,
        wishes=[Wish(**item) for item in body["items"]] if "items" in body else None,
        delivery=Delivery(
            method=body.get("delivery_method") or ("pickup" if "hub_id" in body else "delivery"),
            address_id=body.get("address_id"),
            address=_on_the_wire(body["shipping_address"]) if "shipping_address" in body else None,
            hub_id=body.get("hub_id"),
        ),
        note=body.get("note"),
        expected_total_minor=body.get("expected_total_minor"),
        wallet=WalletUse(body.get("wallet_minor", 0), as_much_as_possible=body.get("use_wallet", False)),
    )


def _view(ctx: Context, *, with_pin: bool = True) -> queries.View:
    """Give what orders are shown with; ``with_pin`` is not for answers that may be kept for replays."""
    settings = ctx.services.settings
    return queries.View(
        media_base_url=settings.media_base_url,
        pin_key=settings.delivery_pin_key if with_pin else None,
        now=ctx.now,
    )


def _on_the_wire(address: dict[str, Any]) -> dict[str, Any]:
    """Keep an address under the names that clients know its fields by."""
    return {("roomNumber" if name == "room_number" else name): value for name, value in address.items()}
