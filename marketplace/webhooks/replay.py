"""Replaying events that failed for good, and rehearsing that first."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NoReturn
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from marketplace.audit.operations import OPERATOR
from marketplace.infra.db import Database, Statement
from marketplace.payments.charges import UnknownReferenceError
from marketplace.providers.gateway import MalformedChargeError
from marketplace.webhooks import operations, queries
from marketplace.webhooks.events import HopelessEventError, NotYetError, parse

_ORDERS = Statement(
    text(
        """
        SELECT o.number, o.status, o.payment_status, s.status AS escrow
        FROM payment_intents i
        JOIN payment_allocations a ON a.intent_id = i.id
        JOIN orders o ON o.id = a.order_id
        JOIN escrows s ON s.order_id = o.id
        WHERE i.reference = :reference ORDER BY o.id
        """
    )
)
_SHOW_FAULTS_NOW = Statement(text("SET CONSTRAINTS ALL IMMEDIATE"))


@dataclass(frozen=True)
class Replay:
    """What a replay did, or would do: the event's status before and after, and what changes in which order."""

    before: str
    after: str
    changes: list[str] = field(default_factory=list)
    error: str | None = None


class _RehearsedError(Exception):
    """Ends a rehearsal's transaction, so that it is rolled back."""

    def __init__(self, result: Replay) -> None:
        super().__init__()
        self.result = result


def rehearse(database: Database, *, inbox_id: UUID, fee_bearer: str, now: datetime) -> Replay:
    """This function will replay an event and roll all of it back, to show what a replay would do.

    :param fee_bearer: ``platform`` or ``customer``
    :raises NotFoundError: there is no event of that id
    """
    try:
        database.in_transaction(_rehearse, inbox_id=inbox_id, fee_bearer=fee_bearer, now=now)
    except _RehearsedError as end:
        return end.result


def _rehearse(session: Session, *, inbox_id: UUID, fee_bearer: str, now: datetime) -> NoReturn:
    raise _RehearsedError(_attempt(session, inbox_id=inbox_id, fee_bearer=fee_bearer, now=now))


def _attempt(session: Session, *, inbox_id: UUID, fee_bearer: str, now: datetime) -> Replay:
    row = queries.show_event(session, inbox_id=inbox_id)
    before: str = row["status"]
    if not operations.revive(session, inbox_id=inbox_id, actor=OPERATOR, now=now):
        return Replay(before, before)
    orders_before = _orders_of(session, row["body"])
    try:
        result = operations.process_row(session, inbox_id=inbox_id, fee_bearer=fee_bearer, now=now)
        _SHOW_FAULTS_NOW.run(session)
    except (HopelessEventError, MalformedChargeError, UnknownReferenceError, NotYetError) as error:
        return Replay(before, "dead", error=str(error))
    changes = _changes(orders_before, _orders_of(session, row["body"]))
    return Replay(before, result.status if result else before, changes)


def replay(
    database: Database, *, inbox_id: UUID, fee_bearer: str, now: datetime, random: Callable[[], float]
) -> Replay:
    """This function will replay an event that failed for good; any other stays as it is.

    :param fee_bearer: ``platform`` or ``customer``
    :param random: gives numbers from 0 to 1, for the jitter of retries, should it fail again
    :raises NotFoundError: there is no event of that id
    """
    with database.reading() as session:
        row = queries.show_event(session, inbox_id=inbox_id)
        orders_before = _orders_of(session, row["body"])
    before: str = row["status"]
    if not database.in_transaction(operations.revive, inbox_id=inbox_id, actor=OPERATOR, now=now):
        return Replay(before, before)
    # A worker may be faster than this: what counts is what became of the event.
    operations.process(database, inbox_id=inbox_id, fee_bearer=fee_bearer, now=now, random=random)
    with database.reading() as session:
        after = queries.show_event(session, inbox_id=inbox_id)
        changes = _changes(orders_before, _orders_of(session, row["body"]))
    return Replay(before, after["status"], changes, after["last_error"])


def _orders_of(session: Session, body: bytes) -> dict[str, dict[str, Any]]:
    """Give the orders that an event is about, by number."""
    try:
        reference = parse(body).data.get("reference")
    except HopelessEventError:
        return {}
    if not isinstance(reference, str):
        return {}
    return {row.pop("number"): row for row in _ORDERS.all(session, reference=reference)}


def _changes(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> list[str]:
    names = {"status": "order", "payment_status": "payment", "escrow": "escrow"}
    return [
        f"{number}: {names[column]} {old[column]} -> {after[number][column]}"
        for number, old in before.items()
        for column in names
        if number in after and old[column] != after[number][column]
    ]
