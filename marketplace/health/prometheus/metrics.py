"""Metrics of all processes: counts that the processes share in the cache, and states of the database.

Names and units follow https://prometheus.io/docs/practices/naming/. Counts restart at 0 if the cache loses its data.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

import psycopg2
import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from marketplace.alerts.models import Alert
from marketplace.background.queues import fetch_queue_report
from marketplace.health.objectives import OBJECTIVES, count_for_objectives
from marketplace.infra.cache import Cache, CacheDownError
from marketplace.infra.db import Database
from marketplace.infra.settings import SettingsError
from marketplace.infra.signals.sending import read_totals
from marketplace.infra.sql.statements import Statement
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.kernel.signals import BUCKETS_MS, COUNT, DURATION_SUM, Key
from marketplace.platform.halts import are_payouts_halted

PREFIX = "marketplace"
# Scrapes of this time share the metrics, so that scrapers cannot load the database.
_FRESH_SECONDS = 5.0
_LE = (*(str(bound / 1_000) for bound in BUCKETS_MS), "+Inf")

_log = structlog.get_logger(__name__)

Totals = Mapping[Key, int]


@dataclass(frozen=True)
class SignalMetric:
    """The metric of a recorded signal.

    :ivar labels: the names of the labels. A recorded label has the values, separated by spaces. Only the first value
        has spaces.
    :ivar known: recorded labels whose counters exist from the start. ``increase`` does not see the first value of a
        series.
    """

    signal: str
    name: str
    help: str
    labels: tuple[str, ...] = ()
    known: tuple[str, ...] = ()

    def values(self, label: str) -> Sequence[str]:
        """Split a recorded label into the values of the labels."""
        return label.rsplit(" ", len(self.labels) - 1) if self.labels else ()


HISTOGRAMS = (
    SignalMetric(
        "http",
        "http_request_duration_seconds",
        "Duration of requests by method, template of the path and class of the status.",
        ("method", "route", "status"),
    ),
    SignalMetric(
        "provider",
        "provider_call_duration_seconds",
        "Duration of calls of providers.",
        ("provider", "outcome"),
    ),
    SignalMetric(
        "pool_wait",
        "database_pool_wait_seconds",
        "Waits of more than a millisecond for a database connection.",
    ),
    SignalMetric("first_token", "assistant_first_token_seconds", "Time to the first token of the assistant."),
    SignalMetric(
        "page_paint", "page_largest_contentful_paint_seconds", "Largest contentful paint in browsers."
    ),
    SignalMetric(
        "page_interaction", "page_interaction_to_next_paint_seconds", "Interaction to next paint in browsers."
    ),
)
COUNTERS = (
    SignalMetric(
        "cache", "cache_lookups", "Look-ups of cached responses: hit or miss.", ("result",), ("hit", "miss")
    ),
    SignalMetric(
        "pool",
        "database_pool_samples",
        "Sums of samples of the connection pools: connections in use (used), the limit (maximum), and time-outs.",
        ("state",),
        ("used", "maximum", "timeouts"),
    ),
    SignalMetric("deadlock", "database_deadlocks", "Transactions that ended with a deadlock.", (), ("",)),
    SignalMetric(
        "escrow", "escrow_transitions", "Transitions of escrows, by the order's new status.", ("status",)
    ),
    SignalMetric("ledger", "ledger_transactions", "Committed ledger transactions.", ("kind",)),
    SignalMetric("ledger_kobo", "ledger_kobo", "Kobo moved by committed ledger transactions.", ("kind",)),
    SignalMetric(
        "webhook_rejected",
        "webhooks_rejected",
        "Webhooks with a wrong signature.",
        ("provider",),
        ("gateway", "messaging"),
    ),
)


class MetricsCollector(Collector):
    """A collector of the metrics of the service. The collector omits the metrics of an unavailable server."""

    def __init__(self, database: Database, cache: Cache, *, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._cache = cache
        self._clock = clock
        self._lock = threading.Lock()
        self._collected: list[Metric] = []
        self._fresh_until = 0.0

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, at most five seconds old."""
        with self._lock:
            if time.monotonic() >= self._fresh_until:
                self._collected = list(self._collect())
                self._fresh_until = time.monotonic() + _FRESH_SECONDS
            yield from self._collected

    def _collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily(f"{PREFIX}_up", "Whether a server answers.", labels=["server"])
        try:
            yield from render_totals(read_totals(self._cache))
            up.add_metric(["cache"], 1)
        except CacheDownError:
            # A counter that falls to 0 and returns looks like a burst to ``increase``, so no counter is better.
            up.add_metric(["cache"], 0)
        try:
            with self._database.reading() as session:
                yield from self._collect_states(session, now=self._clock())
            up.add_metric(["database"], 1)
        except (ServiceUnavailableError, SettingsError, DBAPIError, psycopg2.Error) as error:
            _log.warning("metrics without the database", error=type(error).__name__)
            up.add_metric(["database"], 0)
        yield up

    def _collect_states(self, session: Session, *, now: datetime) -> list[Metric]:
        """Collect the states completely, or nothing."""
        return [
            *_queue_metrics(session, self._cache, now=now),
            _open_alerts(session),
            _gauge("payouts_halted", "1 while payouts are halted.", [((), are_payouts_halted(session))]),
            *_reconciliation_metrics(session, now=now),
            _connections(session),
        ]


