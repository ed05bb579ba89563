"""Orders as their buyer, their vendor and staff see them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from marketplace.infra.db import Statement
from marketplace.infra.prepared import Prepared
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.money import format_decimal
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.orders import states
from marketplace.orders.pin import delivery_pin

_SELECT_ORDER_SQL = """
    SELECT o.id, o.number, o.status, s.status AS "escrowStatus", o.buyer_id, b.name AS buyer_name, o.vendor_id,
        v.display_name, v.slug, v.user_id AS vendor_user_id, o.campus_id AS "campusId",
        o.checkout_id AS "checkoutId", o.subtotal_minor AS "subtotalMinor",
        o.delivery_fee_minor AS "deliveryFeeMinor", o.service_fee_minor AS "serviceFeeMinor",
        o.discount_minor AS "discountMinor", o.total_minor AS total_amount, o.wallet_minor AS "walletMinor",
        o.accepted_minor AS "acceptedMinor", o.currency,
        o.shipping_address AS "shippingAddress", o.delivery_method AS "deliveryMethod", o.note,
        o.tracking_note AS "trackingNote", o.payment_reference, o.payment_status, o.payment_channel,
        o.pin_counter, o.pin_locked_until, o.expires_at AS "expiresAt", o.created_at AS "createdAt",
        o.paid_at AS "paidAt",
        o.accepted_at AS "acceptedAt", o.shipped_at AS "shippedAt", o.delivered_at AS "deliveredAt",
        o.cancelled_at AS "cancelledAt", o.expired_at AS "expiredAt", o.disputed_at AS "disputedAt",
        o.refunded_at AS "refundedAt", o.cancelled_by,
        o.cancellation_reason, o.revision
    FROM orders o
    JOIN escrows s ON s.order_id = o.id
    JOIN profiles b ON b.id = o.buyer_id
    JOIN vendor_profiles v ON v.id = o.vendor_id
