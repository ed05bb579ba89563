"""Other payments: too small, too large, by transfer, late, duplicate, from the wallet, and expired."""

from typing import Any

from tests.recorded_requests.market import (
    STORE,
    available_products,
    later,
    open_page,
    paid_order,
    pay,
    place,
    status_of,
)
from tests.recorded_requests.player import UNKNOWN_ID, Player

_QUARANTINE = "/api/payments/quarantine"


def play(player: Player) -> None:
    """Pay in other ways."""
    store_products = [card["id"] for card in available_products(player, STORE)]
    player.ask("banks", "GET", "/api/payments/banks", who="buyer")
    _resolve(player)
    _quarantined(player, store_products)
    _overpaid(player, store_products)
    _by_transfer(player, store_products)
    _late(player, store_products)
    _by_wallet(player, store_products)
    _expired(player, store_products)
    _statements(player)


def _resolve(player: Player) -> None:
    for name, number, bank in (("known", "0123456789", "058"), ("unknown bank", "0123456789", "999"), ("short", "012", "058"),
                               ("unknown account", "0000000000", "058")):  # fmt: skip
        player.ask(
            f"resolve, {name}",
            "POST",
            "/api/payments/bank/resolve",
            who="buyer",
            body={"accountNumber": number, "bankCode": bank},
        )


def _quarantined(player: Player, store_products: list[str]) -> None:
    orders: list[str] = []
    for number, action in enumerate(("accept_rest", "refund", "wallet")):
        order = place(player, f"held {action}: place", store_products[8 + number]).id()
        reference = open_page(player, f"held {action}: open the page", order)
        player.call_gateway("POST", f"/sandbox/pay/{reference}", {"amountMinor": 50_000 + number})
        _wait_for_quarantined(player, number + 1)
        player.ask(f"held {action}: order", "GET", "/api/orders/:orderId", order, who="buyer")
        player.ask(f"held {action}: money", "GET", "/api/orders/:orderId/money", order, who="finance")
        orders.append(order)
    for query in (
        {},
        {"status": "open", "sort": "amountMinor", "order": "asc"},
        {"reason": "currency"},
        {"status": "x"},
    ):
        player.ask(f"quarantine {query}", "GET", _QUARANTINE, who="finance", query=query)
    rows = player.fetch("GET", _QUARANTINE, who="finance", query={"sort": "amountMinor", "order": "asc"}).get(
        default=[]
    )
    one = f"{_QUARANTINE}/:heldId/resolve"
    for number, (action, row) in enumerate(zip(("accept_rest", "refund", "wallet"), rows, strict=False)):
        held = row["id"]
        body = {"action": action, "note": "The buyer was called."}
        player.ask(
            f"resolve {action}: short note",
            "POST",
            one,
            held,
            who="finance",
            aal2=True,
            body={**body, "note": "x"},
        )
        player.ask(
            f"resolve {action}: bad action",
            "POST",
            one,
            held,
            who="finance",
            aal2=True,
            body={**body, "action": "keep"},
        )
        key = player.fresh_key()
        player.ask(f"resolve {action}", "POST", one, held, who="finance", aal2=True, key=key, body=body)
        player.ask(
            f"resolve {action}, same key", "POST", one, held, who="finance", aal2=True, key=key, body=body
        )
        player.ask(f"resolve {action}, twice", "POST", one, held, who="finance", aal2=True, body=body)
        player.ask(f"resolved {action}: order", "GET", "/api/orders/:orderId", orders[number], who="buyer")
    player.ask("quarantine, resolved", "GET", _QUARANTINE, who="finance", query={"status": "resolved"})
    reference = open_page(player, "rest: open the page", orders[0])
    pay(player, reference, orders[0])
    for part in ("", "/events", "/money"):
        player.ask(f"rest, paid{part}", "GET", f"/api/orders/:orderId{part}", orders[0], who="buyer")
    settle_refunds(player, "the held charge")
    for order in orders[1:]:
        player.fetch("POST", "/api/orders/:id/cancel", order, who="buyer", body={})


def _wait_for_quarantined(player: Player, count: int) -> None:
    player.wait(
        f"{count} charges are held back",
        lambda: len(player.fetch("GET", _QUARANTINE, who="finance").get(default=[])) >= count,
    )


def settle_refunds(player: Player, what: str) -> None:
    """Wait until no refund is in transit."""
    player.wait(
        f"refunds of {what} are settled",
        lambda: (
            not any(
                row["status"] in ("pending", "submitted")
                for row in player.fetch(
                    "GET", "/api/payments/refunds", who="finance", query={"limit": "100"}
                ).get(default=[])
            )
        ),
    )


