"""Steps shared by several chapters: stores, products, pictures, times, and placed and paid orders."""

import struct
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.recorded_requests.player import UNKNOWN_ID, Answer, Player

STORE = "00060000-0001-7093-bb4b-0029b28f760b"
STORE_2 = "00060000-0002-7297-9f01-55a414a0c32f"
SEEDED_ADDRESS = "00090000-0001-73ca-a3a2-70688df8ed25"


def later(**span: float) -> str:
    """Return the time after this span, as in requests."""
    return (datetime.now(UTC) + timedelta(**span)).strftime("%Y-%m-%dT%H:%M:%SZ")


def picture(red: int = 200, side: int = 64) -> bytes:
    """Draw a PNG of a single colour."""
    row = b"\0" + bytes((red, 90, 40)) * side
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(row * side)),
        (b"IEND", b""),
    )
    drawn = b"\x89PNG\r\n\x1a\n"
    for kind, data in parts:
        drawn += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return drawn


def available_products(player: Player, store: str) -> list[dict[str, Any]]:
    """List a store's available products without a flash sale, cheapest first."""
    found = player.fetch(
        "GET",
        "/api/products",
        query={"vendor": store, "inStock": "true", "sort": "price_asc", "limit": "100"},
    )
    return [card for card in found.get(default=[]) if card["flashSale"] is None]


def place(
    player: Player, step: str, product: str, *, quantity: int = 1, who: str = "buyer", **more: Any
) -> Answer:
    """Place an order of a product."""
    items = [{"productId": product, "quantity": quantity}]
    return player.ask(
        step, "POST", "/api/orders", who=who, key=True,
        body={"items": items, "shippingAddress": {"hostel": "Moremi Hall", "roomNumber": "7"}, **more},
    )  # fmt: skip


def open_page(player: Player, step: str, order: str, *, who: str = "buyer", of: str = "orderId") -> str:
    """Open the hosted payment page and return the payment's reference."""
    opened = player.ask(step, "POST", "/api/payments/initialize", who=who, key=True, body={of: order})
    reference = opened.get("reference")
    return reference if isinstance(reference, str) else f"checkout-{'0' * 32}"


def pay(player: Player, reference: str, order: str, *, who: str = "buyer", **how: Any) -> None:
    """Pay at the gateway and wait until the webhook is processed."""
    player.call_gateway("POST", f"/sandbox/pay/{reference}", how)
    player.wait(f"the payment of {player.normal.text(reference, 'pay')} is taken",
                lambda: status_of(player, order, who=who) != "pending_payment")  # fmt: skip


def status_of(player: Player, order: str, *, who: str = "buyer") -> Any:
    """Return an order's status."""
    return player.fetch("GET", "/api/orders/:id", order, who=who).get("status")


def paid_order(
    player: Player, name: str, product: str, *, quantity: int = 1, who: str = "buyer", **how: Any
) -> str:
    """Place and pay an order, and return the order's id."""
    order = place(player, f"{name}: place", product, quantity=quantity, who=who).id()
    reference = open_page(player, f"{name}: open the page", order, who=who)
    pay(player, reference, order, who=who, **how)
    return order


def pin_of(player: Player, order: str, *, who: str = "buyer") -> str:
    """Return the delivery PIN shown to the buyer of an order."""
    return str(player.fetch("GET", "/api/orders/:id", order, who=who).get("deliveryPin", default="000000"))


def ship(player: Player, name: str, order: str, *, who: str = "vendor") -> None:
    """Accept and ship an order."""
    player.ask(f"{name}: accept", "POST", "/api/orders/:orderId/accept", order, who=who)
    player.ask(f"{name}: ship", "POST", "/api/orders/:orderId/status", order, who=who,
               body={"status": "shipped", "trackingNote": "With our rider"})  # fmt: skip


def delivered_order(
    player: Player, name: str, product: str, *, quantity: int = 1, who: str = "buyer", vendor: str = "vendor"
) -> str:
    """Place, pay, ship and deliver an order, and return the order's id."""
    order = paid_order(player, name, product, quantity=quantity, who=who)
    ship(player, name, order, who=vendor)
    player.ask(f"{name}: verify the PIN", "POST", "/api/orders/:orderId/verify-code", order, who=vendor,
               key=True, body={"pin": pin_of(player, order, who=who)})  # fmt: skip
    return order


def first(found: Answer, *path: str | int) -> str:
    """Return the id, or another field, of the first row of a listing."""
    return found.id(0, *(path or ("id",)))


__all__ = ["UNKNOWN_ID"]
