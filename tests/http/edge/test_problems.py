"""Problem details for all errors: of the framework, of other servers and unexpected exceptions."""

import html
import io
import json
import re
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest
from flask.testing import FlaskClient
from sqlalchemy import text

from blueprints.http import Context
from blueprints.http.contract import AUTHENTICATED, PUBLIC, UNCHECKED, SharedLimit
from blueprints.http.documentation.responses import ProblemSchema
from blueprints.http.fields import Schema, Text
from blueprints.http.pages.error_help import HELP
from blueprints.http.problems import error_slug
from blueprints.http.request_parsing import MAX_BODY_BYTES
from marketplace.infra.db import Database
from marketplace.kernel.errors import (
    CATALOG,
    InvalidParam,
    MarketplaceError,
    ServiceUnavailableError,
    ValidationError,
)
from marketplace.services import Services
from tests.support.market import Bearer
from tests.support.probes import assert_problem, closed_port, faults, probe_area, serve

area = probe_area()
SECRET = "sk_live_do_not_show"


class Note(Schema):
    """A body with a single text."""

    text = Text(max_length=2 * MAX_BODY_BYTES)


@area.post("/note", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, body=Note)
def note(_ctx: Context, body: dict[str, Any]) -> int:
    return len(body.get("text", ""))


@area.put("/note", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, body=Note)
def put_note(_ctx: Context, body: dict[str, Any]) -> int:
    return len(body.get("text", ""))


