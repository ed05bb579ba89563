"""Charges: creation, fees and payment."""

import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from marketplace.kernel.money import share_in_basis_points
from sandbox.providers import fields
from sandbox.providers.gateway import balance, customers, webhooks
from sandbox.providers.gateway.answers import GatewayFailure, random_code, timestamp
from sandbox.providers.gateway.bodies import stored_json, transaction_body
from sandbox.providers.gateway.context import GatewaySettings

# Far above any price of the marketplace and far below the 64-bit limit.
MAXIMUM_AMOUNT_MINOR = 10_000_000_000_000
CURRENCIES = ("NGN", "GHS", "ZAR", "USD")
CHANNELS = ("card", "bank_transfer", "ussd", "bank")
DEDICATED_CHANNEL = "dedicated_nuban"

# The gateway's price list for local charges: 1.5 %, plus 100 NGN from 2,500 NGN, at most 2,000 NGN.
FEE_BASIS_POINTS = 150
FLAT_FEE_MINOR = 10_000
FLAT_FEE_FROM_MINOR = 250_000
MAXIMUM_FEE_MINOR = 200_000

TRANSFER_ACCOUNT_LIFETIME = timedelta(minutes=30)

_REFERENCE = re.compile(r"[A-Za-z0-9.=_-]{1,100}")

Outcome = Literal["success", "failed"]


class AlreadyPaidError(Exception):
    """The charge has already been paid."""


@dataclass(frozen=True, kw_only=True)
class Payment:
    """The payment of a charge.

    :param amount_minor: the paid amount, if different from the requested amount
    :param currency: the paid currency, if different from the requested currency
    :param duplicates: number of additional deliveries of the event
    :param delay_seconds: delay of the event; verify shows the result immediately
    """

    channel: str
    outcome: Outcome = "success"
    amount_minor: int | None = None
    currency: str | None = None
    duplicates: int = 0
    delay_seconds: float = 0.0


def fee_of(amount_minor: int) -> int:
    """Calculate the gateway's fee for a charge in minor units."""
    flat = FLAT_FEE_MINOR if amount_minor >= FLAT_FEE_FROM_MINOR else 0
    return min(share_in_basis_points(amount_minor, FEE_BASIS_POINTS) + flat, MAXIMUM_FEE_MINOR, amount_minor)


def create(
    connection: sqlite3.Connection,
    body: Mapping[str, object],
    *,
    reference: str,
    now: datetime,
) -> sqlite3.Row:
    """Create an unpaid charge.

    :param body: the body of ``POST /transaction/initialize``
    :raises InvalidFieldError: a field is missing or invalid
    :raises GatewayFailure: the reference is already in use
    """
    email = fields.email(body, "email", message="Invalid Email Address Passed")
    amount = amount_of(body)
    currency = fields.choice(body, "currency", allowed=CURRENCIES, default="NGN")
    channels = _channels(body)
    callback_url = fields.optional_url(body, "callback_url")
    if find(connection, reference) is not None:
        raise duplicate_reference()
    row: sqlite3.Row = connection.execute(
        "INSERT INTO transactions (reference, access_code, customer_id, status, requested_amount, amount,"
        " currency, channel, channels, callback_url, metadata, gateway_response, created_at)"
        " VALUES (:reference, :access_code, :customer_id, 'abandoned', :amount, :amount, :currency,"
        " :channel, :channels, :callback_url, :metadata, :gateway_response, :now) RETURNING *",
        {
            "reference": reference,
            "access_code": random_code("", length=16),
            "customer_id": customers.customer_of(connection, email, now=now)["id"],
            "amount": amount,
            "currency": currency,
            "channel": channels[0] if channels else "card",
            "channels": stored_json(channels),
            "callback_url": callback_url,
            "metadata": stored_json(body.get("metadata")),
            "gateway_response": "The transaction was not completed",
            "now": timestamp(now),
        },
    ).fetchone()
    return row


def amount_of(body: Mapping[str, object]) -> int:
    """Read an amount in minor units, as a number or as text.

    :raises InvalidFieldError: the amount is missing or invalid
    """
    return fields.integer(
        body,
        "amount",
        minimum=1,
        maximum=MAXIMUM_AMOUNT_MINOR,
        message="Invalid Amount Sent",
        accepts_text=True,
    )


