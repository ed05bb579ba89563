"""Fixtures of the tasks' tests."""

from collections.abc import Iterator

import pytest
from redis import Redis

from marketplace.services import Services
from tasks.dispatcher import Dispatcher
from tests.support.gateway import clock, gateway, paying_services

__all__ = ["clock", "gateway", "paying_services"]


@pytest.fixture(autouse=True)
def no_rows(request: pytest.FixtureRequest) -> None:
    """Begin each test with empty tables: sweeps and workers would process rows of other tests."""
    if "database_url" in request.fixturenames:
        request.getfixturevalue("empty_database")()


@pytest.fixture
def relay(paying_services: Services) -> Iterator[Dispatcher]:
    """A dispatcher whose queues are empty before and after the test."""
    made = Dispatcher(paying_services)
    with Redis.from_url(paying_services.settings.redis_url) as server:
        for queue in made.queues.values():
            queue.flush()
        yield made
        for queue in made.queues.values():
            queue.flush()
            queue.storage.pool.disconnect()
        assert server.ping()
