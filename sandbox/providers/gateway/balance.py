"""The gateway's balance per currency: movements with the resulting balance, and settlements to the bank."""

import sqlite3
from datetime import datetime

from flask import Blueprint, Response, request

from sandbox.providers.gateway.answers import GatewayFailure, success, timestamp
from sandbox.providers.gateway.bodies import balance_entry_body, settlement_body
from sandbox.providers.gateway.context import current_gateway
from sandbox.providers.gateway.listing import Page

routes = Blueprint("balance", __name__)


def balance_of(connection: sqlite3.Connection, currency: str) -> int:
    """Return the balance of a currency in minor units. The balance may be negative."""
    row = connection.execute(
        "SELECT balance FROM balance_entries WHERE currency = ? ORDER BY id DESC LIMIT 1", (currency,)
    ).fetchone()
    return int(row["balance"]) if row else 0


def book(
    connection: sqlite3.Connection,
    *,
    currency: str,
    difference: int,
    reason: str,
    model: str,
    row_id: int,
    now: datetime,
) -> None:
    """Record a movement of the balance.

    :param difference: minor units, negative for outgoing money
    :param model: type of the object that caused the movement: Transaction, Transfer, Refund, Settlement or
        Topup
    :param row_id: id of that object
    """
    connection.execute(
        "INSERT INTO balance_entries"
        " (currency, difference, balance, reason, model_responsible, model_row, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            currency,
            difference,
            balance_of(connection, currency) + difference,
            reason,
            model,
            row_id,
            timestamp(now),
        ),
    )


def require(connection: sqlite3.Connection, *, currency: str, amount: int) -> None:
    """Refuse an amount that exceeds the balance.

    :raises GatewayFailure: the balance is below the amount
    """
    if balance_of(connection, currency) < amount:
        raise GatewayFailure(
            400,
            "Your balance is not enough to fulfil this request",
            code="insufficient_balance",
            kind="api_error",
            next_step="Ensure you have enough balance on your account to perform the operation",
        )


def settle_to_bank(
    connection: sqlite3.Connection, *, currency: str, amount: int, now: datetime
) -> dict[str, object]:
    """Pay out a part of the balance to the merchant's bank account.

    :return: the settlement as listed by ``GET /settlement``
    :raises GatewayFailure: the balance is below the amount
    """
    require(connection, currency=currency, amount=amount)
    row = connection.execute(
        "INSERT INTO settlements (currency, amount, created_at) VALUES (?, ?, ?) RETURNING *",
        (currency, amount, timestamp(now)),
    ).fetchone()
    book(
        connection,
        currency=currency,
        difference=-amount,
        reason="Settlement to bank",
        model="Settlement",
        row_id=row["id"],
        now=now,
    )
    return settlement_body(row)


@routes.get("/balance")
def read_balance() -> Response:
    """Return the balance of each currency, always including NGN."""
    with current_gateway().store.transaction() as connection:
        currencies = {row[0] for row in connection.execute("SELECT DISTINCT currency FROM balance_entries")}
        balances = [
            {"currency": currency, "balance": balance_of(connection, currency)}
            for currency in sorted(currencies | {"NGN"}, key=lambda code: (code != "NGN", code))
        ]
    return success("Balances retrieved", balances)


@routes.get("/balance/ledger")
def list_balance_entries() -> Response:
    """List the movements of the balance, newest first."""
    page = Page(request.args)
    query = "SELECT * FROM balance_entries WHERE created_at BETWEEN :since AND :until"
    with current_gateway().store.transaction() as connection:
        rows, meta = page.rows(connection, query=query, parameters={})
    return success("Balance ledger retrieved", [balance_entry_body(row) for row in rows], meta=meta)


@routes.get("/settlement")
def list_settlements() -> Response:
    """List the settlements to the bank, newest first."""
    page = Page(request.args)
    query = "SELECT * FROM settlements WHERE created_at BETWEEN :since AND :until"
    with current_gateway().store.transaction() as connection:
        rows, meta = page.rows(connection, query=query, parameters={})
        volume = connection.execute("SELECT coalesce(sum(amount), 0) FROM settlements").fetchone()[0]
    return success(
        "Settlements retrieved",
        [settlement_body(row) for row in rows],
        meta={**meta, "total_volume": volume},
    )
