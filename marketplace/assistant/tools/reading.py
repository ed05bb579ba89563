"""Tools that read. Results are small: the first items, with the fields that help a shopper."""

from typing import Any
from uuid import UUID

from marketplace.assistant.policies import find_policies
from marketplace.assistant.tools.context import ReadingTool, Result, ToolContext
from marketplace.catalog.browse.collections import list_products_by_ids
from marketplace.catalog.browse.listing import ProductCard, ProductFilters
from marketplace.catalog.browse.product_detail import fetch_product_detail
from marketplace.catalog.favorites.queries import list_favorites
from marketplace.catalog.search.find import search_catalog
from marketplace.kernel.clock import iso
from marketplace.kernel.money import format_naira
from marketplace.kernel.opening_hours import OpenInterval
from marketplace.kernel.paging import PageRequest
from marketplace.orders.queries import OrderView, OrderViewContext, list_orders
from marketplace.payments.money_trail.build import build_money_trail
from marketplace.payments.refunds.create import summarize_refunds
from marketplace.platform.campuses.hubs import list_public_hubs
from marketplace.support.queries import list_own_tickets
from marketplace.vendors.queries import fetch_store_profile

_PAGE = PageRequest(limit=8)
_ORDERS_PAGE = PageRequest(limit=5)


def _search_products(context: ToolContext, arguments: dict[str, Any]) -> Result:
    campus_id = context.caller.campus_id
    filters = ProductFilters(
        campus=str(campus_id) if campus_id else None,
        min_price_minor=arguments.get("minPriceMinor"),
        max_price_minor=arguments.get("maxPriceMinor"),
        condition=arguments.get("condition"),
    )
    found = search_catalog(
        context.session,
        query=arguments["query"],
        filters=filters,
        page=_PAGE,
        now=context.now,
        media_base_url=context.media_base_url,
    )
    return {"items": [_describe_card(card) for card in found.data["products"]]}


def _get_product(context: ToolContext, arguments: dict[str, Any]) -> Result:
    product = fetch_product(context, UUID(arguments["productId"]))
    return {
        "items": [
            {
                "id": product["id"],
                "title": product["title"],
                "price": format_naira(_price_of(product["price_minor"], product["flash_sale"])),
                "condition": product["condition"],
                "available": product["available"],
                "canBeOrdered": product["orderable"],
                "description": product["description"],
                "category": product["category"]["name"],
                "rating": product["rating_average"],
                "ratingCount": product["rating_count"],
                "store": {
                    "id": product["vendor"]["id"],
                    "name": product["vendor"]["display_name"],
                    "verified": product["vendor"]["verified"],
                    "rating": product["vendor"]["rating"],
                    "onVacation": product["vendor"]["vacation"] is not None,
                },
            }
        ]
    }


def _compare_products(context: ToolContext, arguments: dict[str, Any]) -> Result:
    cards, missing = list_products_by_ids(
        context.session,
        product_ids=[UUID(product_id) for product_id in arguments["productIds"]],
        now=context.now,
        media_base_url=context.media_base_url,
    )
    return {"items": [_describe_card(card) for card in cards], "notFound": missing}


def _list_favorites(context: ToolContext, _arguments: dict[str, Any]) -> Result:
    page = list_favorites(
        context.session,
        user_id=context.caller.id,
        page=_PAGE,
        now=context.now,
        media_base_url=context.media_base_url,
    )
    return {"items": [_describe_card(card) for card in page.items]}


def _list_my_orders(context: ToolContext, arguments: dict[str, Any]) -> Result:
    page = list_orders(
        context.session,
        role="buyer",
        owner_id=context.caller.id,
        status=arguments.get("status"),
        page=_ORDERS_PAGE,
        context=order_view_context(context),
    )
    return {"items": [_describe_order(order) for order in page.items]}


def _get_order_money(context: ToolContext, arguments: dict[str, Any]) -> Result:
    trail = build_money_trail(context.session, order_id=UUID(arguments["orderId"]), caller=context.caller)
    return {
        "order": {"number": trail.order.number, "status": trail.order.status},
        "items": [
            {
                "name": f"{format_naira(holder.amount_minor)} with {holder.holder.replace('_', ' ')}",
                "summary": f"{holder.why} {holder.next}".strip(),
                "by": iso(holder.by) if holder.by else None,
            }
            for holder in trail.holders
        ],
    }


