"""Traces: spans of requests, statements, cache commands, provider calls and jobs, without personal data."""

import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sqlalchemy import delete, select

from blueprints.areas import AREAS
from blueprints.http.application import build_app
from marketplace.identity.models import Profile
from marketplace.infra import outbox
from marketplace.infra.settings import SettingsError
from marketplace.infra.tracing.collector import configure_tracing
from marketplace.infra.tracing.statements import name_statement
from marketplace.kernel import queues
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.kernel.signals import RECORDER
from marketplace.kernel.tracing import current_parent, span, use_tracer
from marketplace.providers.client import ProviderClient
from marketplace.providers.storage import S3ObjectStorage
from marketplace.services import Services
from tasks import dispatcher as dispatcher_module
from tasks.dispatcher import Dispatcher
from tests.support.faulty_servers import FaultyServer
from tests.support.probes import assert_problem, changed, closed_port
from tests.support.purchases import NOW, make_product, make_shop
from tests.support.spans import exporter, trace_of

__all__ = ["exporter"]

SECRET = f"secret{uuid4().hex}"


@pytest.fixture
def traced(exporter: InMemorySpanExporter, services: Services) -> Iterator[Services]:
    """Services whose connections opened while this process creates spans."""
    made = Services.from_settings(services.settings, application_name="tests")
    yield made
    made.database.close()


def attributes(found: ReadableSpan) -> dict[str, Any]:
    return dict(found.attributes or {})


def test_request_has_a_span_with_statements_and_cache_commands(
    traced: Services, exporter: InMemorySpanExporter
) -> None:
    with traced.database.transaction() as session:
        product_id = make_product(session, make_shop(session))
    exporter.clear()
    request_id = str(uuid4())
    client = build_app(traced, AREAS).test_client()
    answer = client.get(f"/api/products/{product_id}", headers={"X-Request-ID": request_id})
    assert answer.status_code == 200

    name = "GET /api/products/<uuid:product_id>"
    spans = trace_of(exporter.get_finished_spans(), name)
    [root] = [one for one in spans if one.parent is None]
    assert attributes(root) == {"marketplace.request_id": request_id, "http.response.status_code": 200}
    systems = {attributes(one).get("db.system.name") for one in spans}
    assert {"postgresql", "redis"} <= systems
    statements = [attributes(one)["db.query.text"] for one in spans if "db.query.text" in attributes(one)]
    assert any("FROM products" in statement for statement in statements), "prepared statements show the text"
    assert not any(str(product_id) in str(attributes(one)) + one.name for one in spans)


def test_spans_have_no_values_and_no_messages(traced: Services, exporter: InMemorySpanExporter) -> None:
    with traced.database.reading() as session:
        session.scalars(select(Profile).where(Profile.name == SECRET)).all()
    with pytest.raises(ZeroDivisionError), span("work"):
        raise ZeroDivisionError(SECRET)
    client = build_app(traced, AREAS).test_client()
    assert_problem(client.get(f"/api/{SECRET}", headers={"Authorization": SECRET}), 404, "RESOURCE_NOT_FOUND")

    spans = exporter.get_finished_spans()
    assert {"SELECT profiles", "work", "GET unknown"} <= {one.name for one in spans}
    [failed] = [one for one in spans if one.name == "work"]
    assert attributes(failed) == {"error.type": "ZeroDivisionError"}
    assert SECRET not in "".join(one.to_json() for one in spans)


def test_trace_context_of_clients_is_ignored(traced: Services, exporter: InMemorySpanExporter) -> None:
    client = build_app(traced, AREAS).test_client()
    trace_id = uuid4().hex
    client.get("/health/live", headers={"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"})
    [root] = [one for one in exporter.get_finished_spans() if one.name == "GET /health/live"]
    assert root.parent is None
    assert f"{root.context.trace_id:032x}" != trace_id


def test_job_continues_the_trace_of_the_cause(
    traced: Services, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        dispatcher_module, "HANDLERS", {**dispatcher_module.HANDLERS, "test.topic": lambda *_arguments: None}
    )
    dispatcher = Dispatcher(traced)
    sent: list[tuple[str, ...]] = []
    monkeypatch.setitem(dispatcher._run_tasks, queues.WEBHOOKS, lambda *arguments: sent.append(arguments))
    with span("cause"), traced.database.transaction() as session:
        row_id = outbox.enqueue(session, queue=queues.WEBHOOKS, topic="test.topic", payload={}, due_at=NOW)
        dispatcher.send_wakeup(queues.WEBHOOKS, "outbox", row_id)
        parent = current_parent()
    assert sent == [(queues.WEBHOOKS, "outbox", str(row_id), parent)]

    dispatcher.run_row(*sent[0])

    spans = trace_of(exporter.get_finished_spans(), "cause")
    [job] = [one for one in spans if one.name == "job outbox"]
    assert attributes(job) == {"marketplace.queue": queues.WEBHOOKS, "marketplace.row_id": str(row_id)}
    assert any(one.parent and one.parent.span_id == job.context.span_id for one in spans)


