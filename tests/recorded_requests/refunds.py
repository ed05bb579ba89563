"""Refunds by officers: partial, by item, failed and retried, after release, and during a chargeback."""

from tests.recorded_requests.market import STORE, STORE_2, available_products, delivered_order, paid_order
from tests.recorded_requests.paying import settle_refunds
from tests.recorded_requests.player import UNKNOWN_ID, Player

_PATH = "/api/payments/order/:orderId/process-refund"
_REFUNDS = "/api/payments/refunds"
_REASON = "The parcel came late."


def play(player: Player) -> None:
    """Refund orders."""
    store_products = [card["id"] for card in available_products(player, STORE)]
    store_2_products = [card["id"] for card in available_products(player, STORE_2)]
    _parts(player, store_products)
    _retried(player, store_products)
    _clawback(player, store_products, store_2_products)
    for product, won in ((store_products[6], True), (store_products[7], False)):
        _disputed(player, product, won=won)
    _listings(player)


def _refund(
    player: Player, step: str, order: str, *, key: str | bool = False, who: str = "finance", **body: object
) -> None:
    player.ask(
        step,
        "POST",
        _PATH,
        order,
        who=who,
        aal2=True,
        key=key,
        body={"destination": "wallet", "reason": _REASON, **body},
    )


def _parts(player: Player, store_products: list[str]) -> None:
    product = store_products[3]
    order = paid_order(player, "refund", product, quantity=3)
    _refund(player, "refund: too much", order, amountMinor=999_999_999)
    _refund(player, "refund: nothing", order, amountMinor=0)
    _refund(player, "refund: short reason", order, reason="x")
    _refund(player, "refund: nowhere", order, destination="bank")
    _refund(player, "refund: unknown item", order, items=[{"productId": UNKNOWN_ID, "quantity": 1}])
    _refund(player, "refund: too many pieces", order, items=[{"productId": product, "quantity": 9}])
    _refund(
        player,
        "refund: items and another amount",
        order,
        items=[{"productId": product, "quantity": 1}],
        amountMinor=5,
    )
    _refund(player, "refund: clawback before the release", order, clawback=True)
    _refund(player, "refund: by support", order, who="support")
    key = player.fresh_key()
    for step in ("refund: a piece", "refund: a piece, same key"):
        _refund(player, step, order, key=key, items=[{"productId": product, "quantity": 1}])
    _refund(player, "refund: an amount", order, amountMinor=10_000, destination="gateway")
    settle_refunds(player, "the parts")
    for part in ("", "/items", "/events", "/money"):
        player.ask(f"refund, in part{part}", "GET", f"/api/orders/:orderId{part}", order, who="vendor")
    _refund(player, "refund: the rest", order)
    _refund(player, "refund: once more", order)
    player.ask("refund: order at last", "GET", "/api/orders/:orderId", order, who="buyer")
    player.ask("refund: money at last", "GET", "/api/orders/:orderId/money", order, who="finance")


def _retried(player: Player, store_products: list[str]) -> None:
    for number, (outcome, act) in enumerate((("failed", "retry"), ("failed", "credit"))):
        player.call_gateway("POST", "/sandbox/refunds/next", {"outcome": outcome})
        order = paid_order(player, f"mend by {act}", store_products[4 + number])
        _refund(player, f"mend by {act}: refund", order, destination="gateway")
        settle_refunds(player, f"mend by {act}")
        shown = player.ask(
            f"mend by {act}: failed ones", "GET", _REFUNDS, who="finance", query={"status": "failed"}
        )
        refund = shown.id(0, "id")
        other = "credit" if act == "retry" else "retry"
        key = player.fresh_key()
        player.ask(
            f"mend by {act}", "POST", f"{_REFUNDS}/:refundId/{act}", refund, who="finance", aal2=True, key=key
        )
        settle_refunds(player, f"mended by {act}")
        player.ask(
            f"mend by {act}, same key",
            "POST",
            f"{_REFUNDS}/:refundId/{act}",
            refund,
            who="finance",
            aal2=True,
            key=key,
        )
        player.ask(
            f"mend by {act}, twice", "POST", f"{_REFUNDS}/:refundId/{act}", refund, who="finance", aal2=True
        )
        player.ask(
            f"mend by {act}, then {other}",
            "POST",
            f"{_REFUNDS}/:refundId/{other}",
            refund,
            who="finance",
            aal2=True,
        )
        player.ask(f"mended by {act}", "GET", "/api/orders/:orderId/money", order, who="finance")


