"""A test client that checks every response against the API's general rules and the route's contract.

Each HTTP test thereby also proves that real and documented output are the same.
"""

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import marshmallow
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.datastructures import Headers
from werkzeug.exceptions import HTTPException
from werkzeug.routing import MapAdapter
from werkzeug.test import TestResponse

from blueprints.http import ContractBlueprint
from blueprints.http.application import build_app
from blueprints.http.contract import Contract, SharedLimit
from blueprints.http.documentation.responses import ProblemSchema, documented_errors, error_status
from blueprints.http.problems import error_slug
from marketplace.kernel.errors import CATALOG
from marketplace.services import Services

_UTC = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z")
_QUOTA = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
# These say when to come back; no other answer does.
_STATUSES_WITH_RETRY_AFTER = (409, 429, 503)
# The readiness probe lists failed dependencies and has no problem details.
_PROBES = "/health"


def checked_app(services: Services, areas: Iterable[ContractBlueprint]) -> Flask:
    """Build the application, with a client that checks all answers against the areas' contracts."""
    served = tuple(areas)
    app = build_app(services, served)
    contracts = {contract.name: contract for area in served for contract in area.contracts}

    class Client(CheckedClient):
        known = contracts
        base_url = services.settings.public_base_url

    app.test_client_class = Client
    return app


class CheckedClient(FlaskClient):
    """A client that checks each response before the test gets the response."""

    known: dict[str, Contract]
    base_url: str

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:
        """Send a request and check the response."""
        response = super().open(*args, **kwargs)
        path, method = response.request.path, response.request.method
        contract = self._contract(path, method)
        _check_headers(response, contract, path, method)
        if method == "HEAD" or response.status_code in (304, 308):
            assert response.data == b""
        elif response.status_code >= 400 and not path.startswith(_PROBES):
            _check_problem(response, contract, path, method, self.base_url)
        elif contract is not None and method == contract.method and response.is_json:
            _check_success(response, contract)
        return response

    def _contract(self, path: str, method: str) -> Contract | None:
        path = re.sub(r"^/api/v1/", "/api/", path)
        adapter: MapAdapter = self.application.url_map.bind("localhost")
        try:
            endpoint, _ = adapter.match(path, method=method)
        except HTTPException:
            return None
        return self.known.get(endpoint)


def _check_headers(response: TestResponse, contract: Contract | None, path: str, method: str) -> None:
    headers: Headers = response.headers
    assert UUID(headers["X-Request-ID"]).version == 4
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Content-Security-Policy" in headers
    assert headers.getlist("Cache-Control"), "every answer says how long it may be kept"
    if contract is None or not contract.cache_seconds or response.status_code >= 400:
        if not path.startswith(("/docs/assets/", "/openapi.json")):
            assert headers["Cache-Control"] == "no-store"
    else:
        assert headers["Cache-Control"] == f"public, max-age={contract.cache_seconds}"
        assert headers["ETag"].startswith('W/"')
    if "Retry-After" in headers:
        assert response.status_code in _STATUSES_WITH_RETRY_AFTER
        assert int(headers["Retry-After"]) >= 1
    assert "Retry-After" in headers or response.status_code not in (429, 503) or path.startswith(_PROBES)
    if contract is not None and contract.limit is SharedLimit.UNLIMITED:
        assert not any(name in headers for name in _QUOTA)
    elif contract is not None and method != "OPTIONS":
        limit, remaining, reset = (int(headers[name]) for name in _QUOTA)
        assert 0 <= remaining <= limit
        assert reset >= 1


def _check_problem(
    response: TestResponse, contract: Contract | None, path: str, method: str, base_url: str
) -> None:
    assert response.content_type == "application/problem+json"
    problem = response.get_json(force=True)
    faults = ProblemSchema(unknown=marshmallow.INCLUDE).validate(problem)
    assert not faults, faults
    entry = CATALOG[problem["code"]]
    if contract is not None and method == contract.method:
        documented = {
            (error_status(error), error.code, error.reason) for error in documented_errors(contract)
        }
        found = (response.status_code, problem["code"], problem.get("reason"))
        assert found in documented, f"{contract.name} does not declare {problem}"
    else:
        assert "reason" not in problem
    assert problem["status"] == response.status_code
    if problem["code"] == "VALIDATION_FAILED":
        # In the specification only a body that is not JSON has the status 400.
        assert (problem["status"], problem["title"]) in {(422, entry.title), (400, "Bad Request")}
    else:
        assert (problem["status"], problem["title"]) == (entry.status, entry.title)
    assert problem["type"] == f"{base_url}/errors/{error_slug(problem['code'])}"
    assert unquote(problem["instance"]) == path
    assert re.fullmatch(r"[!-~]+", problem["instance"]), "a URI reference is ASCII"
    assert problem["requestId"] == response.headers["X-Request-ID"]
    assert _UTC.fullmatch(problem["timestamp"])
    assert ("correlationId" in problem) == (response.status_code >= 500)
    if response.status_code == 405:
        assert response.headers["Allow"]


def _check_success(response: TestResponse, contract: Contract) -> None:
    statuses = (contract.status, *contract.further_statuses)
    assert response.status_code in statuses or contract.name.startswith("health.")
    body = response.get_json()
    if not contract.enveloped:
        assert contract.reply is not None
        assert not contract.reply.validate(body), contract.reply.validate(body)
        return
    assert response.content_type == "application/json; charset=utf-8"
    assert set(body) == {"success", "data", "meta"}
    assert body["success"] is True
    faults = contract.meta(unknown=marshmallow.RAISE).validate(body["meta"])
    assert not faults, faults
    assert body["meta"]["version"] == "1.0"
    assert _UTC.fullmatch(body["meta"]["timestamp"])
    # A replay returns the stored body unchanged, with the old meta.
    if response.headers.get("X-Cache-Lookup") != "HIT":
        assert body["meta"]["requestId"] == response.headers["X-Request-ID"]
    if "has_more" in body["meta"]:
        assert body["meta"]["has_more"] == (body["meta"]["next_cursor"] is not None)
    if "limit" in body["meta"] and isinstance(body["data"], list):
        assert len(body["data"]) <= body["meta"]["limit"]
    assert contract.reply is not None, f"{contract.name} answers JSON that nothing describes"
    faults = contract.reply.validate(body["data"])
    assert not faults, faults
