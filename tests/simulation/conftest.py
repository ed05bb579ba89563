"""Fixtures of the simulated lives."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.simulation.crashing_database import MortalDatabase
from tests.support.servers import Addresses, create_database, drop_database


@pytest.fixture(scope="module")
def mortal_database(addresses: Addresses, worker_number: int) -> Iterator[MortalDatabase]:
    """A database of the lives' own: each check reads all of it."""
    name = f"lives_{worker_number}_{uuid4().hex[:8]}"
    database = MortalDatabase(create_database(addresses, name), pool_size=3, application_name="tests")
    yield database
    database.close()
    drop_database(addresses, name)
