"""Fixtures for concurrent tests, which commit from many threads to a separate database."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from flask import Flask

from blueprints.areas import AREAS
from blueprints.http.application import build_app
from marketplace.infra.db import Database
from marketplace.infra.settings import Settings
from marketplace.services import Services
from tests.support.gateway import TestGateway, gateway

__all__ = ["gateway"]


@pytest.fixture(scope="session")
def crowded_app(
    settings: Settings, committed_database: Database, gateway_server: TestGateway
) -> Iterator[Flask]:
    """The application on the committed database, with connections for many threads."""
    url = committed_database.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    services = Services.from_settings(
        replace(settings, database_url=url, database_pool_size=20, **gateway_server.settings()),
        application_name="tests",
    )
    yield build_app(services, AREAS)
    services.database.close()


@pytest.fixture
def database(committed_database: Database) -> Database:
    """The database to which all concurrent tests commit."""
    return committed_database
