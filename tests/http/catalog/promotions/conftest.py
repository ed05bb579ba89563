"""Fixtures for promotion tests: a market, officers and a movable clock."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from flask import Flask

from blueprints.areas import AREAS
from marketplace.infra.settings import Settings
from marketplace.services import Services
from tests.support.checked_client import checked_app
from tests.support.gateway import MovableClock
from tests.support.market import Bearer, Market
from tests.support.promotions import Stage


@pytest.fixture(scope="session")
def timed_services(settings: Settings) -> Iterator[Services]:
    """Shared application services with a movable clock."""
    made = Services.from_settings(settings, application_name="tests")
    yield replace(made, clock=MovableClock())
    made.database.close()


@pytest.fixture(scope="session")
def timed_app(timed_services: Services) -> Flask:
    """The application with the movable clock. Test clients check each response."""
    return checked_app(timed_services, AREAS)


@pytest.fixture
def stage(timed_services: Services, timed_app: Flask, bearer: Bearer) -> Stage:
    """A separate market for each test, with the clock reset to the initial time."""
    clock = timed_services.clock
    assert isinstance(clock, MovableClock)
    clock.__init__()  # type: ignore[misc]
    market = Market(timed_services.database, now=clock.now)
    return Stage(market, timed_app, clock, bearer)
