"""Error budgets and burn rates of the service objectives, from the stored counts.

States, factors and windows are from the section "Service objectives" of the interface specification. The method is
that of chapter 5 of the Site Reliability Workbook: an alert needs a long and a short window above the factor.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.alerts.kinds import Severity
from marketplace.health.monitors import MonitoredCondition, apply_condition
from marketplace.health.objectives import OBJECTIVES, Objective
from marketplace.infra.sql.statements import Statement

BudgetState = Literal["green", "yellow", "red", "code_red"]
BUDGET_STATES: tuple[BudgetState, ...] = ("green", "yellow", "red", "code_red")
# Windows up to an hour come from the counts of minutes, longer ones from the counts of hours.
_MINUTES = {"5m": timedelta(minutes=5), "30m": timedelta(minutes=30), "1h": timedelta(hours=1)}
_HOURS = {
    "6h": timedelta(hours=6),
    "1d": timedelta(days=1),
    "3d": timedelta(days=3),
    "30d": timedelta(days=30),
}
BURN_WINDOWS = ("5m", "30m", "1h", "6h", "3d")
MIN_BAD_EVENTS = 3  # with little traffic, a single failed request exceeds every factor


@dataclass(frozen=True)
class BurnRule:
    """An alert rule for a budget that burns too fast in both windows."""

    severity: Severity
    factor: float
    long: str
    short: str


BURN_RULES = (
    BurnRule("SEV-1", 14.4, "1h", "5m"),
    BurnRule("SEV-1", 14.4, "6h", "30m"),
    BurnRule("SEV-2", 6.0, "6h", "30m"),
    BurnRule("SEV-3", 1.0, "3d", "6h"),
)


@dataclass(frozen=True)
class Tally:
    """The events of an objective in a window."""

    good: int = 0
    bad: int = 0

    @property
    def total(self) -> int:
        """All events."""
        return self.good + self.bad

    def burn_rate(self, objective: Objective) -> float:
        """Return how many times faster than allowed the budget burns; 0 without events."""
        return self.bad / self.total / objective.error_budget if self.total else 0.0


@dataclass(frozen=True)
class BudgetPeriod:
    """The events of a day or an hour, and the burn rate of the period.

    :ivar budget_left: the fraction of the window's budget that is left after the period
    """

    starts_at: datetime
    total: int
    bad: int
    burn_rate: float
    budget_left: float


@dataclass(frozen=True)
class ObjectiveReport:
    """An objective with the state of its budget.

    :ivar tally: the events of the objective's window
    :ivar burn_rates: by window
    :ivar days: the days with events of the last 30 days, in UTC
    :ivar hours: the hours with events of the last 24 hours
    """

    objective: Objective
    tally: Tally
    burn_rates: Mapping[str, float]
    days: list[BudgetPeriod]
    hours: list[BudgetPeriod]

    @property
    def attained(self) -> float | None:
        """The fraction of good events; none without events."""
        return self.tally.good / self.tally.total if self.tally.total else None

    @property
    def budget_left(self) -> float:
        """The fraction of the error budget that is left: 1 is all, a negative fraction is overspent."""
        return round(1 - self.tally.burn_rate(self.objective), 9)

    @property
    def state(self) -> BudgetState:
        """The state of the budget."""
        return budget_state(self.budget_left)


def budget_state(left: float) -> BudgetState:
    """Return the state of a budget.

    :param left: the fraction that is left
    """
    if left <= 0:
        return "code_red"
    if left < 0.1:
        return "red"
    return "yellow" if left <= 0.25 else "green"


_SUM_WINDOWS = Statement(
    text(
        """
        SELECT signal, minutes, bucket, width, sum(count)::bigint AS number
        FROM signal_counts JOIN unnest(
                CAST(:names AS text[]), CAST(:lengths AS bigint[]), CAST(:starts AS timestamptz[])
            ) AS w (width, length, since) ON minutes = length AND starts_at >= since
        WHERE starts_at >= :earliest AND signal = ANY(:signals)
        GROUP BY signal, minutes, bucket, width
        """
    )
)


def tally_windows(session: Session, *, names: Collection[str], now: datetime) -> dict[str, dict[str, Tally]]:
    """Return the events of each objective in each window, in a single query.

    :param names: the windows
    """
    windows = [
        (name, minutes, now - lengths[name])
        for minutes, lengths in ((1, _MINUTES), (60, _HOURS))
        for name in lengths
        if name in names
    ]
    sums: defaultdict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for row in _SUM_WINDOWS.all(
        session,
        names=[name for name, _, _ in windows],
        lengths=[minutes for _, minutes, _ in windows],
        starts=[since for _, _, since in windows],
        earliest=min(since for _, _, since in windows),
        signals=list(OBJECTIVES),
    ):
        sums[row["signal"], row["width"]][row["bucket"]] = row["number"]
    return {
        name: {window: _tally(objective, sums[name, window]) for window, _, _ in windows}
        for name, objective in OBJECTIVES.items()
    }


def _tally(objective: Objective, buckets: Mapping[int, int]) -> Tally:
    good = sum(number for bucket, number in buckets.items() if objective.is_good(bucket))
    return Tally(good, sum(buckets.values()) - good)


def report_objectives(session: Session, *, now: datetime) -> list[ObjectiveReport]:
    """Report all objectives with budgets, burn rates and their history by day and hour, in three queries."""
    windows = tally_windows(session, names=(*_MINUTES, *_HOURS), now=now)
    days = _tally_periods(session, "day", since=now - _HOURS["30d"])
    hours = _tally_periods(session, "hour", since=now - _HOURS["1d"])
    reports = []
    for name, objective in OBJECTIVES.items():
        window = windows[name]["1d" if objective.window == _HOURS["1d"] else "30d"]
        burn_rates = {width: round(windows[name][width].burn_rate(objective), 3) for width in BURN_WINDOWS}
        reports.append(
            ObjectiveReport(
                objective,
                window,
                burn_rates,
                _describe_periods(objective, window, days[name], length=timedelta(days=1), now=now),
                _describe_periods(objective, window, hours[name], length=timedelta(hours=1), now=now),
            )
        )
    return reports


_SUM_PERIODS = Statement(
    text(
        """
        SELECT signal, bucket, date_trunc(:unit, starts_at, 'UTC') AS period, sum(count)::bigint AS number
        FROM signal_counts WHERE minutes = 60 AND starts_at >= :earliest AND signal = ANY(:signals)
        GROUP BY signal, bucket, period
        """
    )
)


def _tally_periods(
    session: Session, unit: Literal["day", "hour"], *, since: datetime
) -> Mapping[str, Mapping[datetime, Tally]]:
    """Return the events of each objective by the start of the day or hour."""
    buckets: defaultdict[tuple[str, datetime], dict[int, int]] = defaultdict(dict)
    for row in _SUM_PERIODS.all(session, unit=unit, earliest=since, signals=list(OBJECTIVES)):
        buckets[row["signal"], row["period"]][row["bucket"]] = row["number"]
    tallies: defaultdict[str, dict[datetime, Tally]] = defaultdict(dict)
    for (name, start), counted in sorted(buckets.items()):
        tallies[name][start] = _tally(OBJECTIVES[name], counted)
    return tallies


def _describe_periods(
    objective: Objective,
    window: Tally,
    periods: Mapping[datetime, Tally],
    *,
    length: timedelta,
    now: datetime,
) -> list[BudgetPeriod]:
    """Describe periods in order. The last period ends with the present budget.

    The budget after an earlier period is larger by the bad events of the later periods. Periods before the window of
    the objective have the full budget.
    """
    budget = window.total * objective.error_budget
    begins = now - objective.window
    spent_later = 0
    described = []
    for start, tally in sorted(periods.items(), reverse=True):
        left = 1 - (window.bad - spent_later) / budget if budget and start + length > begins else 1.0
        described.append(
            BudgetPeriod(start, tally.total, tally.bad, round(tally.burn_rate(objective), 3), round(left, 4))
        )
        spent_later += tally.bad
    return described[::-1]


def check_burn_rates(session: Session, *, now: datetime) -> int:
    """Raise or resolve the alerts about objectives whose budget burns too fast.

    :return: the number of objectives that burn too fast
    """
    burning = 0
    for name, tallies in tally_windows(session, names=BURN_WINDOWS, now=now).items():
        objective = OBJECTIVES[name]
        rule = find_burn_rule(objective, tallies)
        facts: dict[str, Any] = {"objective": objective.title}
        if rule is not None:
            burning += 1
            facts |= {"factor": rule.factor} | {
                window: round(tallies[window].burn_rate(objective), 1) for window in (rule.long, rule.short)
            }
        severity = None if rule is None else rule.severity
        apply_condition(
            session,
            MonitoredCondition("SLO_BURN", f"slo:{name}", rule is not None, facts, severity),
            now=now,
        )
    return burning


def find_burn_rule(objective: Objective, tallies: Mapping[str, Tally]) -> BurnRule | None:
    """Return the most severe rule whose factor both windows exceed."""
    for rule in BURN_RULES:
        long, short = tallies[rule.long], tallies[rule.short]
        if long.bad >= MIN_BAD_EVENTS and all(
            tally.burn_rate(objective) > rule.factor for tally in (long, short)
        ):
            return rule
    return None
