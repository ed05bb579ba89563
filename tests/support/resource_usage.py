"""Resource usage of requests: statements counted at the database driver, and memory."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg2.extensions
from sqlalchemy import event

from marketplace.infra.db import Database


@contextmanager
def counted_statements(database: Database) -> Iterator[list[str]]:
    """Collect the statements that run on the database's connections within the block."""
    seen: list[str] = []

    class Counting(psycopg2.extensions.cursor):
        def execute(self, query: Any, vars: Any = None) -> None:  # noqa: A002 - the driver's name
            # Each connection prepares a statement once, and a request gets a random connection.
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


@dataclass
class Peak:
    """The peak of memory that Python objects use."""

    mebibytes: float = 0.0


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measure the peak of additional memory of Python objects until the block ends."""
    peak = Peak()
    tracemalloc.start()
    try:
        yield peak
        peak.mebibytes = tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()
