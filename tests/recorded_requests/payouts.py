"""Payouts: early withdrawals, batches from staging to results, failures, and reconciliation."""

from typing import Any

from tests.recorded_requests.market import (
    STORE,
    STORE_2,
    available_products,
    delivered_order,
    later,
    paid_order,
)
from tests.recorded_requests.player import UNKNOWN_ID, Player

_BATCHES = "/api/payouts/batches"
_DISPATCH = "/api/payouts/dispatch"
_REASON = "Looked into by an officer."
_FINAL_STATUSES = ("completed", "partially_failed")


def play(player: Player) -> None:
    """Pay vendors."""
    store_products = [card["id"] for card in available_products(player, STORE)]
    store_2_products = [card["id"] for card in available_products(player, STORE_2)]
    _withdrawals(player)
    _cancelled(player)
    _cash_out(player, store_2_products)
    _sent(player)
    _failed(player, store_products)
    _short_of_funds(player, store_products)
    _stalled(player, store_products)
    _histories(player)
    _reconciled(player)


def _withdrawals(player: Player) -> None:
    for amount in (1, 1_000, 120_000_000_000, 25_000_000):
        player.ask(
            f"withdraw {amount}", "POST", _DISPATCH, who="vendor", key=True, body={"amountMinor": amount}
        )
    player.ask(
        "withdraw and a batch",
        "POST",
        _DISPATCH,
        who="vendor",
        key=True,
        body={"amountMinor": 1, "batchId": UNKNOWN_ID},
    )
    player.ask(
        "withdraw by finance",
        "POST",
        _DISPATCH,
        who="finance",
        aal2=True,
        key=True,
        body={"amountMinor": 150_000},
    )
    player.ask(
        "send a batch as a vendor", "POST", _DISPATCH, who="vendor", key=True, body={"batchId": UNKNOWN_ID}
    )
    key = player.fresh_key()
    asked = player.ask("withdraw", "POST", _DISPATCH, who="vendor", key=key, body={"amountMinor": 150_000})
    player.ask("withdraw, same key", "POST", _DISPATCH, who="vendor", key=key, body={"amountMinor": 150_000})
    player.ask("withdraw twice", "POST", _DISPATCH, who="vendor", key=True, body={"amountMinor": 150_000})
    payout = asked.id()
    player.ask("withdrawal, listed", "GET", "/api/payouts", who="vendor")
    player.ask("withdrawal, balance", "GET", "/api/payouts/balance", who="vendor")
    player.ask(
        "withdrawal, called off by another", "POST", "/api/payouts/:payoutId/cancel", payout, who="vendor2"
    )
    player.ask(
        "withdrawal, called off by finance", "POST", "/api/payouts/:payoutId/cancel", payout, who="finance"
    )
    player.ask(
        "withdrawal, called off", "POST", "/api/payouts/:payoutId/cancel", payout, who="vendor", key=True
    )
    player.ask(
        "withdrawal, called off twice",
        "POST",
        "/api/payouts/:payoutId/cancel",
        payout,
        who="vendor",
        key=True,
    )


def _stage(player: Player, step: str, who: str = "finance", **body: Any) -> str:
    return player.ask(step, "POST", _BATCHES, who=who, key=True, body=body).id()


def _read(player: Player, name: str, batch: str) -> list[dict[str, Any]]:
    """Record a batch and return the payments of the batch."""
    shown = player.ask(f"{name}: read", "GET", f"{_BATCHES}/:batchId", batch, who="finance2")
    found: list[dict[str, Any]] = shown.get("intents", default=[])
    return found


