"""Bank accounts, stores, balances, cash-outs of wallets, and statements."""

from tests.recorded_requests.market import STORE, STORE_2, later
from tests.recorded_requests.player import UNKNOWN_ID, Player

_ACCOUNT = {"bankCode": "058", "accountNumber": "0123456789"}


def play(player: Player) -> None:
    """Manage bank accounts, stores and balances."""
    _stores(player)
    _wallet(player)
    _balances(player)


def _stores(player: Player) -> None:
    path = "/api/vendors/profile/:vendorId"
    for who in (None, "vendor", "buyer", "finance"):
        player.ask(f"store for {who}", "GET", path, STORE, who=who)
    for name, body in {
        "words": {"description": "Books and more.", "policies": {"returns": "Within 3 days."}, "revision": 1},
        "stale": {"description": "x", "revision": 99}, "holiday": {"vacationMode": {"until": later(days=3), "note": "Exams"}},
        "holiday in the past": {"vacationMode": {"until": later(days=-3)}}, "holiday over": {"vacationMode": None},
        "bad name": {"displayName": "x"}, "bad account": {"bankAccount": {"bankCode": "058", "accountNumber": "12"}},
        "unknown bank": {"bankAccount": {**_ACCOUNT, "bankCode": "999"}}, "unknown account": {"bankAccount": {"bankCode": "058", "accountNumber": "0000000000"}},
        "slug": {"slug": "other"},
    }.items():  # fmt: skip
        player.ask(f"store, {name}", "PUT", path, STORE, who="vendor", body=body)
    player.ask("store of another", "PUT", path, STORE_2, who="vendor", body={"description": "x"})


def _wallet(player: Player) -> None:
    path = "/api/wallet/bank-account"
    player.ask("account, none", "GET", path, who="buyer")
    for name, body in {
        "unknown bank": {**_ACCOUNT, "bankCode": "999"}, "short": {**_ACCOUNT, "accountNumber": "1"}, "unknown": {"bankCode": "058", "accountNumber": "0000000000"},
        "given": _ACCOUNT, "given again": _ACCOUNT, "changed": {**_ACCOUNT, "accountNumber": "0123456780"},
    }.items():  # fmt: skip
        player.ask(f"account, {name}", "PUT", path, who="buyer", body=body)
    player.ask("account, of buyer", "GET", path, who="buyer")
    player.ask("account, of vendor", "GET", path, who="vendor")
    cash = "/api/wallet/cash-outs"
    for amount in (0, 5, 100_000, 999_999_999):
        player.ask(f"cash-out of {amount}", "POST", cash, who="buyer", key=True, body={"amountMinor": amount})
        player.ask(
            f"cash-out of {amount} by a vendor", "POST", cash, who="vendor", body={"amountMinor": amount}
        )
        player.ask(
            f"cash-out of {amount} without account", "POST", cash, who="buyer2", body={"amountMinor": amount}
        )
    for query in ({}, {"status": "pending", "sort": "amountMinor"}, {"status": "x"}):
        player.ask(f"cash-outs {query}", "GET", cash, who="buyer", query=query)
    player.ask("wallet under a hold", "GET", "/api/wallet", who="buyer")


def _balances(player: Player) -> None:
    for who in ("vendor", "vendor2"):
        player.ask(f"balance of {who}", "GET", "/api/payouts/balance", who=who)
    player.ask("balance of another", "GET", "/api/payouts/balance", who="vendor", query={"vendorId": STORE_2})
    player.ask(
        "balance for finance", "GET", "/api/payouts/balance", who="finance", query={"vendorId": STORE_2}
    )
    player.ask("balance for finance of nobody", "GET", "/api/payouts/balance", who="finance")
    player.ask(
        "balance for finance of nothing",
        "GET",
        "/api/payouts/balance",
        who="finance",
        query={"vendorId": UNKNOWN_ID},
    )
    player.ask("balance for support", "GET", "/api/payouts/balance", who="support", query={"vendorId": STORE})
    path = "/api/payouts/statement"
    period = {"from": later(days=-60), "to": later(days=1)}
    for name, query in {
        "whole": {"from": later(days=-60)}, "JSON": period, "CSV": {"from": later(days=-60), "format": "csv"}, "PDF": {"from": later(days=-60), "format": "pdf"},
        "bad format": {"format": "xml"}, "too long": {"from": "2020-01-01T00:00:00Z", "to": "2025-01-01T00:00:00Z"}, "another's": {"vendorId": STORE_2},
    }.items():  # fmt: skip
        player.ask(f"statement, {name}", "GET", path, who="vendor", query=query)
    player.ask(
        "statement for finance",
        "GET",
        path,
        who="finance",
        query={"vendorId": STORE_2, "from": later(days=-60)},
    )
    player.ask("statement for finance of nobody", "GET", path, who="finance")
    player.ask(
        "statement by Accept, PDF",
        "GET",
        path,
        who="vendor",
        headers={"Accept": "application/pdf"},
        query={"from": later(days=-60)},
    )
    player.ask(
        "statement by Accept, CSV",
        "GET",
        path,
        who="vendor",
        headers={"Accept": "text/csv"},
        query={"from": later(days=-60)},
    )