@area.get("/broken", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
def broken(_ctx: Context) -> None:
    raise RuntimeError(f"the key is {SECRET}")


@area.post("/broken-sql", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
def broken_sql(ctx: Context) -> None:
    ctx.session.execute(text("SELECT no_such_column FROM profiles"))


@area.get("/raised/<code>", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
def raised(_ctx: Context, code: str) -> None:
    error: type[MarketplaceError] = type("Raised", (MarketplaceError,), {"code": code})
    raise error()


@area.get("/detailed", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
def detailed(_ctx: Context) -> None:
    raise ValidationError(
        "Two faults.",
        invalid_params=[InvalidParam("a", "is bad"), InvalidParam("b[0].c", "is worse")],
        extensions={"attemptsLeft": 2},
    )


@area.get("/busy", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
def busy(_ctx: Context) -> None:
    raise ServiceUnavailableError("Later.", retry_after_seconds=7)


@area.get("/own", auth=AUTHENTICATED, limit=SharedLimit.CALLER_TIER)
def own(_ctx: Context) -> None:
    """Look up the caller and do nothing else."""


@area.post("/written", auth=UNCHECKED, limit=SharedLimit.UNLIMITED)
def written(ctx: Context) -> None:
    ctx.session.execute(text("SELECT 1"))


@area.get("/read", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
def read(ctx: Context) -> None:
    ctx.session.execute(text("SELECT 1"))


@area.get("/by-id/<uuid:number>", auth=PUBLIC, limit=SharedLimit.CALLER_TIER)
def by_id(_ctx: Context, number: object) -> str:
    return str(number)


@pytest.fixture(scope="module")
def probe(services: Services) -> FlaskClient:
    return serve(services, area)


def test_unknown_path_is_not_found(probe: FlaskClient) -> None:
    for path in (
        "/",
        "/api",
        "/api/",
        "/api/probe",
        "/nothing",
        "/api/probe/note/x",
        "/static/nothing",
        "/%00",
    ):
        body = assert_problem(probe.get(path), 404, "RESOURCE_NOT_FOUND")
        assert "invalid_params" not in body


@pytest.mark.parametrize("number", ["7", "x", "0b7c9a526a3e4f5e9d0e2f1c8f6a7b11", "x" * 36, "%00"])
def test_path_id_that_is_not_a_uuid_is_not_found(probe: FlaskClient, number: str) -> None:
    assert_problem(probe.get(f"/api/probe/by-id/{number}"), 404, "RESOURCE_NOT_FOUND")
    assert probe.get(f"/api/probe/by-id/{uuid4()}").status_code == 200


def test_unsupported_method_is_answered_with_allowed_methods(probe: FlaskClient) -> None:
    for method in ("GET", "DELETE", "PATCH", "HEAD"):
        response = probe.open("/api/probe/note", method=method)
        assert set(response.headers["Allow"].split(", ")) == {"OPTIONS", "POST", "PUT"}
        if method != "HEAD":
            assert method in assert_problem(response, 405, "METHOD_NOT_ALLOWED")["detail"]
    for method in ("TRACE", "CONNECT", "PROPFIND", "X" * 200):
        assert probe.open("/api/probe/read", method=method).status_code == 405
    assert set(probe.post("/docs").headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS"}


def test_body_larger_than_size_limit_is_refused(probe: FlaskClient) -> None:
    frame = len(b'{"text":""}')
    fits = b'{"text":"' + b"x" * (MAX_BODY_BYTES - frame) + b'"}'
    sent = probe.post("/api/probe/note", data=fits, content_type="application/json")
    assert (sent.status_code, sent.json["data"]) == (200, MAX_BODY_BYTES - frame)
    for more in (1, 2, MAX_BODY_BYTES):
        response = probe.post("/api/probe/note", data=fits + b" " * more, content_type="application/json")
        assert_problem(response, 413, "PAYLOAD_TOO_LARGE")
        assert "RateLimit-Remaining" in response.headers


def test_chunked_body_larger_than_size_limit_is_refused(probe: FlaskClient) -> None:
    """A chunked body has no length header and could still be valid JSON when truncated."""

    def send(content: bytes) -> Any:
        return probe.post(
            "/api/probe/note",
            input_stream=io.BytesIO(content),
            content_type="application/json",
            environ_overrides={"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"},
        )

    assert send(b'{"text":"abc"}').json["data"] == 3
    assert send(b" " * (MAX_BODY_BYTES - 2) + b"{}").json["data"] == 0
    for more in (b"{}", b" {}"):
        assert_problem(send(b" " * (MAX_BODY_BYTES - 1) + more), 413, "PAYLOAD_TOO_LARGE")


def test_incomplete_body_is_bad_request(probe: FlaskClient) -> None:
    response = probe.post(
        "/api/probe/note",
        input_stream=io.BytesIO(b'{"text":'),
        content_type="application/json",
        content_length=100,
    )
    assert assert_problem(response, 400, "VALIDATION_FAILED")["title"] == "Bad Request"


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/jsonp"},
        {"Content-Type": ""},
        {},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
        {"Content-Type": "application/json", "Content-Encoding": "identity, br"},
    ],
    ids=str,
)
def test_body_of_unsupported_media_type_or_encoding_is_refused(
    probe: FlaskClient, headers: dict[str, str]
) -> None:
    response = probe.post("/api/probe/note", data=b'{"text": "x"}', headers=headers)
    assert_problem(response, 415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/json; charset=utf-8"},
        {"Content-Type": "APPLICATION/JSON"},
        {"Content-Type": "application/merge-patch+json"},
        {"Content-Type": "application/json", "Content-Encoding": "Identity"},
    ],
    ids=str,
)
def test_all_json_media_types_are_accepted(probe: FlaskClient, headers: dict[str, str]) -> None:
    assert probe.post("/api/probe/note", data=b'{"text": "x"}', headers=headers).json["data"] == 1


def test_unexpected_error_leaks_no_details(probe: FlaskClient) -> None:
    for method, path in (("GET", "broken"), ("POST", "broken-sql")):
        response = probe.open(f"/api/probe/{path}", method=method, headers={"x-correlation-id": "c-7"})
        body = assert_problem(response, 500, "INTERNAL_ERROR")
        assert (body["title"], body["correlationId"]) == ("Internal Server Error", "c-7")
        assert not re.search(rf"{SECRET}|RuntimeError|Traceback|SELECT|column|psycopg", response.text)
        assert "RateLimit-Remaining" in response.headers


@pytest.mark.parametrize("code", sorted(CATALOG))
def test_each_catalog_code_is_answered_and_has_explanation_page(probe: FlaskClient, code: str) -> None:
    response = probe.get(f"/api/probe/raised/{code}")
    entry = CATALOG[code]
    assert (response.status_code, response.json["title"]) == (entry.status, entry.title)
    assert ("correlationId" in response.json) == (entry.status >= 500)
    page = probe.get(response.json["type"].removeprefix("http://127.0.0.1:8000"))
    assert (page.status_code, page.content_type) == (200, "text/html; charset=utf-8")
    for words in (code, entry.title, str(entry.status)):
        assert words in page.text
    assert "<script" not in page.text


@pytest.mark.parametrize(
    "slug", ["nothing", "AUTH-FORBIDDEN", "auth_forbidden", "-auth", "a%00", "<b>", "a" * 5000]
)
def test_explanation_of_unknown_error_is_not_found(probe: FlaskClient, slug: str) -> None:
    assert_problem(probe.get(f"/errors/{slug}"), 404, "RESOURCE_NOT_FOUND")


def test_problem_lists_invalid_params_and_extensions(probe: FlaskClient) -> None:
    response = probe.get("/api/probe/detailed")
    assert faults(response) == ["a", "b[0].c"]
    assert response.json["invalid_params"][1] == {"name": "b[0].c", "reason": "is worse"}
    assert (response.json["detail"], response.json["attemptsLeft"]) == ("Two faults.", 2)


def test_temporary_error_has_retry_after(probe: FlaskClient) -> None:
    assert probe.get("/api/probe/busy").headers["Retry-After"] == "7"


def test_unreachable_database_is_service_unavailable(services: Services, bearer: Bearer) -> None:
    url = f"postgresql://unknown@127.0.0.1:{closed_port()}/nothing"
    gone = Database(url, pool_size=1, application_name="tests")
    probe = serve(services, area, database=gone)
    for method, path in (("GET", "own"), ("POST", "written"), ("GET", "read")):
        response = probe.open(f"/api/probe/{path}", method=method, headers=bearer(uuid4()))
        body = assert_problem(response, 503, "SERVICE_UNAVAILABLE")
        assert response.headers["Retry-After"] == "5"
        assert not re.search(r"127\.0\.0\.1:\d+/nothing|unknown|psycopg|refused", body["detail"])
        assert ("RateLimit-Remaining" in response.headers) == (path != "written")
    for path, status in (("/docs", 200), ("/errors/service-unavailable", 200), ("/nothing", 404)):
        assert probe.get(path, headers=bearer(uuid4())).status_code == status
    gone.close()


# --- paths and pages


@pytest.mark.parametrize("path", ["/api//probe/read", "//api/probe/read", "/api/probe//read", "/errors//x"])
def test_double_slashes_are_not_found_and_not_redirected(probe: FlaskClient, path: str) -> None:
    answer = probe.get(path, headers={"Host": "evil.example"})
    assert_problem(answer, 404, "RESOURCE_NOT_FOUND")
    assert "Location" not in answer.headers
    assert "evil.example" not in answer.text


def test_instance_is_the_percent_encoded_path(probe: FlaskClient) -> None:
    for path, instance in (
        ("/api/probe/%C3%A9%20%22%3C%0A", "/api/probe/%C3%A9%20%22%3C%0A"),
        ("/api/v1/probe/a+b;c=d,e@f:g", "/api/v1/probe/a+b;c=d,e@f:g"),
        ("/api/probe/100%25?q=1", "/api/probe/100%25"),
    ):
        assert assert_problem(probe.get(path), 404, "RESOURCE_NOT_FOUND")["instance"] == instance


def test_failure_before_the_context_exists_is_a_complete_problem(services: Services) -> None:
    def broken_clock() -> datetime:
        raise RuntimeError(SECRET)

    probe = serve(services, area, clock=broken_clock)
    answer = probe.get("/api/v1/probe/read", headers={"x-correlation-id": "c-7"})
    body = assert_problem(answer, 500, "INTERNAL_ERROR")
    assert (body["instance"], body["correlationId"]) == ("/api/v1/probe/read", "c-7")
    assert body["requestId"] == answer.headers["X-Request-ID"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert SECRET not in answer.text


BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
API_CLIENTS = (None, "*/*", "application/json", "application/problem+json, */*", "text/html;q=0.5, */*")


@pytest.mark.parametrize("path", ["/nothing", "/api/nothing", "/errors/nothing"])
def test_unknown_path_is_a_page_for_people_and_a_problem_for_programs(probe: FlaskClient, path: str) -> None:
    for method in ("GET", "HEAD"):
        page = probe.open(path, method=method, headers=BROWSER)
        assert (page.status_code, page.mimetype) == (404, "text/html")
        assert "Accept" in page.headers["Vary"]
        assert ("This page does not exist" in page.text) == (method == "GET")
    for accept in API_CLIENTS:
        assert_problem(
            probe.get(path, headers={"Accept": accept} if accept else {}), 404, "RESOURCE_NOT_FOUND"
        )


def test_refusals_of_existing_routes_stay_problems_in_a_browser(probe: FlaskClient) -> None:
    raised = probe.get("/api/probe/raised/RESOURCE_NOT_FOUND", headers=BROWSER)
    assert_problem(raised, 404, "RESOURCE_NOT_FOUND")
    assert_problem(probe.get("/api/probe/note", headers=BROWSER), 405, "METHOD_NOT_ALLOWED")


def test_start_page_leads_to_existing_pages(probe: FlaskClient) -> None:
    page = probe.get("/", headers=BROWSER)
    links = set(re.findall(r'<a href="([^"]+)"', page.text))
    assert links >= {"/docs", "/openapi.json", "/errors"}
    for link in links:
        assert probe.get(link, headers=BROWSER).status_code == 200
    assert probe.head("/", headers=BROWSER).status_code == 200
    assert_problem(probe.get("/"), 404, "RESOURCE_NOT_FOUND")


def test_error_list_leads_to_every_error(probe: FlaskClient) -> None:
    page = probe.get("/errors", headers=BROWSER)
    assert set(re.findall(r'href="/errors/([^"]+)"', page.text)) == {error_slug(code) for code in CATALOG}


@pytest.mark.parametrize("code", sorted(CATALOG))
def test_error_page_shows_cause_cure_and_a_valid_example(probe: FlaskClient, code: str) -> None:
    page = probe.get(f"/errors/{error_slug(code)}", headers=BROWSER)
    text = html.unescape(page.text)
    assert HELP[code].cause in text
    assert HELP[code].cure in text
    match = re.search(r"<pre[^>]*><code>(.*?)</code></pre>", text, re.DOTALL)
    assert match
    example = json.loads(match[1])
    assert ProblemSchema().validate(example) == {}
    assert (example["code"], example["status"]) == (code, CATALOG[code].status)
    assert ("correlationId" in example) == (example["status"] >= 500)
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "unsafe" not in page.headers["Content-Security-Policy"]


def test_documentation_offers_personas_only_in_the_embedded_stack(services: Services) -> None:
    issuer = "http://127.0.0.1:9411/identity"
    for environment, is_offered in (("embedded", True), ("production", False), ("test", False)):
        page = serve(services, area, environment=environment, identity_issuer=issuer).get("/docs")
        assert ("marketplace token buyer" in page.text) == is_offered
        policy = page.headers["Content-Security-Policy"]
        connections = "connect-src 'self' http://127.0.0.1:9411;" if is_offered else "connect-src 'self';"
        assert connections in policy
        assert policy.startswith("default-src 'none'; script-src 'self';")
