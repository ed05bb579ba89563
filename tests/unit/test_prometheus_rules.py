"""The rules for Prometheus and the dashboard for Grafana, checked by promtool."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from marketplace.alerts.kinds import ALERT_KINDS
from marketplace.health.budgets import BURN_RULES
from marketplace.health.objectives import OBJECTIVES
from marketplace.health.prometheus.dashboard import list_panels, render_dashboard
from marketplace.health.prometheus.metrics import COUNTERS, HISTOGRAMS, PREFIX
from marketplace.health.prometheus.rules import render_rules

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yml"
DASHBOARD = DEPLOY / "grafana" / "marketplace.json"
PROMTOOL = shutil.which("promtool")

needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="no promtool; on Debian: apt-get install prometheus"
)


def run_promtool(*arguments: str) -> str:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_files_are_those_of_the_commands() -> None:
    assert RULES.read_text() == render_rules(), (
        "run `marketplace metrics rules > deploy/prometheus/rules.yml`"
    )
    assert DASHBOARD.read_text() == render_dashboard(), (
        "run `marketplace metrics dashboard > deploy/grafana/marketplace.json`"
    )


@needs_promtool
def test_promtool_accepts_the_rules() -> None:
    run_promtool("check", "rules", str(RULES))


@needs_promtool
def test_promtool_accepts_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{index}", "expr": panel["targets"][0]["expr"]}
        for index, panel in enumerate(json.loads(DASHBOARD.read_text())["panels"])
    ]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    run_promtool("check", "rules", str(path))


def test_dashboard_and_rules_name_only_served_metrics() -> None:
    served = {f"{PREFIX}_{metric.name}" for metric in HISTOGRAMS}
    served |= {f"{PREFIX}_{metric.name}_total" for metric in COUNTERS}
    states = (
        *("up", "open_alerts", "queue_jobs", "queue_oldest_seconds", "ledger_drift_kobo"),
        *("objective_events_total", "database_connections"),
    )
    served |= {f"{PREFIX}_{name}" for name in states}
    expressions = [panel.expression for panel in list_panels()]
    expressions += [
        rule["expr"] for group in yaml.safe_load(render_rules())["groups"] for rule in group["rules"]
    ]
    for expression in expressions:
        for word in expression.replace("(", " ").replace("{", " ").replace("[", " ").split():
            if word.startswith(f"{PREFIX}_"):
                name = word.removesuffix(")").removesuffix("_bucket").removesuffix("_count").removesuffix(")")
                assert name in served, name


def test_every_objective_has_all_burn_rules_and_a_budget() -> None:
    groups = {group["name"]: group["rules"] for group in yaml.safe_load(render_rules())["groups"]}
    burning = [rule["labels"]["objective"] for rule in groups["marketplace-burn-rates"]]
    assert sorted(burning) == sorted([*OBJECTIVES] * len(BURN_RULES))
    titles = {panel.title for panel in list_panels()}
    assert {objective.title for objective in OBJECTIVES.values()} <= titles


def events(objective: str, outcome: str, values: str) -> dict[str, str]:
    return {
        "series": f'marketplace_objective_events_total{{objective="{objective}",outcome="{outcome}"}}',
        "values": values,
    }


def burn_alert(objective: str, window: str, severity: str) -> dict[str, Any]:
    return {
        "exp_labels": {"severity": severity, "objective": objective, "window": window},
        "exp_annotations": {
            "summary": f"The error budget of an objective burns too fast: {OBJECTIVES[objective].title}",
            "description": ALERT_KINDS["SLO_BURN"].texts.first_step,
        },
    }


@needs_promtool
@pytest.mark.parametrize(
    ("name", "series", "minutes", "alert", "expected"),
    [
        (
            "a fast burn pages at once",
            [
                events("checkout_success", "good", "0+100x90"),
                events("checkout_success", "bad", "0x60 0+2x30"),
            ],
            90,
            "SLO_BURN",
            [
                burn_alert("checkout_success", "1h", "SEV-1"),
                burn_alert("checkout_success", "6h", "SEV-2"),
                burn_alert("checkout_success", "3d", "SEV-3"),
            ],
        ),
        (
            "a burn that ended pages no more",
            [
                events("checkout_success", "good", "0+100x180"),
                events("checkout_success", "bad", "0+2x60 120x120"),
            ],
            180,
            "SLO_BURN",
            [burn_alert("checkout_success", "3d", "SEV-3")],
        ),
        (
            "a single bad event burns nothing",
            [
                events("checkout_success", "good", "0+1x90"),
                events("checkout_success", "bad", "0x80 1x10"),
            ],
            90,
            "SLO_BURN",
            [],
        ),
        (
            "a stalled queue",
            [{"series": 'marketplace_queue_oldest_seconds{queue="webhooks"}', "values": "0 60 121"}],
            2,
            "QUEUE_STALL",
            [
                {
                    "exp_labels": {"severity": "SEV-2", "queue": "webhooks"},
                    "exp_annotations": {
                        "summary": "A background queue does not move",
                        "description": ALERT_KINDS["QUEUE_STALL"].texts.first_step,
                    },
                }
            ],
        ),
        (
            "a pool in use for less than three minutes",
            [
                {"series": 'marketplace_database_pool_samples_total{state="used"}', "values": "0+10x2"},
                {"series": 'marketplace_database_pool_samples_total{state="maximum"}', "values": "0+10x2"},
            ],
            2,
            "DB_POOL_SATURATED",
            [],
        ),
        (
            "time-outs of waits for an idle pool",
            [
                {"series": 'marketplace_database_pool_samples_total{state="used"}', "values": "0+1x9"},
                {"series": 'marketplace_database_pool_samples_total{state="maximum"}', "values": "0+100x9"},
                {"series": 'marketplace_database_pool_samples_total{state="timeouts"}', "values": "0+1x9"},
            ],
            9,
            "DB_POOL_SATURATED",
            [
                {
                    "exp_labels": {"severity": "SEV-2"},
                    "exp_annotations": {
                        "summary": "The database connections are almost used up",
                        "description": ALERT_KINDS["DB_POOL_SATURATED"].texts.first_step,
                    },
                }
            ],
        ),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) and " " in value else None,
)
def test_rules_fire_on_the_conditions_of_the_alerts(
    tmp_path: Path, name: str, series: list[dict[str, str]], minutes: int, alert: str, expected: list[Any]
) -> None:
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "name": name,
                "interval": "1m",
                "input_series": series,
                "alert_rule_test": [{"eval_time": f"{minutes}m", "alertname": alert, "exp_alerts": expected}],
            }
        ],
    }
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump(test))
    run_promtool("test", "rules", str(path))
