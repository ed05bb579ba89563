"""Metrics for Prometheus: recorded signals and states of the database, read by a parser of the format."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg2
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import delete
from sqlalchemy.orm import Session

from marketplace.alerts.operations import raise_alert
from marketplace.health.objectives import OBJECTIVES
from marketplace.health.prometheus.metrics import MetricsCollector, render_totals
from marketplace.infra.cache import Cache
from marketplace.infra.db import Database
from marketplace.infra.outbox import OutboxEvent, enqueue
from marketplace.infra.signals.sending import send_counts
from marketplace.kernel import queues
from marketplace.kernel.signals import RECORDER, Recorder
from marketplace.ledger.accounts import GATEWAY_FEES
from marketplace.ledger.operations import post_gateway_movement
from marketplace.services import Services
from tests.support.probes import closed_port
from tests.support.resource_usage import counted_statements

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
Samples = dict[tuple[str, tuple[str, ...]], float]


@pytest.fixture(autouse=True)
def _begin_without_counts(empty_database: Callable[[], None]) -> None:
    empty_database()


@pytest.fixture
def cache(services: Services) -> Cache:
    return services.cache


def scrape(database: Database, cache: Cache) -> Samples:
    """Return the samples by name and by the values of the labels in the order of the labels' names."""
    registry = CollectorRegistry()
    registry.register(MetricsCollector(database, cache, clock=lambda: NOW))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def grown(before: Samples, after: Samples) -> Samples:
    """Return the samples that changed, as differences. The totals count since the start of the cache."""
    changes = {key: value - before.get(key, 0) for key, value in after.items()}
    return {key: change for key, change in changes.items() if change}


def test_durations_of_all_processes_add_up_in_a_histogram(database: Database, cache: Cache) -> None:
    before = scrape(database, cache)
    for seconds in (0.004, 0.3, 20.0):
        process = Recorder()
        process.observe("http", "GET /api/products/<uuid:product_id> 2xx", seconds)
        send_counts(cache, minute=1, recorder=process)
    found = grown(before, scrape(database, cache))
    name, labels = (
        "marketplace_http_request_duration_seconds",
        ("GET", "/api/products/<uuid:product_id>", "2xx"),
    )

    def below(bound: str) -> float:
        return found[f"{name}_bucket", (bound, *labels)]

    assert [below(bound) for bound in ("0.005", "0.25", "0.4", "10.0", "+Inf")] == [1, 1, 2, 2, 3]
    assert found[f"{name}_count", labels] == 3
    assert found[f"{name}_sum", labels] == pytest.approx(20.304)


def test_events_of_every_objective_are_counted(database: Database, cache: Cache) -> None:
    before = scrape(database, cache)
    assert sum(name == "marketplace_objective_events_total" for name, _ in before) == 2 * len(OBJECTIVES)
    process = Recorder()
    process.observe("http", "POST /api/orders 2xx", 0.1)
    process.observe("http", "POST /api/orders 5xx", 0.1)
    process.observe("http", "POST /api/payments/intent 2xx", 0.7)
    send_counts(cache, minute=1, recorder=process)
    found = grown(before, scrape(database, cache))
    events = "marketplace_objective_events_total"
    assert found[events, ("checkout_success", "good")] == 1
    assert found[events, ("checkout_success", "bad")] == 1
    assert found[events, ("payment_intent_latency", "bad")] == 1
    assert (events, ("page_paint", "bad")) not in found


def test_committed_ledger_transactions_are_counted_with_amounts(database: Database, cache: Cache) -> None:
    RECORDER.take()
    before = scrape(database, cache)

    def post(session: Session, *, source: str) -> None:
        post_gateway_movement(
            session,
            kind="gateway_fees",
            source=source,
            description="A fee",
            amount_minor=-1_500,
            counter_account=GATEWAY_FEES,
            now=NOW,
        )

    database.in_transaction(post, source="first")

    def post_and_fail(session: Session) -> None:
        post(session, source="second")
        raise RuntimeError("the transaction is rolled back")

    with pytest.raises(RuntimeError):
        database.in_transaction(post_and_fail)
    send_counts(cache, minute=1, recorder=RECORDER)
    found = grown(before, scrape(database, cache))
    assert found["marketplace_ledger_transactions_total", ("gateway_fees",)] == 1
    assert found["marketplace_ledger_kobo_total", ("gateway_fees",)] == 1_500


