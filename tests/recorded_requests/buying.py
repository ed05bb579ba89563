"""Buying: profiles, the cart, orders from placing to delivery, and order access by role."""

from typing import Any

from tests.recorded_requests.market import (
    STORE,
    STORE_2,
    available_products,
    first,
    open_page,
    paid_order,
    pay,
    pin_of,
    place,
    ship,
)
from tests.recorded_requests.player import UNKNOWN_ID, Player

_PARTS = ("", "/items", "/events", "/money")


def play(player: Player) -> None:
    """Buy products."""
    store_products = [card["id"] for card in available_products(player, STORE)]
    store_2_products = [card["id"] for card in available_products(player, STORE_2)]
    _profile(player)
    _cart(player, store_products, store_2_products)
    _placing(player, store_products, store_2_products)
    _delivery(player, store_products)
    _checkout(player, store_products, store_2_products)
    _tables(player)


def _profile(player: Player) -> None:
    me, path, one = "/api/users/me", "/api/users/me/addresses", "/api/users/me/addresses/:addressId"
    player.ask(
        "profile, changed", "PUT", me, who="buyer2", body={"name": "Tunde B. Bello", "phone": "08031234567"}
    )
    for name, body in {
        "phone": {"phone": "12"}, "name": {"name": ""}, "campus": {"campusId": UNKNOWN_ID}, "avatar": {"avatarUrl": "ftp://x"},
        "role": {"role": "staff"},
    }.items():  # fmt: skip
        player.ask(f"profile, bad {name}", "PUT", me, who="buyer2", body=body)
    player.ask("addresses", "GET", path, who="buyer")
    made = player.ask(
        "address, made",
        "POST",
        path,
        who="buyer2",
        body={
            "hostel": "Kuti Hall",
            "roomNumber": "B4",
            "label": "Room",
            "latitude": 6.5,
            "longitude": 3.4,
            "phone": "+2348031234567",
        },
    )
    player.ask(
        "address, made default", "POST", path, who="buyer2", body={"hostel": "Jaja Hall", "isDefault": True}
    )
    player.ask(
        "address, changed", "PUT", one, made.id(), who="buyer2", body={"hall": "Block C", "isDefault": True}
    )
    player.ask("address, half a place", "PUT", one, made.id(), who="buyer2", body={"latitude": 91})
    player.ask("address, another's", "PUT", one, made.id(), who="buyer", body={"hall": "x"})
    player.ask("address, another's, gone", "DELETE", one, made.id(), who="buyer")
    player.ask("addresses, paged", "GET", path, who="buyer2", query={"limit": "1"})
    player.ask("address, gone", "DELETE", one, made.id(), who="buyer2")
    player.ask("address, gone twice", "DELETE", one, made.id(), who="buyer2")


def _cart(player: Player, store_products: list[str], store_2_products: list[str]) -> None:
    path = "/api/cart"

    def put(step: str, *lines: tuple[str, object], who: str = "buyer") -> None:
        items = [{"productId": product, "quantity": quantity} for product, quantity in lines]
        player.ask(f"cart, {step}", "POST", path, who=who, body={"items": items})

    south = first(player.fetch("GET", "/api/products", query={"campus": "south", "limit": "1"}))
    player.ask("cart, empty", "GET", path, who="buyer")
    put("filled", (store_products[0], 2), (store_2_products[0], 1))
    put("changed", (store_products[0], 1), (store_2_products[0], 2), (store_products[1], 1))
    player.ask("cart, read", "GET", path, who="buyer")
    put("a product twice", (store_products[0], 1), (store_products[0], 1))
    put("nothing of it", (store_products[0], 0))
    put("unknown product", (UNKNOWN_ID, 1))
    put("another campus", (south, 1))
    put("the own store's", (store_products[0], 1), who="vendor")
    put("more than there is", (store_products[0], 1000))
    put("of staff", (store_products[0], 1), who="support")
    player.ask("cart, cleared", "DELETE", path, who="buyer")
    player.ask("cart, cleared twice", "DELETE", path, who="buyer")


