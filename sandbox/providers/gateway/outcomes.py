"""What the next transfers and refunds will come to, as set by scripts."""

import sqlite3
from dataclasses import dataclass
from typing import Literal

Operation = Literal["transfer", "refund"]
TRANSFER_OUTCOMES = ("success", "failed", "reversed", "timeout")
REFUND_OUTCOMES = ("success", "failed", "reversed", "timeout", "needs-attention")


@dataclass(frozen=True, kw_only=True)
class NextOutcome:
    """How one transfer or refund goes.

    :param result: what it comes to; a ``timeout`` takes effect, so it comes to success
    :param hangs: whether the call stays unanswered beyond a client's time-out
    :param delay_seconds: until the result
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
    """Set what so many next ones come to, after those that were set before."""
    connection.execute(
        "INSERT INTO next_outcomes (operation, outcome, remaining, delay_seconds) VALUES (?, ?, ?, ?)",
        (operation, outcome, count, delay_seconds),
    )


def forget(connection: sqlite3.Connection, operation: Operation) -> None:
    """Drop what was set and not used, so that the next ones succeed."""
    connection.execute("DELETE FROM next_outcomes WHERE operation = ?", (operation,))


def planned(connection: sqlite3.Connection, operation: Operation) -> list[dict[str, object]]:
    """List what is set, in the order in which it will be used."""
    rows = connection.execute(
        "SELECT * FROM next_outcomes WHERE operation = ? ORDER BY id", (operation,)
    ).fetchall()
    return [
        {"outcome": row["outcome"], "count": row["remaining"], "delaySeconds": row["delay_seconds"]}
        for row in rows
    ]


def take(connection: sqlite3.Connection, operation: Operation, *, settle_seconds: float) -> NextOutcome:
    """Use up one of what was set; without any, it is a success.

    :param settle_seconds: until the result where no other delay was set
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
