"""Fixtures for search tests."""

from datetime import UTC, datetime

import pytest

from marketplace.catalog.search import index_maintenance
from marketplace.infra.db import Database
from tests.support.search_api import unique_word


@pytest.fixture
def word() -> str:
    """A random word that no other test uses."""
    return unique_word()


def count_words(database: Database) -> None:
    """Refresh the search index as the periodic task does."""
    with database.transaction() as session:
        index_maintenance.refresh_search_index(session, now=datetime.now(UTC))
