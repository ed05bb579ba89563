"""Fixtures of the tests over HTTP."""

import pytest

from marketplace.infra.db import Database
from tests.support.market import Market, Store


@pytest.fixture
def market(database: Database) -> Market:
    """A market of its own for each test."""
    return Market(database)


@pytest.fixture
def store(market: Market) -> Store:
    """A store of that market."""
    return market.store()