def _cancelled(player: Player) -> None:
    one = f"{_BATCHES}/:batchId"
    _stage(player, "stage nobody", vendorIds=[UNKNOWN_ID])
    _stage(player, "stage nobody at all", vendorIds=[])
    batch = _stage(player, "batch A: stage")
    _stage(player, "stage again at once", who="finance2")
    payments = _read(player, "batch A", batch)
    intents = [str(payment["id"]) for payment in payments]
    for risk in ("any", "first_payout", "on_hold", "x"):
        player.ask(
            f"batch A: risk {risk}", "GET", one, batch, who="finance", query={"risk": risk, "limit": "2"}
        )
    player.ask(
        "batch A: send, staged",
        "POST",
        _DISPATCH,
        who="finance2",
        aal2=True,
        key=True,
        body={"batchId": batch},
    )
    player.ask(
        "batch A: approve by the stager", "POST", f"{one}/approve", batch, who="finance", aal2=True, body={}
    )
    player.ask(
        "batch A: approve another content",
        "POST",
        f"{one}/approve",
        batch,
        who="finance2",
        aal2=True,
        body={"contentHash": "0" * 64},
    )
    player.ask(
        "batch A: exclude nothing",
        "POST",
        f"{one}/exclude",
        batch,
        who="finance",
        aal2=True,
        body={"intentIds": [], "reason": _REASON},
    )
    player.ask(
        "batch A: exclude unknown",
        "POST",
        f"{one}/exclude",
        batch,
        who="finance",
        aal2=True,
        body={"intentIds": [UNKNOWN_ID], "reason": _REASON},
    )
    player.ask(
        "batch A: exclude all",
        "POST",
        f"{one}/exclude",
        batch,
        who="finance",
        aal2=True,
        body={"intentIds": intents, "reason": _REASON},
    )
    if len(intents) > 1:
        player.ask(
            "batch A: exclude one",
            "POST",
            f"{one}/exclude",
            batch,
            who="finance",
            aal2=True,
            key=True,
            body={"intentIds": intents[:1], "reason": _REASON},
        )
    player.ask(
        "batch A: approve",
        "POST",
        f"{one}/approve",
        batch,
        who="finance2",
        aal2=True,
        key=True,
        body={"comment": "Looks right"},
    )
    player.ask(
        "batch A: approve, one's second", "POST", f"{one}/approve", batch, who="finance2", aal2=True, body={}
    )
    player.ask("batch A: approve, another", "POST", f"{one}/approve", batch, who="admin", aal2=True, body={})
    _read(player, "batch A, approved", batch)
    player.ask(
        "batch A: reject, short",
        "POST",
        f"{one}/reject",
        batch,
        who="finance",
        aal2=True,
        body={"reason": "x"},
    )
    player.ask(
        "batch A: reject",
        "POST",
        f"{one}/reject",
        batch,
        who="finance",
        aal2=True,
        key=True,
        body={"reason": _REASON},
    )
    player.ask(
        "batch A: reject twice",
        "POST",
        f"{one}/reject",
        batch,
        who="finance",
        aal2=True,
        body={"reason": _REASON},
    )
    player.ask("batch A: approve, rejected", "POST", f"{one}/approve", batch, who="admin", aal2=True, body={})
    player.ask(
        "batch A: send, rejected",
        "POST",
        _DISPATCH,
        who="finance2",
        aal2=True,
        key=True,
        body={"batchId": batch},
    )
    player.ask(
        "batch A: exclude, rejected",
        "POST",
        f"{one}/exclude",
        batch,
        who="finance",
        aal2=True,
        body={"intentIds": intents[:1], "reason": _REASON},
    )
    _read(player, "batch A, rejected", batch)


def _cash_out(player: Player, store_2_products: list[str]) -> None:
    """Refund an order to a vendor's wallet and withdraw the money to the bank account."""
    order = paid_order(player, "cash", store_2_products[6], who="vendor")
    player.ask("cash: refund to the wallet", "POST", "/api/payments/order/:orderId/process-refund", order, who="finance", aal2=True,
               body={"destination": "wallet", "reason": _REASON})  # fmt: skip
    player.ask("cash: wallet", "GET", "/api/wallet", who="vendor")
    cash = "/api/wallet/cash-outs"
    asked = player.ask(
        "cash-out, to be called off", "POST", cash, who="vendor", key=True, body={"amountMinor": 110_000}
    )
    player.ask("cash-out, twice", "POST", cash, who="vendor", key=True, body={"amountMinor": 110_000})
    player.ask("cash-out, called off", "POST", "/api/payouts/:payoutId/cancel", asked.id(), who="vendor")
    key = player.fresh_key()
    for step in ("cash-out", "cash-out, same key"):
        player.ask(step, "POST", cash, who="vendor", key=key, body={"amountMinor": 120_000})
    player.ask("cash-outs of vendor", "GET", cash, who="vendor")
    player.ask("cash: wallet after", "GET", "/api/wallet", who="vendor")


def _approved(player: Player, name: str, **body: Any) -> str:
    batch = _stage(player, f"{name}: stage", **body)
    player.ask(
        f"{name}: approve", "POST", f"{_BATCHES}/:batchId/approve", batch, who="finance2", aal2=True, body={}
    )
    return batch


def _send(player: Player, name: str, batch: str) -> None:
    player.ask(
        f"{name}: send", "POST", _DISPATCH, who="finance", aal2=True, key=True, body={"batchId": batch}
    )


def _wait_until_final(player: Player, name: str, batch: str) -> None:
    player.wait(
        f"{name} is over",
        lambda: player.fetch("GET", f"{_BATCHES}/:id", batch, who="finance").get("status") in _FINAL_STATUSES,
    )


