"""The dashboard for Grafana: objectives, requests, providers, database, queues and money."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from marketplace.health.budgets import BURN_WINDOWS
from marketplace.health.objectives import OBJECTIVES
from marketplace.health.prometheus.metrics import PREFIX
from marketplace.health.prometheus.rules import error_ratio

_EVENTS = f"{PREFIX}_objective_events_total"
_REQUESTS = f"{PREFIX}_http_request_duration_seconds"
_CALLS = f"{PREFIX}_provider_call_duration_seconds"
_SAMPLES = f"{PREFIX}_database_pool_samples_total"
_HEIGHT, _WIDTH, _COLUMNS = 8, 12, 2


@dataclass(frozen=True)
class Panel:
    """A graph of an expression.

    :ivar unit: the unit in Grafana, such as ``s`` or ``percentunit``
    :ivar legend: a template with the labels
    """

    title: str
    expression: str
    unit: str
    legend: str = ""


def _quantile(quantile: float, histogram: str, labels: str) -> str:
    return f"histogram_quantile({quantile}, sum by (le, {labels}) (rate({histogram}_bucket[5m])))"


def list_panels() -> list[Panel]:
    """List the graphs in the order of the dashboard."""
    budgets = [
        Panel(
            objective.title,
            f'1 - sum(increase({_EVENTS}{{objective="{name}",outcome="bad"}}[{objective.window.days}d]))'
            f' / sum(increase({_EVENTS}{{objective="{name}"}}[{objective.window.days}d]))'
            f" / {round(objective.error_budget, 8)}",
            "percentunit",
            "error budget left",
        )
        for name, objective in OBJECTIVES.items()
    ]
    return [
        *budgets,
        *(
            Panel(f"Bad events, {window}", error_ratio(window), "percentunit", "{{objective}}")
            for window in BURN_WINDOWS
        ),
        Panel("Requests", f"sum by (status) (rate({_REQUESTS}_count[5m]))", "reqps", "{{status}}"),
        Panel(
            "Server errors by route",
            f'sum by (method, route) (rate({_REQUESTS}_count{{status="5xx"}}[5m]))',
            "reqps",
            "{{method}} {{route}}",
        ),
        Panel(
            "Slowest routes, p95",
            f"topk(10, {_quantile(0.95, _REQUESTS, 'method, route')})",
            "s",
            "{{method}} {{route}}",
        ),
        Panel(
            "Webhooks, p99",
            "histogram_quantile(0.99, sum by (le, route)"
            f' (rate({_REQUESTS}_bucket{{method="POST",route=~".*webhook"}}[5m])))',
            "s",
            "{{route}}",
        ),
        Panel("Provider call duration, p95", _quantile(0.95, _CALLS, "provider"), "s", "{{provider}}"),
        Panel(
            "Failed provider calls",
            f'sum by (provider, outcome) (rate({_CALLS}_count{{outcome!="ok"}}[5m]))',
            "reqps",
            "{{provider}} {{outcome}}",
        ),
        Panel(
            "Pool utilization",
            f'sum(rate({_SAMPLES}{{state="used"}}[5m])) / sum(rate({_SAMPLES}{{state="maximum"}}[5m]))',
            "percentunit",
            "in use",
        ),
        Panel(
            "Connection waits over 1 ms, p95",
            f"histogram_quantile(0.95, sum by (le) (rate({PREFIX}_database_pool_wait_seconds_bucket[5m])))",
            "s",
            "wait",
        ),
        Panel(
            "Connections",
            f"sum by (application, state) ({PREFIX}_database_connections)",
            "short",
            "{{application}} {{state}}",
        ),
        Panel("Deadlocks", f"sum(increase({PREFIX}_database_deadlocks_total[1h]))", "short", "per hour"),
        Panel(
            "Cache hits",
            f'sum(rate({PREFIX}_cache_lookups_total{{result="hit"}}[5m]))'
            f" / sum(rate({PREFIX}_cache_lookups_total[5m]))",
            "percentunit",
            "hits",
        ),
        Panel("Jobs", f"{PREFIX}_queue_jobs", "short", "{{queue}} {{state}}"),
        Panel("Oldest job", f"{PREFIX}_queue_oldest_seconds", "s", "{{queue}}"),
        Panel(
            "Money moved per hour, in naira",
            f"sum by (kind) (increase({PREFIX}_ledger_kobo_total[1h])) / 100",
            "short",
            "{{kind}}",
        ),
        Panel(
            "Escrow transitions per hour",
            f"sum by (status) (increase({PREFIX}_escrow_transitions_total[1h]))",
            "short",
            "{{status}}",
        ),
        Panel("Gateway balance minus ledger, in kobo", f"{PREFIX}_ledger_drift_kobo", "short", "drift"),
        Panel("Open alerts", f"{PREFIX}_open_alerts", "short", "{{severity}} {{identifier}}"),
    ]


def render_dashboard() -> str:
    """Render the dashboard as JSON for Grafana's import. Grafana asks for the data source."""
    document = {
        "__inputs": [
            {"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource", "pluginId": "prometheus"}
        ],
        "title": "Campus Marketplace",
        "uid": "campus-marketplace",
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "panels": list(_render_panels()),
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def _render_panels() -> Iterator[dict[str, Any]]:
    source = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
    for index, panel in enumerate(list_panels()):
        yield {
            "id": index + 1,
            "type": "timeseries",
            "title": panel.title,
            "datasource": source,
            "gridPos": {
                "h": _HEIGHT,
                "w": _WIDTH,
                "x": index % _COLUMNS * _WIDTH,
                "y": index // _COLUMNS * _HEIGHT,
            },
            "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
            "targets": [
                {"refId": "A", "datasource": source, "expr": panel.expression, "legendFormat": panel.legend}
            ],
        }
