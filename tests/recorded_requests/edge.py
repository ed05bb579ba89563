"""Rules for all routes: HTML pages, unknown paths, tokens, bodies, caching, paging, keys and limits."""

from tests.recorded_requests.player import UNKNOWN_ID, Player

_CODES = (
    "auth-unauthorized", "auth-token-expired", "auth-forbidden", "auth-aal2-required", "validation-failed",
    "resource-not-found", "method-not-allowed", "concurrency-conflict", "escrow-balance-deficit",
    "payload-too-large", "unsupported-media-type", "escrow-locked", "delivery-pin-invalid",
    "rate-limit-exceeded", "internal-error", "provider-unavailable", "service-unavailable", "no-such-code",
)  # fmt: skip
_JSON = {"Content-Type": "application/json"}


def play(player: Player) -> None:
    """Send requests that the edge answers alike for all routes."""
    _pages(player)
    _unknown(player)
    _tokens(player)
    _bodies(player)
    _caching(player)
    _paging(player)


def _pages(player: Player) -> None:
    for path in ("/docs", "/errors", "/", "/health/live", "/health/ready", "/api/status", "/openapi.json"):
        if path != "/openapi.json":
            player.ask(f"GET {path}", "GET", path)
        player.ask(f"HEAD {path} (page)", "HEAD", path)
        player.ask(f"DELETE {path} (page)", "DELETE", path)
    for code in _CODES:
        player.ask(f"GET /errors/{code}", "GET", f"/errors/{code}")
        player.ask(
            f"GET /errors/{code} in a browser", "GET", f"/errors/{code}", headers={"Accept": "text/html"}
        )


def _unknown(player: Player) -> None:
    for path in ("/nothing", "/api", "/api/", "/api/nothing", "/api/v2/products", "/api/products/", "/api//products",
                 "/functions/v1/nothing", "/functions/v1/deliver-notification", "/functions/v1/create-user",
                 "/health", "/health/liveness", "/health/readiness", "/metrics", "/admin", "/static/nothing.css",
                 "/api/users/favorites", "/api/disputes", "/api/notifications", "/api/support",
                 "/api/vendor-applications", "/media/nothing.webp"):  # fmt: skip
        player.ask(f"unknown {path}", "GET", path)
        player.ask(f"unknown {path} in a browser", "GET", path, headers={"Accept": "text/html"})
        player.ask(f"unknown {path}, posted", "POST", path, body={})
    player.ask("a path that must be quoted", "GET", "/api/nothing/%C3%A4%20b")
    player.ask("too long a path", "GET", "/api/products/" + "x" * 9000)


def _tokens(player: Player) -> None:
    for name, given in {
        "basic": "Basic dTpw", "empty": "Bearer ", "no JWT": "Bearer x.y.z", "none": "x",
        "lower case": f"bearer {player.token('buyer')}", "tampered": f"Bearer {player.token('buyer')[:-4]}AAAA",
    }.items():  # fmt: skip
        player.ask(f"token: {name}", "GET", "/api/users/me", headers={"Authorization": given})
        player.ask(
            f"token on a public route: {name}", "GET", "/api/banners", headers={"Authorization": given}
        )
        player.ask(
            f"token on an optional route: {name}", "GET", "/api/products/:id", UNKNOWN_ID,
            headers={"Authorization": given},
        )  # fmt: skip
    for who in ("buyer", "vendor", "admin", "finance", "orders", "support", "moderator", "compliance",
                "campus-rep", "restricted", "suspended", "nobody"):  # fmt: skip
        player.ask(f"GET /api/users/me of {who}", "GET", "/api/users/me", who=who)
        player.ask(f"GET /api/v1/users/me of {who}", "GET", "/api/v1/users/me", who=who, aal2=True)
        player.ask(f"GET /api/wallet of {who}", "GET", "/api/wallet", who=who)
        player.ask(f"GET /api/orders of {who}", "GET", "/api/orders", who=who, query={"limit": "1"})
    player.ask("request id that is kept", "GET", "/api/users/me", who="buyer",
               headers={"X-Request-ID": "0b7c9a52-6a3e-4f5e-9d0e-2f1c8f6a7b11"})  # fmt: skip
    player.ask("CORS, allowed", "GET", "/api/banners", headers={"Origin": "http://localhost:3000"})
    player.ask("CORS, refused token", "GET", "/api/users/me", headers={"Origin": "http://127.0.0.1:5173"})
    player.ask("CORS, foreign", "GET", "/api/banners", headers={"Origin": "https://evil.example"})
    player.ask("CORS, foreign preflight", "OPTIONS", "/api/banners",
               headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "GET"})  # fmt: skip