def _placing(player: Player, store_products: list[str], store_2_products: list[str]) -> None:
    path = "/api/orders"
    south = first(player.fetch("GET", "/api/products", query={"campus": "south", "limit": "1"}))
    address = {"hostel": "Moremi Hall"}

    def refused(step: str, who: str = "buyer", **body: object) -> None:
        player.ask(f"order, {step}", "POST", path, who=who, body=body)

    item = {"productId": store_products[2], "quantity": 1}
    refused("of an empty cart", shippingAddress=address)
    refused(
        "of two stores",
        items=[item, {"productId": store_2_products[1], "quantity": 1}],
        shippingAddress=address,
    )
    refused("unknown product", items=[{"productId": UNKNOWN_ID, "quantity": 1}], shippingAddress=address)
    refused("another campus", items=[{"productId": south, "quantity": 1}], shippingAddress=address)
    refused("too many", items=[{"productId": store_products[2], "quantity": 999}], shippingAddress=address)
    refused("nothing", items=[], shippingAddress=address)
    refused("another total", items=[item], shippingAddress=address, expectedTotalMinor=5)
    refused("unknown address", items=[item], addressId=UNKNOWN_ID)
    refused("unknown hub", items=[item], hubId=UNKNOWN_ID, deliveryMethod="pickup")
    refused("two addresses", items=[item], addressId=UNKNOWN_ID, shippingAddress=address)
    refused("pickup without hub", items=[item], deliveryMethod="pickup")
    refused("own store", who="vendor", items=[item], shippingAddress=address)
    refused("of staff", who="support", items=[item], shippingAddress=address)
    refused("empty wallet", items=[item], shippingAddress=address, walletMinor=100)
    refused("wallet twice", items=[item], shippingAddress=address, walletMinor=100, useWallet=True)

    order = place(player, "order 1: place", store_products[2], quantity=2, note="Call me").id()
    for part in _PARTS:
        for who in ("buyer", "vendor", "orders", "buyer2", "vendor2", "support", "finance"):
            player.ask(
                f"order 1, unpaid{part or ', itself'} for {who}",
                "GET",
                f"{path}/:orderId{part}",
                order,
                who=who,
            )
    for act, body in (
        ("accept", None),
        ("status", {"status": "shipped"}),
        ("verify-code", {"pin": "123456"}),
    ):
        for who in ("vendor", "vendor2"):
            player.ask(
                f"order 1, unpaid: {act} by {who}",
                "POST",
                f"{path}/:orderId/{act}",
                order,
                who=who,
                body=body,
            )
    player.ask("order 1, unpaid: confirm", "POST", f"{path}/:orderId/confirm", order, who="buyer")
    player.ask(
        "order 1, unpaid: cancel by another", "POST", f"{path}/:orderId/cancel", order, who="buyer2", body={}
    )
    player.ask(
        "order 1, unpaid: cancel by staff", "POST", f"{path}/:orderId/cancel", order, who="orders", body={}
    )
    key = player.fresh_key()
    player.ask(
        "order 1: cancel",
        "POST",
        f"{path}/:orderId/cancel",
        order,
        who="buyer",
        key=key,
        body={"reason": "Found another"},
    )
    player.ask(
        "order 1: cancel, same key",
        "POST",
        f"{path}/:orderId/cancel",
        order,
        who="buyer",
        key=key,
        body={"reason": "Found another"},
    )
    player.ask(
        "order 1: cancel, same key in v1",
        "POST",
        "/api/v1/orders/:orderId/cancel",
        order,
        who="buyer",
        key=key,
        body={"reason": "Found another"},
    )
    player.ask(
        "order 1: cancel, same key, another body",
        "POST",
        f"{path}/:orderId/cancel",
        order,
        who="buyer",
        key=key,
        body={"reason": "Other"},
    )
    player.ask(
        "order 1: cancel twice", "POST", f"{path}/:orderId/cancel", order, who="buyer", key=True, body={}
    )
    player.ask("order 1, cancelled", "GET", f"{path}/:orderId", order, who="buyer")
    player.ask(
        "order 1, cancelled: pay",
        "POST",
        "/api/payments/intent",
        who="buyer",
        key=True,
        body={"orderId": order},
    )

    key = player.fresh_key()
    refused_body: dict[str, Any] = {
        "items": [{"productId": store_products[3], "quantity": 1}],
        "addressId": UNKNOWN_ID,
    }
    player.ask("order, refused with key", "POST", path, who="buyer", key=key, body=refused_body)
    player.ask("order, refused with key, again", "POST", path, who="buyer", key=key, body=refused_body)
    unpaid = [
        place(player, f"unpaid {number}: place", store_products[number], who="buyer2").id()
        for number in range(6)
    ]
    for number, one in enumerate(unpaid[:5]):
        player.ask(f"unpaid {number}: cancel", "POST", f"{path}/:orderId/cancel", one, who="buyer2", body={})