def test_states_of_queues_and_alerts_are_shown(database: Database, cache: Cache) -> None:
    def prepare(session: Session) -> None:
        enqueue(
            session, queue=queues.WEBHOOKS, topic="test.topic", payload={}, due_at=NOW - timedelta(minutes=5)
        )
        raise_alert(
            session, identifier="QUEUE_STALL", subject="queue:webhooks", title="A stall", facts={}, now=NOW
        )

    database.in_transaction(prepare)
    with database.transaction() as session:
        session.query(OutboxEvent).update({"created_at": NOW - timedelta(minutes=3)})
    found = scrape(database, cache)
    assert found["marketplace_queue_jobs", ("webhooks", "waiting")] == 1
    assert found["marketplace_queue_oldest_seconds", ("webhooks",)] == 180
    assert found["marketplace_open_alerts", ("QUEUE_STALL", "SEV-2")] == 1
    assert found["marketplace_payouts_halted", ()] == 0
    assert found["marketplace_up", ("database",)] == 1
    assert any(name == "marketplace_database_connections" for name, _ in found)
    with database.transaction() as session:
        session.execute(delete(OutboxEvent).where(OutboxEvent.topic == "test.topic"))


def test_missing_servers_are_reported_and_the_rest_is_served(database: Database, cache: Cache) -> None:
    port = closed_port()
    gone = Database(f"postgresql://unknown@127.0.0.1:{port}/none", pool_size=1, application_name="tests")
    no_cache = Cache(f"redis://127.0.0.1:{port}/0")
    assert scrape(gone, cache)["marketplace_up", ("database",)] == 0
    found = scrape(database, no_cache)
    assert (found["marketplace_up", ("cache",)], found["marketplace_up", ("database",)]) == (0, 1)
    assert ("marketplace_queue_oldest_seconds", ("webhooks",)) in found
    assert not any(name.endswith("_total") for name, _ in found), (
        "a counter that falls to 0 would fake a burst"
    )
    assert scrape(gone, no_cache)["marketplace_up", ("cache",)] == 0


def test_providers_with_spaces_in_the_name_keep_the_outcome(database: Database, cache: Cache) -> None:
    before, process = scrape(database, cache), Recorder()
    process.observe("provider", "payment gateway ok", 0.1)
    send_counts(cache, minute=1, recorder=process)
    found = grown(before, scrape(database, cache))
    assert found["marketplace_provider_call_duration_seconds_count", ("ok", "payment gateway")] == 1


def test_counters_with_known_labels_exist_from_the_start() -> None:
    samples = {
        (sample.name, tuple(sample.labels.values())): sample.value
        for metric in render_totals({})
        for sample in metric.samples
    }
    assert samples["marketplace_webhooks_rejected_total", ("gateway",)] == 0
    assert samples["marketplace_database_deadlocks_total", ()] == 0


def test_failed_statement_leaves_the_metrics_of_the_cache(
    database: Database, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: Any, **_named: Any) -> None:
        raise psycopg2.errors.UndefinedTable

    monkeypatch.setattr(MetricsCollector, "_collect_states", fail)
    found = scrape(database, cache)
    assert (found["marketplace_up", ("cache",)], found["marketplace_up", ("database",)]) == (1, 0)


def test_scrapes_of_the_same_seconds_share_the_metrics(database: Database, cache: Cache) -> None:
    collector = MetricsCollector(database, cache, clock=lambda: NOW)
    first = list(collector.collect())
    with counted_statements(database) as statements:
        assert list(collector.collect()) == first
    assert statements == []
