"""Cross-origin requests of browsers: preflights, readable responses, and caches."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from flask.testing import FlaskClient

from blueprints.http import Context
from blueprints.http.contract import AUTHENTICATED, PUBLIC, UNCHECKED, SharedLimit
from blueprints.http.fields import Schema, Text
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.services import Services
from tests.support.probes import Effects, from_address, probe_area, serve, unique_address

area = probe_area()
ORIGIN = "https://shop.example"
LOCAL_ORIGIN = "http://localhost:5173"
# The same path as in an earlier test run must not be in the cache.
CACHED = f"/api/probe/cached/{uuid4().hex}"


class Note(Schema):
    """A body with a single text."""

    text = Text(max_length=100, required=True)


@area.post("/written", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, body=Note)
def written(ctx: Context, body: dict[str, Any]) -> Any:
    """Write a row."""
    return Effects(ctx.services.database).add(ctx.session) + body["text"]


@area.get("/signed-in", auth=AUTHENTICATED, limit=SharedLimit.CALLER_TIER)
def signed_in(_ctx: Context) -> None:
    """Require a token."""


@area.get("/once", auth=PUBLIC, limit="1/minute")
def once(_ctx: Context) -> None:
    """Refuse the second request."""


@area.get("/down", auth=UNCHECKED, limit=SharedLimit.UNLIMITED)
def down(_ctx: Context) -> None:
    """Fail."""
    raise ServiceUnavailableError(retry_after_seconds=3)


@area.get("/cached/<name>", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, cache=60)
def cached(_ctx: Context, name: str) -> str:
    """Return cached content."""
    return name


@pytest.fixture(scope="module")
def shared(services: Services) -> FlaskClient:
    return serve(
        services, area, cors_origins=(ORIGIN, "http://localhost:*", "http://127.0.0.1:*"), rate_limit_scale=1
    )


@pytest.fixture
def send(shared: FlaskClient) -> Callable[..., Any]:
    """Send requests from one address."""
    address = from_address(unique_address())

    def request(path: str, origin: str | None = ORIGIN, method: str = "GET", **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return shared.open(
            path, method=method, headers=named | ({"Origin": origin} if origin else {}), **address
        )

    return request


def cors_of(response: Any) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.startswith("Access-Control-")}


def test_without_configured_origins_no_cors_headers_are_sent(services: Services) -> None:
    plain = serve(services, area)
    for method in ("GET", "OPTIONS"):
        headers = {"Origin": ORIGIN, "Access-Control-Request-Method": "GET"}
        response = plain.open("/api/probe/once", method=method, headers=headers)
        assert response.status_code == 200
        assert cors_of(response) == {}
        assert "Vary" not in response.headers


@pytest.mark.parametrize(
    "origin", [ORIGIN, LOCAL_ORIGIN, "http://localhost", "http://127.0.0.1:3000", "http://localhost:65535"]
)
def test_allowed_origin_may_read_responses_and_headers(send: Callable[..., Any], origin: str) -> None:
    send("/api/probe/once", origin)
    answers = {
        "/openapi.json": 200,
        CACHED: 200,
        "/api/probe/signed-in": 401,
        "/nothing/here": 404,
        "/api/probe/written": 405,
        "/api/probe/once": 429,
        "/api/probe/down": 503,
    }
    for path, status in answers.items():
        response = send(path, origin)
        assert response.status_code == status
        assert response.headers.getlist("Access-Control-Allow-Origin") == [origin]
        assert response.headers["Vary"] == "Origin"
        assert set(response.headers["Access-Control-Expose-Headers"].split(", ")) == {
            "ETag",
            "RateLimit-Limit",
            "RateLimit-Remaining",
            "RateLimit-Reset",
            "Retry-After",
            "X-Cache-Lookup",
            "X-Request-ID",
            "X-Thread-ID",
        }
        assert "Access-Control-Allow-Credentials" not in response.headers


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "https://evil.example",
        "null",
        "*",
        "http://shop.example",
        f"{ORIGIN}.evil.example",
        f"{ORIGIN}:8443",
        "http://localhost:*",
        "http://localhost:",
        "http://localhost:5173x",
        "http://localhost:5173@evil.example",
        "http://localhost.evil.example",
        "http://localhost.evil.example:5173",
        "https://localhost:5173",
        "http://localhost:\u0663",
    ],
)
def test_other_origin_gets_no_cors_headers(send: Callable[..., Any], origin: str | None) -> None:
    for method in ("GET", "OPTIONS"):
        response = send("/api/probe/once", origin, method, Access_Control_Request_Method="GET")
        assert response.status_code == 200
        assert cors_of(response) == {}
        assert response.headers["Vary"] == "Origin"


@pytest.mark.parametrize("path", ["/api/probe/written", "/api/v1/probe/written", "/api/unknown", "/health/x"])
@pytest.mark.parametrize("method", ["POST", "GET", "PUT", "DELETE", "PATCH"])
def test_preflight_of_any_path_and_method_is_answered(
    send: Callable[..., Any], path: str, method: str
) -> None:
    asked = (
        "authorization, content-type, idempotency-key, if-match, if-none-match, x-request-id, last-event-id"
    )
    response = send(
        path,
        method="OPTIONS",
        Access_Control_Request_Method=method,
        Access_Control_Request_Headers=asked,
    )
    assert (response.status_code, response.get_data()) == (200, b"")
    headers = cors_of(response)
    assert headers["Access-Control-Allow-Origin"] == ORIGIN
    assert method in headers["Access-Control-Allow-Methods"].split(", ")
    allowed = {name.strip().lower() for name in headers["Access-Control-Allow-Headers"].split(",")}
    assert set(asked.split(", ")) <= allowed
    assert headers["Access-Control-Max-Age"] == "600"
    assert "Access-Control-Allow-Credentials" not in headers
    assert "RateLimit-Limit" not in response.headers


def test_cached_content_carries_no_origin_of_another_request(send: Callable[..., Any]) -> None:
    path = f"{CACHED}-shared"
    etag = send(path).headers["ETag"]
    for origin, allowed in ((LOCAL_ORIGIN, [LOCAL_ORIGIN]), ("https://evil.example", []), (None, [])):
        for known, status in (("", 200), (etag, 304)):
            response = send(path, origin, If_None_Match=known)
            assert response.status_code == status
            assert response.headers["Cache-Control"] == "public, max-age=60"
            assert response.headers["Vary"] == "Origin"
            assert response.headers.getlist("Access-Control-Allow-Origin") == allowed


def test_unauthorized_response_names_the_scheme_of_authentication(send: Callable[..., Any]) -> None:
    for headers in ({}, {"Authorization": "Bearer x"}):
        response = send("/api/probe/signed-in", **headers)
        assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert "WWW-Authenticate" not in send("/api/unknown").headers