def _delivery(player: Player, store_products: list[str]) -> None:
    path = "/api/orders"
    order = place(player, "order 2: place", store_products[4], quantity=3).id()
    intent = player.ask(
        "order 2: intent", "POST", "/api/payments/intent", who="buyer", key=True, body={"orderId": order}
    )
    player.ask(
        "order 2: intent again",
        "POST",
        "/api/payments/intent",
        who="buyer",
        key=True,
        body={"orderId": order},
    )
    player.ask(
        "order 2: intent of another",
        "POST",
        "/api/payments/intent",
        who="buyer2",
        key=True,
        body={"orderId": order},
    )
    player.ask(
        "order 2: intent, both",
        "POST",
        "/api/payments/intent",
        who="buyer",
        key=True,
        body={"orderId": order, "checkoutId": order},
    )
    player.ask(
        "order 2: intent, callback",
        "POST",
        "/api/payments/intent",
        who="buyer",
        key=True,
        body={"orderId": order, "callbackUrl": "https://evil.example/x"},
    )
    reference = open_page(player, "order 2: open the page", order)
    open_page(player, "order 2: open the page again", order)
    player.ask(
        "order 2: open by reference",
        "POST",
        "/api/payments/initialize",
        who="buyer",
        key=True,
        body={"reference": str(intent.get("reference")), "callbackUrl": f"{player.base_url}/paid"},
    )
    player.ask(
        "order 2: open by another",
        "POST",
        "/api/payments/initialize",
        who="buyer2",
        key=True,
        body={"orderId": order},
    )
    player.ask(
        "order 2: open by another's reference",
        "POST",
        "/api/payments/initialize",
        who="buyer2",
        key=True,
        body={"reference": reference},
    )
    player.ask(
        "order 2: open with foreign callback",
        "POST",
        "/api/payments/initialize",
        who="buyer",
        key=True,
        body={"orderId": order, "callbackUrl": "https://evil.example/x"},
    )
    player.ask(
        "order 2: verify unpaid", "POST", "/api/payments/verify", who="buyer", body={"reference": reference}
    )
    player.ask(
        "order 2: verify another's",
        "POST",
        "/api/payments/verify",
        who="buyer2",
        body={"reference": reference},
    )
    player.ask(
        "verify an unknown one",
        "POST",
        "/api/payments/verify",
        who="buyer",
        body={"reference": f"checkout-{'0' * 32}"},
    )
    player.ask("verify no reference", "POST", "/api/payments/verify", who="buyer", body={"reference": "x"})
    pay(player, reference, order)
    player.ask(
        "order 2: verify paid", "POST", "/api/payments/verify", who="buyer", body={"reference": reference}
    )
    player.ask(
        "order 2: open when paid",
        "POST",
        "/api/payments/initialize",
        who="buyer",
        key=True,
        body={"orderId": order},
    )
    for part in _PARTS:
        for who in ("buyer", "vendor", "orders", "vendor2", "finance"):
            player.ask(
                f"order 2, paid{part or ', itself'} for {who}",
                "GET",
                f"{path}/:orderId{part}",
                order,
                who=who,
            )
    player.ask(
        "order 2, paid: ship at once",
        "POST",
        f"{path}/:orderId/status",
        order,
        who="vendor",
        body={"status": "shipped"},
    )
    player.ask("order 2, paid: accept by another", "POST", f"{path}/:orderId/accept", order, who="vendor2")
    player.ask("order 2, paid: accept", "POST", f"{path}/:orderId/accept", order, who="vendor")
    player.ask("order 2: accept twice", "POST", f"{path}/:orderId/accept", order, who="vendor")
    player.ask(
        "order 2: bad status",
        "POST",
        f"{path}/:orderId/status",
        order,
        who="vendor",
        body={"status": "delivered"},
    )
    player.ask(
        "order 2: verify before shipping",
        "POST",
        f"{path}/:orderId/verify-code",
        order,
        who="vendor",
        body={"pin": "000000"},
    )
    player.ask(
        "order 2: ship",
        "POST",
        f"{path}/:orderId/status",
        order,
        who="vendor",
        body={"status": "shipped", "trackingNote": "Red bicycle"},
    )
    player.ask(
        "order 2: ship twice",
        "POST",
        f"{path}/:orderId/status",
        order,
        who="vendor",
        body={"status": "shipped"},
    )
    player.ask("order 2, shipped: cancel", "POST", f"{path}/:orderId/cancel", order, who="buyer", body={})
    pin = pin_of(player, order)
    wrong = "000000" if pin != "000000" else "111111"
    player.ask(
        "order 2: PIN of four",
        "POST",
        f"{path}/:orderId/verify-code",
        order,
        who="vendor",
        body={"pin": "1234"},
    )
    player.ask(
        "order 2: wrong PIN", "POST", f"{path}/:orderId/verify-code", order, who="vendor", body={"pin": wrong}
    )
    player.ask(
        "order 2: wrong PIN, other path",
        "POST",
        f"{path}/:orderId/verify-delivery",
        order,
        who="vendor",
        key=True,
        body={"pin": wrong},
    )
    player.ask(
        "order 2: right PIN of another",
        "POST",
        f"{path}/:orderId/verify-code",
        order,
        who="vendor2",
        body={"pin": pin},
    )
    key = player.fresh_key()
    for step in ("right PIN", "right PIN, same key"):
        player.ask(
            f"order 2: {step}",
            "POST",
            f"{path}/:orderId/verify-delivery",
            order,
            who="vendor",
            key=key,
            body={"pin": pin},
        )
    player.ask(
        "order 2: right PIN twice",
        "POST",
        f"{path}/:orderId/verify-code",
        order,
        who="vendor",
        body={"pin": pin},
    )
    for part in _PARTS:
        for who in ("buyer", "vendor", "orders"):
            player.ask(
                f"order 2, delivered{part or ', itself'} for {who}",
                "GET",
                f"{path}/:orderId{part}",
                order,
                who=who,
            )

    _confirmed(player, store_products[5])


