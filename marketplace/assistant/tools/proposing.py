"""Tools that propose a change. The person sends the proposed request after confirming, or never."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from marketplace.assistant import texts
from marketplace.assistant.tools.context import Proposal, ProposingTool, ToolContext
from marketplace.assistant.tools.reading import fetch_product, order_view_context
from marketplace.cart.queries import fetch_cart
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.money import format_naira
from marketplace.orders import states
from marketplace.orders.queries import OrderView, fetch_order_view
from marketplace.platform.queries import find_open_hub

PROPOSAL_LIFETIME = timedelta(minutes=10)


class CannotProposeError(Exception):
    """The change would be refused now. The text tells the model the reason."""


def _propose_add_to_cart(context: ToolContext, arguments: dict[str, Any]) -> Proposal:
    product_id, quantity = arguments["productId"].lower(), arguments["quantity"]
    product = fetch_product(context, UUID(product_id))
    if not product["orderable"]:
        raise CannotProposeError(texts.NOT_ORDERABLE.format(title=product["title"]))
    cart = fetch_cart(
        context.session,
        user_id=context.caller.id,
        now=context.now,
        media_base_url=context.media_base_url,
    )
    # The route replaces the cart, so the request repeats the other lines.
    quantities = {str(line.product_id): line.quantity for line in cart.items}
    quantities[product_id] = quantities.get(product_id, 0) + quantity
    return _propose(
        context,
        texts.ADD_TO_CART.format(quantity=quantity, title=product["title"]),
        "/api/cart",
        {"items": [{"productId": line, "quantity": units} for line, units in quantities.items()]},
    )


def _propose_checkout(context: ToolContext, arguments: dict[str, Any]) -> Proposal:
    cart = fetch_cart(
        context.session,
        user_id=context.caller.id,
        now=context.now,
        media_base_url=context.media_base_url,
    )
    if not cart.items:
        raise CannotProposeError(texts.CART_IS_EMPTY)
    if not cart.valid:
        raise CannotProposeError(texts.CART_HAS_PROBLEMS)
    items = [{"productId": str(line.product_id), "quantity": line.quantity} for line in cart.items]
    body: dict[str, Any] = {"items": items}
    place = texts.TO_DEFAULT_ADDRESS
    if "hubId" in arguments:
        hub = find_open_hub(context.session, hub_id=UUID(arguments["hubId"]))
        if hub is None:
            raise NotFoundError("Hub not found.")
        body |= {"hubId": str(hub.id), "deliveryMethod": "pickup"}
        place = texts.PICKUP_AT_HUB.format(hub=hub.name)
    summary = texts.CHECKOUT.format(
        count=cart.item_count, subtotal=format_naira(cart.subtotal_minor), place=place
    )
    return _propose(context, summary, "/api/orders/checkout", body)


def _propose_cancel_order(context: ToolContext, arguments: dict[str, Any]) -> Proposal:
    order = _fetch_own_order(context, arguments["orderId"])
    if states.CANCEL not in order.next_actions:
        raise CannotProposeError(texts.CANNOT_CANCEL.format(number=order.number))
    body = {"reason": arguments["reason"]} if arguments.get("reason") else {}
    summary = texts.CANCEL_ORDER.format(number=order.number, store=order.vendor.display_name)
    return _propose(context, summary, f"/api/orders/{order.id}/cancel", body)


def _propose_ticket(context: ToolContext, arguments: dict[str, Any]) -> Proposal:
    body = {name: arguments[name] for name in ("subject", "message", "category")}
    if "orderId" in arguments:
        body["orderId"] = str(_fetch_own_order(context, arguments["orderId"]).id)
    return _propose(context, texts.OPEN_TICKET.format(subject=arguments["subject"]), "/api/support", body)


def _propose_dispute(context: ToolContext, arguments: dict[str, Any]) -> Proposal:
    order = _fetch_own_order(context, arguments["orderId"])
    if not states.ORDER.allows(order.status, states.DISPUTE):
        raise CannotProposeError(texts.CANNOT_DISPUTE.format(number=order.number))
    names = ("reason", "description", "desiredOutcome", "claimedMinor")
    body = {"orderId": str(order.id), **{name: arguments[name] for name in names if name in arguments}}
    if arguments["desiredOutcome"] == "partial_refund" and "claimedMinor" not in arguments:
        raise CannotProposeError(texts.CLAIM_IS_MISSING)
    summary = texts.OPEN_DISPUTE.format(number=order.number, store=order.vendor.display_name)
    return _propose(context, summary, "/api/disputes", body)


def _fetch_own_order(context: ToolContext, order_id: str) -> OrderView:
    order = fetch_order_view(
        context.session,
        order_id=UUID(order_id),
        caller=context.caller,
        context=order_view_context(context),
    )
    if order.buyer_id != context.caller.id:
        raise NotFoundError("Order not found.")
    return order


def _propose(context: ToolContext, summary: str, path: str, body: dict[str, Any]) -> Proposal:
    return Proposal(summary, "POST", path, body, str(uuid4()), context.now + PROPOSAL_LIFETIME)


PROPOSING_TOOLS: dict[str, ProposingTool] = {
    "propose_add_to_cart": _propose_add_to_cart,
    "propose_checkout": _propose_checkout,
    "propose_cancel_order": _propose_cancel_order,
    "propose_ticket": _propose_ticket,
    "propose_dispute": _propose_dispute,
}
