"""Product counters in real processes: killed web processes, a killed flush and a stopped cache."""

from uuid import UUID

import psycopg2
import pytest
import requests

from marketplace.infra.db import Database
from tests.support.forked_processes import Forked
from tests.support.market import Market
from tests.support.service_processes import ServiceProcesses, kill


@pytest.fixture
def product_id(site: ServiceProcesses) -> UUID:
    market = Market(site.database)
    return market.product(market.store())


def count(site: ServiceProcesses, product_id: UUID, times: int) -> None:
    for _ in range(times):
        answer = requests.post(f"{site.url}/api/products/{product_id}/stats/view", timeout=10)
        assert answer.status_code == 200, answer.text


def flush(site: ServiceProcesses) -> Forked:
    """Start a flush in a separate process."""
    return site._launch("flush", "commands.main", "periodic", "run", "flush-statistics")


def flush_whole(site: ServiceProcesses) -> None:
    process = flush(site)
    site.wait_until(lambda: not process.running)
    assert process.exit_status == 0, process.log_tail()


def views(database: Database, site: ServiceProcesses, product_id: UUID) -> int:
    rows = site.query("SELECT views FROM product_counts WHERE product_id = %s", str(product_id))
    return int(rows[0][0]) if rows else 0


def test_killed_web_processes_and_killed_flush_lose_no_counts(
    site: ServiceProcesses, product_id: UUID
) -> None:
    web = site.web()
    count(site, product_id, 5)
    flush_whole(site)
    count(site, product_id, 6)
    kill(web)

    blocker = psycopg2.connect(site.postgres.url)
    with blocker.cursor() as cursor:
        cursor.execute("SELECT FROM product_counts WHERE product_id = %s FOR UPDATE", (str(product_id),))
    victim = flush(site)
    site.wait_until(
        lambda: site.query("SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"), victim
    )
    kill(victim)
    blocker.close()
    assert views(site.database, site, product_id) == 5

    flush_whole(site)
    flush_whole(site)
    assert views(site.database, site, product_id) == 11


def test_counting_continues_without_the_cache(site: ServiceProcesses, product_id: UUID) -> None:
    site.web()
    count(site, product_id, 3)
    flush_whole(site)
    site.valkey.stop()

    count(site, product_id, 4)

    assert views(site.database, site, product_id) == 7
    site.restart_servers()
    flush_whole(site)
    assert views(site.database, site, product_id) == 7
