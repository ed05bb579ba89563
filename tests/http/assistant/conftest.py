"""The assistant with the sandbox's language model."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from flask import Flask

from blueprints.areas import AREAS
from marketplace.infra.db import Database
from marketplace.providers.language_model import make_language_model
from marketplace.services import Services
from tests.support.assistant import DAILY_TOKENS, Desk
from tests.support.checked_client import checked_app
from tests.support.gateway import MovableClock
from tests.support.market import Bearer
from tests.support.probes import changed
from tests.support.purchases import NOW


@pytest.fixture(scope="session")
def make_assistant_app(paying_services: Services, gateway_server: Any) -> Callable[..., Flask]:
    """A function that builds the application with settings of the assistant."""

    def build(**settings: Any) -> Flask:
        values = {"assistant_daily_budget": DAILY_TOKENS, "assistant_url": gateway_server.server.ai_url}
        services = changed(paying_services, **values | settings)
        model = make_language_model(services.settings)
        return checked_app(changed(services, language_model=model), AREAS)

    return build


@pytest.fixture(scope="session")
def app(make_assistant_app: Callable[..., Flask]) -> Flask:
    return make_assistant_app()


@pytest.fixture
def make_desk(
    database: Database, bearer: Bearer, clock: MovableClock, gateway_server: Any
) -> Iterator[Callable[[Flask], Desk]]:
    """A function that opens a client of an application."""
    assert clock.now == NOW
    controls = f"{gateway_server.server.ai_url}/sandbox/completions"
    requests.delete(controls, timeout=10)
    yield lambda app: Desk(app.test_client(), database, bearer, controls)
    requests.delete(controls, timeout=10)


@pytest.fixture
def desk(app: Flask, make_desk: Callable[[Flask], Desk]) -> Desk:
    return make_desk(app)