def _bodies(player: Player) -> None:
    path = "/api/users/me/addresses"
    for name, raw in {
        "empty": b"", "not UTF-8": b'{"hostel": "\xff"}', "NaN": b'{"latitude": NaN}', "twice": b"{}{}",
        "null": b"null", "deep": b"[" * 2000 + b"]" * 2000, "a name twice": b'{"hostel": "a", "hostel": "b"}',
        "NUL": b'{"hostel": "a\\u0000b"}', "surrogate": b'{"hostel": "\\ud800"}',
    }.items():  # fmt: skip
        player.ask(f"body: {name}", "POST", path, who="buyer2", raw=raw, headers=_JSON)
    player.ask(
        "body: too large",
        "POST",
        path,
        who="buyer2",
        raw=b'{"hostel": "' + b"a" * 2_000_000 + b'"}',
        headers=_JSON,
    )
    player.ask(
        "body: large, no token",
        "POST",
        path,
        raw=b'{"hostel": "' + b"a" * 60_000 + b'"}',
        headers=_JSON,
    )
    player.ask(
        "body: compressed",
        "POST",
        path,
        who="buyer2",
        raw=b"{}",
        headers={**_JSON, "Content-Encoding": "gzip"},
    )
    player.ask("body: no type", "POST", path, who="buyer2", raw=b"{}")
    player.ask(
        "body: charset",
        "POST",
        path,
        who="buyer2",
        raw=b"{}",
        headers={"Content-Type": "application/json; charset=latin-1"},
    )
    player.ask(
        "body: form",
        "POST",
        path,
        who="buyer2",
        raw=b"a=b",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    player.ask("body: many faults", "POST", path, who="buyer2",
               body={"label": "", "hostel": 1, "latitude": 91, "longitude": "x", "isDefault": "yes", "phone": "12", "x": None})  # fmt: skip
    player.ask("a parameter twice", "GET", "/api/products?limit=1&limit=2")
    player.ask("a parameter empty", "GET", "/api/products?limit=")
    player.ask("a parameter with NUL", "GET", "/api/products?campus=%00")
    player.ask("Boolean in capitals", "GET", "/api/products?inStock=TRUE&limit=1")


def _caching(player: Player) -> None:
    for path in ("/api/products", "/api/products/categories", "/api/banners", "/api/vibes", "/api/flash-sales/active",
                 "/api/products/featured", "/api/products/new-arrivals", "/api/products/exclusives", "/api/status"):  # fmt: skip
        first = player.ask(f"cached {path}", "GET", path)
        etag = first.headers.get("etag", "")
        player.ask(f"cached {path}, known", "GET", path, headers={"If-None-Match": etag})
        player.ask(f"cached {path}, another", "GET", path, headers={"If-None-Match": 'W/"x"'})


def _paging(player: Player) -> None:
    first = player.ask("page 1", "GET", "/api/products", query={"limit": "3"})
    cursor = first.meta("next_cursor") or "x"
    player.ask("page 2", "GET", "/api/products", query={"limit": "3", "cursor": cursor})
    player.ask("page of other filters", "GET", "/api/products", query={"sort": "price_asc", "cursor": cursor})
    player.ask("page of another listing", "GET", "/api/products/new-arrivals", query={"cursor": cursor})
    player.ask("page that was altered", "GET", "/api/products", query={"cursor": "A" + cursor[1:]})
    player.ask("page of a table", "GET", "/api/orders/admin", who="orders", query={"page": "2", "limit": "5"})
    player.ask("page beyond a table", "GET", "/api/orders/admin", who="orders", query={"page": "99"})


def use_up_a_quota(player: Player) -> None:
    """Send requests until the quota is used up, and record the refusal."""
    for _number in range(300):
        refused = player.fetch("POST", "/api/payments/virtual-account", who="vendor2", body={})
        if refused.status == 429:
            break
    player.ask("429", "POST", "/api/payments/virtual-account", who="vendor2", body={})
    player.ask("429 with CORS", "POST", "/api/payments/virtual-account", who="vendor2", body={},
               headers={"Origin": "http://localhost:3000"})  # fmt: skip
    player.ask("another's quota", "POST", "/api/payments/virtual-account", who="vendor", body={})
    player.ask("another route's quota", "GET", "/api/users/me", who="vendor2")
