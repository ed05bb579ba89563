"""Transfers from the balance to bank accounts."""

import re
import sqlite3
from collections.abc import Mapping
from datetime import datetime

from flask import Blueprint, Response, request

from sandbox.providers import fields
from sandbox.providers.gateway import balance, calls, outcomes, recipients, request_bodies, webhooks
from sandbox.providers.gateway.answers import GatewayFailure, random_code, success, timestamp
from sandbox.providers.gateway.bodies import (
    initiated_transfer_body,
    queued_transfer_body,
    transfer_body,
)
from sandbox.providers.gateway.charges import CURRENCIES, MAXIMUM_AMOUNT_MINOR
from sandbox.providers.gateway.context import Gateway, current_gateway
from sandbox.providers.gateway.listing import Page, chosen, number

routes = Blueprint("transfers", __name__)

MAXIMUM_BULK_TRANSFERS = 100
# Results per transaction, so that a long queue does not block calls.
MAXIMUM_FINISHED_AT_ONCE = 200
_REFERENCE = re.compile(r"[a-z0-9_-]{16,50}")
STATUSES = ("pending", "success", "failed", "reversed")


@routes.post("/transfer")
def initiate() -> Response:
    """Create a transfer. A repeated reference returns the existing transfer."""
    gateway = current_gateway()
    body = request_bodies.read(request)
    reference = _reference_of(body)
    calls.record(gateway, "POST /transfer", reference)
    fields.choice(body, "source", allowed=("balance",))
    now = gateway.clock()
    with gateway.store.transaction() as connection:
        recipient = _recipient_of(connection, body)
        amount = _amount_of(body)
        row = _find(connection, reference)
        hangs = False
        if row is None:
            currency = fields.choice(body, "currency", allowed=CURRENCIES, default="NGN")
            balance.require(connection, currency=currency, amount=amount)
            row, hangs = _create(gateway, connection, body, reference=reference, recipient=recipient, now=now)
        elif (row["amount"], row["recipient_id"]) != (amount, recipient["id"]):
            raise GatewayFailure(
                400,
                "The reference is in use by a transfer with another amount or recipient",
                code="duplicate_transfer_reference",
                next_step="Use a unique reference for each transfer",
            )
    gateway.wake()
    if hangs:
        gateway.stopping.wait(gateway.settings.hang_seconds)
    return success("Transfer has been queued", initiated_transfer_body(row))


@routes.post("/transfer/bulk")
def initiate_bulk() -> Response:
    """Create up to 100 transfers, all or none."""
    gateway = current_gateway()
    body = request_bodies.read(request)
    fields.choice(body, "source", allowed=("balance",), default="balance")
    items = body.get("transfers")
    if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
        raise fields.InvalidFieldError("transfers", "transfers must be a list of transfers")
    if len(items) > MAXIMUM_BULK_TRANSFERS:
        raise fields.InvalidFieldError(
            "transfers", f"transfers must have at most {MAXIMUM_BULK_TRANSFERS} items"
        )
    common = {"currency": fields.choice(body, "currency", allowed=CURRENCIES, default="NGN")}
    references = [_reference_of(item) for item in items]
    calls.record(gateway, "POST /transfer/bulk", *references)
    now = gateway.clock()
    data = []
    hang = False
    with gateway.store.transaction() as connection:
        _refuse_duplicates(connection, references)
        total = sum(_amount_of(item) for item in items)
        balance.require(connection, currency=common["currency"], amount=total)
        for item, reference in zip(items, references, strict=True):
            recipient = _recipient_of(connection, item)
            row, hangs = _create(
                gateway, connection, {**item, **common}, reference=reference, recipient=recipient, now=now
            )
            data.append(queued_transfer_body(row, recipient))
            hang = hang or hangs
    gateway.wake()
    if hang:
        gateway.stopping.wait(gateway.settings.hang_seconds)
    return success(f"{len(data)} transfers queued.", data)


@routes.get("/transfer/verify/<reference>")
def verify(reference: str) -> Response:
    """Return the status of a transfer."""
    gateway = current_gateway()
    calls.record(gateway, "GET /transfer/verify", reference)
    with gateway.store.transaction() as connection:
        row = _find(connection, reference)
        if row is None:
            raise GatewayFailure(404, "Transfer not found", code="transfer_not_found")
        data = transfer_body(row, recipients.recipient_by_id(connection, row["recipient_id"]))
    return success("Transfer retrieved", data)


@routes.get("/transfer/<id_or_code>")
def fetch(id_or_code: str) -> Response:
    """Return a transfer by id or code."""
    with current_gateway().store.transaction() as connection:
        row = connection.execute(
            "SELECT * FROM transfers WHERE transfer_code = ? OR cast(id AS TEXT) = ?",
            (id_or_code, id_or_code),
        ).fetchone()
        if row is None:
            raise GatewayFailure(404, "Transfer not found", code="transfer_not_found")
        data = transfer_body(row, recipients.recipient_by_id(connection, row["recipient_id"]))
    return success("Transfer retrieved", data)


