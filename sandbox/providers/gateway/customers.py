"""Customers and dedicated bank accounts."""

import secrets
import sqlite3
from collections.abc import Mapping
from datetime import datetime

from flask import Blueprint, Response, request

from sandbox.providers import fields
from sandbox.providers.gateway import request_bodies, webhooks
from sandbox.providers.gateway.answers import GatewayFailure, random_code, success, timestamp
from sandbox.providers.gateway.bodies import (
    TRANSFER_BANK,
    dedicated_account_body,
    stored_json,
    whole_customer_body,
)
from sandbox.providers.gateway.context import current_gateway
from sandbox.providers.gateway.listing import Page, chosen, flag

routes = Blueprint("customers", __name__)

# A condition on the table of customers: its code, e-mail address or id is ``:customer``.
IS_NAMED = "(customer_code = :customer OR email = lower(:customer) OR cast(id AS TEXT) = :customer)"


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
            "metadata": stored_json(request_bodies.structured(given.get("metadata"))),
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
    body = request_bodies.read(request)
    email = fields.email(body, "email", message="Email is required")
    with gateway.store.transaction() as connection:
        row = customer_of(connection, email, now=gateway.clock(), details=body)
    return success("Customer created", whole_customer_body(row))


@routes.get("/customer")
def list_customers() -> Response:
    """List customers, newest first."""
    page = Page(request.args)
    query = "SELECT * FROM customers WHERE created_at BETWEEN :since AND :until"
    with current_gateway().store.transaction() as connection:
        rows, meta = page.rows(connection, query=query, parameters={})
    return success("Customers retrieved", [whole_customer_body(row) for row in rows], meta=meta)


@routes.get("/customer/<name>")
def fetch_customer(name: str) -> Response:
    """Return a customer by e-mail address, code or id."""
    with current_gateway().store.transaction() as connection:
        row = _required(connection, name, status=404)
    return success("Customer retrieved", whole_customer_body(row))


@routes.put("/customer/<name>")
def update_customer(name: str) -> Response:
    """Update a customer's names, phone and metadata. The e-mail address cannot be changed."""
    gateway = current_gateway()
    body = request_bodies.read(request)
    with gateway.store.transaction() as connection:
        row = _required(connection, name, status=404)
        row = customer_of(connection, row["email"], now=gateway.clock(), details=body)
    return success("Customer updated", whole_customer_body(row))


def _required(connection: sqlite3.Connection, name: str, *, status: int) -> sqlite3.Row:
    row: sqlite3.Row | None = connection.execute(
        f"SELECT * FROM customers WHERE {IS_NAMED}", {"customer": name}
    ).fetchone()
    if row is None:
        raise GatewayFailure(status, "Customer not found", code="customer_not_found")
    return row


@routes.post("/dedicated_account")
def create_dedicated_account() -> Response:
    """Create a dedicated bank account for a customer."""
    gateway = current_gateway()
    body = request_bodies.read(request)
    with gateway.store.transaction() as connection:
        customer = _required(connection, str(body.get("customer", "")), status=400)
        account = _dedicated_account(connection, customer, gateway.clock())
    return success("NUBAN successfully created", dedicated_account_body(account, customer))


@routes.get("/dedicated_account")
def list_dedicated_accounts() -> Response:
    """List dedicated accounts, newest first. All accounts are active and of the one bank."""
    page = Page(request.args)
    query = (
        "SELECT * FROM dedicated_accounts WHERE created_at BETWEEN :since AND :until AND :matches"
        " AND (:number IS NULL OR account_number = :number)"
        f" AND (:customer IS NULL OR customer_id IN (SELECT id FROM customers WHERE {IS_NAMED}))"
    )
    parameters = {
        "matches": flag(request.args, "active") is not False
        and (chosen(request.args, "currency") or "NGN").upper() == "NGN"
        and chosen(request.args, "provider_slug") in (None, TRANSFER_BANK["slug"])
        and chosen(request.args, "bank_id") in (None, str(TRANSFER_BANK["id"])),
        "number": chosen(request.args, "account_number"),
        "customer": chosen(request.args, "customer"),
    }
    with current_gateway().store.transaction() as connection:
        rows, meta = page.rows(connection, query=query, parameters=parameters)
        data = [dedicated_account_body(row, customer_by_id(connection, row["customer_id"])) for row in rows]
    return success("Managed accounts successfully retrieved", data, meta=meta)


@routes.get("/dedicated_account/<int(max=9223372036854775807):account_id>")
def fetch_dedicated_account(account_id: int) -> Response:
    """Return a dedicated account by id."""
    with current_gateway().store.transaction() as connection:
        row = connection.execute("SELECT * FROM dedicated_accounts WHERE id = ?", (account_id,)).fetchone()
        if row is None:
            raise GatewayFailure(404, "Dedicated account not found", code="dedicated_account_not_found")
        data = dedicated_account_body(row, customer_by_id(connection, row["customer_id"]))
    return success("Customer retrieved", data)


@routes.post("/dedicated_account/assign")
def assign_dedicated_account() -> Response:
    """Create a customer with a dedicated account in one call, and report the result by event."""
    gateway = current_gateway()
    body = request_bodies.read(request)
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
