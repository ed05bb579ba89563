"""Log and error-tracker sinks: no kind of secret passes through a log line, an error event or a provider call log."""

import io
import json
import logging
import runpy
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import sentry_sdk
import structlog
from gunicorn.config import Config as GunicornConfig
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from marketplace.infra import logs
from marketplace.infra.logs import (
    configure_error_tracking,
    configure_logging,
    scrub_error_event,
)
from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.kernel.redaction import MARKER
from marketplace.providers.client import ProviderClient, ProviderRefusedError
from tests.support.secret_samples import PLAIN, SECRETS, TEXTS
from tests.support.servers import PROJECT

REQUIRED = {"timestamp", "level", "message", "service", "version"}


class Output:
    """Standard output, with the underlying bytes that structlog writes to."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        self.text = io.TextIOWrapper(self.bytes, write_through=True)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.bytes.getvalue().split(b"\n")[:-1]]


TALKATIVE = ("huey", "fontTools", "fpdf")


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[Output]:
    one = Output()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in TALKATIVE}
    configured = structlog.get_config()
    monkeypatch.setattr(sys, "stdout", one.text)
    configure_logging(replace(settings, log_level="DEBUG", build_revision="abc123"))
    yield one
    structlog.configure(**configured)
    structlog.contextvars.clear_contextvars()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, kept in levels.items():
        logging.getLogger(name).setLevel(kept)


def assert_clean(written: str) -> None:
    """Ensure that the output of a sink contains no secret in any form."""
    leaked = [
        secret for secret in (*SECRETS.values(), *TEXTS.values()) if len(secret) > 4 and secret in written
    ]
    assert leaked == []


def without_generated_values(value: Any) -> Any:
    """Leave out times and random ids, whose digits equal those of a secret once in a few thousand runs."""
    if isinstance(value, dict):
        return {
            name: without_generated_values(inner)
            for name, inner in value.items()
            if name not in ("timestamp", "event_id", "trace_id", "span_id")
        }
    return [without_generated_values(inner) for inner in value] if isinstance(value, list) else value


def fail(text: str) -> None:
    raise RuntimeError(text)


def by_structlog(fields: dict[str, Any]) -> None:
    structlog.get_logger("probe").info("probe", **fields)


def by_bound_context(fields: dict[str, Any]) -> None:
    structlog.contextvars.bind_contextvars(**fields)
    structlog.get_logger("probe").info("probe")


def nested(fields: dict[str, Any]) -> None:
    structlog.get_logger("probe").info("probe", body={"items": [fields]})


@pytest.mark.parametrize("sink", [by_structlog, by_bound_context, nested])
def test_no_secret_appears_in_a_log_line(output: Output, sink: Callable[[dict[str, Any]], None]) -> None:
    sink(SECRETS | {f"text{number}": text for number, text in enumerate(TEXTS)})

    assert len(output.lines()) == 1
    assert_clean(output.bytes.getvalue().decode())


@pytest.mark.parametrize("name", SECRETS)
def test_secret_field_of_log_line_is_masked(output: Output, name: str) -> None:
    structlog.get_logger("probe").warning("probe", **{name: SECRETS[name]})
    assert output.lines()[0][name] == MARKER


@pytest.mark.parametrize("text", TEXTS)
def test_no_secret_passes_through_standard_library_logging(output: Output, text: str) -> None:
    log = logging.getLogger("some.library")
    log.info(text)
    log.warning("it said %s", text)
    log.error("it said %r", {"answer": text})
    try:
        fail(text)
    except RuntimeError:
        log.exception("failed")
        structlog.get_logger("probe").exception("failed")

    assert len(output.lines()) == 5
    for line in output.lines():
        # The digits of the timestamp may match a secret by chance.
        assert TEXTS[text] not in json.dumps(line | {"timestamp": ""})


def test_log_record_that_cannot_be_formatted_is_logged_without_arguments(
    output: Output, capsys: pytest.CaptureFixture[str]
) -> None:
    # Not through the logger: pytest's own handler would raise.
    [handler] = [one for one in logging.getLogger().handlers if type(one).__module__ == logs.__name__]
    handler.handle(
        logging.LogRecord(
            "some.library", logging.ERROR, __file__, 7, "sent %d to %s", ("pin", "hunter2"), None
        )
    )

    [line] = output.lines()
    assert (line["message"], line["level"]) == ("log record could not be formatted", "error")
    assert (line["logger"], line["failure"]) == ("some.library", "TypeError")
    assert line["source"] == "test_logs.py:7"
    assert capsys.readouterr().err == ""


def test_no_secret_passes_through_gunicorn_logger(
    output: Output, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WORKER_CLASS", "WEB_CONCURRENCY", "WEB_BIND", "WEB_GRACEFUL_SECONDS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", output.text)
    logger = runpy.run_path(str(PROJECT / "gunicorn.conf.py"))["ServiceLogger"](GunicornConfig())

    for text in TEXTS:
        try:
            fail(text)
        except RuntimeError:
            logger.exception("Error handling request %s", f"/api/products?q={text}")
    logger.error("Worker (pid:%s) was sent %s!", 31518, "SIGKILL")

    lines = output.lines()
    assert len(lines) == len(TEXTS) + 1
    assert all(line.keys() >= REQUIRED for line in lines)
    assert_clean(output.bytes.getvalue().decode())
    assert lines[-1]["message"] == "Worker (pid:31518) was sent SIGKILL!"


def test_no_secret_appears_in_urllib3_log_lines(output: Output, provider: str) -> None:
    client = ProviderClient("payment gateway", provider, timeout_seconds=5)
    with pytest.raises(ProviderUnavailableError):
        client.get("/bank/resolve", params={"account_number": "0123456789", "phone": "+2348031234567"})

    written = output.bytes.getvalue().decode()
    assert "GET /bank/resolve" in written, "urllib3 tells of its calls at DEBUG"
    assert "0123456789" not in written
    assert "8031234567" not in written


def test_ids_amounts_and_times_are_not_masked(output: Output) -> None:
    structlog.get_logger("probe").info("probe", **PLAIN)

    line = output.lines()[0]
    for name, value in PLAIN.items():
        if isinstance(value, bool | int | float | str | None):
            assert line[name] == value
    assert line["at"] == "2026-11-21T11:05:11.123456+00:00"
    assert line["userId"] == str(PLAIN["userId"])


def test_log_lines_are_single_line_json_with_required_fields(output: Output) -> None:
    structlog.contextvars.bind_contextvars(requestId="r-1", path="/api/orders", method="POST")
    structlog.get_logger("probe").info("two\nlines", note="three\r\nmore\u2028lines")
    logging.getLogger("library").warning("two\nlines %s", "é\0")
    try:
        fail("a\nb")
    except RuntimeError as error:
        structlog.get_logger("probe").error("unhandled error", exc_info=error)

    raw = output.bytes.getvalue()
    assert raw.count(b"\n") == 3
    for line in output.lines():
        assert line.keys() >= REQUIRED
        assert line["service"] == "campus-marketplace"
        assert line["version"] == "abc123"
        assert (line["requestId"], line["path"], line["method"]) == ("r-1", "/api/orders", "POST")
        assert line["timestamp"].endswith("Z")
    assert [line["level"] for line in output.lines()] == ["info", "warning", "error"]
    assert "RuntimeError: a\nb" in output.lines()[2]["exception"]


def test_values_that_json_cannot_represent_are_still_logged(output: Output) -> None:
    structlog.get_logger("probe").info(
        "probe",
        huge=2**70,
        odd=float("nan"),
        thing=object(),
        broken="\ud800",
        keys={5: 1, None: 2},
        raw=b"\xff",
    )
    line = output.lines()[0]
    assert (line["message"], line["huge"], line["odd"]) == ("probe", str(2**70), None)
    assert line["broken"] == "?"


def test_lines_below_the_level_are_not_written(
    output: Output, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", output.text)
    configure_logging(replace(settings, log_level="WARNING"))
    structlog.get_logger("probe").info("quiet")
    logging.getLogger("library").info("quiet")
    logging.getLogger("huey").info("a task and its arguments")
    structlog.get_logger("probe").warning("loud")
    assert [line["message"] for line in output.lines()] == ["loud"]


def test_info_logs_of_verbose_libraries_are_not_written(output: Output) -> None:
    for name in TALKATIVE:
        logging.getLogger(f"{name}.part").info("a step")
    logging.getLogger("library").info("something")
    assert [line["message"] for line in output.lines()] == ["something"]


class Kept(Transport):
    """Transport that keeps the events for the error tracker."""

    def __init__(self) -> None:
        super().__init__({})
        self.events: list[Any] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        self.events += [item.payload.json for item in envelope.items if item.type == "event"]


@pytest.fixture
def tracker(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    kept = Kept()
    started = sentry_sdk.init

    def init(**options: Any) -> Any:
        # Integrations patch libraries permanently and do not change the scrubber's output.
        return started(**options | {"transport": kept, "default_integrations": False, "integrations": []})

    monkeypatch.setattr(sentry_sdk, "init", init)
    configure_error_tracking(replace(settings, sentry_dsn="https://key@tracker.invalid/1"))
    yield kept
    sentry_sdk.get_client().close(timeout=0)
    sentry_sdk.get_global_scope().set_client(None)


def test_no_secret_appears_in_an_error_event(tracker: Kept) -> None:
    with sentry_sdk.isolation_scope() as scope:
        scope.set_context("order", SECRETS)
        scope.set_extra("body", {"items": [SECRETS]})
        scope.set_tag("phone", "08031234568")
        scope.set_user({"id": "0198c1b2-7a3e-7f5e-9d0e-2f1c8f6a7b11", "email": "ada@unilag.edu.ng"})
        for text in TEXTS:
            sentry_sdk.add_breadcrumb(message=text, data=dict(SECRETS))
        for text in TEXTS:
            try:
                fail(text)
            except RuntimeError as error:
                pin = SECRETS["pin"]
                sentry_sdk.capture_exception(error)
                assert pin

    assert len(tracker.events) == len(TEXTS)
    for event in tracker.events:
        assert_clean(json.dumps(without_generated_values(event)))
        assert event["user"]["id"] == "0198c1b2-7a3e-7f5e-9d0e-2f1c8f6a7b11"
        assert len(event["event_id"]) == 32
        assert event["timestamp"].startswith("20")
        assert event["breadcrumbs"]["values"]
        assert event["exception"]["values"][0]["type"] == "RuntimeError"


def test_queries_addresses_headers_and_bodies_are_scrubbed_from_an_error_event() -> None:
    event: Any = {
        "event_id": "0" * 32,
        "request": {
            "url": "https://api.example/api/products?q=0803&pin=7392",
            "method": "POST",
            "query_string": "q=0803&pin=7392",
            "data": {"pin": "7392", "title": "typed by somebody"},
            "cookies": {"session": "zzz"},
            "env": {"REMOTE_ADDR": "10.0.0.7"},
            "headers": {"Authorization": "Bearer abc", "Host": "api.example", "Cookie": "session=zzz"},
        },
        "breadcrumbs": {
            "values": [
                {"type": "http", "data": {"url": "https://gateway/bank/resolve", "http.query": "account=01"}},
                {"message": "GET https://gateway/bank/resolve?account=typed&x=1 took 5 ms"},
            ]
        },
        "transaction": "/api/products?q=typed",
    }

    shown: Any = scrub_error_event(event, {})

    assert event["request"]["query_string"] == "q=0803&pin=7392", "what is given stays as it is"
    written = json.dumps(shown)
    assert not [word for word in ("0803", "7392", "typed", "zzz", "abc", "account=") if word in written]
    assert shown["request"]["url"].startswith("https://api.example/api/products")
    assert shown["request"]["method"] == "POST"
    assert shown["request"]["headers"]["Host"] == "api.example"
    assert "took 5 ms" in written


def test_error_tracking_is_off_without_dsn(settings: Settings) -> None:
    configure_error_tracking(settings)
    assert not sentry_sdk.get_client().is_active()


@pytest.fixture
def provider() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            refused = json.dumps({"message": " / ".join(TEXTS)} | SECRETS).encode()
            self.send_response(503 if self.path.endswith("down") else 400)
            self.send_header("Content-Length", str(len(refused)))
            self.end_headers()
            self.wfile.write(refused)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_no_secret_appears_in_the_log_of_provider_calls(output: Output, provider: str) -> None:
    client = ProviderClient(
        "payment gateway", provider, timeout_seconds=5, headers={"Authorization": "Bearer sk_test_4f0c9d1e77"}
    )
    with pytest.raises(ProviderRefusedError) as refused:
        client.post("/transfers/0123456789", dict(SECRETS))
    with pytest.raises(ProviderUnavailableError) as down:
        client.post("/down", dict(SECRETS))

    assert_clean(output.bytes.getvalue().decode())
    assert_clean(str(refused.value) + str(down.value))
    calls = [line for line in output.lines() if line["message"] == "provider called"]
    assert [(line["provider"], line["status"]) for line in calls] == [
        ("payment gateway", 400),
        ("payment gateway", 503),
    ]
    assert all(line["durationMs"] > 0 for line in calls)
