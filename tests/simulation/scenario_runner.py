"""Runner of scenarios, one after another on an empty database."""

import traceback
from collections import Counter
from collections.abc import Iterable

from sqlalchemy import text

from tests.simulation.crashing_database import CrashingDatabase
from tests.simulation.scenario import Scenario
from tests.support.empty_database import EmptiedDatabase

_VACUUM_EVERY = 100

# Actions that a few hundred scenarios must include to be meaningful.
ACTS = (
    *("crashed", "place", "check out", "pay", "deliver", "accept", "ship", "right pin", "confirm"),
    *("cancel", "expired", "refund", "send", "retry", "credit", "duplicate refund"),
    *("open dispute", "withdraw", "settle", "rule refund_buyer", "rule release_vendor", "rule split"),
    *("receive return", "appeal", "appeal granted", "appeal rejected"),
)


class ScenarioFailedError(AssertionError):
    """A rule was broken in a scenario. The message has the seed and the command for a repeat."""


def run_scenarios(database: CrashingDatabase, seeds: Iterable[int]) -> Counter[str]:
    """Run a scenario for each seed and count the actions.

    :raises ScenarioFailedError: at the first broken rule
    """
    done: Counter[str] = Counter()
    emptied = EmptiedDatabase(database)
    for number, seed in enumerate(seeds, 1):
        scenario = Scenario(database, seed)
        try:
            scenario.run()
        except Exception as error:
            steps = "\n  ".join(scenario.trace)
            where = traceback.extract_tb(error.__traceback__)[-1]
            raise ScenarioFailedError(
                f"{type(error).__name__} in scenario {seed}: {error}\n  at {where.name}: {where.line}\n  {steps}\n"
                f"Repeat: make simulate SEEDS={seed}"
            ) from error
        done.update(scenario.done)
        emptied.empty()
        if number % _VACUUM_EVERY == 0:
            with database.reading() as session:
                session.execute(text("VACUUM ANALYZE"))
    return done
