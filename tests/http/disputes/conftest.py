"""Fixtures of tests of disputes."""

import pytest

from tests.support.dispute_parties import Parties
from tests.support.shop_client import ShopClient


@pytest.fixture
def parties(shop_client: ShopClient) -> Parties:
    return Parties(shop_client)
