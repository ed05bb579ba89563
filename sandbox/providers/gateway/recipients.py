"""Transfer recipients: bank accounts that receive transfers."""

import sqlite3
from collections.abc import Mapping
from datetime import datetime

from flask import Blueprint, Response, request

from sandbox.providers import fields
from sandbox.providers.gateway import request_bodies
from sandbox.providers.gateway.answers import GatewayFailure, random_code, success, timestamp
from sandbox.providers.gateway.banks import account_holder, bank_name
from sandbox.providers.gateway.bodies import recipient_body, stored_json
from sandbox.providers.gateway.charges import CURRENCIES
from sandbox.providers.gateway.context import current_gateway
from sandbox.providers.gateway.listing import Page

routes = Blueprint("recipients", __name__)

MAXIMUM_BATCH = 100
# A condition on the table of recipients: its code or id is ``:recipient``.
IS_NAMED = "(recipient_code = :recipient OR cast(id AS TEXT) = :recipient)"


@routes.post("/transferrecipient")
def create_recipient() -> Response:
    """Create a transfer recipient for a bank account. The same account always has the same recipient.

    :return: the recipient, with status 201 if the recipient is new
    """
    gateway = current_gateway()
    body = request_bodies.read(request)
    with gateway.store.transaction() as connection:
        row, is_new = _create(connection, body, now=gateway.clock())
    return success(
        "Transfer recipient created successfully", recipient_body(row), status=201 if is_new else 200
    )


@routes.post("/transferrecipient/bulk")
def create_recipients() -> Response:
    """Create several transfer recipients. Invalid items are reported and do not affect the others."""
    gateway = current_gateway()
    items = request_bodies.read(request).get("batch")
    if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
        raise fields.InvalidFieldError("batch", "batch must be a list of recipients")
    if len(items) > MAXIMUM_BATCH:
        raise fields.InvalidFieldError("batch", f"batch must have at most {MAXIMUM_BATCH} items")
    created, errors = [], []
    with gateway.store.transaction() as connection:
        for item in items:
            try:
                row, _ = _create(connection, item, now=gateway.clock())
                created.append(recipient_body(row))
            except (fields.InvalidFieldError, GatewayFailure) as error:
                errors.append({"message": str(error), "payload": item})
    return success("Recipients added successfully", {"success": created, "errors": errors})


@routes.get("/transferrecipient")
def list_recipients() -> Response:
    """List transfer recipients, newest first."""
    page = Page(request.args)
    query = "SELECT * FROM recipients WHERE created_at BETWEEN :since AND :until"
    with current_gateway().store.transaction() as connection:
        rows, meta = page.rows(connection, query=query, parameters={})
    return success("Transfer recipients retrieved", [recipient_body(row) for row in rows], meta=meta)


@routes.get("/transferrecipient/<id_or_code>")
def fetch_recipient(id_or_code: str) -> Response:
    """Return a transfer recipient by id or code."""
    with current_gateway().store.transaction() as connection:
        row = _required(connection, id_or_code)
    return success("Recipient retrieved", recipient_body(row))


@routes.put("/transferrecipient/<id_or_code>")
def update_recipient(id_or_code: str) -> Response:
    """Update a transfer recipient's name and e-mail address."""
    body = request_bodies.read(request)
    values = {
        "recipient": id_or_code,
        "name": fields.optional_text(body, "name"),
        "email": fields.optional_text(body, "email"),
    }
    with current_gateway().store.transaction() as connection:
        _required(connection, id_or_code)
        row = connection.execute(
            "UPDATE recipients SET name = coalesce(:name, name), email = coalesce(:email, email)"
            f" WHERE {IS_NAMED} RETURNING *",
            values,
        ).fetchone()
    return success("Recipient updated", recipient_body(row))


def recipient_by_id(connection: sqlite3.Connection, recipient_id: int) -> sqlite3.Row:
    """Fetch an existing recipient."""
    row: sqlite3.Row = connection.execute("SELECT * FROM recipients WHERE id = ?", (recipient_id,)).fetchone()
    return row


def _required(connection: sqlite3.Connection, id_or_code: str) -> sqlite3.Row:
    row: sqlite3.Row | None = connection.execute(
        f"SELECT * FROM recipients WHERE {IS_NAMED}", {"recipient": id_or_code}
    ).fetchone()
    if row is None:
        raise GatewayFailure(404, "Transfer recipient not found", code="transfer_recipient_not_found")
    return row


def _create(
    connection: sqlite3.Connection, body: Mapping[str, object], *, now: datetime
) -> tuple[sqlite3.Row, bool]:
    """Create the recipient of a bank account, or update its name. Also return whether the recipient is new."""
    fields.choice(body, "type", allowed=("nuban",))
    account_number = fields.text(body, "account_number", maximum=20)
    bank_code = fields.text(body, "bank_code", maximum=20)
    values = {
        "code": random_code("RCP_"),
        "name": fields.text(body, "name"),
        "email": fields.optional_text(body, "email"),
        "description": fields.optional_text(body, "description"),
        "metadata": stored_json(request_bodies.structured(body.get("metadata"))),
        "currency": fields.choice(body, "currency", allowed=CURRENCIES, default="NGN"),
        "account_number": account_number,
        "account_name": account_holder(account_number, bank_code),
        "bank_code": bank_code,
        "bank_name": bank_name(bank_code),
        "now": timestamp(now),
    }
    row: sqlite3.Row = connection.execute(
        "INSERT INTO recipients (recipient_code, name, email, description, metadata, currency,"
        " account_number, account_name, bank_code, bank_name, created_at) VALUES (:code, :name, :email,"
        " :description, :metadata, :currency, :account_number, :account_name, :bank_code, :bank_name,"
        " :now)"
        " ON CONFLICT (account_number, bank_code) DO UPDATE SET name = excluded.name RETURNING *",
        values,
    ).fetchone()
    return row, row["recipient_code"] == values["code"]
