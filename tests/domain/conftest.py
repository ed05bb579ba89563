"""Fixtures of the domain tests."""

import pytest
from sqlalchemy.orm import Session

from marketplace.identity.queries import Caller
from tests.support.finance import make_officer
from tests.support.gateway import gateway
from tests.support.purchases import Shop, make_shop

__all__ = ["gateway"]


@pytest.fixture
def shop(session: Session) -> Shop:
    """A shop with a vendor and a buyer."""
    return make_shop(session)


@pytest.fixture
def officer(session: Session) -> Caller:
    """An officer of finance."""
    return make_officer(session)
