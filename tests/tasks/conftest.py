"""Fixtures of the tasks' tests."""

from collections.abc import Iterator

import pytest
from redis import Redis

from marketplace.services import Services
from tasks.dispatcher import Relay
from tests.support.gateway import clock, gateway, paying_services

__all__ = ["clock", "gateway", "paying_services"]


@pytest.fixture
def relay(paying_services: Services) -> Iterator[Relay]:
    """The queues, empty before and after."""
    made = Relay(paying_services)
    with Redis.from_url(paying_services.settings.redis_url) as server:
        for queue in made.queues.values():
            queue.flush()
        yield made
        for queue in made.queues.values():
            queue.flush()
            queue.storage.pool.disconnect()
        assert server.ping()
