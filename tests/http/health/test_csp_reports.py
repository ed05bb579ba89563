"""Reports of browsers about the content security policy, in both forms."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from marketplace.kernel.signals import CSP_VIOLATION, RECORDER
from tests.support.probes import assert_problem

REPORT_URI = {
    "csp-report": {
        "document-uri": "https://market.example/users/ada?token=secret",
        "violated-directive": "script-src 'self'",
        "blocked-uri": "https://evil.example/steal.js?who=ada",
    }
}
REPORTING_API = [
    {"type": "csp-violation", "body": {"effectiveDirective": "img-src", "blockedURL": "data"}},
    {"type": "csp-violation", "body": {"effectiveDirective": "style-src", "blockedURL": "inline"}},
    {"type": "deprecation", "body": {"id": "x"}},
]


def send(client: FlaskClient, body: Any, content_type: str = "application/csp-report") -> Any:
    RECORDER.take()
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post("/api/csp-report", data=data, content_type=content_type)


def counted() -> dict[str, int]:
    return {key.label: number for key, number in RECORDER.take().items() if key.signal == CSP_VIOLATION}


def test_report_uri_is_counted_by_directive_and_origin(client: FlaskClient) -> None:
    answer = send(client, REPORT_URI)
    assert (answer.status_code, answer.json["data"]) == (200, {"recorded": 1})
    assert counted() == {"script-src https://evil.example": 1}


def test_list_of_the_reporting_api_is_counted(client: FlaskClient) -> None:
    answer = send(client, REPORTING_API, "application/reports+json")
    assert (answer.status_code, answer.json["data"]) == (200, {"recorded": 2})
    assert counted() == {"img-src data": 1, "style-src inline": 1}


@pytest.mark.parametrize(
    ("directive", "blocked", "label"),
    [
        ("script-src-elem", "http://[::1", "script-src-elem unknown"),
        ("<script>", 7, "unknown unknown"),
        ("connect-src", "wss://chat.example:8443/a", "connect-src wss://chat.example"),
        ("img-src", "data:image/png;base64,AAAA", "img-src data"),
        ("img-src", "https://ada:pass@host.example/", "img-src https://host.example"),
        ("img-src", "javascript:alert(1)", "img-src unknown"),
        ("x" * 100, "eval", "unknown eval"),
    ],
)
def test_unusual_report_keeps_only_safe_words(
    client: FlaskClient, directive: str, blocked: Any, label: str
) -> None:
    body = {"csp-report": {"effective-directive": directive, "blocked-uri": blocked}}
    assert send(client, body).status_code == 200
    assert counted() == {label: 1}


@pytest.mark.parametrize(
    ("body", "content_type", "status", "code"),
    [
        (b"{", "application/csp-report", 400, "VALIDATION_FAILED"),
        ({"other": 1}, "application/csp-report", 422, "VALIDATION_FAILED"),
        ([{"type": "csp-violation"}], "application/reports+json", 422, "VALIDATION_FAILED"),
        ([[]], "application/reports+json", 422, "VALIDATION_FAILED"),
        ("text", "application/json", 422, "VALIDATION_FAILED"),
        ([{"type": "x", "body": {}}] * 101, "application/reports+json", 422, "VALIDATION_FAILED"),
        (REPORT_URI, "text/plain", 415, None),
        (b'{"csp-report": "' + b"x" * 65_600 + b'"}', "application/csp-report", 413, None),
    ],
)
def test_other_bodies_are_refused(
    client: FlaskClient, body: Any, content_type: str, status: int, code: str | None
) -> None:
    answer = send(client, body, content_type)
    if code is None:
        assert answer.status_code == status
    else:
        assert_problem(answer, status, code)
    assert counted() == {}


def test_pages_name_the_address_of_reports(client: FlaskClient) -> None:
    page = client.get("/", headers={"Accept": "text/html"})
    assert "report-uri /api/csp-report" in page.headers["Content-Security-Policy"]