def test_wakeup_without_tracing_has_no_fourth_argument(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of an earlier release take three arguments."""
    dispatcher, sent = Dispatcher(services), []
    monkeypatch.setitem(dispatcher._run_tasks, queues.WEBHOOKS, lambda *arguments: sent.append(arguments))
    row_id = uuid4()
    dispatcher.send_wakeup(queues.WEBHOOKS, "outbox", row_id)
    assert sent == [(queues.WEBHOOKS, "outbox", str(row_id))]


def test_job_of_a_sweep_has_a_separate_trace(
    traced: Services, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep enqueues thousands of rows, which have different causes."""
    dispatcher, sent = Dispatcher(traced), []
    monkeypatch.setattr(dispatcher, "_free_capacity", lambda _queue: 1)
    for queue in queues.NAMES:
        monkeypatch.setitem(dispatcher._run_tasks, queue, lambda *arguments: sent.append(arguments))
    with traced.database.transaction() as session:
        early = datetime(2001, 1, 1, tzinfo=UTC)
        row_id = outbox.enqueue(session, queue=queues.WEBHOOKS, topic="test.topic", payload={}, due_at=early)
    with span("sweep"):
        dispatcher.sweep_outbox(NOW)
    assert (queues.WEBHOOKS, "outbox", str(row_id)) in sent
    assert {len(arguments) for arguments in sent} == {3}
    with traced.database.transaction() as session:
        session.execute(delete(outbox.OutboxEvent).where(outbox.OutboxEvent.id == row_id))


def test_statement_for_many_rows_has_a_single_span(traced: Services, exporter: InMemorySpanExporter) -> None:
    with traced.database.transaction() as session:
        exporter.clear()
        session.connection().exec_driver_sql(
            "UPDATE profiles SET name = name WHERE name = %(name)s", [{"name": SECRET}, {"name": "other"}]
        )
    [update] = [one for one in exporter.get_finished_spans() if one.name == "UPDATE profiles"]
    assert SECRET not in update.to_json()


def test_call_of_the_storage_has_a_span_and_a_duration(
    services: Services, exporter: InMemorySpanExporter
) -> None:
    settings = replace(services.settings, s3_endpoint_url=f"http://127.0.0.1:{closed_port()}")
    RECORDER.take()
    with pytest.raises(ProviderUnavailableError):
        S3ObjectStorage(settings).check_bucket("marketplace-private")
    [call] = exporter.get_finished_spans()
    assert call.name == "head_bucket object storage"
    recorded = {key.label for key in RECORDER.take() if key.signal == "provider"}
    assert recorded == {"object storage unavailable"}


def test_provider_call_has_a_span_without_the_address(exporter: InMemorySpanExporter) -> None:
    server = FaultyServer({"/bank": {"status": True}}, slow_seconds=0)
    client = ProviderClient("gateway", server.url, timeout_seconds=5)
    client._call("GET", f"/bank?account={SECRET}")
    server.close()
    [call] = exporter.get_finished_spans()
    assert call.name == "GET gateway"
    assert attributes(call) == {"marketplace.provider": "gateway", "http.response.status_code": 200}


class Collector:
    """A server that counts the received batches of spans."""

    def __init__(self) -> None:
        bodies = self.bodies = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()


def test_spans_reach_the_collector(services: Services) -> None:
    collector = Collector()
    url = f"http://127.0.0.1:{collector.server.server_port}/v1/traces"
    settings = changed(services, otlp_traces_url=url, trace_percent=100).settings
    provider = configure_tracing(settings, process="web")
    try:
        with span("sent"):
            pass
        assert provider is not None
        assert provider.force_flush(20_000)
    finally:
        use_tracer(None)
        if provider is not None:
            provider.shutdown()
        collector.server.shutdown()
        collector.server.server_close()
    [(path, body)] = collector.bodies
    assert path == "/v1/traces"
    assert b"campus-marketplace" in body


def test_missing_packages_are_explained(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    settings = changed(services, otlp_traces_url="http://127.0.0.1:9/v1/traces").settings
    with pytest.raises(SettingsError, match=r"requirements/tracing\.txt"):
        configure_tracing(settings, process="web")


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("SELECT id FROM orders WHERE id = %(id)s", "SELECT orders"),
        ("\n  INSERT INTO ledger_entries (id) VALUES (1)", "INSERT ledger_entries"),
        ("WITH moved AS (UPDATE orders SET x = 1) SELECT 1", "WITH orders"),
        ("COMMIT", "COMMIT"),
        ("", "statement"),
    ],
)
def test_statements_are_named_by_operation_and_table(statement: str, name: str) -> None:
    assert name_statement(statement) == name
