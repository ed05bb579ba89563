"""Fixtures of the simulation."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.simulation.crashing_database import CrashingDatabase
from tests.support.servers import Addresses, create_database, drop_database


@pytest.fixture(scope="module")
def crashing_database(addresses: Addresses, worker_number: int) -> Iterator[CrashingDatabase]:
    """A separate database for scenarios, because each check reads all rows."""
    name = f"lives_{worker_number}_{uuid4().hex[:8]}"
    database = CrashingDatabase(create_database(addresses, name), pool_size=3, application_name="tests")
    yield database
    database.close()
    drop_database(addresses, name)