def _clawback(player: Player, store_products: list[str], store_2_products: list[str]) -> None:
    order = delivered_order(player, "clawback", store_2_products[4], vendor="vendor2")
    _refund(player, "clawback: as a refund", order)
    _refund(player, "clawback: too much", order, clawback=True, amountMinor=999_999_999)
    _refund(player, "clawback: a part", order, clawback=True, amountMinor=20_000)
    _refund(player, "clawback: all", order, clawback=True, destination="gateway")
    settle_refunds(player, "the clawback")
    _refund(player, "clawback: once more", order, clawback=True)
    for who in ("buyer", "vendor2", "finance"):
        player.ask(f"clawback: order for {who}", "GET", "/api/orders/:orderId", order, who=who)
        player.ask(f"clawback: money for {who}", "GET", "/api/orders/:orderId/money", order, who=who)
    player.ask("clawback: events", "GET", "/api/orders/:orderId/events", order, who="vendor2")
    player.ask("receivables", "GET", "/api/payouts/receivables", who="finance")
    player.ask(
        "receivables of a store",
        "GET",
        "/api/payouts/receivables",
        who="finance",
        query={"vendorId": STORE, "sort": "lastClaimedAt", "order": "asc"},
    )
    del store_products


def _disputed(player: Player, product: str, *, won: bool) -> None:
    name = "won" if won else "lost"
    order = paid_order(player, f"dispute {name}", product)
    shown = player.fetch("GET", "/api/orders/:id", order, who="buyer")
    reference, amount = shown.get("payment", "reference"), shown.get("total_amount")
    charge = player.call_gateway("GET", f"/transaction/verify/{reference}").get("data", {}).get("id")
    dispute = {
        "id": 7_000_000 + won, "refund_amount": amount, "currency": "NGN", "status": "awaiting-merchant-feedback",
        "resolution": None, "domain": "test", "transaction": {"id": charge, "status": "success", "reference": reference, "amount": amount},
        "transaction_reference": None, "category": "chargeback", "customer": {"email": "buyer@north.example.edu"},
        "dueAt": "2030-11-25T18:00:00.000Z", "resolvedAt": None, "evidence": None, "history": [],
    }  # fmt: skip
    _send(player, f"dispute {name}: event", {"event": "charge.dispute.create", "data": dispute})
    player.wait(
        f"the order of dispute {name} is frozen",
        lambda: player.fetch("GET", "/api/orders/:id", order, who="buyer").get("status") == "disputed",
    )
    for part in ("", "/events", "/money"):
        player.ask(f"dispute {name}, open{part}", "GET", f"/api/orders/:orderId{part}", order, who="buyer")
    player.ask(f"dispute {name}: accept", "POST", "/api/orders/:orderId/accept", order, who="vendor")
    player.ask(f"dispute {name}: cancel", "POST", "/api/orders/:orderId/cancel", order, who="buyer", body={})
    _refund(player, f"dispute {name}: refund", order, destination="gateway")
    ended = {
        **dispute,
        "status": "resolved",
        "resolution": "declined" if won else "merchant-accepted",
        "resolvedAt": "2026-11-22T18:00:00.000Z",
    }
    _send(player, f"dispute {name}: resolved", {"event": "charge.dispute.resolve", "data": ended})
    player.wait(f"dispute {name} is resolved", lambda: any(
        alert["identifier"] == "CHARGE_DISPUTE_RESOLVED" and alert["severity"] == ("SEV-3" if won else "SEV-2")
        for alert in player.fetch("GET", "/api/admin/alerts", who="finance", query={"state": "all"}).get(default=[])
    ))  # fmt: skip
    settle_refunds(player, f"dispute {name}")
    for part in ("", "/events", "/money"):
        player.ask(f"dispute {name}, over{part}", "GET", f"/api/orders/:orderId{part}", order, who="buyer")
        player.ask(
            f"dispute {name}, over{part} for finance",
            "GET",
            f"/api/orders/:orderId{part}",
            order,
            who="finance",
        )


def _send(player: Player, step: str, event: dict[str, object]) -> None:
    raw, headers = player.signed(event)
    player.ask(step, "POST", "/api/payments/webhook", raw=raw, headers=headers)


def _listings(player: Player) -> None:
    for name, query in {
        "all": {"limit": "100"}, "processed": {"status": "processed", "sort": "amountMinor"}, "open": {"status": "open"}, "paid twice": {"status": "paid_twice"},
        "wallet": {"destination": "wallet"}, "clawbacks": {"cause": "clawback"}, "old": {"olderThanHours": "5"}, "bad": {"status": "x", "cause": "y"},
    }.items():  # fmt: skip
        player.ask(f"refunds, {name}", "GET", _REFUNDS, who="finance", query=query)
    player.command("requery refunds", "periodic", "run", "requery-refunds", "--now", "+2h")
    player.command("collect debts", "periodic", "run", "collect-debts")
