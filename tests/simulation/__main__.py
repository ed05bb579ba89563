"""``python -m tests.simulation SEEDS``: lives of orders at random; ``7``, ``0-999`` or ``1,5,9`` are seeds."""

import logging
import sys
import time

import structlog

from tests.simulation.crashing_database import MortalDatabase
from tests.simulation.scenario_runner import LifeFailedError, run_lives
from tests.support.servers import Servers


def seeds_of(written: str) -> list[int]:
    """Read seeds: numbers and ranges, with commas between."""
    seeds: list[int] = []
    for part in written.split(","):
        first, _, last = part.partition("-")
        seeds.extend(range(int(first), int(last or first) + 1))
    return seeds


def main(written: str) -> int:
    """Live the lives, and tell what was done in them; 1 if something did not hold."""
    seeds = seeds_of(written)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    servers = Servers()
    try:
        addresses = servers.start()
        database = MortalDatabase(addresses.database_url, pool_size=3, application_name="simulation")
        began = time.monotonic()
        try:
            done = run_lives(database, seeds)
        except LifeFailedError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        finally:
            database.close()
        for name, times in sorted(done.items()):
            sys.stdout.write(f"{times:8} {name}\n")
        sys.stdout.write(f"{len(seeds)} lives in {time.monotonic() - began:.1f} s: all books whole\n")
        return 0
    finally:
        servers.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "0-999"))
