"""Fixtures for HTTP tests."""

from collections.abc import Iterator

import pytest
from flask import Flask

from marketplace.infra.db import Database
from marketplace.payments.intents.banks import BANKS_CACHE_TAG
from marketplace.services import Services
from tests.support.gateway import (
    MovableClock,
    TestGateway,
    clock,
    gateway,
    paying_app,
    paying_services,
)
from tests.support.market import Bearer, Market, Store
from tests.support.purchases import NOW, make_shop
from tests.support.shop_client import ShopClient

__all__ = ["clock", "gateway", "paying_app", "paying_services"]


@pytest.fixture
def market(database: Database) -> Market:
    """A fresh market for each test."""
    return Market(database)


@pytest.fixture
def store(market: Market) -> Store:
    """A store of the market."""
    return market.store()


@pytest.fixture
def shop_client(
    paying_app: Flask, database: Database, bearer: Bearer, clock: MovableClock, gateway: TestGateway
) -> ShopClient:
    """A fresh shop for each test, with HTTP clients for buyer, vendor and officers."""
    assert clock.now == NOW
    return ShopClient(database.in_transaction(make_shop), database, paying_app.test_client(), bearer)


@pytest.fixture
def forgotten_banks(paying_services: Services) -> Iterator[None]:
    """Clear the cached list of banks before and after a test."""
    paying_services.cache.drop(BANKS_CACHE_TAG)
    yield
    paying_services.cache.drop(BANKS_CACHE_TAG)