@routes.get("/transfer")
def list_transfers() -> Response:
    """List transfers, newest first, optionally of a ``status``, ``recipient`` or ``amount``."""
    page = Page(request.args)
    status = chosen(request.args, "status")
    if status is not None:
        fields.choice(request.args, "status", allowed=STATUSES)
    query = (
        "SELECT * FROM transfers WHERE created_at BETWEEN :since AND :until"
        " AND (:status IS NULL OR status = :status) AND (:amount IS NULL OR amount = :amount)"
        f" AND (:recipient IS NULL OR recipient_id IN (SELECT id FROM recipients WHERE {recipients.IS_NAMED}))"
    )
    parameters = {
        "status": status,
        "amount": number(request.args, "amount", maximum=MAXIMUM_AMOUNT_MINOR),
        "recipient": chosen(request.args, "recipient"),
    }
    with current_gateway().store.transaction() as connection:
        rows, meta = page.rows(connection, query=query, parameters=parameters)
        data = [
            transfer_body(row, recipients.recipient_by_id(connection, row["recipient_id"])) for row in rows
        ]
    return success("Transfers retrieved", data, meta=meta)


def finish_due(connection: sqlite3.Connection, *, now: datetime) -> None:
    """Finish due transfers and send the event of each."""
    rows = connection.execute(
        "UPDATE transfers SET status = outcome, updated_at = :now,"
        " transferred_at = CASE outcome WHEN 'success' THEN :now END"
        " WHERE id IN (SELECT id FROM transfers WHERE status = 'pending' AND due_at <= :moment"
        " ORDER BY due_at LIMIT :limit) RETURNING *",
        {"now": timestamp(now), "moment": now.timestamp(), "limit": MAXIMUM_FINISHED_AT_ONCE},
    ).fetchall()
    for row in rows:
        if row["status"] != "success":
            balance.book(
                connection,
                currency=row["currency"],
                difference=row["amount"],
                reason=f"Transfer {row['reference']} {row['status']}",
                model="Transfer",
                row_id=row["id"],
                now=now,
            )
        webhooks.enqueue(
            connection,
            event=f"transfer.{row['status']}",
            reference=row["reference"],
            data=transfer_body(row, recipients.recipient_by_id(connection, row["recipient_id"])),
            now=now,
        )


def next_due_at(connection: sqlite3.Connection) -> float | None:
    """Return the due time of the next pending transfer in epoch seconds, or None."""
    moment = connection.execute("SELECT min(due_at) FROM transfers WHERE status = 'pending'").fetchone()[0]
    return None if moment is None else float(moment)


def _create(
    gateway: Gateway,
    connection: sqlite3.Connection,
    body: Mapping[str, object],
    *,
    reference: str,
    recipient: sqlite3.Row,
    now: datetime,
) -> tuple[sqlite3.Row, bool]:
    """Create a transfer and debit the balance. Also return whether the call hangs."""
    outcome = outcomes.take(connection, "transfer", settle_seconds=gateway.settings.settle_seconds)
    row: sqlite3.Row = connection.execute(
        "INSERT INTO transfers (reference, transfer_code, recipient_id, amount, currency, reason, status,"
        " outcome, due_at, created_at, updated_at) VALUES (:reference, :code, :recipient, :amount, :currency,"
        " :reason, 'pending', :outcome, :due_at, :now, :now) RETURNING *",
        {
            "reference": reference,
            "code": random_code("TRF_", length=16),
            "recipient": recipient["id"],
            "amount": _amount_of(body),
            "currency": body.get("currency") or "NGN",
            "reason": fields.optional_text(body, "reason"),
            "outcome": outcome.result,
            "due_at": now.timestamp() + outcome.delay_seconds,
            "now": timestamp(now),
        },
    ).fetchone()
    balance.book(
        connection,
        currency=row["currency"],
        difference=-row["amount"],
        reason=row["reason"] or f"Transfer {reference}",
        model="Transfer",
        row_id=row["id"],
        now=now,
    )
    return row, outcome.hangs


def _refuse_duplicates(connection: sqlite3.Connection, references: list[str]) -> None:
    known = {reference for reference in references if _find(connection, reference) is not None}
    twice = {reference for reference in references if references.count(reference) > 1}
    if known or twice:
        raise GatewayFailure(
            404,  # the real gateway answers 404 here too
            f"Duplicate reference(s) found: {','.join(sorted(known | twice))}",
            kind="api_error",
            code="unknown",
            next_step="Try again later",
        )


def _find(connection: sqlite3.Connection, reference: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM transfers WHERE reference = ?", (reference,)
    ).fetchone()
    return row


def _recipient_of(connection: sqlite3.Connection, body: Mapping[str, object]) -> sqlite3.Row:
    code = body.get("recipient")
    row: sqlite3.Row | None = None
    if isinstance(code, str):
        row = connection.execute("SELECT * FROM recipients WHERE recipient_code = ?", (code,)).fetchone()
    if row is None:
        raise GatewayFailure(
            400,
            "Recipient specified is invalid",
            code="invalid_transfer_recipient",
            next_step="Provide a valid recipient. Ensure you are passing the recipient code in the recipient"
            " param",
        )
    return row


def _amount_of(body: Mapping[str, object]) -> int:
    return fields.integer(
        body,
        "amount",
        minimum=1,
        maximum=MAXIMUM_AMOUNT_MINOR,
        message="Transfer amount is invalid",
        accepts_text=True,
    )


def _reference_of(body: Mapping[str, object]) -> str:
    chosen = fields.optional_text(
        body,
        "reference",
        maximum=50,
        pattern=_REFERENCE,
        message="Invalid transfer reference: 16 to 50 lower-case letters, digits, - and _ are allowed",
    )
    return chosen or random_code("trf-", length=16)
