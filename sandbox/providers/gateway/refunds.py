"""Full and partial refunds of paid charges. The result follows later as an event."""

import sqlite3
from collections.abc import Mapping
from datetime import datetime

from flask import Blueprint, Response, request

from sandbox.providers import fields
from sandbox.providers.gateway import balance, calls, charges, customers, outcomes, request_bodies, webhooks
from sandbox.providers.gateway.answers import GatewayFailure, random_code, success, timestamp
from sandbox.providers.gateway.bodies import created_refund_body, refund_body, refund_event_body
from sandbox.providers.gateway.context import current_gateway
from sandbox.providers.gateway.listing import Page, chosen

routes = Blueprint("refunds", __name__)

MAXIMUM_FINISHED_AT_ONCE = 200
# Refund statuses by outcome. A reversed refund was returned by the bank.
_STATUS_OF_OUTCOME = {
    "success": "processed",
    "failed": "failed",
    "reversed": "failed",
    "needs-attention": "needs-attention",
}


@routes.post("/refund")
def create() -> Response:
    """Create a refund of a charge's remaining amount, or of a part of it."""
    gateway = current_gateway()
    body = request_bodies.read(request)
    named = body.get("transaction")
    if not isinstance(named, str | int) or isinstance(named, bool) or named == "":
        raise fields.InvalidFieldError("transaction", "Transaction reference or id is required")
    now = gateway.clock()
    with gateway.store.transaction() as connection:
        transaction = charges.find_by_id_or_reference(connection, str(named))
    calls.record(gateway, "POST /refund", transaction["reference"] if transaction else str(named))
    with gateway.store.transaction() as connection:
        transaction = charges.find_by_id_or_reference(connection, str(named))
        if transaction is None or transaction["paid_at"] is None:
            raise GatewayFailure(
                404 if transaction is None else 400,
                "Transaction not found" if transaction is None else "Transaction has not been paid",
                code="transaction_not_found" if transaction is None else "invalid_transaction_status",
            )
        amount = _amount_of(body, transaction)
        outcome = outcomes.take(connection, "refund", settle_seconds=gateway.settings.settle_seconds)
        refund = _insert(connection, body, transaction, amount=amount, outcome=outcome, now=now)
        connection.execute(
            "UPDATE transactions SET refunded = refunded + ? WHERE id = ?", (amount, transaction["id"])
        )
        _move(connection, refund, difference=-amount, note="queued", now=now)
        customer = customers.customer_by_id(connection, transaction["customer_id"])
        _announce(connection, refund, now=now)
    gateway.wake()
    if outcome.hangs:
        gateway.stopping.wait(gateway.settings.hang_seconds)
    return success(
        "Refund has been queued for processing", created_refund_body(refund, transaction, customer)
    )


@routes.get("/refund")
def list_refunds() -> Response:
    """List refunds, newest first, optionally of a single ``transaction`` or ``currency``."""
    page = Page(request.args)
    query = (
        "SELECT refunds.* FROM refunds JOIN transactions ON transactions.id = refunds.transaction_id"
        " WHERE refunds.created_at BETWEEN :since AND :until AND (:named IS NULL"
        " OR transactions.reference = :named OR cast(transactions.id AS TEXT) = :named)"
        " AND (:currency IS NULL OR refunds.currency = :currency)"
    )
    parameters = {
        "named": chosen(request.args, "transaction") or chosen(request.args, "reference"),
        "currency": chosen(request.args, "currency"),
    }
    with current_gateway().store.transaction() as connection:
        rows, meta = page.rows(connection, query=query, parameters=parameters)
        data = [refund_body(row, _transaction_by_id(connection, row["transaction_id"])) for row in rows]
    return success("Refunds retrieved", data, meta=meta)


@routes.get("/refund/<int(max=9223372036854775807):refund_id>")
def fetch(refund_id: int) -> Response:
    """Return a refund by id."""
    with current_gateway().store.transaction() as connection:
        row = connection.execute("SELECT * FROM refunds WHERE id = ?", (refund_id,)).fetchone()
        if row is None:
            raise GatewayFailure(404, "Refund not found", code="refund_not_found")
        data = refund_body(row, _transaction_by_id(connection, row["transaction_id"]))
    return success("Refund retrieved", data)


def finish_due(connection: sqlite3.Connection, *, now: datetime) -> None:
    """Finish due refunds and send the event of each."""
    rows = connection.execute(
        "SELECT * FROM refunds WHERE status = 'pending' AND due_at <= ? ORDER BY due_at LIMIT ?",
        (now.timestamp(), MAXIMUM_FINISHED_AT_ONCE),
    ).fetchall()
    for row in rows:
        _finish(connection, row, now=now)


