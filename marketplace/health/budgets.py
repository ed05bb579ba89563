"""Error budgets and burn rates of the service objectives, from the stored counts.

States, factors and windows are from the section "Service objectives" of the interface specification. The method is
that of chapter 5 of the Site Reliability Workbook: an alert needs a long and a short window above the factor.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
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
MIN_BAD_EVENTS = 3  # a single failed request of a quiet night burns no budget that matters


@dataclass(frozen=True)
class BurnRule:
    """A rule that pages when the budget burns too fast in both windows."""

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
class DayOfBudget:
    """The events of a day, and the burn rate of the day."""

    day: date
    total: int
    bad: int
    burn_rate: float


@dataclass(frozen=True)
class ObjectiveReport:
    """An objective with the state of its budget.

    :ivar tally: the events of the objective's window
    :ivar burn_rates: by window
    :ivar days: the last 30 days with events
    """

    objective: Objective
    tally: Tally
    burn_rates: Mapping[str, float]
    days: list[DayOfBudget]

    @property
    def attained(self) -> float | None:
        """The part of good events; none without events."""
        return self.tally.good / self.tally.total if self.tally.total else None

    @property
    def budget_left(self) -> float:
        """The part of the error budget that is left: 1 is all, a negative part is overspent."""
        return 1 - self.tally.burn_rate(self.objective)

    @property
    def state(self) -> BudgetState:
        """The state of the budget."""
        return budget_state(self.budget_left)


def budget_state(left: float) -> BudgetState:
    """Return the state of a budget.

    :param left: the part that is left
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


_SUM_DAYS = Statement(
    text(
        """
        SELECT signal, bucket, (starts_at AT TIME ZONE 'UTC')::date AS day, sum(count)::bigint AS number
        FROM signal_counts WHERE minutes = 60 AND starts_at >= :earliest AND signal = ANY(:signals)
        GROUP BY signal, bucket, day
        """
    )
)


def report_objectives(session: Session, *, now: datetime) -> list[ObjectiveReport]:
    """Report all objectives with budgets, burn rates and the last 30 days, in two queries."""
    windows = tally_windows(session, names=(*_MINUTES, *_HOURS), now=now)
    days: defaultdict[tuple[str, date], dict[int, int]] = defaultdict(dict)
    for row in _SUM_DAYS.all(session, earliest=now - _HOURS["30d"], signals=list(OBJECTIVES)):
        days[row["signal"], row["day"]][row["bucket"]] = row["number"]
    return [
        ObjectiveReport(
            objective,
            windows[name]["1d" if objective.window == _HOURS["1d"] else "30d"],
            {window: round(windows[name][window].burn_rate(objective), 3) for window in BURN_WINDOWS},
            [
                DayOfBudget(day, tally.total, tally.bad, round(tally.burn_rate(objective), 3))
                for (signal, day), buckets in sorted(days.items())
                if signal == name
                for tally in [_tally(objective, buckets)]
            ],
        )
        for name, objective in OBJECTIVES.items()
    ]


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
