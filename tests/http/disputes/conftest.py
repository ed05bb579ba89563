"""Fixtures of tests of disputes."""

from dataclasses import replace

import pytest
from flask import Flask

from blueprints.areas import AREAS
from marketplace.services import Services
from tests.support.checked_client import checked_app
from tests.support.dispute_parties import Parties
from tests.support.object_storage import InMemoryStorage
from tests.support.probes import changed
from tests.support.shop_client import ShopClient


@pytest.fixture
def parties(shop_client: ShopClient) -> Parties:
    return Parties(shop_client)


@pytest.fixture(scope="module")
def storage() -> InMemoryStorage:
    return InMemoryStorage()


@pytest.fixture(scope="module")
def app_with_storage(paying_services: Services, storage: InMemoryStorage) -> Flask:
    return checked_app(changed(paying_services, storage=storage), AREAS)


@pytest.fixture
def senders(shop_client: ShopClient, app_with_storage: Flask, storage: InMemoryStorage) -> Parties:
    """Parties whose files go to the storage of the test."""
    storage.fails = False
    return Parties(replace(shop_client, client=app_with_storage.test_client()))
