"""Endpoints for charges: initialize, verify, fetch, list, timeline and totals."""

import sqlite3
from typing import Any

from flask import Blueprint, Response, request

from sandbox.providers import fields
from sandbox.providers.gateway import calls, charges, customers, request_bodies
from sandbox.providers.gateway.answers import GatewayFailure, success
from sandbox.providers.gateway.bodies import Body, bank_transfer_body, timeline_body, transaction_body
from sandbox.providers.gateway.context import Gateway, current_gateway
from sandbox.providers.gateway.listing import Page, chosen, number

routes = Blueprint("transactions", __name__)

STATUSES = ("abandoned", "pending", "failed", "success", "reversed")


@routes.post("/transaction/initialize")
def initialize() -> Response:
    """Create a charge and return the URL of its payment page."""
    gateway = current_gateway()
    body = request_bodies.read(request)
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
    return success("Verification successful", _charge_body(gateway, reference))


@routes.get("/transaction/<int(max=9223372036854775807):transaction_id>")
def fetch(transaction_id: int) -> Response:
    """Return a transaction by id."""
    with current_gateway().store.transaction() as connection:
        row = connection.execute("SELECT * FROM transactions WHERE id = ?", (transaction_id,)).fetchone()
        if row is None:
            raise _not_found()
        data = transaction_body(row, customers.customer_by_id(connection, row["customer_id"]))
    return success("Transaction retrieved", data)


@routes.get("/transaction/timeline/<id_or_reference>")
def show_timeline(id_or_reference: str) -> Response:
    """Return the steps of a transaction on the payment page."""
    with current_gateway().store.transaction() as connection:
        row = charges.find_by_id_or_reference(connection, id_or_reference)
        if row is None:
            raise _not_found()
    return success("Timeline retrieved", timeline_body(row))


@routes.get("/transaction/totals")
def show_totals() -> Response:
    """Return the number and volume of paid transactions, and the volume of pending transfers."""
    values = Page(request.args).values({})
    within = "created_at BETWEEN :since AND :until"
    with current_gateway().store.transaction() as connection:
        transactions, customer_count = connection.execute(
            "SELECT count(*), count(DISTINCT customer_id) FROM transactions"
            f" WHERE paid_at IS NOT NULL AND {within}",
            values,
        ).fetchone()
        volumes = _amounts(connection, f"transactions WHERE paid_at IS NOT NULL AND {within}", values)
        pending = _amounts(connection, f"transfers WHERE status = 'pending' AND {within}", values)
    data = {
        "total_transactions": transactions,
        "unique_customers": customer_count,
        "total_volume": sum(one["amount"] for one in volumes),
        "total_volume_by_currency": volumes,
        "pending_transfers": sum(one["amount"] for one in pending),
        "pending_transfers_by_currency": pending,
    }
    return success("Transaction totals", data)


def _amounts(connection: sqlite3.Connection, rows: str, values: dict[str, object]) -> list[dict[str, Any]]:
    """Sum the amounts of rows per currency, always including NGN."""
    sums = {
        "NGN": 0,
        **dict(connection.execute(f"SELECT currency, sum(amount) FROM {rows} GROUP BY 1", values)),
    }
    return [{"currency": currency, "amount": amount} for currency, amount in sums.items()]


@routes.get("/transaction")
def list_transactions() -> Response:
    """List transactions, newest first, optionally of a ``status``, ``customer`` or ``amount``."""
    page = Page(request.args)
    status = chosen(request.args, "status")
    if status is not None:
        fields.choice(request.args, "status", allowed=STATUSES)
    query = (
        "SELECT * FROM transactions WHERE created_at BETWEEN :since AND :until"
        " AND (:status IS NULL OR status = :status) AND (:amount IS NULL OR amount = :amount)"
        f" AND (:customer IS NULL OR customer_id IN (SELECT id FROM customers WHERE {customers.IS_NAMED}))"
    )
    parameters = {
        "status": status,
        "amount": number(request.args, "amount", maximum=charges.MAXIMUM_AMOUNT_MINOR),
        "customer": chosen(request.args, "customer"),
    }
    with current_gateway().store.transaction() as connection:
        rows, meta = page.rows(connection, query=query, parameters=parameters)
        data = [
            transaction_body(row, customers.customer_by_id(connection, row["customer_id"])) for row in rows
        ]
        volume = connection.execute(
            f"SELECT coalesce(sum(amount), 0) FROM ({query}) WHERE paid_at IS NOT NULL",
            page.values(parameters),
        ).fetchone()[0]
    return success("Transactions retrieved", data, meta={**meta, "total_volume": volume})


@routes.post("/charge")
def charge() -> Response:
    """Create a charge that is paid by transfer to a bank account made for it.

    A repeated call with the same reference, amount and currency returns the same account while the charge is
    unpaid.
    """
    gateway = current_gateway()
    body = request_bodies.read(request)
    reference = charges.reference_of(body)
    calls.record(gateway, "POST /charge", reference)
    if not isinstance(body.get("bank_transfer"), dict):
        raise fields.InvalidFieldError("bank_transfer", "The sandbox supports only bank_transfer here")
    now = gateway.clock()
    with gateway.store.transaction() as connection:
        row = charges.find(connection, reference)
        if row is None:
            row = charges.create(connection, body, reference=reference, now=now)
        elif not _goes_on(row, charges.amount_of(body), body.get("currency") or "NGN"):
            raise charges.duplicate_reference()
        row = charges.await_transfer(connection, row, now=now)
    return success("Charge attempted", bank_transfer_body(row))


@routes.get("/charge/<reference>")
def check_charge(reference: str) -> Response:
    """Return the status of a charge that waits for its payment."""
    gateway = current_gateway()
    calls.record(gateway, "GET /charge", reference)
    return success("Reference check successful", _charge_body(gateway, reference))


def _goes_on(row: sqlite3.Row, amount: int, currency: object) -> bool:
    unpaid = row["paid_at"] is None
    return unpaid and (row["requested_amount"], row["currency"]) == (amount, currency)


def _charge_body(gateway: Gateway, reference: str) -> Body:
    with gateway.store.transaction() as connection:
        row = charges.find(connection, reference)
        if row is None:
            raise _not_found()
        return transaction_body(row, customers.customer_by_id(connection, row["customer_id"]))


def _not_found() -> GatewayFailure:
    return GatewayFailure(
        400,
        "Transaction reference not found.",
        code="transaction_not_found",
        next_step="Ensure that you're passing the reference of a transaction that exists on this integration",
    )