def _confirmed(player: Player, product: str) -> None:
    path = "/api/orders"
    order = paid_order(player, "order 3", product)
    ship(player, "order 3", order)
    pin = pin_of(player, order)
    wrong = "000000" if pin != "000000" else "111111"
    for number in range(6):
        player.ask(
            f"order 3: wrong PIN {number}",
            "POST",
            f"{path}/:orderId/verify-code",
            order,
            who="vendor",
            body={"pin": wrong},
        )
    player.ask("order 3: confirm by another", "POST", f"{path}/:orderId/confirm", order, who="buyer2")
    player.ask("order 3: confirm by its vendor", "POST", f"{path}/:orderId/confirm", order, who="vendor")
    key = player.fresh_key()
    player.ask("order 3: confirm", "POST", f"{path}/:orderId/confirm", order, who="buyer", key=key)
    player.ask("order 3: confirm, same key", "POST", f"{path}/:orderId/confirm", order, who="buyer", key=key)
    player.ask("order 3: confirm twice", "POST", f"{path}/:orderId/confirm", order, who="buyer")


def _checkout(player: Player, store_products: list[str], store_2_products: list[str]) -> None:
    path = "/api/orders/checkout"
    items = [
        {"productId": store_products[6], "quantity": 1},
        {"productId": store_2_products[2], "quantity": 2},
    ]
    address = {"hostel": "Moremi Hall"}
    player.ask("checkout, fill the cart", "POST", "/api/cart", who="buyer", body={"items": items})
    player.ask(
        "checkout, another total",
        "POST",
        path,
        who="buyer",
        key=True,
        body={"shippingAddress": address, "expectedTotalMinor": 1},
    )
    player.ask(
        "checkout, unknown items",
        "POST",
        path,
        who="buyer",
        key=True,
        body={
            "shippingAddress": address,
            "items": [
                {"productId": UNKNOWN_ID, "quantity": 1},
                {"productId": store_products[6], "quantity": 999},
            ],
        },
    )
    key = player.fresh_key()
    made = player.ask(
        "checkout", "POST", path, who="buyer", key=key, body={"shippingAddress": address, "note": "Both"}
    )
    player.ask(
        "checkout, same key",
        "POST",
        path,
        who="buyer",
        key=key,
        body={"shippingAddress": address, "note": "Both"},
    )
    player.ask(
        "checkout, same key, another body",
        "POST",
        path,
        who="buyer",
        key=key,
        body={"shippingAddress": address},
    )
    player.ask("checkout, cart after", "GET", "/api/cart", who="buyer")
    reference = open_page(player, "checkout: open the page", made.id("checkoutId"), of="checkoutId")
    orders = [made.id("orders", 0, "id"), made.id("orders", 1, "id")]
    pay(player, reference, orders[0], channel="ussd")
    for number, order in enumerate(orders):
        for part in _PARTS:
            player.ask(
                f"checkout, order {number}{part}", "GET", f"/api/orders/:orderId{part}", order, who="buyer"
            )
    store = {shown["id"]: shown["vendor"]["id"] for shown in made.get("orders", default=[])}
    for number, order in enumerate(orders):
        who = "vendor" if store.get(order) == STORE else "vendor2"
        player.ask(
            f"checkout, order {number}: cancel by its vendor",
            "POST",
            "/api/orders/:orderId/cancel",
            order,
            who=who,
            body={"reason": "Out of stock"},
        ) if number else ship(player, "checkout, order 0", order, who=who)
    player.ask("checkout, order 0: confirm", "POST", "/api/orders/:orderId/confirm", orders[0], who="buyer")
    player.wait("the cancelled order's money is back", lambda: all(
        refund["status"] == "processed" for refund in player.fetch("GET", "/api/orders/:id", orders[1], who="buyer").get("refunds", default=[{"status": None}])
    ))  # fmt: skip
    player.ask("checkout, order 1, refunded", "GET", "/api/orders/:orderId", orders[1], who="buyer")
    player.ask("checkout, order 1, money", "GET", "/api/orders/:orderId/money", orders[1], who="buyer")
    player.ask(
        "checkout, order 1, money for finance", "GET", "/api/orders/:orderId/money", orders[1], who="finance"
    )