def _sent(player: Player) -> None:
    batch = _approved(player, "batch B")
    player.ask(
        "batch B: send with one factor", "POST", _DISPATCH, who="finance", key=True, body={"batchId": batch}
    )
    _send(player, "batch B", batch)
    _wait_until_final(player, "batch B", batch)
    _send(player, "batch B, once more", batch)
    _read(player, "batch B, sent", batch)
    player.ask("batch B: payouts", "GET", "/api/payouts", who="finance", query={"batchId": batch})
    player.ask(
        "batch B: reject, sent",
        "POST",
        f"{_BATCHES}/:batchId/reject",
        batch,
        who="finance",
        aal2=True,
        body={"reason": _REASON},
    )


def _failed(player: Player, store_products: list[str]) -> None:
    for outcome in ("failed", "reversed"):
        name = f"batch {outcome}"
        delivered_order(player, name, store_products[-4], quantity=1)
        player.call_gateway("POST", "/sandbox/transfers/next", {"outcome": outcome})
        batch = _approved(player, name, vendorIds=[STORE])
        _send(player, name, batch)
        _wait_until_final(player, name, batch)
        payments = _read(player, f"{name}, over", batch)
        payout = str(payments[0]["id"]) if payments else UNKNOWN_ID
        for act, aal2 in (("ask", False), ("give-up", True)):
            player.ask(
                f"{name}: {act}",
                "POST",
                f"/api/payouts/:payoutId/{act}",
                payout,
                who="finance",
                aal2=aal2,
                body={"note": _REASON} if aal2 else None,
            )
    rows = player.ask("exceptions", "GET", "/api/payouts/exceptions", who="finance", query={"status": "open"})
    for outcome in ("failed", "reversed", "unexpected", "x"):
        player.ask(
            f"exceptions, {outcome}",
            "GET",
            "/api/payouts/exceptions",
            who="finance",
            query={"outcome": outcome},
        )
    one = "/api/payouts/exceptions/:exceptionId/resolve"
    player.ask("exception, short note", "POST", one, rows.id(0, "id"), who="finance", body={"note": "x"})
    player.ask(
        "exception, resolved", "POST", one, rows.id(0, "id"), who="finance", key=True, body={"note": _REASON}
    )
    player.ask(
        "exception, resolved twice", "POST", one, rows.id(0, "id"), who="finance", body={"note": _REASON}
    )
    player.ask(
        "exceptions, resolved",
        "GET",
        "/api/payouts/exceptions",
        who="finance",
        query={"status": "resolved", "sort": "resolvedAt"},
    )


def _stalled(player: Player, store_products: list[str]) -> None:
    player.call_gateway("POST", "/sandbox/transfers/next", {"outcome": "timeout", "delaySeconds": 3600})
    batch = _approved(player, "batch lost", vendorIds=[STORE])
    _send(player, "batch lost", batch)

    def states() -> list[Any]:
        rows = player.fetch("GET", "/api/payouts", who="finance", query={"batchId": batch}).get(default=[])
        return [row["status"] for row in rows]

    player.wait("the transfer's answer is lost", lambda: "unknown" in states(), seconds=45)
    payments = _read(player, "batch lost, unknown", batch)
    payout = str(payments[0]["id"]) if payments else UNKNOWN_ID
    player.ask(
        "lost: give up too early",
        "POST",
        "/api/payouts/:payoutId/give-up",
        payout,
        who="finance",
        aal2=True,
        body={"note": _REASON},
    )
    player.command("flag stalled payments", "periodic", "run", "flag-stalled-intents", "--now", "+50h")
    player.ask("stalled", "GET", "/api/payouts/stalled", who="finance")
    player.ask(
        "stalled, sorted",
        "GET",
        "/api/payouts/stalled",
        who="finance",
        query={"sort": "amountMinor", "order": "asc"},
    )
    player.ask("lost: ask", "POST", "/api/payouts/:payoutId/ask", payout, who="finance", key=True)
    player.run_task("requery-transfers")
    player.wait("the gateway was asked", lambda: states() != ["unknown"])
    _read(player, "batch lost, asked", batch)
    delivered_order(player, "batch staged", store_products[-5], quantity=1)
    staged = _stage(player, "batch staged: stage", vendorIds=[STORE])
    rows = player.fetch("GET", f"{_BATCHES}/:id", staged, who="finance")
    waiting = rows.id("intents", 0, "id")
    for act in ("ask", "give-up"):
        player.ask(
            f"staged: {act}",
            "POST",
            f"/api/payouts/:payoutId/{act}",
            waiting,
            who="finance",
            aal2=True,
            body={"note": _REASON} if act == "give-up" else None,
        )
    player.ask(
        "staged: called off by its vendor", "POST", "/api/payouts/:payoutId/cancel", waiting, who="vendor"
    )
    player.ask(
        "batch staged: reject",
        "POST",
        f"{_BATCHES}/:batchId/reject",
        staged,
        who="finance",
        aal2=True,
        body={"reason": _REASON},
    )
    player.command("stage payouts by the schedule", "periodic", "run", "stage-payouts")
    player.command("requery transfers", "periodic", "run", "requery-transfers", "--now", "+10m")


