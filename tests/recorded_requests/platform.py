"""The platform: proposals with dual approval, features, maintenance, halts, alerts and background work."""

from typing import Any

from tests.recorded_requests.market import (
    STORE,
    available_products,
    delivered_order,
    later,
    paid_order,
    place,
)
from tests.recorded_requests.payouts import run_reconciliation
from tests.recorded_requests.player import UNKNOWN_ID, Player

_PATH = "/api/platform/proposals"
_ONE = "/api/platform/proposals/:proposalId"
_NOTE = "Looked into by an officer."


def play(player: Player) -> None:
    """Change the platform."""
    store_products = [card["id"] for card in available_products(player, STORE)]
    _refused(player)
    _decided(player, store_products)
    _switches(player, store_products)
    _halted(player, store_products)
    _background(player)


def _file(
    player: Player, step: str, kind: str, payload: dict[str, Any], who: str = "admin", **more: Any
) -> str:
    body = {"kind": kind, "payload": payload, "reason": "Decided by the board.", **more}
    return player.ask(step, "POST", _PATH, who=who, body=body).id()


def _carry(player: Player, step: str, kind: str, payload: dict[str, Any]) -> None:
    proposal = _file(player, f"{step}: file", kind, payload)
    player.ask(f"{step}: approve", "POST", f"{_ONE}/approve", proposal, who="admin2", aal2=True)


def _refused(player: Player) -> None:
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "unknown fee": ("fee", {"key": "tax", "value": 1}), "fee out of range": ("fee", {"key": "commission_bps", "value": 9_000}),
        "fee without value": ("fee", {"key": "commission_bps"}), "category": ("category_commission", {"categoryId": UNKNOWN_ID, "commissionBps": 100}),
        "commission": ("category_commission", {"categoryId": UNKNOWN_ID, "commissionBps": 9_000}), "flag": ("feature_flag", {"key": "x y", "enabled": True}),
        "flag without word": ("feature_flag", {"key": "checkout"}), "maintenance": ("maintenance", {"active": True, "until": later(days=-1)}),
        "resume": ("payout_resume", {"reason": "All is well."}), "kind": ("tax", {}), "another's payload": ("fee", {"active": True}),
    }  # fmt: skip
    for name, (kind, payload) in cases.items():
        _file(player, f"proposal, bad {name}", kind, payload)
    _file(
        player, "proposal, late", "fee", {"key": "service_fee_minor", "value": 1}, effectiveAt=later(days=91)
    )
    _file(
        player, "proposal, past", "fee", {"key": "service_fee_minor", "value": 1}, effectiveAt=later(days=-1)
    )
    _file(player, "proposal of finance", "fee", {"key": "service_fee_minor", "value": 1}, who="finance")


def _decided(player: Player, store_products: list[str]) -> None:
    category = player.fetch("GET", "/api/products/:id", store_products[0]).get("categoryId")
    fee = _file(player, "fee: file", "fee", {"key": "service_fee_minor", "value": 12_000})
    rival = _file(
        player, "fee, rival: file", "fee", {"key": "service_fee_minor", "value": 15_000}, who="admin2"
    )
    rate = _file(
        player, "commission: file", "category_commission", {"categoryId": str(category), "commissionBps": 700}
    )
    planned = _file(
        player,
        "planned: file",
        "fee",
        {"key": "delivery_fee_minor", "value": 60_000},
        effectiveAt=later(hours=2),
    )
    unwanted = _file(player, "unwanted: file", "fee", {"key": "minimum_payout_minor", "value": 200_000})
    for who in ("admin", "finance"):
        player.ask(f"fee: read by {who}", "GET", _ONE, fee, who=who)
    player.ask("fee: approve, own", "POST", f"{_ONE}/approve", fee, who="admin", aal2=True)
    player.ask("fee: approve, one factor", "POST", f"{_ONE}/approve", fee, who="admin2")
    player.ask("fee: approve", "POST", f"{_ONE}/approve", fee, who="admin2", aal2=True)
    player.ask("fee: approve twice", "POST", f"{_ONE}/approve", fee, who="admin2", aal2=True)
    player.ask(
        "fee: reject when active", "POST", f"{_ONE}/reject", fee, who="admin2", body={"reason": "Too late"}
    )
    player.ask("fee, rival: approve", "POST", f"{_ONE}/approve", rival, who="admin", aal2=True)
    player.ask("commission: approve", "POST", f"{_ONE}/approve", rate, who="admin2", aal2=True)
    player.ask("planned: approve", "POST", f"{_ONE}/approve", planned, who="admin2", aal2=True)
    player.ask(
        "unwanted: reject", "POST", f"{_ONE}/reject", unwanted, who="admin2", body={"reason": "Not now"}
    )
    player.ask(
        "unwanted: reject twice", "POST", f"{_ONE}/reject", unwanted, who="admin2", body={"reason": "Not now"}
    )
    player.ask("unwanted: approve", "POST", f"{_ONE}/approve", unwanted, who="admin2", aal2=True)
    order = place(player, "order after the change", store_products[0])
    player.ask(
        "order after the change: cancel",
        "POST",
        "/api/orders/:orderId/cancel",
        order.id(),
        who="buyer",
        body={},
    )
    player.command("apply proposals", "periodic", "run", "apply-proposals", "--now", "+3h")
    player.ask("planned: in force", "GET", _ONE, planned, who="admin")
    for status in ("pending", "approved", "active", "rejected", "expired", "x"):
        player.ask(f"proposals, {status}", "GET", _PATH, who="admin", query={"status": status})
    player.ask(
        "proposals of a kind",
        "GET",
        _PATH,
        who="admin",
        query={"kind": "fee", "sort": "effectiveAt", "order": "asc", "limit": "3"},
    )


