"""A stage for promotions: a market, its officers, and a clock that can be moved."""

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
    """What the application shares, on a clock that can be moved."""
    made = Services.from_settings(settings, application_name="tests")
    yield replace(made, clock=MovableClock())
    made.database.close()


@pytest.fixture(scope="session")
def timed_app(timed_services: Services) -> Flask:
    """The application on that clock; its clients check each answer."""
    return checked_app(timed_services, AREAS)


@pytest.fixture
def stage(timed_services: Services, timed_app: Flask, bearer: Bearer) -> Stage:
    """A market of its own for each test, at the time that the clock was made for."""
    clock = timed_services.clock
    assert isinstance(clock, MovableClock)
    clock.__init__()  # type: ignore[misc]
    market = Market(timed_services.database, now=clock.now)
    return Stage(market, timed_app, clock, bearer)