def _short_of_funds(player: Player, store_products: list[str]) -> None:
    """Send a payout while the gateway's balance is empty, until an officer voids the payout."""
    delivered_order(player, "batch short", store_products[-4])
    batch = _approved(player, "batch short", vendorIds=[STORE])
    player.call_gateway("POST", "/sandbox/settlements", {})
    _send(player, "batch short", batch)
    player.wait(
        "the gateway is short of funds",
        lambda: player.fetch(
            "GET", "/api/admin/alerts", who="finance", query={"identifier": "PAYOUT_FUNDS_SHORT"}
        ).get(default=[]),
    )
    payment = _read(player, "batch short, waiting", batch)
    payout = str(payment[0]["id"]) if payment else UNKNOWN_ID
    path = "/api/payouts/:payoutId/give-up"
    player.ask("short: ask", "POST", "/api/payouts/:payoutId/ask", payout, who="finance")
    player.ask(
        "short: give up by support", "POST", path, payout, who="support", aal2=True, body={"note": _REASON}
    )
    key = player.fresh_key()
    for step in ("short: give up", "short: give up, same key"):
        player.ask(step, "POST", path, payout, who="finance", aal2=True, key=key, body={"note": _REASON})
    player.ask("short: give up twice", "POST", path, payout, who="finance", aal2=True, body={"note": _REASON})
    _read(player, "batch short, given up", batch)
    player.call_gateway(
        "POST", "/sandbox/balance", {"amountMinor": 200_000_000, "reason": "Money for payouts"}
    )


def _histories(player: Player) -> None:
    for status in (
        "awaiting",
        "undisbursed",
        "all",
        "approved",
        "completed",
        "dispatching",
        "partially_failed",
        "rejected",
        "staged",
        "x",
    ):
        player.ask(f"batches, {status}", "GET", _BATCHES, who="finance", query={"status": status})
    player.ask(
        "batches of a period",
        "GET",
        _BATCHES,
        who="finance",
        query={"status": "all", "from": later(days=-1), "sort": "updatedAt", "limit": "2"},
    )
    for who in ("vendor", "vendor2", "finance"):
        for name, query in {"all": {}, "success": {"status": "success"}, "store": {"source": "store", "sort": "amountMinor"}, "wallet": {"source": "wallet"},
                            "store 2": {"vendorId": STORE_2}, "bad": {"status": "x", "source": "y"}}.items():  # fmt: skip
            player.ask(f"payouts of {who}, {name}", "GET", "/api/payouts", who=who, query=query)
    player.ask("payouts of support", "GET", "/api/payouts", who="support")
    for who in ("vendor", "vendor2"):
        player.ask(f"balance of {who} at last", "GET", "/api/payouts/balance", who=who)
        player.ask(
            f"transactions of {who} at last", "GET", "/api/transactions", who=who, query={"limit": "100"}
        )
        player.ask(
            f"statement of {who} at last",
            "GET",
            "/api/payouts/statement",
            who=who,
            query={"from": later(days=-60)},
        )


def run_reconciliation(player: Player, step: str, **body: Any) -> str:
    """Start a reconciliation, wait for the end, and record the result."""
    run = player.ask(step, "POST", "/api/payouts/reconcile", who="finance", aal2=True, body=body).id("runId")
    path = "/api/payouts/reconciliations/:runId"
    player.wait(
        f"{step} is over",
        lambda: player.fetch("GET", path, run, who="finance").get("status") not in (None, "running"),
    )
    player.ask(f"{step}: run", "GET", path, run, who="finance")
    player.ask(f"{step}: exceptions", "GET", f"{path}/exceptions", run, who="finance")
    return run


def _reconciled(player: Player) -> None:
    player.ask(
        "reconcile, bad period",
        "POST",
        "/api/payouts/reconcile",
        who="finance",
        aal2=True,
        body={"from": later(days=2), "to": later(days=1)},
    )
    run = run_reconciliation(player, "reconcile")
    path = "/api/payouts/reconciliations"
    for status in ("matched", "drift", "failed", "x"):
        player.ask(f"reconciliations, {status}", "GET", path, who="finance", query={"status": status})
    for query in (
        {"kind": "charge"},
        {"problem": "missing_here"},
        {"open": "true"},
        {"kind": "x", "problem": "y", "open": "z"},
    ):
        player.ask(
            f"reconciliation's exceptions {query}",
            "GET",
            f"{path}/:runId/exceptions",
            run,
            who="finance",
            query=query,
        )
    player.ask("reconciliation, resolve nothing", "POST", f"{path}/:runId/exceptions/:exceptionId/resolve", run, UNKNOWN_ID, who="finance", aal2=True,
               body={"resolution": "ask", "note": _REASON})  # fmt: skip