def _overpaid(player: Player, store_products: list[str]) -> None:
    order = paid_order(player, "too much", store_products[11], amountMinor=2_000_000, channel="bank_transfer")
    player.ask("too much: order", "GET", "/api/orders/:orderId", order, who="buyer")
    player.ask("too much: money", "GET", "/api/orders/:orderId/money", order, who="buyer")
    player.ask("too much: wallet", "GET", "/api/wallet", who="buyer")


def _by_transfer(player: Player, store_products: list[str]) -> None:
    path = "/api/payments/virtual-account"
    order = place(player, "transfer: place", store_products[17]).id()
    opened = player.ask("transfer: account", "POST", path, who="buyer", body={"orderId": order})
    player.ask("transfer: account again", "POST", path, who="buyer", body={"orderId": order})
    player.ask("transfer: account of another", "POST", path, who="buyer2", body={"orderId": order})
    player.ask("transfer: account of nothing", "POST", path, who="buyer", body={"orderId": UNKNOWN_ID})
    reference = opened.get("reference")
    if isinstance(reference, str):
        pay(player, reference, order, channel="bank_transfer")
    player.ask("transfer: order", "GET", "/api/orders/:orderId", order, who="buyer")
    player.ask("transfer: account when paid", "POST", path, who="buyer", body={"orderId": order})


def _late(player: Player, store_products: list[str]) -> None:
    order = place(player, "late: place", store_products[18]).id()
    reference = open_page(player, "late: open the page", order)
    player.ask("late: cancel", "POST", "/api/orders/:orderId/cancel", order, who="buyer", body={})
    player.call_gateway("POST", f"/sandbox/pay/{reference}", {})
    player.wait("the late charge is sent back", lambda: any(
        row["status"] == "processed" for row in player.fetch("GET", "/api/payments/refunds", who="finance", query={"cause": "unneeded_charge"}).get(default=[])
    ))  # fmt: skip
    player.ask(
        "late: refunds", "GET", "/api/payments/refunds", who="finance", query={"cause": "unneeded_charge"}
    )
    player.ask("late: order", "GET", "/api/orders/:orderId", order, who="buyer")
    player.ask("late: money", "GET", "/api/orders/:orderId/money", order, who="buyer")
    order = place(player, "failed: place", store_products[18]).id()
    reference = open_page(player, "failed: open the page", order)
    player.call_gateway("POST", f"/sandbox/pay/{reference}", {"outcome": "failed"})
    player.ask("failed: verify", "POST", "/api/payments/verify", who="buyer", body={"reference": reference})
    pay(player, open_page(player, "failed: open the page again", order), order)
    player.ask("failed, then paid", "GET", "/api/orders/:orderId", order, who="buyer")


def _by_wallet(player: Player, store_products: list[str]) -> None:
    order = place(player, "wallet: place", store_products[0], useWallet=True).id()
    player.ask("wallet: order", "GET", "/api/orders/:orderId", order, who="buyer")
    part = place(player, "wallet, a part: place", store_products[1], walletMinor=1000).id()
    reference = open_page(player, "wallet, a part: open the page", part)
    if status_of(player, part) == "pending_payment":
        pay(player, reference, part)
    player.ask("wallet, a part: order", "GET", "/api/orders/:orderId", part, who="buyer")
    player.ask("wallet, a part: cancel", "POST", "/api/orders/:orderId/cancel", part, who="buyer", body={})
    settle_refunds(player, "the part")
    player.ask("wallet, a part: money", "GET", "/api/orders/:orderId/money", part, who="buyer")
    player.ask("wallet after", "GET", "/api/wallet", who="buyer")


def _expired(player: Player, store_products: list[str]) -> None:
    order = place(player, "out of time: place", store_products[2]).id()
    reference = open_page(player, "out of time: open the page", order)
    player.command("expire checkouts", "periodic", "run", "expire-checkouts", "--now", "+3h")
    for part in ("", "/events", "/money"):
        player.ask(f"out of time{part}", "GET", f"/api/orders/:orderId{part}", order, who="buyer")
    player.ask(
        "out of time: open the page again",
        "POST",
        "/api/payments/initialize",
        who="buyer",
        key=True,
        body={"reference": reference},
    )


def _statements(player: Player) -> None:
    path = "/api/transactions"
    queries: dict[str, dict[str, Any]] = {
        "all": {"limit": "100"}, "credits": {"direction": "credit", "limit": "5"}, "kind": {"kind": "refund"}, "bad kind": {"kind": "x"},
        "period": {"from": later(days=-60), "to": later(days=1), "limit": "5"}, "CSV": {"format": "csv"}, "order": {"orderId": UNKNOWN_ID},
        "bad period": {"from": "2026-02-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"},
    }  # fmt: skip
    for who in ("buyer", "vendor", "finance"):
        for name, query in queries.items():
            player.ask(f"transactions of {who}, {name}", "GET", path, who=who, query=query)
        player.ask(f"transactions of {who} by Accept", "GET", path, who=who, headers={"Accept": "text/csv"})