def _tables(player: Player) -> None:
    for status in (
        "pending_payment",
        "paid_escrow",
        "processing",
        "shipped",
        "delivered",
        "disputed",
        "cancelled",
        "expired",
        "refunded",
        "x",
    ):
        player.ask(f"own orders, {status}", "GET", "/api/orders", who="buyer", query={"status": status})
        player.ask(
            f"a store's orders, {status}", "GET", "/api/orders/vendor", who="vendor", query={"status": status}
        )
        player.ask(
            f"table of orders, {status}", "GET", "/api/orders/admin", who="orders", query={"status": status}
        )
    paged = player.ask("own orders, paged", "GET", "/api/orders", who="buyer", query={"limit": "2"})
    player.ask(
        "own orders, next page",
        "GET",
        "/api/orders",
        who="buyer",
        query={"limit": "2", "cursor": str(paged.meta("next_cursor"))},
    )
    player.ask(
        "own orders, another's cursor",
        "GET",
        "/api/orders",
        who="buyer2",
        query={"limit": "2", "cursor": str(paged.meta("next_cursor"))},
    )
    player.ask("a store's counts", "GET", "/api/orders/vendor/counts", who="vendor")
    for name, query in {
        "all": {}, "sorted": {"sort": "total_amount", "order": "asc", "limit": "5"}, "escrow": {"escrowStatus": "held"},
        "amounts": {"minTotal": "500000", "maxTotal": "2000000"}, "campus": {"campus": "north"}, "vendor": {"vendor": STORE_2},
        "stuck": {"stuck": "true"}, "old": {"olderThanHours": "48"}, "CSV": {"format": "csv"}, "bad range": {"minTotal": "5", "maxTotal": "1"},
        "bad time": {"from": "yesterday"}, "bad period": {"from": "2026-02-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"},
    }.items():  # fmt: skip
        player.ask(f"table of orders: {name}", "GET", "/api/orders/admin", who="orders", query=query)
    player.ask(
        "table of orders by Accept", "GET", "/api/orders/admin", who="admin", headers={"Accept": "text/csv"}
    )
    for who in ("campus-rep", "admin", "support"):
        for name, query in {
            "all": {},
            "north": {"campus": "north"},
            "south": {"campus": "south"},
            "picked up": {"deliveryMethod": "pickup"},
        }.items():
            player.ask(f"campus orders, {name}, of {who}", "GET", "/api/campus-orders", who=who, query=query)
