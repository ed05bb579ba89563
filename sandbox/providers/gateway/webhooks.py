"""Webhook deliveries: stored in a table, signed, and sent until the receiver answers 200."""

import hashlib
import hmac
import json
import sqlite3
import time
from datetime import datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from sandbox.providers.gateway.answers import timestamp
from sandbox.providers.gateway.context import Gateway

# The real gateway's schedule: every 3 minutes for the first 4 attempts, then hourly for 72 hours.
QUICK_TRIES = 4
QUICK_INTERVAL_SECONDS = 180.0
SLOW_INTERVAL_SECONDS = 3_600.0
SLOW_TRIES = 72
MAXIMUM_TRIES = QUICK_TRIES + SLOW_TRIES
# Finished deliveries are kept for inspection, up to this number.
KEPT_DELIVERIES = 10_000
MAXIMUM_ERROR_LENGTH = 200


def enqueue(
    connection: sqlite3.Connection,
    *,
    event: str,
    reference: str,
    data: dict[str, Any],
    now: datetime,
    delay_seconds: float = 0.0,
    copies: int = 1,
) -> None:
    """Enqueue an event in the transaction of the change that it reports.

    :param reference: the transaction's or transfer's reference, used to look up deliveries
    :param data: the event's object
    :param delay_seconds: delay of the first attempt
    :param copies: number of deliveries, each with its own attempts
    """
    body = json.dumps({"event": event, "data": data}, ensure_ascii=False, separators=(",", ":"))
    row = (event, reference, body, now.timestamp() + delay_seconds, timestamp(now))
    connection.executemany(
        "INSERT INTO deliveries (event, reference, body, status, due_at, created_at)"
        " VALUES (?, ?, ?, 'waiting', ?, ?)",
        [row] * copies,
    )


def signature(body: bytes, secret_key: str) -> str:
    """Sign a body: HMAC-SHA512 with the secret key in lower-case hex."""
    return hmac.new(secret_key.encode(), body, hashlib.sha512).hexdigest()


def wait_before_next_try(tries: int, *, scale: float) -> float | None:
    """Calculate the delay after a failed attempt.

    :param tries: number of attempts so far
    :param scale: share of the real gateway's delays
    :return: seconds, or None after the last attempt
    """
    if tries >= MAXIMUM_TRIES:
        return None
    return scale * (QUICK_INTERVAL_SECONDS if tries < QUICK_TRIES else SLOW_INTERVAL_SECONDS)


def send(gateway: Gateway, delivery: sqlite3.Row) -> None:
    """Attempt a delivery once and record the result.

    The result is recorded after the response. A kill in between therefore repeats the delivery, as the real
    gateway does (at least once).
    """
    body = str(delivery["body"]).encode()
    sent_at = gateway.clock()
    started = time.monotonic()
    answer, error = _post(gateway, body)
    duration = round((time.monotonic() - started) * 1_000)
    tries = delivery["attempts"] + 1
    now = gateway.clock()
    wait = wait_before_next_try(tries, scale=gateway.settings.retry_scale)
    if answer == 200:
        status, due_at = "delivered", now.timestamp()
    elif wait is None:
        status, due_at = "given_up", now.timestamp()
    else:
        status, due_at = "waiting", now.timestamp() + wait
    with gateway.store.transaction() as connection:
        connection.execute(
            "INSERT INTO delivery_attempts VALUES (?, ?, ?, ?, ?, ?)",
            (delivery["id"], tries, timestamp(sent_at), answer, error, duration),
        )
        connection.execute(
            "UPDATE deliveries SET status = ?, attempts = ?, due_at = ? WHERE id = ?",
            (status, tries, due_at, delivery["id"]),
        )


def _post(gateway: Gateway, body: bytes) -> tuple[int | None, str | None]:
    """Return the response's status, or an error description."""
    settings = gateway.settings
    headers = {
        "Content-Type": "application/json",
        f"x-{settings.name}-signature": signature(body, settings.secret_key),
        "User-Agent": "sandbox-gateway/1",
    }
    address = urlsplit(settings.webhook_url)
    connect = HTTPSConnection if address.scheme == "https" else HTTPConnection
    connection = connect(address.netloc, timeout=settings.webhook_timeout_seconds)
    try:
        connection.request("POST", address.path or "/", body=body, headers=headers)
        # Only the status matters. The body, which may be endless, is not read.
        return connection.getresponse().status, None
    except (OSError, HTTPException) as error:
        return None, f"{type(error).__name__}: {error}"[:MAXIMUM_ERROR_LENGTH]
    finally:
        connection.close()


def due(connection: sqlite3.Connection, *, now: datetime, limit: int) -> list[sqlite3.Row]:
    """Fetch due deliveries, longest overdue first.

    :param limit: maximum number, including deliveries in progress, which the caller skips
    """
    return connection.execute(
        "SELECT * FROM deliveries WHERE status = 'waiting' AND due_at <= ? ORDER BY due_at, id LIMIT ?",
        (now.timestamp(), limit),
    ).fetchall()


def next_due_at(connection: sqlite3.Connection, *, after: datetime) -> float | None:
    """Return the due time of the next delivery after a given time in epoch seconds, or None."""
    row = connection.execute(
        "SELECT min(due_at) FROM deliveries WHERE status = 'waiting' AND due_at > ?", (after.timestamp(),)
    ).fetchone()
    return None if row[0] is None else float(row[0])


def forget_old(connection: sqlite3.Connection) -> None:
    """Delete finished deliveries except the latest ones."""
    connection.execute(
        "DELETE FROM deliveries WHERE status <> 'waiting' AND id NOT IN"
        " (SELECT id FROM deliveries WHERE status <> 'waiting' ORDER BY id DESC LIMIT ?)",
        (KEPT_DELIVERIES,),
    )


def deliveries_of(
    connection: sqlite3.Connection, *, reference: str | None, limit: int
) -> list[dict[str, Any]]:
    """List deliveries with all attempts, newest first.

    :param reference: of a transaction or transfer; None means all
    """
    rows = connection.execute(
        "SELECT * FROM deliveries WHERE ? IS NULL OR reference = ? ORDER BY id DESC LIMIT ?",
        (reference, reference, limit),
    ).fetchall()
    return [
        {
            "id": row["id"],
            "event": row["event"],
            "reference": row["reference"],
            "status": row["status"],
            "attempts": row["attempts"],
            "dueAt": row["due_at"],
            "createdAt": row["created_at"],
            "answers": [
                {
                    "attempt": attempt["attempt"],
                    "sentAt": attempt["sent_at"],
                    "status": attempt["answer"],
                    "error": attempt["error"],
                    "durationMilliseconds": attempt["duration_milliseconds"],
                }
                for attempt in connection.execute(
                    "SELECT * FROM delivery_attempts WHERE delivery_id = ? ORDER BY attempt", (row["id"],)
                )
            ],
        }
        for row in rows
    ]