def _switches(player: Player, store_products: list[str]) -> None:
    body = {
        "items": [{"productId": store_products[0], "quantity": 1}],
        "shippingAddress": {"hostel": "Moremi Hall"},
    }

    def try_all(name: str) -> None:
        player.ask(f"{name}: status", "GET", "/api/status")
        player.ask(
            f"{name}: order",
            "POST",
            "/api/orders",
            who="buyer2",
            key=True,
            body={**body, "expectedTotalMinor": 1},
        )
        player.ask(
            f"{name}: checkout",
            "POST",
            "/api/orders/checkout",
            who="buyer2",
            key=True,
            body={**body, "expectedTotalMinor": 1},
        )
        player.ask(
            f"{name}: withdraw",
            "POST",
            "/api/payouts/dispatch",
            who="vendor",
            key=True,
            body={"amountMinor": 1},
        )
        player.ask(
            f"{name}: cash-out", "POST", "/api/wallet/cash-outs", who="vendor", body={"amountMinor": 1}
        )

    for feature in ("checkout", "early_withdrawals", "wallet_cash_outs", "some_other"):
        _carry(player, f"{feature} off", "feature_flag", {"key": feature, "enabled": False})
    try_all("features off")
    for feature in ("checkout", "early_withdrawals", "wallet_cash_outs"):
        _carry(player, f"{feature} on", "feature_flag", {"key": feature, "enabled": True})
    _carry(
        player,
        "maintenance",
        "maintenance",
        {"active": True, "message": "Back soon.", "until": later(days=1)},
    )
    try_all("maintenance")
    _carry(player, "maintenance over", "maintenance", {"active": False})
    try_all("all on")


def _halted(player: Player, store_products: list[str]) -> None:
    """Cause reconciliation differences: a manual refund at the gateway and an unrecognized charge."""
    delivered_order(player, "halt", store_products[-4])
    staged = player.ask(
        "halt: stage", "POST", "/api/payouts/batches", who="finance", body={"vendorIds": [STORE]}
    ).id()
    player.ask(
        "halt: approve",
        "POST",
        "/api/payouts/batches/:batchId/approve",
        staged,
        who="finance2",
        aal2=True,
        body={},
    )
    order = paid_order(player, "drift", store_products[1])
    reference = player.fetch("GET", "/api/orders/:id", order, who="buyer").get("payment", "reference")
    player.call_gateway("POST", "/sandbox/balance", {"amountMinor": 5_000_000, "reason": "Our own money"})
    player.call_gateway("POST", "/refund", {"transaction": reference, "amount": 30_000})
    run = run_reconciliation(player, "reconcile with drift")
    player.ask("status while halted", "GET", "/api/status")
    for who in ("support", "finance"):
        player.ask(f"halts for {who}", "GET", "/api/platform/halts", who=who)
    path = "/api/payouts/reconciliations/:runId/exceptions/:exceptionId/resolve"
    found = player.fetch("GET", "/api/payouts/reconciliations/:id/exceptions", run, who="finance")
    for number, row in enumerate(found.get(default=[])):
        for resolution in ("came_back", "gateway_cost", "ask", "own_funds"):
            for who in ("finance", "finance2"):
                player.ask(
                    f"drift {number}: {resolution} by {who}",
                    "POST",
                    path,
                    run,
                    row["id"],
                    who=who,
                    aal2=True,
                    body={"resolution": resolution, "note": _NOTE},
                )
    player.ask("stage while halted", "POST", "/api/payouts/batches", who="finance", body={})
    player.ask(
        "send while halted",
        "POST",
        "/api/payouts/dispatch",
        who="finance",
        aal2=True,
        key=True,
        body={"batchId": staged},
    )
    player.ask(
        "withdraw while halted",
        "POST",
        "/api/payouts/dispatch",
        who="vendor",
        key=True,
        body={"amountMinor": 110_000},
    )
    proposal = _file(player, "resume: file", "payout_resume", {"reason": "The refund was made by hand."})
    player.ask("resume: read", "GET", _ONE, proposal, who="admin")
    player.ask("resume: approve", "POST", f"{_ONE}/approve", proposal, who="admin2", aal2=True)
    player.ask("resume: read when active", "GET", _ONE, proposal, who="admin")
    player.ask("halts, resumed", "GET", "/api/platform/halts", who="support")
    player.ask("status when resumed", "GET", "/api/status")
    run_reconciliation(player, "reconcile once more")
    player.ask(
        "batch of the halt: reject",
        "POST",
        "/api/payouts/batches/:batchId/reject",
        staged,
        who="finance",
        aal2=True,
        body={"reason": _NOTE},
    )
    player.ask("what was refunded by hand", "GET", "/api/orders/:orderId/money", order, who="finance")


def _background(player: Player) -> None:
    for path in ("queues", "periodic"):
        for who in ("support", "admin", "campus-rep"):
            player.ask(f"{path} for {who}", "GET", f"/api/admin/{path}", who=who, aal2=True)
    for task in (
        "check-invariants",
        "refresh-search-terms",
        "hold-overdue-listings",
        "sweep-images",
        "purge-statistics",
    ):
        player.command(f"run {task}", "periodic", "run", task)
