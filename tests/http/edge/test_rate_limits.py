"""Rate limits: count per caller and route, the sliding window, and response headers."""

from typing import Any
from uuid import uuid4

import pytest
import redis
from flask.testing import FlaskClient

from blueprints.http import Context
from blueprints.http.contract import (
    AUTHENTICATED,
    PUBLIC,
    UNCHECKED,
    VENDOR_OR_STAFF,
    RouteLimit,
    SharedLimit,
)
from blueprints.http.fields import Schema, StrictInteger
from marketplace.services import Services
from tests.support.market import Bearer, Market
from tests.support.probes import (
    assert_problem,
    eventually,
    faults,
    from_address,
    probe_area,
    serve,
    unique_address,
)

area = probe_area()
# The cache may still hold counts of an earlier test run.
RUN = uuid4().hex
HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")


class Amount(Schema):
    """A body with a single field."""

    amount = StrictInteger(minimum=1, required=True)


@area.get("/global", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
def on_tier(_ctx: Context) -> None:
    """Count on the caller's tier."""


@area.get("/vendor", auth=VENDOR_OR_STAFF, limit=SharedLimit.MERCHANT_TIER)
def on_merchant_tier(_ctx: Context) -> None:
    """Count on the merchant tier."""


@area.get("/buyers-on-vendor", auth=PUBLIC, limit=SharedLimit.MERCHANT_TIER)
def buyers_on_merchant_tier(_ctx: Context) -> None:
    """Count on the merchant tier for any caller."""


@area.get("/own", auth=PUBLIC, limit="3/minute")
def own(_ctx: Context) -> None:
    """Count on a limit of this route."""


@area.post("/own", auth=AUTHENTICATED, limit="3/minute", body=Amount)
def own_post(_ctx: Context, body: dict[str, Any]) -> Any:
    """Count on a limit of this route."""
    if body["amount"] == 7:
        raise RuntimeError("it broke")
    return body


@area.get("/together/<int:number>", auth=PUBLIC, limit=RouteLimit("3/minute", scope=f"together-{RUN}"))
def together(_ctx: Context, number: int) -> int:
    """Count on a limit shared with another route."""
    return number


@area.get("/together-too", auth=PUBLIC, limit=RouteLimit("3/minute", scope=f"together-{RUN}"))
def together_too(_ctx: Context) -> None:
    """Count on a limit shared with another route."""


@area.get("/second", auth=PUBLIC, limit="2/second")
def per_second(_ctx: Context) -> None:
    """Count per second."""


@area.get("/quarter", auth=PUBLIC, limit="1/15minute")
def per_quarter(_ctx: Context) -> None:
    """Count per quarter of an hour."""


@area.post("/hourly", auth=AUTHENTICATED, limit="2/hour", body=Amount)
def hourly(_ctx: Context, body: dict[str, Any]) -> Any:
    """Count per hour."""
    return body


@area.get("/unlimited", auth=UNCHECKED, limit=SharedLimit.UNLIMITED)
def unlimited(_ctx: Context) -> None:
    """Do not count."""


@pytest.fixture(scope="module")
def probe(services: Services) -> FlaskClient:
    return serve(services, area, rate_limit_scale=1)


class AddressedClient:
    """A client with a distinct address."""

    def __init__(self, probe: FlaskClient) -> None:
        self.probe = probe
        self.address = unique_address()

    def get(self, path: str, headers: dict[str, str] | None = None, method: str = "GET") -> Any:
        path = path if path.startswith("/") else f"/api/probe/{path}"
        return self.probe.open(path, method=method, headers=headers, **from_address(self.address))

    def quota(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, int]:
        return quota(self.get(path, headers))


@pytest.fixture
def visitor(probe: FlaskClient) -> AddressedClient:
    return AddressedClient(probe)


def quota(response: Any) -> tuple[int, int]:
    """Check the rate limit headers and return the limit and the remaining count."""
    limit, remaining, reset = (int(response.headers[name]) for name in HEADERS)
    assert 0 <= remaining < limit or (remaining, response.status_code) == (0, 429)
    assert 1 <= reset <= 900
    return limit, remaining


def test_caller_gets_rate_tier_of_role(visitor: AddressedClient, market: Market, bearer: Bearer) -> None:
    assert visitor.quota("global") == (60, 59)
    assert visitor.quota("global", bearer(market.person())) == (300, 299)
    assert visitor.quota("global", bearer(market.person(role="vendor"))) == (600, 599)
    assert visitor.quota("global", bearer(market.staff("support"))) == (600, 599)
    assert visitor.quota("global") == (60, 58)


def test_merchant_tier_routes_share_count(visitor: AddressedClient, market: Market, bearer: Bearer) -> None:
    vendor = bearer(market.person(role="vendor"))
    assert visitor.quota("vendor", vendor) == (600, 599)
    assert visitor.quota("global", vendor) == (600, 598)
    buyer = bearer(market.person())
    assert visitor.quota("buyers-on-vendor", buyer) == (600, 599)
    assert visitor.quota("global", buyer) == (300, 299)
    assert visitor.quota("buyers-on-vendor") == (60, 59)


def test_route_limit_replaces_caller_tier(visitor: AddressedClient, market: Market, bearer: Bearer) -> None:
    assert visitor.quota("global") == (60, 59)
    assert [visitor.quota("own") for _ in range(3)] == [(3, 2), (3, 1), (3, 0)]
    refused = visitor.get("own")
    assert_problem(refused, 429, "RATE_LIMIT_EXCEEDED")
    assert quota(refused) == (3, 0)
    assert refused.headers["Retry-After"] == refused.headers["RateLimit-Reset"]
    assert 55 <= int(refused.headers["Retry-After"]) <= 60
    assert visitor.quota("global") == (60, 58)
    assert visitor.quota("own", bearer(market.person())) == (3, 2)
    assert AddressedClient(visitor.probe).quota("own") == (3, 2)


def test_user_count_is_independent_of_address(probe: FlaskClient, market: Market, bearer: Bearer) -> None:
    user = bearer(market.person())
    assert [AddressedClient(probe).quota("own", user)[1] for _ in range(3)] == [2, 1, 0]
    assert AddressedClient(probe).get("own", user).status_code == 429


def test_routes_of_same_scope_share_count(visitor: AddressedClient) -> None:
    assert [visitor.quota(path)[1] for path in ("together/1", "together-too", "together/2")] == [2, 1, 0]
    assert visitor.get("together-too").status_code == visitor.get("together/1").status_code == 429


def test_versioned_path_shares_count(visitor: AddressedClient) -> None:
    paths = ("/api/v1/probe/own", "/api/probe/own", "/api/v1/probe/own")
    assert [visitor.quota(path)[1] for path in paths] == [2, 1, 0]
    assert visitor.get("/api/v1/probe/own").status_code == 429


def test_head_counts_like_get(visitor: AddressedClient) -> None:
    assert quota(visitor.get("own", method="HEAD")) == (3, 2)
    assert visitor.quota("own") == (3, 1)


def test_refused_requests_do_not_extend_window(visitor: AddressedClient) -> None:
    """A refused request does not count, so the quota recovers even while the client keeps trying."""
    statuses = [visitor.get("second").status_code for _ in range(2)]
    assert statuses == [200, 200]
    eventually(lambda: visitor.get("second").status_code == 429)
    eventually(lambda: visitor.get("second").status_code == 200)


def test_each_request_leaves_window_after_full_period(visitor: AddressedClient, services: Services) -> None:
    """Moving the recorded request times back simulates waiting."""
    cache = redis.Redis.from_url(services.settings.redis_url)
    assert [visitor.quota("own")[1] for _ in range(3)] == [2, 1, 0]
    [name] = list(cache.scan_iter(match=f"*/{visitor.address}/probe.own/*", count=10_000))
    times = [int(time) for time in cache.lrange(name, 0, -1)]
    assert len(times) == 3
    cache.lset(name, -1, times[-1] - 59_000)
    soon = visitor.get("own")
    assert (soon.status_code, soon.headers["Retry-After"]) == (429, "1")
    cache.lset(name, -1, times[-1] - 60_000)
    assert visitor.quota("own") == (3, 0)
    assert visitor.get("own").status_code == 429
    assert int(cache.pttl(name)) > 55_000
    cache.close()


def test_retry_after_of_longer_period_is_in_seconds(visitor: AddressedClient) -> None:
    assert visitor.get("quarter").status_code == 200
    assert 890 <= int(visitor.get("quarter").headers["Retry-After"]) <= 900


def test_error_responses_count_and_have_quota_headers(
    visitor: AddressedClient, market: Market, bearer: Bearer
) -> None:
    def send(headers: dict[str, str], **body: Any) -> Any:
        return visitor.probe.post("/api/probe/own", headers=headers, **from_address(visitor.address), **body)

    user = bearer(market.person())
    invalid = send(user, json={})
    assert (faults(invalid), quota(invalid)) == (["amount"], (3, 2))
    broken = send(user, json={"amount": 7})
    assert (assert_problem(broken, 500, "INTERNAL_ERROR")["status"], quota(broken)) == (500, (3, 1))
    malformed = send(user, data=b"{", content_type="application/json")
    assert (malformed.status_code, quota(malformed)) == (400, (3, 0))
    assert send(user, json={"amount": 1}).status_code == 429
    barred = send(bearer(market.person(account_status="suspended")), json={})
    assert (barred.status_code, quota(barred)) == (403, (3, 2))


def test_barred_caller_is_forbidden_even_over_quota(
    visitor: AddressedClient, market: Market, bearer: Bearer
) -> None:
    barred = bearer(market.person(account_status="suspended"))
    for remaining in (2, 1, 0, 0):
        answer = visitor.probe.post("/api/probe/own", headers=barred, **from_address(visitor.address))
        assert (answer.status_code, quota(answer)) == (403, (3, remaining))


def test_failed_authentication_counts_against_address(
    visitor: AddressedClient, market: Market, bearer: Bearer
) -> None:
    bad = {"Authorization": "Bearer x"}
    for number in range(1, 61):
        headers = (bad, {}, bearer(uuid4(), exp=1))[number % 3]
        refused = visitor.get("vendor", headers)
        assert (refused.status_code, quota(refused)) == (401, (60, 60 - number))
    assert_problem(visitor.get("vendor", bad), 429, "RATE_LIMIT_EXCEEDED")
    assert visitor.get("global").status_code == 429
    assert visitor.get("vendor", bearer(market.person(role="vendor"))).status_code == 200


def test_unknown_paths_and_methods_count_on_caller_tier(
    visitor: AddressedClient, market: Market, bearer: Bearer
) -> None:
    unknown, known = visitor.get("/api/nothing-here"), visitor.get("global", method="DELETE")
    assert (unknown.status_code, quota(unknown)) == (404, (60, 59))
    assert (known.status_code, quota(known)) == (405, (60, 58))
    user = bearer(market.person())
    assert quota(visitor.get("/nothing", user)) == (300, 299)
    assert quota(visitor.get("own", user, method="DELETE")) == (300, 298)
    assert quota(visitor.get("/nothing", {"Authorization": "Bearer x"})) == (60, 57)
    for remaining in range(56, -1, -1):
        assert quota(visitor.get("/nothing")) == (60, remaining)
    assert_problem(visitor.get("/nothing"), 429, "RATE_LIMIT_EXCEEDED")
    assert_problem(visitor.get("own", method="PUT"), 429, "RATE_LIMIT_EXCEEDED")


def test_error_pages_count_on_caller_tier(visitor: AddressedClient, market: Market, bearer: Bearer) -> None:
    pages = ("/errors/auth-forbidden", "/errors/no-such-error")
    for number, (path, status) in enumerate(zip(pages, (200, 404), strict=True), start=1):
        answer = visitor.get(path)
        assert (answer.status_code, quota(answer)) == (status, (60, 60 - number))
    assert visitor.quota("/errors/auth-forbidden", bearer(market.person())) == (300, 299)
    while visitor.get("/errors/auth-forbidden").status_code == 200:
        pass
    for path in pages:
        assert_problem(visitor.get(path), 429, "RATE_LIMIT_EXCEEDED")


def test_refused_requests_return_their_slot_to_hourly_quota(
    visitor: AddressedClient, market: Market, bearer: Bearer
) -> None:
    def send(headers: dict[str, str], amount: int) -> tuple[int, int]:
        answer = visitor.probe.post("/api/probe/hourly", headers=headers, json={"amount": amount})
        return answer.status_code, int(answer.headers["RateLimit-Remaining"])

    user = bearer(market.person())
    assert [send(user, 0) for _ in range(3)] == [(422, 2)] * 3
    assert [send(user, 1), send(user, 0), send(user, 1)] == [(200, 1), (422, 1), (200, 0)]
    assert [send(user, 0), send(user, 1)] == [(429, 0), (429, 0)]
    barred = bearer(market.person(account_status="suspended"))
    assert [send(barred, 1) for _ in range(3)] == [(403, 2)] * 3


def test_other_options_request_counts_on_caller_tier(
    visitor: AddressedClient, market: Market, bearer: Bearer
) -> None:
    origin = {"Origin": "https://shop.example"}
    for number, (path, headers) in enumerate((("own", {}), ("global", origin), ("/nothing", {})), start=1):
        answer = visitor.get(path, headers, method="OPTIONS")
        assert (answer.status_code, quota(answer)) == (404 if path == "/nothing" else 200, (60, 60 - number))
    assert quota(visitor.get("own", bearer(market.person()), method="OPTIONS")) == (300, 299)
    while visitor.get("own", method="OPTIONS").status_code == 200:
        pass
    assert_problem(visitor.get("own", method="OPTIONS"), 429, "RATE_LIMIT_EXCEEDED")


def test_preflights_are_answered_without_counting_even_over_the_quota(visitor: AddressedClient) -> None:
    preflight = {"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}
    assert visitor.quota("global") == (60, 59)
    for path in ("own", "/api/nothing", "unlimited"):
        answer = visitor.get(path, preflight, method="OPTIONS")
        assert answer.status_code == 200
        assert not {*HEADERS, "Retry-After"} & set(answer.headers.keys())
    assert visitor.quota("global") == (60, 58)
    while visitor.get("global").status_code == 200:
        pass
    assert visitor.get("own", preflight, method="OPTIONS").status_code == 200


def test_unlimited_routes_have_no_quota_headers(visitor: AddressedClient) -> None:
    pages = ("/docs", "/docs/assets/standalone.js", "/openapi.json", "/static/pages.css")
    for path in ("unlimited", *pages):
        answer = visitor.get(path)
        assert answer.status_code == 200
        assert not {*HEADERS, "Retry-After"} & set(answer.headers.keys())
        answer.close()
    assert visitor.quota("global") == (60, 59)


def test_health_checks_and_webhooks_are_not_rate_limited(client: FlaskClient) -> None:
    for method, path in (
        ("GET", "/health/live"),
        ("GET", "/health/ready"),
        ("POST", "/api/payments/webhook"),
    ):
        answer = client.open(path, method=method)
        assert answer.status_code in (200, 401)
        assert not set(HEADERS) & set(answer.headers.keys())


def test_scale_multiplies_all_limits(services: Services, market: Market, bearer: Bearer) -> None:
    scaled = AddressedClient(serve(services, area, rate_limit_scale=7))
    assert scaled.quota("global") == (420, 419)
    assert scaled.quota("global", bearer(market.person())) == (2100, 2099)
    assert scaled.quota("own") == (21, 20)
