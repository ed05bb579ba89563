"""Random order scenarios with crashes: 56 in ``make test``, 2,000 in ``make test-deep``."""

from collections.abc import Iterable

import pytest

from tests.simulation.crashing_database import CrashingDatabase
from tests.simulation.scenario_runner import ACTS, run_scenarios

# Seeds 0 to 23, and seeds with rare actions: confirmations, clawbacks, debts, failed refunds, settlements, appeals.
SEEDS = (*range(24), *range(61, 81), 54, 93, 110, 166, 173, 183, 194, 201, 285, 314, 401, 461)
DEEP_BATCH = 500


def run(database: CrashingDatabase, seeds: Iterable[int]) -> None:
    done = run_scenarios(database, seeds)
    assert [act for act in ACTS if not done[act]] == []


def test_ledger_and_orders_are_consistent_after_each_scenario(crashing_database: CrashingDatabase) -> None:
    run(crashing_database, SEEDS)


@pytest.mark.deep(only=True)
@pytest.mark.parametrize("start", [0, 500, 1000, 1500])
def test_ledger_and_orders_are_consistent_after_500_scenarios(
    crashing_database: CrashingDatabase, start: int
) -> None:
    run(crashing_database, range(start, start + DEEP_BATCH))
