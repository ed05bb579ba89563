"""Endpoints for charges: initialize, verify, fetch and list."""

import sqlite3

from flask import Blueprint, Response, request

from sandbox.providers import fields
from sandbox.providers.gateway import calls, charges, customers
from sandbox.providers.gateway.answers import GatewayFailure, Page, success
from sandbox.providers.gateway.bodies import bank_transfer_body, transaction_body
from sandbox.providers.gateway.context import current_gateway

routes = Blueprint("transactions", __name__)

STATUSES = ("abandoned", "pending", "failed", "success", "reversed")


@routes.post("/transaction/initialize")
def initialize() -> Response:
    """Create a charge and return the URL of its payment page."""
    gateway = current_gateway()
    body = fields.json_object(request)
    reference = charges.reference_of(body)
    calls.record(gateway, "POST /transaction/initialize", reference)
    with gateway.store.transaction() as connection:
        row = charges.create(connection, body, reference=reference, now=gateway.clock())
    data = {
        "authorization_url": f"{gateway.settings.public_url}/pay/{row['access_code']}",
        "access_code": row["access_code"],
        "reference": row["reference"],
    }
    return success("Authorization URL created", data)


@routes.get("/transaction/verify/<reference>")
def verify(reference: str) -> Response:
    """Return the status of a charge."""
    gateway = current_gateway()
    calls.record(gateway, "GET /transaction/verify", reference)
    with gateway.store.transaction() as connection:
        row = charges.find(connection, reference)
        if row is None:
            raise _not_found()
        data = transaction_body(row, customers.customer_by_id(connection, row["customer_id"]))
    return success("Verification successful", data)


@routes.get("/transaction/<int:transaction_id>")
def fetch(transaction_id: int) -> Response:
    """Return a transaction by id."""
    with current_gateway().store.transaction() as connection:
        row = connection.execute("SELECT * FROM transactions WHERE id = ?", (transaction_id,)).fetchone()
        if row is None:
            raise _not_found()
        data = transaction_body(row, customers.customer_by_id(connection, row["customer_id"]))
    return success("Transaction retrieved", data)


@routes.get("/transaction")
def list_transactions() -> Response:
    """List transactions, newest first, optionally of a single ``status``."""
    page = Page(request.args)
    status = fields.choice(request.args, "status", allowed=STATUSES) if "status" in request.args else None
    query = (
        "SELECT * FROM transactions WHERE created_at BETWEEN :since AND :until"
        " AND (:status IS NULL OR status = :status)"
    )
    with current_gateway().store.transaction() as connection:
        rows, total = page.rows(connection, query=query, parameters={"status": status})
        data = [
            transaction_body(row, customers.customer_by_id(connection, row["customer_id"])) for row in rows
        ]
        volume = connection.execute(
            "SELECT coalesce(sum(amount), 0) FROM transactions WHERE paid_at IS NOT NULL"
        ).fetchone()[0]
    return success("Transactions retrieved", data, meta={**page.meta(total), "total_volume": volume})


@routes.post("/charge")
def charge() -> Response:
    """Create a charge that is paid by transfer to a bank account made for it.

    A repeated call with the same reference, amount and currency returns the same account while the charge is
    unpaid.
    """
    gateway = current_gateway()
    body = fields.json_object(request)
    reference = charges.reference_of(body)
    calls.record(gateway, "POST /charge", reference)
    if not isinstance(body.get("bank_transfer"), dict):
        raise fields.InvalidFieldError("bank_transfer", "The sandbox supports only bank_transfer here")
    now = gateway.clock()
    with gateway.store.transaction() as connection:
        row = charges.find(connection, reference)
        if row is None:
            row = charges.create(connection, body, reference=reference, now=now)
        elif not _goes_on(row, body.get("amount"), body.get("currency", "NGN")):
            raise charges.duplicate_reference()
        row = charges.await_transfer(connection, row, now=now)
    return success("Charge attempted", bank_transfer_body(row))


def _goes_on(row: sqlite3.Row, amount: object, currency: object) -> bool:
    unpaid = row["paid_at"] is None
    return unpaid and (row["requested_amount"], row["currency"]) == (amount, currency)


def _not_found() -> GatewayFailure:
    return GatewayFailure(
        400,
        "Transaction reference not found.",
        code="transaction_not_found",
        next_step="Ensure that you're passing the reference of a transaction that exists on this integration",
    )
