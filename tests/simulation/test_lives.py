"""Random lives of orders, with crashes: 42 in ``make test``, 2,000 in ``make test-deep``."""

from collections.abc import Iterable

import pytest

from tests.simulation.crashing_database import MortalDatabase
from tests.simulation.scenario_runner import ACTS, run_lives

# Lives 0 to 29, and others in which what is rare happens: confirmations, clawbacks, debts, refunds that fail.
SEEDS = (*range(30), 54, 71, 93, 110, 166, 173, 183, 194, 285, 314, 401, 461)
DEEP_BATCH = 500


def run(database: MortalDatabase, seeds: Iterable[int]) -> None:
    done = run_lives(database, seeds)
    assert [act for act in ACTS if not done[act]] == []


def test_ledger_and_orders_are_consistent_after_each_life(mortal_database: MortalDatabase) -> None:
    run(mortal_database, SEEDS)


@pytest.mark.deep(only=True)
@pytest.mark.parametrize("start", [0, 500, 1000, 1500])
def test_ledger_and_orders_are_consistent_after_500_lives(
    mortal_database: MortalDatabase, start: int
) -> None:
    run(mortal_database, range(start, start + DEEP_BATCH))
