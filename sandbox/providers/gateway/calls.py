"""Counters of calls per reference and operation, so that tests can check that nothing is sent twice."""

import sqlite3
from datetime import datetime

from sandbox.providers.gateway.answers import timestamp
from sandbox.providers.gateway.context import Gateway

MAXIMUM_REFERENCE_LENGTH = 255


def record(gateway: Gateway, operation: str, *references: str) -> None:
    """Count a call before validation, so that refused calls count too.

    :param operation: such as ``POST /transfer``
    :param references: as sent by the client
    """
    now = gateway.clock()
    with gateway.store.transaction() as connection:
        for reference in references:
            _count(connection, operation, reference[:MAXIMUM_REFERENCE_LENGTH], now)


def _count(connection: sqlite3.Connection, operation: str, reference: str, now: datetime) -> None:
    connection.execute(
        "INSERT INTO calls (reference, operation, count, last_at) VALUES (?, ?, 1, ?)"
        " ON CONFLICT (reference, operation) DO UPDATE SET count = count + 1, last_at = excluded.last_at",
        (reference, operation, timestamp(now)),
    )


def counted(connection: sqlite3.Connection, reference: str) -> dict[str, object]:
    """Return the number of calls with a reference, in total and per operation."""
    rows = connection.execute(
        "SELECT operation, count, last_at FROM calls WHERE reference = ? ORDER BY operation", (reference,)
    ).fetchall()
    return {
        "reference": reference,
        "total": sum(row["count"] for row in rows),
        "operations": {row["operation"]: row["count"] for row in rows},
        "lastAt": max((row["last_at"] for row in rows), default=None),
    }
