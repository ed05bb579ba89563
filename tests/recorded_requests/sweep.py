"""Refusals of every route that need no row: by token, role, body, key, id and method."""

import re

from tests.recorded_requests.player import UNKNOWN_ID, Player
from tests.recorded_requests.routes import ROUTES, Route

_PERMITTED = {
    "canManageProducts": "moderator",
    "canManageFinances": "finance",
    "canManageOrders": "orders",
    "canManagePlatform": "admin",
}
# These routes accept an empty body, which other chapters send.
_EMPTY_BODY_ACTS = ("/api/payouts/batches", "/api/payouts/reconcile")
_WITHOUT_TOKEN = ("Public", "Optional", "Webhook or probe")


def play(player: Player) -> None:
    """Send requests that every route refuses."""
    for route in ROUTES:
        _by_caller(player, route)
        _by_content(player, route)
    paths = dict.fromkeys(route.path for route in ROUTES)
    for path in paths:
        _by_method(player, path)


def fitting(route: Route) -> tuple[str | None, bool]:
    """Return a permitted persona of a route, and whether the route needs a second factor."""
    permission = re.search(r"\((\w+)", route.who)
    if permission and permission[1] in _PERMITTED:
        return _PERMITTED[permission[1]], "AAL2" in route.who
    if route.who.startswith("Vendor"):
        return "vendor", False
    if route.who.startswith("Staff"):
        return "support", "AAL2" in route.who
    return (None if route.who.startswith("Webhook") else "buyer2"), False


def _by_caller(player: Player, route: Route) -> None:
    name = f"{route.method} {route.path}"
    if route.who in _WITHOUT_TOKEN:
        return
    player.ask(f"no token: {name}", route.method, route.path)
    versioned = route.path.replace("/api/", "/api/v1/", 1)
    player.ask(f"expired token, v1: {name}", route.method, versioned, who="buyer", expired=True)
    if "whatever" not in route.who:
        player.ask(f"suspended: {name}", route.method, route.path, who="suspended", key=bool(route.key))
    if route.who.startswith(("Staff", "Vendor")):
        player.ask(f"not a buyer's: {name}", route.method, route.path, who="buyer", key=bool(route.key))
    if route.who.startswith("Staff ("):
        player.ask(
            f"not the campus's: {name}", route.method, route.path, who="campus-rep", aal2=True,
            key=bool(route.key),
        )  # fmt: skip
    who, aal2 = fitting(route)
    if aal2:
        player.ask(f"one factor: {name}", route.method, route.path, who=who, key=bool(route.key))


def _by_content(player: Player, route: Route) -> None:
    who, aal2 = fitting(route)
    name = f"{route.method} {route.path}"

    def ask(
        step: str, path: str = route.path, *ids: str, key: str | bool = bool(route.key), **more: object
    ) -> None:
        player.ask(f"{step}: {name}", route.method, path, *ids, who=who, aal2=aal2, key=key, **more)  # type: ignore[arg-type]

    if route.takes == "json":
        ask("not JSON", raw=b"{", headers={"Content-Type": "application/json"})
        if route.path not in _EMPTY_BODY_ACTS:
            ask("empty body", body={})
        ask("unknown field", body={"unknownField": 1})
        ask("a list", body=[])
        ask("media type", raw=b"<a/>", headers={"Content-Type": "application/xml"})
        if route.key:
            ask("no UUID as key", body={"unknownField": 1}, key="1")
        if route.key == "required":
            ask("no key", body={}, key=False)
    elif route.takes == "form":
        ask("no form", body={})
    if ":" in route.path:
        ask("unknown id", body={} if route.takes else None)
        ask("no UUID", re.sub(r":[a-zA-Z]+", "no-uuid", route.path), body={} if route.takes else None)
        ask(
            "upper case",
            re.sub(r":[a-zA-Z]+", UNKNOWN_ID.upper(), route.path),
            body={} if route.takes else None,
        )
    if route.method == "GET" and route.path.startswith("/api/"):
        ask("unknown parameter", query={"unknownParameter": "1"})
        ask("limit out of range", query={"limit": "101"})
        ask("bad parameters", query={"cursor": "x", "page": "0", "sort": "none", "from": "x", "format": "x"})


def _by_method(player: Player, path: str) -> None:
    player.ask(f"OPTIONS {path}", "OPTIONS", path)
    player.ask(f"PATCH {path}", "PATCH", path)
    player.ask(f"HEAD {path}", "HEAD", path)
    player.ask(
        f"preflight {path}", "OPTIONS", path,
        headers={
            "Origin": "http://localhost:3000",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization, content-type, idempotency-key",
        },
    )  # fmt: skip
