"""Lives 0 to 499: two modules, so that two processes share them. ``make simulate`` lives more."""

import pytest

from tests.simulation.crashing_database import MortalDatabase
from tests.simulation.scenario_runner import ACTS, run_lives

BATCH = 500


@pytest.mark.parametrize("start", range(0, 500, BATCH))
def test_whatever_happens_in_a_life_its_books_are_whole(mortal_database: MortalDatabase, start: int) -> None:
    done = run_lives(mortal_database, range(start, start + BATCH))

    for act in ACTS:
        assert done[act] > 0, f"no {act} in {BATCH} lives: they have become dull"
