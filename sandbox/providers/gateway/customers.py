"""Customers and dedicated bank accounts."""

import secrets
import sqlite3
from collections.abc import Mapping
from datetime import datetime

from flask import Blueprint, Response, request

from sandbox.providers import fields
from sandbox.providers.gateway import webhooks
from sandbox.providers.gateway.answers import GatewayFailure, random_code, success, timestamp
from sandbox.providers.gateway.bodies import (
    TRANSFER_BANK,
    dedicated_account_body,
    stored_json,
    whole_customer_body,
)
from sandbox.providers.gateway.context import current_gateway

routes = Blueprint("customers", __name__)


def customer_of(
    connection: sqlite3.Connection, email: str, *, now: datetime, details: Mapping[str, object] | None = None
) -> sqlite3.Row:
    """Find the customer with an e-mail address, or create the customer.

    :param details: optional first_name, last_name, phone and metadata, which replace stored values
    :raises InvalidFieldError: a detail is not a text
    """
    given = details or {}
    row: sqlite3.Row = connection.execute(
        "INSERT INTO customers"
        " (email, customer_code, first_name, last_name, phone, metadata, created_at, updated_at)"
        " VALUES (:email, :code, :first_name, :last_name, :phone, :metadata, :now, :now)"
        " ON CONFLICT (email) DO UPDATE SET"
        " first_name = coalesce(excluded.first_name, first_name),"
        " last_name = coalesce(excluded.last_name, last_name), phone = coalesce(excluded.phone, phone),"
        " metadata = coalesce(excluded.metadata, metadata), updated_at = excluded.updated_at"
        " RETURNING *",
        {
            "email": email,
            "code": random_code("CUS_"),
            "first_name": fields.optional_text(given, "first_name"),
            "last_name": fields.optional_text(given, "last_name"),
            "phone": fields.optional_text(given, "phone", maximum=32),
            "metadata": stored_json(given.get("metadata")),
            "now": timestamp(now),
        },
    ).fetchone()
    return row


def customer_by_id(connection: sqlite3.Connection, customer_id: int) -> sqlite3.Row:
    """Fetch an existing customer."""
    row: sqlite3.Row = connection.execute("SELECT * FROM customers WHERE id = ?", (customer_id,)).fetchone()
    return row


def new_account_number() -> str:
    """Generate a virtual account number: the prefix 99 and eight random digits."""
    return f"99{secrets.randbelow(10**8):08d}"


def _dedicated_account(connection: sqlite3.Connection, customer: sqlite3.Row, now: datetime) -> sqlite3.Row:
    """Find a customer's dedicated account, or create it. A customer has at most one."""
    connection.execute(
        "INSERT INTO dedicated_accounts (customer_id, account_number, created_at) VALUES (?, ?, ?)"
        " ON CONFLICT (customer_id) DO NOTHING",
        (customer["id"], new_account_number(), timestamp(now)),
    )
    row: sqlite3.Row = connection.execute(
        "SELECT * FROM dedicated_accounts WHERE customer_id = ?", (customer["id"],)
    ).fetchone()
    return row


@routes.post("/customer")
def create_customer() -> Response:
    """Create a customer, or update the customer with this e-mail address."""
    gateway = current_gateway()
    body = fields.json_object(request)
    email = fields.email(body, "email", message="Email is required")
    with gateway.store.transaction() as connection:
        row = customer_of(connection, email, now=gateway.clock(), details=body)
    return success("Customer created", whole_customer_body(row))


@routes.get("/customer/<email_or_code>")
def fetch_customer(email_or_code: str) -> Response:
    """Return a customer by e-mail address or code."""
    with current_gateway().store.transaction() as connection:
        row = connection.execute(
            "SELECT * FROM customers WHERE email = ? OR customer_code = ?",
            (email_or_code.lower(), email_or_code),
        ).fetchone()
    if row is None:
        raise GatewayFailure(404, "Customer not found", code="customer_not_found")
    return success("Customer retrieved", whole_customer_body(row))


@routes.post("/dedicated_account")
def create_dedicated_account() -> Response:
    """Create a dedicated bank account for a customer."""
    gateway = current_gateway()
    body = fields.json_object(request)
    code = str(body.get("customer", ""))
    with gateway.store.transaction() as connection:
        customer = connection.execute(
            "SELECT * FROM customers WHERE customer_code = ? OR cast(id AS TEXT) = ?", (code, code)
        ).fetchone()
        if customer is None:
            raise GatewayFailure(400, "Customer not found", code="customer_not_found")
        account = _dedicated_account(connection, customer, gateway.clock())
    return success("NUBAN successfully created", dedicated_account_body(account, customer))


@routes.post("/dedicated_account/assign")
def assign_dedicated_account() -> Response:
    """Create a customer with a dedicated account in one call, and report the result by event."""
    gateway = current_gateway()
    body = fields.json_object(request)
    email = fields.email(body, "email", message="Email is required")
    for name in ("first_name", "last_name", "phone"):
        fields.text(body, name)
    now = gateway.clock()
    with gateway.store.transaction() as connection:
        customer = customer_of(connection, email, now=now, details=body)
        account = _dedicated_account(connection, customer, now)
        webhooks.enqueue(
            connection,
            event="dedicatedaccount.assign.success",
            reference=customer["customer_code"],
            data={
                "customer": whole_customer_body(customer),
                "dedicated_account": dedicated_account_body(account, customer),
                "identification": {"status": "success"},
            },
            now=now,
        )
    gateway.wake()
    return success("Assign dedicated account in progress", None)


@routes.get("/dedicated_account/available_providers")
def list_account_providers() -> Response:
    """List the banks that offer dedicated accounts. The sandbox has one."""
    provider = {
        "provider_slug": TRANSFER_BANK["slug"],
        "bank_id": TRANSFER_BANK["id"],
        "bank_name": TRANSFER_BANK["name"],
        "id": 1,
    }
    return success("Dedicated account providers retrieved", [provider])
