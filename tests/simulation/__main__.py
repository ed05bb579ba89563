"""Command ``python -m tests.simulation SEEDS``: random order scenarios for seeds like ``7``, ``0-999`` or ``1,5,9``."""

import logging
import sys
import time

import structlog

from tests.simulation.crashing_database import CrashingDatabase
from tests.simulation.scenario_runner import ScenarioFailedError, run_scenarios
from tests.support.servers import Servers


def seeds_of(written: str) -> list[int]:
    """Parse numbers and ranges of seeds, separated by commas."""
    seeds: list[int] = []
    for part in written.split(","):
        first, _, last = part.partition("-")
        seeds.extend(range(int(first), int(last or first) + 1))
    return seeds


def main(written: str) -> int:
    """Run the scenarios, print the number of actions, and return 1 if a rule was broken."""
    seeds = seeds_of(written)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    servers = Servers()
    try:
        addresses = servers.start()
        database = CrashingDatabase(addresses.database_url, pool_size=3, application_name="simulation")
        began = time.monotonic()
        try:
            done = run_scenarios(database, seeds)
        except ScenarioFailedError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        finally:
            database.close()
        for name, times in sorted(done.items()):
            sys.stdout.write(f"{times:8} {name}\n")
        sys.stdout.write(
            f"{len(seeds)} scenarios in {time.monotonic() - began:.1f} s: all ledgers consistent\n"
        )
        return 0
    finally:
        servers.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "0-999"))
