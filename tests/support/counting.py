"""Counting what a request asks of the database, at the driver, where prepared statements pass too."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2.extensions
from sqlalchemy import event

from marketplace.infra.db import Database


@contextmanager
def counted_statements(database: Database) -> Iterator[list[str]]:
    """This function will collect the statements that are run on the database's connections meanwhile."""
    seen: list[str] = []

    class Counting(psycopg2.extensions.cursor):
        def execute(self, query: Any, vars: Any = None) -> None:  # noqa: A002 - the driver's name
            # A connection prepares a statement once in its life; which connection a request gets is chance.
            if not str(query).startswith("PREPARE "):
                seen.append(str(query))
            super().execute(query, vars)

    def count(connection: Any, _record: Any, _proxy: Any) -> None:
        connection.cursor_factory = Counting

    def stop(connection: Any, _record: Any) -> None:
        if connection is not None:
            connection.cursor_factory = psycopg2.extensions.cursor

    event.listen(database.engine, "checkout", count)
    event.listen(database.engine, "checkin", stop)
    try:
        yield seen
    finally:
        event.remove(database.engine, "checkout", count)
        event.remove(database.engine, "checkin", stop)
