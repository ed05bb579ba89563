"""The steps of the demo's purchase. Every response is checked against its expected content."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sandbox.demo.client import Caller, until
from sandbox.demo.narrator import DemoFailedError, Narrator, naira
from sandbox.demo.target import Target
from sandbox.personas import MAIN_CAMPUS, STORE_NAMES, persona_named

_SETTLED_WITHIN_SECONDS = 20.0
_MAX_PAGES = 30  # an anonymous caller may send 60 requests a minute
_BASIS_POINTS = 10_000
_ORDER_FIELDS = ("number", "status", "escrowStatus", "nextActions")
_TRAIL = ["place", "pay", "accept", "ship", "verify-code"]


@dataclass(frozen=True)
class People:
    """The callers who take part in the purchase."""

    anybody: Caller
    buyer: Caller
    vendor: Caller


def play(target: Target, narrator: Narrator, *, pause: Callable[[float], None] = time.sleep) -> None:
    """Play the purchase.

    :param pause: sleeps for the given seconds
    :raises DemoFailedError: a step failed
    """
    product = _browse(target, narrator)
    people = _sign_in(target, narrator)
    address = _save_address(people, narrator)
    order = order_product(people, narrator, product, address)
    fees = pay_order(people, target, narrator, order, pause=pause)
    order = fulfil(people, narrator, order)
    _show_statements(people, narrator, order)
    _show_trail(people, narrator, order)
    narrator.step("Clean up: delete the address (the order keeps a copy)")
    people.buyer.delete(f"/api/users/me/addresses/{address['id']}", "id", "deleted")
    total, owed = order["total_amount"], vendor_share(order)
    narrator.done(
        f"Order {order['number']}: the buyer paid NGN {naira(total)}. The store is owed NGN {naira(owed)}."
        f" The platform earns NGN {naira(total - owed)} and pays the gateway's fee of NGN {naira(fees)}."
    )


def _browse(target: Target, narrator: Narrator) -> dict[str, Any]:
    narrator.step(f"Browse textbooks in stock on {MAIN_CAMPUS.title()} Campus")
    anybody = Caller(target.api, narrator, name="anonymous")
    wanted: dict[str, Any] = {"campus": MAIN_CAMPUS, "category": "textbooks", "inStock": "true"}
    fields = ("title", "priceMinor", "vendor.displayName")
    products = anybody.get("/api/products", *fields, query={**wanted, "limit": 20})
    store = STORE_NAMES["vendor"]
    offered = [product for product in products if product["vendor"]["displayName"] == store]
    for _ in range(_MAX_PAGES):
        if offered or anybody.next_cursor is None:
            break
        page = {**wanted, "limit": 20, "cursor": anybody.next_cursor}
        products = anybody.get("/api/products", query=page, quietly=True)
        offered = [product for product in products if product["vendor"]["displayName"] == store]
    if not offered:
        raise DemoFailedError(f"{store} offers no textbooks. Load the demo data with `marketplace seed`.")
    narrator.note(f"The buyer chooses {offered[0]['title']!r} from {store}.")
    narrator.step("Open the product")
    product: dict[str, Any] = anybody.get(
        f"/api/products/{offered[0]['id']}", "title", "priceMinor", "condition", "inStock"
    )
    return product


def _sign_in(target: Target, narrator: Narrator) -> People:
    narrator.step("Sign in as a buyer, and as the vendor of the store")
    callers = {}
    for name in ("buyer", "vendor"):
        person = persona_named(name)
        provider = Caller(target.issuer, narrator, name=name, abroad=True)
        issued = provider.post("/sandbox/token", "token_type", "expires_in", body={"persona": name})
        callers[name] = Caller(target.api, narrator, name=name, token=issued["access_token"])
        profile = callers[name].get("/api/users/me", "name", "role", "campus.slug", "accountStatus")
        _require(profile["id"] == str(person.user_id), f"the token of {name} belongs to another user")
    return People(Caller(target.api, narrator, name="anonymous"), callers["buyer"], callers["vendor"])


def browse_campus(caller: Caller) -> dict[str, Any]:
    """Return the main campus."""
    campuses = caller.get("/api/campuses", quietly=True)
    found: dict[str, Any] = next(campus for campus in campuses if campus["slug"] == MAIN_CAMPUS)
    return found


def _save_address(people: People, narrator: Narrator) -> dict[str, Any]:
    narrator.step("Save an address")
    body = {"label": "Demo", "hostel": "Moremi Hall", "roomNumber": "B204", "phone": "+2348030000001"}
    address: dict[str, Any] = people.buyer.post(
        "/api/users/me/addresses", "id", "hostel", "roomNumber", body=body, expected=201
    )
    return address


def order_product(
    people: People, narrator: Narrator, product: Mapping[str, Any], address: Mapping[str, Any]
) -> dict[str, Any]:
    """Place an order for a product, from the cart."""
    narrator.step("Fill the cart")
    body: dict[str, Any] = {"items": [{"productId": product["id"], "quantity": 1}]}
    cart = people.buyer.post("/api/cart", "itemCount", "subtotalMinor", "valid", body=body)
    _require(cart["valid"] and cart["itemCount"] == 1, "the cart should contain only the product")
    narrator.step("Place the order: stock is reserved and an escrow record is created")
    body = {"addressId": address["id"], "note": "Please call before you come"}
    fields = (*_ORDER_FIELDS, "subtotalMinor", "deliveryFeeMinor", "serviceFeeMinor", "total_amount")
    order: dict[str, Any] = people.buyer.post("/api/orders", *fields, body=body, expected=201)
    _require_status(order, "pending_payment", escrow="pending")
    parts = ("subtotalMinor", "deliveryFeeMinor", "serviceFeeMinor")
    _require(
        sum(order[part] for part in parts) - order["discountMinor"] == order["total_amount"],
        "the order's total is not the sum of its parts",
    )
    _require(not _entries(people.buyer, order), "the unpaid order has ledger entries")
    narrator.ledger("no entries: no money has moved yet")
    return order


def pay_order(
    people: People,
    target: Target,
    narrator: Narrator,
    order: Mapping[str, Any],
    *,
    pause: Callable[[float], None],
) -> int:
    """Pay the order.

    :return: the gateway's fees in kobo
    """
    narrator.step("Request a payment page from the gateway")
    page = people.buyer.post(
        "/api/payments/initialize", "reference", "authorizationUrl", body={"orderId": order["id"]}
    )
    _require(
        page["amountMinor"] == order["total_amount"], "the payment page and the order have different amounts"
    )
    narrator.step("Pay on the gateway's page (by a script instead of a browser)")
    gateway = Caller(target.gateway, narrator, name="buyer", abroad=True)
    path = f"/sandbox/pay/{quote(page['reference'])}"
    charge = gateway.post(path, "status", "amount", "fees", "channel", body={"channel": "card"})
    _require(charge["status"] == "success", "the gateway did not accept the payment")
    narrator.step("The gateway sends a signed webhook, and a worker moves the order to paid_escrow")

    def paid() -> Any:
        found = people.buyer.get(f"/api/orders/{order['id']}", quietly=True)
        return found if found["status"] != "pending_payment" else None

    until(paid, seconds=_SETTLED_WITHIN_SECONDS, what="The order's payment", pause=pause)
    found = people.buyer.get(
        f"/api/orders/{order['id']}", *_ORDER_FIELDS, "payment.status", "payment.channel"
    )
    _require_status(found, "paid_escrow", escrow="held")
    _require_entries(
        people.buyer,
        order,
        {("credit", order["total_amount"]): "wallet", ("debit", order["total_amount"]): "wallet"},
    )
    total = naira(order["total_amount"])
    narrator.ledger(f"debit gateway_clearing {total}, through the buyer's wallet, credit escrow {total}")
    fees: int = charge["fees"]
    return fees


def fulfil(people: People, narrator: Narrator, order: Mapping[str, Any]) -> dict[str, Any]:
    """Accept, ship and deliver a paid order."""
    path = f"/api/orders/{order['id']}"
    narrator.step("The vendor accepts the order")
    _require_status(people.vendor.post(f"{path}/accept", *_ORDER_FIELDS), "processing", escrow="held")
    narrator.step("The vendor ships the order")
    body = {"status": "shipped", "trackingNote": "With our rider, on a red bicycle"}
    _require_status(people.vendor.post(f"{path}/status", *_ORDER_FIELDS, body=body), "shipped", escrow="held")
    narrator.step("The buyer gives the vendor the delivery PIN, which only the buyer can see")
    seen = people.buyer.get(path, "number", "status", "deliveryPin")
    pin = seen["deliveryPin"]
    _require(isinstance(pin, str) and len(pin) == 6, "the buyer does not see the PIN")
    hidden = people.vendor.get(path, quietly=True)
    _require(hidden["deliveryPin"] is None, "the vendor sees the PIN")
    narrator.step("The vendor submits the PIN, which releases the escrow")
    delivered: dict[str, Any] = people.vendor.post(
        f"{path}/verify-code", *_ORDER_FIELDS, "deliveryStatus", body={"pin": pin}
    )
    _require_status(delivered, "delivered", escrow="released")
    share = vendor_share(delivered)
    _require_entries(people.vendor, order, {("credit", share): "vendor_payable"})
    narrator.ledger(
        f"debit escrow {naira(order['total_amount'])}, credit the store's vendor_payable {naira(share)}"
        f" (items less commission, and the delivery fee), credit platform_revenue"
        f" {naira(order['total_amount'] - share)}"
    )
    return delivered


def _show_statements(people: People, narrator: Narrator, order: Mapping[str, Any]) -> None:
    narrator.step("Statements of the buyer and the vendor")
    for caller in (people.buyer, people.vendor):
        entries = caller.get(
            "/api/transactions", "kind", "direction", "amountMinor", "account", query={"limit": 20}
        )
        own = [entry for entry in entries if entry["orderId"] == order["id"]]
        ids = {entry["transactionId"] for entry in own}
        narrator.table(
            ("Transaction", "Account", "Direction", "Amount (NGN)", "Balance after (NGN)", "For"),
            [
                (
                    *(entry["kind"], entry["account"].split(":")[0], entry["direction"]),
                    *(naira(entry["amountMinor"]), naira(entry["balanceAfterMinor"]), entry["description"]),
                )
                for entry in reversed(entries)
                if entry["transactionId"] in ids
            ],
        )


def _show_trail(people: People, narrator: Narrator, order: Mapping[str, Any]) -> None:
    narrator.step("The order's history")
    events = people.buyer.get(f"/api/orders/{order['id']}/events", "trigger", "to", "actor")
    narrator.table(
        ("At", "Trigger", "From", "To", "By"),
        [
            (event["at"], event["trigger"], event["from"] or "-", event["to"], event["actor"])
            for event in events
        ],
    )
    triggers = [event["trigger"] for event in events if event["from"] != event["to"]]
    _require(triggers == _TRAIL, f"the order's history is {triggers}, not {_TRAIL}")


def vendor_share(order: Mapping[str, Any]) -> int:
    """Compute the vendor's share in kobo: items less commission (rounded down per line), plus delivery fee."""
    commission = sum(
        item["lineTotalMinor"] * item["commissionBps"] // _BASIS_POINTS for item in order["items"]
    )
    share: int = order["subtotalMinor"] - commission + order["deliveryFeeMinor"]
    return share


def _entries(caller: Caller, order: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return all entries, visible to the caller, of the transactions that moved the order's money."""
    entries = caller.get("/api/transactions", quietly=True, query={"limit": 20})
    ids = {entry["transactionId"] for entry in entries if entry["orderId"] == order["id"]}
    return [entry for entry in entries if entry["transactionId"] in ids]


def _require_entries(
    caller: Caller, order: Mapping[str, Any], expected: Mapping[tuple[str, int], str]
) -> None:
    found = {
        (entry["direction"], entry["amountMinor"]): entry["account"].split(":")[0]
        for entry in _entries(caller, order)
    }
    _require(found == expected, f"the ledger shows {found} to the {caller.name}, not {dict(expected)}")


def _require_status(order: Mapping[str, Any], status: str, *, escrow: str) -> None:
    found = (order["status"], order["escrowStatus"])
    _require(
        found == (status, escrow),
        f"the statuses of the order and its escrow are {found}, not {(status, escrow)}",
    )


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise DemoFailedError(f"Unexpected result: {otherwise}.")