def _get_store(context: ToolContext, arguments: dict[str, Any]) -> Result:
    store = fetch_store_profile(
        context.session,
        vendor_id=UUID(arguments["vendorId"]),
        viewer_id=context.caller.id,
        now=context.now,
    )
    return {
        "items": [
            {
                "id": str(store.id),
                "name": store.display_name,
                "description": store.description,
                "verified": store.verified,
                "rating": store.rating,
                "ratingCount": store.rating_count,
                "completedOrders": store.completed_orders,
                "openNow": store.open_now,
                "opensAt": iso(store.opens_at) if store.opens_at else None,
                "onVacation": store.vacation_mode is not None,
                "policies": store.policies,
            }
        ]
    }


def _list_hubs(context: ToolContext, _arguments: dict[str, Any]) -> Result:
    if context.caller.campus_id is None:
        return {"items": [], "note": "The person has not chosen a campus."}
    page = list_public_hubs(
        context.session, campus=str(context.caller.campus_id), place=None, page=_PAGE, now=context.now
    )
    return {
        "items": [
            {
                "id": str(hub.id),
                "name": hub.name,
                "address": hub.address,
                "openNow": hub.open_now,
                "opensAt": iso(hub.opens_at) if hub.opens_at else None,
                "closesAt": iso(hub.closes_at) if hub.closes_at else None,
                "openingHours": [_describe_interval(interval) for interval in hub.opening_hours or ()],
            }
            for hub in page.items
        ]
    }


def _read_policy(_context: ToolContext, arguments: dict[str, Any]) -> Result:
    return {
        "items": [
            {"topic": policy.title, "answer": policy.text} for policy in find_policies(arguments["topic"])
        ]
    }


def _list_my_tickets(context: ToolContext, _arguments: dict[str, Any]) -> Result:
    page = list_own_tickets(context.session, creator_id=context.caller.id, page=_PAGE)
    return {
        "items": [
            {
                "id": str(ticket.id),
                "number": ticket.number,
                "subject": ticket.subject,
                "status": ticket.status,
                "openedAt": iso(ticket.created_at),
            }
            for ticket in page.items
        ]
    }


def fetch_product(context: ToolContext, product_id: UUID) -> dict[str, Any]:
    """Fetch a product that the person may see.

    :raises NotFoundError: the product does not exist or is hidden
    """
    return fetch_product_detail(
        context.session,
        product_id=product_id,
        caller=context.caller,
        now=context.now,
        media_base_url=context.media_base_url,
    )


def _describe_card(card: ProductCard) -> Result:
    return {
        "id": card.id,
        "title": card.title,
        "price": format_naira(_price_of(card.price_minor, card.flash_sale)),
        "condition": card.condition,
        "inStock": card.in_stock,
        "rating": card.rating_average,
        "store": {"id": card.vendor.id, "name": card.vendor.display_name, "verified": card.vendor.verified},
    }


def _describe_order(order: OrderView) -> Result:
    return {
        "id": str(order.id),
        "number": order.number,
        "status": order.status.replace("_", " "),
        "total": format_naira(order.total_minor),
        "store": order.vendor.display_name,
        "items": [f"{line.quantity} x {line.title}" for line in order.items[:5]],
        "placedAt": iso(order.created_at),
        "canBeDoneNow": list(order.next_actions),
    }


def _describe_interval(interval: OpenInterval) -> str:
    opens, closes = (
        f"{minute // 60:02d}:{minute % 60:02d}" for minute in (interval.opens_minute, interval.closes_minute)
    )
    return f"{interval.day} {opens} to {closes}"


def _price_of(price_minor: int, flash_sale: dict[str, Any] | None) -> int:
    return int(flash_sale["price_minor"]) if flash_sale else price_minor


def order_view_context(context: ToolContext) -> OrderViewContext:
    """Return the context of order views. Without a key, views contain no delivery PIN."""
    return OrderViewContext(
        media_base_url=context.media_base_url,
        pin_key=None,
        summarize_refunds=summarize_refunds,
        now=context.now,
    )


READING_TOOLS: dict[str, ReadingTool] = {
    "search_products": _search_products,
    "get_product": _get_product,
    "compare_products": _compare_products,
    "list_favorites": _list_favorites,
    "list_my_orders": _list_my_orders,
    "get_order_money": _get_order_money,
    "get_store": _get_store,
    "list_hubs": _list_hubs,
    "read_policy": _read_policy,
    "list_my_tickets": _list_my_tickets,
}