def render_totals(totals: Totals) -> Iterator[Metric]:
    """Yield the metrics of recorded signals, and of the service objectives."""
    by_signal: defaultdict[str, defaultdict[str, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for key, number in totals.items():
        by_signal[key.signal][key.label][key.bucket] = number
    for metric in HISTOGRAMS:
        histogram = HistogramMetricFamily(f"{PREFIX}_{metric.name}", metric.help, labels=metric.labels)
        for label, buckets in sorted(by_signal[metric.signal].items()):
            cumulated = accumulate(buckets.get(index, 0) for index in range(len(_LE)))
            histogram.add_metric(
                metric.values(label),
                buckets=list(zip(_LE, cumulated, strict=True)),
                sum_value=buckets.get(DURATION_SUM, 0) / 1_000_000,
            )
        yield histogram
    for metric in COUNTERS:
        counter = CounterMetricFamily(f"{PREFIX}_{metric.name}", metric.help, labels=metric.labels)
        counted = dict.fromkeys(metric.known, 0) | {
            label: buckets.get(COUNT, 0) for label, buckets in sorted(by_signal[metric.signal].items())
        }
        for label, number in counted.items():
            counter.add_metric(metric.values(label), number)
        yield counter
    yield _objective_events(totals)


def _objective_events(totals: Totals) -> Metric:
    """Count good and bad events of each objective. Both series exist from the start."""
    events = dict.fromkeys([(name, outcome) for name in OBJECTIVES for outcome in ("good", "bad")], 0)
    for key, number in totals.items():
        if key.bucket == DURATION_SUM:
            continue
        for name, bucket in count_for_objectives(key):
            events[name, "good" if OBJECTIVES[name].is_good(bucket) else "bad"] += number
    family = CounterMetricFamily(
        f"{PREFIX}_objective_events",
        "Events of the service objectives: good or bad.",
        labels=["objective", "outcome"],
    )
    for labels, number in events.items():
        family.add_metric(labels, number)
    return family


Sample = tuple[Sequence[str], float]


def _gauge(name: str, help_text: str, samples: Iterable[Sample], labels: Sequence[str] = ()) -> Metric:
    gauge = GaugeMetricFamily(f"{PREFIX}_{name}", help_text, labels=labels)
    for values, number in samples:
        gauge.add_metric(values, number)
    return gauge


def _queue_metrics(session: Session, cache: Cache, *, now: datetime) -> Iterator[Metric]:
    report = fetch_queue_report(session, cache, now=now)
    jobs: list[Sample] = [
        ((queue, state), getattr(stats, state))
        for queue, stats in report.queues.items()
        for state in ("waiting", "active", "failed", "scheduled")
    ]
    yield _gauge("queue_jobs", "Jobs of the queues by state.", jobs, ["queue", "state"])
    ages: list[Sample] = [
        ([queue], max((now - stats.oldest_due_at).total_seconds(), 0) if stats.oldest_due_at else 0)
        for queue, stats in report.queues.items()
    ]
    yield _gauge("queue_oldest_seconds", "Waiting time of the oldest due job.", ages, ["queue"])
    if report.workers is not None:
        yield _gauge("workers", "Live workers.", [((), len(report.workers.workers))])


def _open_alerts(session: Session) -> Metric:
    rows = session.execute(
        select(Alert.identifier, Alert.severity, func.count())
        .where(Alert.resolved_at.is_(None))
        .group_by(Alert.identifier, Alert.severity)
    )
    samples: list[Sample] = [((identifier, severity), number) for identifier, severity, number in rows]
    return _gauge("open_alerts", "Open alerts.", samples, ["identifier", "severity"])


# The run with the highest id is the latest. The index of status and id answers each branch with one row.
_FIND_LATEST_RECONCILIATION = Statement(
    text(
        """
        SELECT finished_at, drift_minor FROM (
            (SELECT id, finished_at, drift_minor FROM reconciliations WHERE status = 'matched' ORDER BY id DESC LIMIT 1)
            UNION ALL
            (SELECT id, finished_at, drift_minor FROM reconciliations WHERE status = 'drift' ORDER BY id DESC LIMIT 1)
        ) AS latest ORDER BY id DESC LIMIT 1
        """
    )
)


def _reconciliation_metrics(session: Session, *, now: datetime) -> Iterator[Metric]:
    row = _FIND_LATEST_RECONCILIATION.first(session)
    if row is None:
        return
    yield _gauge(
        "ledger_drift_kobo",
        "Difference between the gateway's balance and the ledger in the latest reconciliation.",
        [((), row["drift_minor"])],
    )
    age_seconds = (now - row["finished_at"]).total_seconds()
    yield _gauge("reconciliation_age_seconds", "Time since the latest reconciliation.", [((), age_seconds)])


def _connections(session: Session) -> Metric:
    rows = session.execute(
        text(
            """
            SELECT application_name, coalesce(state, 'unknown') AS state, count(*) AS number FROM pg_stat_activity
            WHERE datname = current_database() AND usename = current_user GROUP BY 1, 2
            """
        )
    )
    samples: list[Sample] = [((application, state), number) for application, state, number in rows]
    return _gauge("database_connections", "Connections to the database.", samples, ["application", "state"])
