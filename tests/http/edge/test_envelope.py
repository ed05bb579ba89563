"""Responses: the envelope, request ids, versioned paths and security headers."""

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask.testing import FlaskClient

from blueprints.http import Context
from blueprints.http.contract import AUTHENTICATED, PUBLIC, UNCHECKED, SharedLimit
from blueprints.http.fields import Schema, Text
from marketplace.services import Services
from tests.support.probes import assert_problem, probe_area, serve

area = probe_area()
NOW = datetime(2026, 11, 21, 9, 30, 15, 42, tzinfo=UTC)
ID = UUID("0b7c9a52-6a3e-4f5e-9d0e-2f1c8f6a7b11")


class Note(Schema):
    """A body with a single text."""

    text = Text(max_length=100, required=True)


@area.get("/values", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
def values(_ctx: Context) -> dict[str, Any]:
    return {"id": ID, "at": NOW, "text": 'é "₦" \\ 🦊 \u2028', "none": None, "list": [1, True, 2.5]}


@area.get("/nothing", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
def nothing(_ctx: Context) -> None:
    """Return no data."""


@area.post("/created", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, body=Note, status=201)
def created(_ctx: Context, body: dict[str, Any]) -> dict[str, Any]:
    return body


@area.post("/acknowledged", auth=UNCHECKED, limit=SharedLimit.UNLIMITED, enveloped=False)
def acknowledged(_ctx: Context) -> dict[str, Any]:
    return {"received": True}


@area.get("/unwritable", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
def unwritable(_ctx: Context) -> dict[str, Any]:
    return {"price": Decimal("1.10")}


@area.get("/missing/<name>", auth=AUTHENTICATED, limit=SharedLimit.CALLER_TIER)
def missing(_ctx: Context, name: str) -> None:
    raise AssertionError(name)


@pytest.fixture(scope="module")
def probe(services: Services) -> FlaskClient:
    return serve(services, area, clock=lambda: NOW)


def test_success_is_serialized_in_envelope(probe: FlaskClient) -> None:
    response = probe.get("/api/probe/values")
    assert response.content_type == "application/json; charset=utf-8"
    request_id = response.headers["X-Request-ID"]
    assert response.json == {
        "success": True,
        "data": {
            "id": str(ID),
            "at": "2026-11-21T09:30:15.000042Z",
            "text": 'é "₦" \\ 🦊 \u2028',
            "none": None,
            "list": [1, True, 2.5],
        },
        "meta": {"timestamp": "2026-11-21T09:30:15.000042Z", "version": "1.0", "requestId": request_id},
    }
    assert probe.get("/api/probe/nothing").json["data"] is None


def test_created_resource_is_answered_201_in_envelope(probe: FlaskClient) -> None:
    response = probe.post("/api/probe/created", json={"text": "x"})
    assert (response.status_code, response.json["success"]) == (201, True)
    assert response.json["data"] == {"text": "x"}


def test_acknowledgement_has_no_envelope(probe: FlaskClient) -> None:
    response = probe.post("/api/probe/acknowledged", data=b"anything")
    assert (response.status_code, response.get_data()) == (200, b'{"received":true}')


def test_unserializable_value_is_internal_error(probe: FlaskClient) -> None:
    body = assert_problem(probe.get("/api/probe/unwritable"), 500, "INTERNAL_ERROR")
    assert "Decimal" not in str(body)


def test_head_answers_headers_only(probe: FlaskClient) -> None:
    got, head = probe.get("/api/probe/values"), probe.head("/api/probe/values")
    assert (head.status_code, head.get_data()) == (200, b"")
    assert head.headers["Content-Type"] == got.headers["Content-Type"]
    assert head.headers["Content-Length"] == got.headers["Content-Length"]


# Request and correlation ids


def test_valid_client_request_id_is_returned_in_all_responses(probe: FlaskClient) -> None:
    given = str(uuid4())
    response = probe.get("/api/probe/values", headers={"x-request-id": given})
    assert response.headers["X-Request-ID"] == response.json["meta"]["requestId"] == given
    for path in ("/api/probe/unwritable", "/nothing", "/api/probe/missing/x"):
        problem = probe.get(path, headers={"x-request-id": given})
        assert problem.headers["X-Request-ID"] == problem.json["requestId"] == given
    assert probe.get("/docs", headers={"x-request-id": given.upper()}).headers["X-Request-ID"] == given


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "x",
        "0b7c9a52-6a3e-1f5e-9d0e-2f1c8f6a7b11",
        "01931f3e-7c00-7000-8000-000000000000",
        "0b7c9a52-6a3e-4f5e-1d0e-2f1c8f6a7b11",
        "0b7c9a526a3e4f5e9d0e2f1c8f6a7b11",
        "{0b7c9a52-6a3e-4f5e-9d0e-2f1c8f6a7b11}",
        "0b7c9a52-6a3e-4f5e-9d0e-2f1c8f6a7b11, 0b7c9a52-6a3e-4f5e-9d0e-2f1c8f6a7b11",
        "\u00e9" * 36,
        "a" * 5000,
    ],
)
def test_invalid_request_id_is_replaced(probe: FlaskClient, given: str | None) -> None:
    headers = {} if given is None else {"x-request-id": given}
    response = probe.get("/api/probe/values", headers=headers)
    made = response.headers["X-Request-ID"]
    assert made != given
    assert UUID(made).version == 4
    assert response.json["meta"]["requestId"] == made


def test_internal_error_reports_correlation_id_or_request_id(probe: FlaskClient) -> None:
    path = "/api/probe/unwritable"
    body = probe.get(path, headers={"x-correlation-id": "order 7/b"}).json
    assert body["correlationId"] == "order 7/b"
    for odd in ("", "x" * 129, "a\u00e9", "a\tb"):
        problem = probe.get(path, headers={"x-correlation-id": odd}).json
        assert problem["correlationId"] == problem["requestId"]
    assert "correlationId" not in probe.get("/nothing", headers={"x-correlation-id": "7"}).json


# The versioned path


def test_every_path_has_versioned_equivalent(probe: FlaskClient) -> None:
    assert probe.get("/api/v1/probe/values").json["data"] == probe.get("/api/probe/values").json["data"]
    assert probe.post("/api/v1/probe/created", json={"text": "x"}).status_code == 201
    for path in (
        "/api/v1/v1/probe/values",
        "/api/v2/probe/values",
        "/v1/probe/values",
        "/api/v1",
        "/api/v1/",
    ):
        assert_problem(probe.get(path), 404, "RESOURCE_NOT_FOUND")


@pytest.mark.parametrize("prefix", ["/api", "/api/v1"])
def test_problem_instance_is_requested_path(probe: FlaskClient, prefix: str) -> None:
    for name in ("x", "%C3%A9%20b", "%2e%2e", "a%00b", "%FF", "%F0%9F%A6%8A"):
        body = assert_problem(probe.get(f"{prefix}/probe/missing/{name}?secret=1"), 401, "AUTH_UNAUTHORIZED")
        # A dot needs no encoding, and invalid UTF-8 is replaced.
        encoded = {"%2e%2e": "..", "%FF": "%EF%BF%BD"}.get(name, name)
        assert body["instance"] == f"{prefix}/probe/missing/{encoded}"


# Headers


def test_every_response_has_security_headers(services: Services, probe: FlaskClient) -> None:
    secure = serve(services, area, public_base_url="https://api.example")
    for path in ("/api/probe/values", "/nothing", "/docs", "/api/probe/unwritable", "/errors/auth-forbidden"):
        response = probe.get(path)
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["X-Frame-Options"] == "DENY"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        policy = response.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy or response.mimetype == "text/html"
        assert "unsafe-inline" not in re.sub(r"style-src [^;]*", "", policy)
        assert "unsafe-eval" not in policy
        assert "Strict-Transport-Security" not in response.headers
        assert secure.get(path).headers["Strict-Transport-Security"].startswith("max-age=31536000")
    problem = secure.get("/nothing").json
    assert problem["type"] == "https://api.example/errors/resource-not-found"


def test_uncached_responses_are_marked_no_store(probe: FlaskClient) -> None:
    for path in ("/api/probe/values", "/nothing", "/docs", "/errors/auth-forbidden"):
        assert probe.get(path).headers["Cache-Control"] == "no-store"
    assert probe.post("/api/probe/created", json={"text": "x"}).headers["Cache-Control"] == "no-store"


def test_trailing_slash_is_not_found(client: FlaskClient) -> None:
    assert client.get("/api/products").status_code == 200
    assert client.get("/api/products/").status_code == 404


def test_openapi_document_is_cacheable(probe: FlaskClient) -> None:
    first = probe.get("/openapi.json")
    assert first.headers["Cache-Control"] == "public, max-age=300"
    etag = first.headers["ETag"]
    known = probe.get("/openapi.json", headers={"If-None-Match": etag})
    assert (known.status_code, known.get_data(), known.headers["ETag"]) == (304, b"", etag)
    assert known.headers["Cache-Control"] == "public, max-age=300"
    assert probe.get("/openapi.json", headers={"If-None-Match": '"other"'}).get_data() == first.get_data()