"""
_SELECT_ORDER = Prepared(text(f"{_SELECT_ORDER_SQL} WHERE o.id = :order_id"))
_SELECT_ORDERS_OF_BUYER = Statement(
    text(
        f"""{_SELECT_ORDER_SQL} WHERE o.buyer_id = :user_id AND (CAST(:status AS text) IS NULL OR o.status = :status)
        AND (CAST(:after AS uuid) IS NULL OR o.id < :after) ORDER BY o.id DESC LIMIT :most"""
    )
)
# Unpaid orders are none of the vendor's business yet.
_SELECT_ORDERS_OF_VENDOR = Statement(
    text(
        f"""{_SELECT_ORDER_SQL} WHERE o.vendor_id = :vendor_id AND o.paid_at IS NOT NULL
        AND (CAST(:status AS text) IS NULL OR o.status = :status)
        AND (CAST(:after AS uuid) IS NULL OR o.id < :after) ORDER BY o.id DESC LIMIT :most"""
    )
)
_SELECT_ORDERS_OF_CHECKOUT = Statement(
    text(
        f"{_SELECT_ORDER_SQL} WHERE o.checkout_id = :checkout_id AND o.buyer_id = :user_id ORDER BY o.id LIMIT 100"
    )
)
# Unpaid orders are none of the vendor's business yet: pending are those that wait to be accepted.
_COUNT_ORDERS_BY_STATUS = Statement(
    text(
        """
        SELECT count(*) FILTER (WHERE status = 'paid_escrow') AS pending,
            count(*) FILTER (WHERE status = 'processing') AS processing,
            count(*) FILTER (WHERE status = 'shipped') AS shipped,
            count(*) FILTER (WHERE status = 'delivered') AS delivered
        FROM orders WHERE vendor_id = :vendor_id AND paid_at IS NOT NULL
        """
    )
)
_SELECT_ITEMS = Prepared(
    text(
        """
        SELECT order_id, product_id AS "productId", title, image_key, unit_price_minor AS "unitPriceMinor",
            quantity, line_total_minor AS "lineTotalMinor", commission_bps AS "commissionBps",
            refunded_quantity AS "refundedQuantity"
        FROM order_items WHERE order_id = ANY(:order_ids) ORDER BY order_id, position
        """
    )
)
_SELECT_ITEM_WITH_IMAGE = Statement(text("SELECT 1 FROM order_items WHERE image_key = :key LIMIT 1"))
_SELECT_EVENTS = Statement(
    text(
        """
        SELECT order_id AS "orderId", from_status AS "from", to_status AS "to", trigger, actor, at, note
        FROM order_events WHERE order_id = :order_id ORDER BY id
        """
    )
)


@dataclass(frozen=True)
class OrderViewContext:
    """What an order's view is made with: the address of pictures, the key of delivery PINs, and the time.

    Without a key no PIN is shown: an answer that is kept for replays must not hold one.
    """

    media_base_url: str
    pin_key: str | None
    now: datetime


def fetch_order_view(
    session: Session, *, order_id: UUID, caller: Caller, context: OrderViewContext
) -> dict[str, Any]:
    """Give an order as its caller sees it.

    :param order_id: the order's
    :param caller: its buyer, its vendor once it is paid, or staff (a campus rep: of their campus)
    :param context: what views are made with
    :raises NotFoundError: there is no such order, or the caller is none of these
    """
    row, roles = fetch_order_with_roles(session, order_id=order_id, caller=caller)
    return _order_views(session, [row], roles_of_row=lambda _row: roles, context=context)[0]


def list_orders_of_buyer(
    session: Session, *, caller: Caller, status: str | None, page: PageRequest, context: OrderViewContext
) -> Page:
    """List what somebody has ordered, the latest first.

    :param caller: the buyer
    :param status: one status, or none for all
    :param page: how many, and after which
    :param context: what views are made with
    """
    rows = _SELECT_ORDERS_OF_BUYER.all(
        session, user_id=caller.id, status=status, after=_cursor_id(page), most=page.limit + 1
    )
    return _build_page(session, rows, page=page, role="buyer", context=context)


def list_orders_of_vendor(
    session: Session, *, vendor_id: UUID, status: str | None, page: PageRequest, context: OrderViewContext
) -> Page:
    """List the paid orders of a store, the latest first.

    :param vendor_id: the store's
    :param status: one status, or none for all
    :param page: how many, and after which
    :param context: what views are made with
    """
    rows = _SELECT_ORDERS_OF_VENDOR.all(
        session, vendor_id=vendor_id, status=status, after=_cursor_id(page), most=page.limit + 1
    )
    return _build_page(session, rows, page=page, role="vendor", context=context)


def list_orders_of_checkout(
    session: Session, *, checkout_id: UUID, caller: Caller, context: OrderViewContext
) -> list[dict[str, Any]]:
    """List the orders of a checkout, as their buyer sees them.

    :param caller: the buyer
    :param context: what views are made with
    """
    rows = _SELECT_ORDERS_OF_CHECKOUT.all(session, checkout_id=checkout_id, user_id=caller.id)
    return _order_views(session, rows, roles_of_row=lambda _row: ["buyer"], context=context)


def count_orders_of_vendor(session: Session, *, vendor_id: UUID) -> dict[str, Any]:
    """Count a store's paid orders by how far they are.

    :param vendor_id: the store's
    :return: ``pending`` (wait to be accepted), ``processing``, ``shipped`` and ``delivered``
    """
    return _COUNT_ORDERS_BY_STATUS.one(session, vendor_id=vendor_id)


def list_order_items(
    session: Session, *, order_id: UUID, caller: Caller, context: OrderViewContext
) -> list[dict[str, Any]]:
    """List an order's items.

    :raises NotFoundError: there is no such order in the caller's scope
    """
    items: list[dict[str, Any]] = fetch_order_view(
        session, order_id=order_id, caller=caller, context=context
    )["items"]
    return items


def list_order_events(session: Session, *, order_id: UUID, caller: Caller) -> list[dict[str, Any]]:
    """List an order's trail, the earliest first.

    :raises NotFoundError: there is no such order in the caller's scope
    """
    fetch_order_with_roles(session, order_id=order_id, caller=caller)
    return _SELECT_EVENTS.all(session, order_id=order_id)


def fetch_order_with_roles(
    session: Session, *, order_id: UUID, caller: Caller
) -> tuple[dict[str, Any], list[str]]:
    """Give what is known of an order, and what the caller is to it.

    :return: the row, not shaped for anybody, and one or more of buyer, vendor and staff
    :raises NotFoundError: there is no such order in the caller's scope
    """
    row = _SELECT_ORDER.first(session, order_id=order_id)
    roles = _caller_roles(row, caller) if row else []
    if row is None or not roles:
        raise NotFoundError("There is no such order.")
    return row, roles


def _caller_roles(row: dict[str, Any], caller: Caller) -> list[str]:
    """Tell what the caller is to an order: several at once, one, or nothing."""
    roles = []
    if row["buyer_id"] == caller.id:
        roles.append("buyer")
    # Unpaid orders are none of the vendor's business, but for those that the vendor called off.
    if row["vendor_user_id"] == caller.id and (row["paidAt"] is not None or row["cancelled_by"] == "vendor"):
        roles.append("vendor")
    if caller.is_staff and (caller.staff_role != "campus_rep" or caller.campus_id == row["campusId"]):
        roles.append("staff")
    return roles


def _cursor_id(page: PageRequest) -> UUID | None:
    [after] = page.after("id")
    return UUID(after) if after else None


def _build_page(
    session: Session, rows: list[dict[str, Any]], *, page: PageRequest, role: str, context: OrderViewContext
) -> Page:
    found = page_of(rows, request=page, position_of=lambda row: [str(row["id"])])
    views = _order_views(session, found.items, roles_of_row=lambda _row: [role], context=context)
    return Page(views, found.limit, found.next_position)


def _order_views(
    session: Session, rows: list[dict[str, Any]], *, roles_of_row: Any, context: OrderViewContext
) -> list[dict[str, Any]]:
    items: dict[UUID, list[dict[str, Any]]] = {row["id"]: [] for row in rows}
    if rows:
        for item in _SELECT_ITEMS.all(session, order_ids=list(items)):
            key = item.pop("image_key")
            item["imageUrl"] = f"{context.media_base_url}/{key}" if key else None
            items[item.pop("order_id")].append(item)
    return [
        _order_view(row, items=items[row["id"]], roles=roles_of_row(row), context=context) for row in rows
    ]


def _order_view(
    row: dict[str, Any], *, items: list[dict[str, Any]], roles: list[str], context: OrderViewContext
) -> dict[str, Any]:
    """Shape a row; the total in naira is written as digits, since floats never touch money."""
    shown = dict(row)
    buyer_name, vendor_name, slug = shown.pop("buyer_name"), shown.pop("display_name"), shown.pop("slug")
    shown["buyer"] = {"id": shown.pop("buyer_id"), "name": buyer_name}
    shown["vendor"] = {"id": shown.pop("vendor_id"), "displayName": vendor_name, "slug": slug}
    del shown["vendor_user_id"]
    reference, status, channel = (shown.pop(f"payment_{name}") for name in ("reference", "status", "channel"))
    shown["payment"] = (
        {"reference": reference, "status": status, "channel": channel, "paidAt": row["paidAt"]}
        if reference
        else None
    )
    if roles == ["vendor"]:
        # What somebody has in their wallet, and how they pay, is theirs to know.
        shown["walletMinor"] = shown["acceptedMinor"] = None
        if reference:
            shown["payment"] |= {"reference": None, "channel": None}
    by, reason = shown.pop("cancelled_by"), shown.pop("cancellation_reason")
    shown["cancellation"] = {"by": by, "reason": reason, "at": row["cancelledAt"]} if by else None
    counter = shown.pop("pin_counter")
    shows_pin = "buyer" in roles and row["status"] in states.PIN_VISIBLE_STATES
    shown["deliveryPin"] = (
        delivery_pin(key=context.pin_key, order_id=row["id"], counter=counter)
        if shows_pin and context.pin_key
        else None
    )
    waits = row["status"] == states.PENDING_PAYMENT
    shown["dueMinor"] = due_minor(row) if waits else 0
    shown["deliveryStatus"] = states.delivery_status(row["status"], was_shipped=row["shippedAt"] is not None)
    shown["total"] = orjson.Fragment(format_decimal(row["total_amount"]))
    shown["items"] = items
    # Money that is held back is for our officers to decide on; until then there is nothing more to pay. Nor is
    # there for an order whose time is over, which is about to expire.
    payable = shown["dueMinor"] > 0 and status != "quarantined" and row["expiresAt"] > context.now
    barred = set() if payable else {states.PAY}
    locked_until = shown.pop("pin_locked_until")
    if locked_until is not None and locked_until > context.now:
        barred.add(states.VERIFY_CODE)
    shown["nextActions"] = [
        trigger for trigger in states.ORDER.triggers_for(row["status"], roles) if trigger not in barred
    ]
    return shown


def due_minor(row: dict[str, Any]) -> int:
    """Give what is to be paid of an unpaid order, in kobo.

    :param row: the order's, as ``fetch_order_with_roles`` gives it
    """
    due: int = row["total_amount"] - row["walletMinor"] - row["acceptedMinor"]
    return due


def is_image_used_by_orders(session: Session, key: str) -> bool:
    """Tell whether an order shows a picture, as its listing had it when it was placed.

    :param key: of the object
    """
    return _SELECT_ITEM_WITH_IMAGE.first(session, key=key) is not None
