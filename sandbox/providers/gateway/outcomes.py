"""Planned outcomes of the next transfers and refunds."""

import sqlite3
from dataclasses import dataclass
from typing import Literal

Operation = Literal["transfer", "refund"]
TRANSFER_OUTCOMES = ("success", "failed", "reversed", "timeout")
REFUND_OUTCOMES = ("success", "failed", "reversed", "timeout", "needs-attention")


@dataclass(frozen=True, kw_only=True)
class NextOutcome:
    """The planned outcome of a transfer or refund.

    :param result: the final status; a ``timeout`` takes effect and therefore ends in success
    :param hangs: the call stays unanswered beyond a client's time-out
    :param delay_seconds: delay of the result
    """

    result: str
    hangs: bool
    delay_seconds: float


def plan(
    connection: sqlite3.Connection,
    operation: Operation,
    *,
    outcome: str,
    count: int,
    delay_seconds: float | None,
) -> None:
    """Plan an outcome for the next ``count`` operations, after the outcomes planned earlier."""
    connection.execute(
        "INSERT INTO next_outcomes (operation, outcome, remaining, delay_seconds) VALUES (?, ?, ?, ?)",
        (operation, outcome, count, delay_seconds),
    )


def forget(connection: sqlite3.Connection, operation: Operation) -> None:
    """Drop unused planned outcomes, so that the next operations succeed."""
    connection.execute("DELETE FROM next_outcomes WHERE operation = ?", (operation,))


def planned(connection: sqlite3.Connection, operation: Operation) -> list[dict[str, object]]:
    """List the planned outcomes in the order of use."""
    rows = connection.execute(
        "SELECT * FROM next_outcomes WHERE operation = ? ORDER BY id", (operation,)
    ).fetchall()
    return [
        {"outcome": row["outcome"], "count": row["remaining"], "delaySeconds": row["delay_seconds"]}
        for row in rows
    ]


def take(connection: sqlite3.Connection, operation: Operation, *, settle_seconds: float) -> NextOutcome:
    """Take the next planned outcome, success by default.

    :param settle_seconds: delay of the result if the plan sets none
    """
    row = connection.execute(
        "SELECT * FROM next_outcomes WHERE operation = ? ORDER BY id LIMIT 1", (operation,)
    ).fetchone()
    if row is None:
        return NextOutcome(result="success", hangs=False, delay_seconds=settle_seconds)
    if row["remaining"] == 1:
        connection.execute("DELETE FROM next_outcomes WHERE id = ?", (row["id"],))
    else:
        connection.execute("UPDATE next_outcomes SET remaining = remaining - 1 WHERE id = ?", (row["id"],))
    hangs = row["outcome"] == "timeout"
    delay = row["delay_seconds"]
    return NextOutcome(
        result="success" if hangs else row["outcome"],
        hangs=hangs,
        delay_seconds=settle_seconds if delay is None else delay,
    )