def next_due_at(connection: sqlite3.Connection) -> float | None:
    """Return the due time of the next pending refund in epoch seconds, or None."""
    moment = connection.execute("SELECT min(due_at) FROM refunds WHERE status = 'pending'").fetchone()[0]
    return None if moment is None else float(moment)


def _finish(connection: sqlite3.Connection, refund: sqlite3.Row, *, now: datetime) -> None:
    status = _STATUS_OF_OUTCOME[refund["outcome"]]
    moment = timestamp(now)
    finished = connection.execute(
        "UPDATE refunds SET status = ?, updated_at = ?, refunded_at = ?, reversed_at = ? WHERE id = ?"
        " RETURNING *",
        (
            status,
            moment,
            moment if status == "processed" else None,
            moment if refund["outcome"] == "reversed" else None,
            refund["id"],
        ),
    ).fetchone()
    if status == "failed":
        connection.execute(
            "UPDATE transactions SET refunded = refunded - ? WHERE id = ?",
            (refund["amount"], refund["transaction_id"]),
        )
        _move(connection, refund, difference=refund["amount"], note="failed", now=now)
    elif status == "processed":
        # The real gateway changes the status of a fully refunded charge to reversed.
        connection.execute(
            "UPDATE transactions SET status = 'reversed' WHERE id = :id AND amount ="
            " (SELECT sum(amount) FROM refunds WHERE transaction_id = :id AND status = 'processed')",
            {"id": refund["transaction_id"]},
        )
    _announce(connection, finished, now=now)


def _announce(connection: sqlite3.Connection, refund: sqlite3.Row, *, now: datetime) -> None:
    transaction = _transaction_by_id(connection, refund["transaction_id"])
    customer = customers.customer_by_id(connection, transaction["customer_id"])
    webhooks.enqueue(
        connection,
        event=f"refund.{refund['status']}",
        reference=transaction["reference"],
        data=refund_event_body(refund, transaction, customer),
        now=now,
    )


def _move(
    connection: sqlite3.Connection, refund: sqlite3.Row, *, difference: int, note: str, now: datetime
) -> None:
    """Record a refund's movement. Unlike a transfer, a refund may overdraw the balance: the charge's fee is kept."""
    balance.book(
        connection,
        currency=refund["currency"],
        difference=difference,
        reason=f"Refund {refund['refund_reference']} {note}",
        model="Refund",
        row_id=refund["id"],
        now=now,
    )


def _amount_of(body: Mapping[str, object], transaction: sqlite3.Row) -> int:
    left: int = transaction["amount"] - transaction["refunded"]
    if left == 0:
        raise GatewayFailure(400, "Transaction has been fully reversed", code="transaction_reversed")
    if body.get("currency") not in (None, transaction["currency"]):
        raise fields.InvalidFieldError("currency", "Currency differs from the transaction's currency")
    if body.get("amount") in (None, ""):
        return left
    amount = charges.amount_of(body)
    if amount > left:
        raise GatewayFailure(
            400, "Refund amount cannot be more than transaction amount", code="invalid_refund_amount"
        )
    return amount


def _insert(
    connection: sqlite3.Connection,
    body: Mapping[str, object],
    transaction: sqlite3.Row,
    *,
    amount: int,
    outcome: outcomes.NextOutcome,
    now: datetime,
) -> sqlite3.Row:
    note = f"Refund for transaction {transaction['reference']}"
    row: sqlite3.Row = connection.execute(
        "INSERT INTO refunds (transaction_id, refund_reference, amount, currency, customer_note,"
        " merchant_note, status, outcome, due_at, created_at, updated_at) VALUES (:transaction, :reference,"
        " :amount, :currency, :customer_note, :merchant_note, 'pending', :outcome, :due_at, :now, :now)"
        " RETURNING *",
        {
            "transaction": transaction["id"],
            "reference": random_code("TRF-REFUND-", length=12),
            "amount": amount,
            "currency": transaction["currency"],
            "customer_note": fields.optional_text(body, "customer_note", maximum=500) or note,
            "merchant_note": fields.optional_text(body, "merchant_note", maximum=500) or note,
            "outcome": outcome.result,
            "due_at": now.timestamp() + outcome.delay_seconds,
            "now": timestamp(now),
        },
    ).fetchone()
    return row


def _transaction_by_id(connection: sqlite3.Connection, transaction_id: int) -> sqlite3.Row:
    row: sqlite3.Row = connection.execute(
        "SELECT * FROM transactions WHERE id = ?", (transaction_id,)
    ).fetchone()
    return row
