"""Error budgets and burn rates from the stored counts."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies
from sqlalchemy import insert, text

from marketplace.health import budgets
from marketplace.health.budgets import BURN_RULES, Tally, budget_state, find_burn_rule
from marketplace.health.models import SignalCount
from marketplace.health.objectives import BAD, GOOD, OBJECTIVES
from marketplace.infra.db import Database
from marketplace.kernel.signals import BUCKETS_MS

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
HOUR = NOW.replace(minute=0)
AVAILABILITY = OBJECTIVES["availability"]


@pytest.fixture(autouse=True)
def _begin_without_counts(empty_database: Callable[[], None]) -> None:
    empty_database()


def store(database: Database, signal: str, at: datetime, *, minutes: int = 60, **buckets: int) -> None:
    """Store good and bad events, or events of a latency as ``ms_600=5``."""
    names = {"good": GOOD, "bad": BAD}
    rows = [
        {
            "signal": signal,
            "minutes": minutes,
            "starts_at": at,
            "bucket": names[name] if name in names else BUCKETS_MS.index(int(name.removeprefix("ms_"))),
            "count": number,
        }
        for name, number in buckets.items()
    ]
    with database.transaction() as session:
        session.execute(insert(SignalCount), rows)


def report(database: Database, name: str) -> budgets.ObjectiveReport:
    with database.reading() as session:
        return next(
            found for found in budgets.report_objectives(session, now=NOW) if found.objective.name == name
        )


def test_budget_of_a_month_sums_all_hours(database: Database) -> None:
    store(database, "availability", HOUR - timedelta(days=29), good=49_990, bad=10)
    store(database, "availability", HOUR, good=49_985, bad=15)
    store(database, "availability", HOUR - timedelta(days=31), bad=9_999)

    found = report(database, "availability")

    assert (found.tally.good, found.tally.bad) == (99_975, 25)
    assert found.attained == 0.99975
    assert found.budget_left == pytest.approx(0.75)
    assert [(day.total, day.bad, day.burn_rate, day.budget_left) for day in found.days] == [
        (50_000, 10, 0.2, 0.9),
        (50_000, 15, 0.3, 0.75),
    ]
    assert [(hour.starts_at, hour.burn_rate, hour.budget_left) for hour in found.hours] == [(HOUR, 0.3, 0.75)]
    assert found.state == "green"


def test_error_rate_counts_a_day(database: Database) -> None:
    store(database, "error_rate", HOUR - timedelta(hours=30), bad=100)
    store(database, "error_rate", HOUR - timedelta(hours=2), good=9_996, bad=4)
    found = report(database, "error_rate")
    assert (found.tally.bad, found.state) == (4, "yellow")
    assert found.days[-1].budget_left == pytest.approx(0.2)
    assert [hour.bad for hour in found.hours] == [4]


def test_latency_counts_events_within_the_threshold(database: Database) -> None:
    store(database, "product_query_latency", HOUR, ms_5=90, ms_250=4, ms_400=6)
    found = report(database, "product_query_latency")
    assert (found.tally.good, found.tally.bad) == (94, 6)
    assert (found.attained, found.state) == (0.94, "code_red")


def test_objective_without_events_keeps_the_budget(database: Database) -> None:
    found = report(database, "escrow_transitions")
    assert (found.attained, found.budget_left, found.state) == (None, 1, "green")


@pytest.mark.parametrize(
    ("left", "state"),
    [
        (1, "green"),
        (0.2501, "green"),
        (0.25, "yellow"),
        (0.1, "yellow"),
        (0.0999, "red"),
        (0.0001, "red"),
        (0, "code_red"),
        (-3, "code_red"),
    ],
)
def test_budget_state_follows_the_remaining_fraction(left: float, state: str) -> None:
    assert budget_state(left) == state


# With a target of 99.9 %, a burn rate of 1 is one bad event in a thousand.
WITHIN, FAST, FASTEST = Tally(9_995, 5), Tally(9_930, 70), Tally(9_800, 200)


@pytest.mark.parametrize(
    ("windows", "severity"),
    [
        ({}, None),
        ({"1h": FASTEST, "5m": FASTEST}, "SEV-1"),
        ({"6h": FASTEST, "30m": FASTEST}, "SEV-1"),
        ({"6h": FAST, "30m": FAST}, "SEV-2"),
        ({"3d": Tally(9_980, 20), "6h": Tally(9_980, 20)}, "SEV-3"),
        ({"1h": FASTEST, "5m": WITHIN}, None),
        ({"6h": FAST, "30m": WITHIN}, None),
        ({"1h": Tally(2, 2), "5m": Tally(2, 2)}, None),
    ],
)
def test_both_windows_must_burn_too_fast(windows: dict[str, Tally], severity: str | None) -> None:
    tallies = dict.fromkeys(budgets.BURN_WINDOWS, WITHIN) | windows
    rule = find_burn_rule(AVAILABILITY, tallies)
    assert (rule.severity if rule else None) == severity


@pytest.mark.parametrize(
    ("objective", "bad", "total", "state"),
    [
        ("webhook_latency", 1, 100, "code_red"),
        ("payment_intent_latency", 5, 100, "code_red"),
        ("availability", 20, 20_000, "code_red"),
        ("availability", 15, 20_000, "yellow"),
        ("assistant_first_token", 9, 100, "yellow"),
    ],
)
def test_budget_state_is_exact_at_the_bounds(objective: str, bad: int, total: int, state: str) -> None:
    report = budgets.ObjectiveReport(OBJECTIVES[objective], Tally(total - bad, bad), {}, [], [])
    assert report.state == state


def test_oldest_partial_day_shows_the_budget_after_the_events(database: Database) -> None:
    first = HOUR - timedelta(days=30) + timedelta(hours=1)
    store(database, "availability", first, good=9_910, bad=90)
    store(database, "availability", HOUR, good=90_000)
    assert [day.budget_left for day in report(database, "availability").days] == [
        pytest.approx(0.1),
        pytest.approx(0.1),
    ]


def test_milder_burn_resolves_the_severe_alert(database: Database) -> None:
    for back in range(20):
        at = (NOW - timedelta(minutes=back)).replace(second=0)
        store(database, "availability", at, minutes=1, good=50, bad=50)
    store(database, "availability", HOUR, good=1_000, bad=1_000)
    database.in_transaction(budgets.check_burn_rates, now=NOW)
    store(database, "availability", HOUR + timedelta(hours=1), good=2_000)

    database.in_transaction(budgets.check_burn_rates, now=NOW + timedelta(minutes=61))

    with database.reading() as session:
        rows = session.execute(text("SELECT severity, resolved_at IS NULL FROM alerts ORDER BY raised_at"))
        assert [tuple(row) for row in rows] == [("SEV-1", False), ("SEV-3", True)]


@given(bad=strategies.integers(0, 1_000), good=strategies.integers(0, 100_000))
def test_burn_rate_above_one_overspends_the_budget(bad: int, good: int) -> None:
    tally = Tally(good, bad)
    rate = tally.burn_rate(AVAILABILITY)
    assert rate >= 0
    if tally.total:
        assert (rate > 1) == (bad > AVAILABILITY.error_budget * tally.total)


def test_burning_objective_pages_and_resolves(database: Database) -> None:
    def open_alerts() -> list[tuple[Any, ...]]:
        with database.reading() as session:
            rows = session.execute(text("SELECT subject, severity FROM alerts WHERE resolved_at IS NULL"))
            return [tuple(row) for row in rows]

    store(database, "availability", HOUR - timedelta(hours=1), good=9_900, bad=100)
    store(database, "availability", NOW - timedelta(minutes=20), minutes=1, good=90, bad=1)
    assert database.in_transaction(budgets.check_burn_rates, now=NOW) == 1
    assert open_alerts() == [("slo:availability", "SEV-2")]

    store(database, "availability", NOW - timedelta(minutes=2), minutes=1, good=50, bad=50)
    database.in_transaction(budgets.check_burn_rates, now=NOW)
    assert open_alerts() == [("slo:availability", "SEV-1")]

    assert database.in_transaction(budgets.check_burn_rates, now=NOW + timedelta(days=4)) == 0
    assert open_alerts() == []
    assert {rule.severity for rule in BURN_RULES} == {"SEV-1", "SEV-2", "SEV-3"}
