"""Lives one after the other, each on a database that holds nothing else."""

import traceback
from collections import Counter
from collections.abc import Iterable

from sqlalchemy import text

from tests.simulation.crashing_database import MortalDatabase
from tests.simulation.scenario import Scenario
from tests.support.empty_database import EmptiedDatabase

_VACUUM_EVERY = 100

# What a few hundred lives must have known, or they prove little.
ACTS = (
    *("died", "place", "check out", "pay", "deliver", "accept", "ship", "right pin", "confirm", "freeze"),
    *("cancel", "expired", "refund", "send", "retry", "credit", "paid twice"),
)


class LifeFailedError(AssertionError):
    """A rule did not hold in some life; the message names its seed, and how to live it again."""


def run_lives(database: MortalDatabase, seeds: Iterable[int]) -> Counter[str]:
    """Live a life for each seed, and count what was done in them.

    :raises LifeFailedError: at the first in which something does not hold
    """
    done: Counter[str] = Counter()
    emptied = EmptiedDatabase(database)
    for number, seed in enumerate(seeds, 1):
        life = Scenario(database, seed)
        try:
            life.run()
        except Exception as error:
            steps = "\n  ".join(life.trace)
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise LifeFailedError(
                f"{type(error).__name__} in life {seed}: {error}\n  at {where.name}: {where.line}\n  {steps}\n"
                f"Live it again: make simulate SEEDS={seed}"
            ) from error
        done.update(life.done)
        emptied.empty()
        if number % _VACUUM_EVERY == 0:
            with database.reading() as session:
                session.execute(text("VACUUM ANALYZE"))
    return done