def _channels(body: Mapping[str, object]) -> list[str] | None:
    value = body.get("channels")
    if value is None:
        return None
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise fields.InvalidFieldError("channels", "channels must be a list of channels")
    known = [item for item in CHANNELS if item in value]
    if not known:
        raise fields.InvalidFieldError(
            "channels", f"channels must contain at least one of {', '.join(CHANNELS)}"
        )
    return known


def reference_of(body: Mapping[str, object]) -> str:
    """Read the client's reference, or generate one.

    :raises InvalidFieldError: the reference contains characters that the gateway does not allow
    """
    chosen = fields.optional_text(
        body,
        "reference",
        maximum=100,
        pattern=_REFERENCE,
        message="Invalid reference. Only -, ., =, _ and alphanumeric characters allowed",
    )
    return chosen or random_code("T", length=15)


def duplicate_reference() -> GatewayFailure:
    """Build the failure for a reference that is already in use."""
    return GatewayFailure(
        400,
        "Duplicate Transaction Reference",
        code="duplicate_reference",
        next_step="Provide a reference that has not been used on this integration",
    )


def find(connection: sqlite3.Connection, reference: str) -> sqlite3.Row | None:
    """Fetch a transaction by reference, or None."""
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM transactions WHERE reference = ?", (reference,)
    ).fetchone()
    return row


def find_by_id_or_reference(connection: sqlite3.Connection, name: str) -> sqlite3.Row | None:
    """Fetch a transaction by id or reference, or None."""
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM transactions WHERE reference = ? OR cast(id AS TEXT) = ?", (name, name)
    ).fetchone()
    return row


def await_transfer(connection: sqlite3.Connection, transaction: sqlite3.Row, *, now: datetime) -> sqlite3.Row:
    """Assign a bank account for the customer's transfer to an unpaid charge. An existing account is kept."""
    row: sqlite3.Row = connection.execute(
        "UPDATE transactions SET status = 'pending', channel = 'bank_transfer',"
        " gateway_response = 'Waiting for the transfer',"
        " account_number = coalesce(account_number, ?), account_expires_at = coalesce(account_expires_at, ?)"
        " WHERE id = ? RETURNING *",
        (
            customers.new_account_number(),
            timestamp(now + TRANSFER_ACCOUNT_LIFETIME),
            transaction["id"],
        ),
    ).fetchone()
    return row


def pay(
    connection: sqlite3.Connection,
    settings: GatewaySettings,
    transaction: sqlite3.Row,
    payment: Payment,
    *,
    now: datetime,
) -> sqlite3.Row:
    """Pay a charge or decline the payment. Status, balance and event change together.

    A declined charge has no event and can be paid later, as on the real payment page.

    :return: the updated transaction
    :raises AlreadyPaidError: the charge has already been paid
    """
    if transaction["paid_at"] is not None:
        raise AlreadyPaidError
    if payment.outcome == "failed":
        failed: sqlite3.Row = connection.execute(
            "UPDATE transactions SET status = 'failed', channel = ?, gateway_response = 'Declined'"
            " WHERE id = ? RETURNING *",
            (payment.channel, transaction["id"]),
        ).fetchone()
        return failed
    principal = payment.amount_minor or transaction["requested_amount"]
    fees = fee_of(principal)
    amount = principal + fees if settings.fee_bearer == "customer" else principal
    paid: sqlite3.Row = connection.execute(
        "UPDATE transactions SET status = 'success', channel = ?, amount = ?, fees = ?, currency = ?,"
        " gateway_response = 'Successful', paid_at = ? WHERE id = ? RETURNING *",
        (
            payment.channel,
            amount,
            fees,
            payment.currency or transaction["currency"],
            timestamp(now),
            transaction["id"],
        ),
    ).fetchone()
    balance.book(
        connection,
        currency=paid["currency"],
        difference=amount - fees,
        reason=f"Charge {paid['reference']}",
        model="Transaction",
        row_id=paid["id"],
        now=now,
    )
    webhooks.enqueue(
        connection,
        event="charge.success",
        reference=paid["reference"],
        data=transaction_body(paid, customers.customer_by_id(connection, paid["customer_id"])),
        now=now,
        delay_seconds=payment.delay_seconds,
        copies=1 + payment.duplicates,
    )
    return paid
