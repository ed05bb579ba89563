"""Control endpoints that the real gateway lacks: pay charges, plan outcomes, and read calls and deliveries."""

import sqlite3
from collections.abc import Mapping

from flask import Blueprint, Response, jsonify, request

from sandbox.providers import fields
from sandbox.providers.gateway import balance, calls, charges, customers, outcomes, webhooks
from sandbox.providers.gateway.answers import GatewayFailure, random_code, success
from sandbox.providers.gateway.bodies import Body, transaction_body
from sandbox.providers.gateway.context import Gateway, current_gateway

routes = Blueprint("controls", __name__, url_prefix="/sandbox")

MAXIMUM_DUPLICATES = 100
MAXIMUM_DELAY_SECONDS = 86_400
# Long enough for a transfer that stalls for days.
MAXIMUM_RESULT_DELAY_SECONDS = 7 * 86_400
MAXIMUM_OUTCOMES = 1_000
MAXIMUM_LISTED_DELIVERIES = 200
_PAYMENT_FIELDS = ("channel", "amountMinor", "currency", "outcome", "duplicates", "delaySeconds")


@routes.errorhandler(fields.InvalidFieldError)
def refuse(error: fields.InvalidFieldError) -> tuple[Response, int]:
    """Answer 422 with the field's name, to tell an invalid control request from a gateway failure."""
    return jsonify({"status": False, "message": error.message, "field": error.field}), 422


@routes.post("/pay/<reference>")
def pay(reference: str) -> Response:
    """Pay a charge, or decline the payment, and send the event."""
    gateway = current_gateway()
    body = fields.json_object(request, may_be_empty=True)
    fields.refuse_unknown(body, known=_PAYMENT_FIELDS)
    payment = _payment(body, default_channel="card")
    with gateway.store.transaction() as connection:
        row = charges.find(connection, reference)
        if row is None:
            raise _unknown(f"No charge has the reference {reference[:100]}")
        data = _pay(gateway, connection, row, payment)
    gateway.wake()
    return success("Charge paid" if payment.outcome == "success" else "Charge failed", data)


@routes.post("/dedicated-accounts/<account_number>/pay")
def pay_into_account(account_number: str) -> Response:
    """Transfer money to a customer's dedicated account, which creates a charge with a new reference."""
    gateway = current_gateway()
    body = fields.json_object(request)
    fields.refuse_unknown(body, known=_PAYMENT_FIELDS)
    payment = _payment(body, default_channel=charges.DEDICATED_CHANNEL)
    amount = fields.integer(body, "amountMinor", minimum=1, maximum=charges.MAXIMUM_AMOUNT_MINOR)
    with gateway.store.transaction() as connection:
        account = connection.execute(
            "SELECT * FROM dedicated_accounts WHERE account_number = ?", (account_number,)
        ).fetchone()
        if account is None:
            raise _unknown(f"No dedicated account has the number {account_number[:20]}")
        customer = customers.customer_by_id(connection, account["customer_id"])
        row = charges.create(
            connection,
            {"email": customer["email"], "amount": amount},
            reference=random_code("T"),
            now=gateway.clock(),
        )
        data = _pay(gateway, connection, row, payment)
    gateway.wake()
    return success("Account credited", data)


def _pay(
    gateway: Gateway, connection: sqlite3.Connection, row: sqlite3.Row, payment: charges.Payment
) -> Body:
    try:
        paid = charges.pay(connection, gateway.settings, row, payment, now=gateway.clock())
    except charges.AlreadyPaidError as error:
        raise GatewayFailure(409, "The charge is already paid", code="already_paid") from error
    return transaction_body(paid, customers.customer_by_id(connection, paid["customer_id"]))


def _payment(body: Mapping[str, object], *, default_channel: str) -> charges.Payment:
    outcome = fields.choice(body, "outcome", allowed=("success", "failed"), default="success")
    return charges.Payment(
        channel=fields.choice(
            body, "channel", allowed=(*charges.CHANNELS, charges.DEDICATED_CHANNEL), default=default_channel
        ),
        outcome="success" if outcome == "success" else "failed",
        amount_minor=fields.integer(body, "amountMinor", minimum=1, maximum=charges.MAXIMUM_AMOUNT_MINOR)
        if body.get("amountMinor") is not None
        else None,
        currency=fields.choice(body, "currency", allowed=charges.CURRENCIES)
        if body.get("currency") is not None
        else None,
        duplicates=fields.integer(
            {"duplicates": 0, **body}, "duplicates", minimum=0, maximum=MAXIMUM_DUPLICATES
        ),
        delay_seconds=fields.number(
            body, "delaySeconds", minimum=0, maximum=MAXIMUM_DELAY_SECONDS, default=0.0
        )
        or 0.0,
    )


@routes.post("/transfers/next")
def plan_transfers() -> Response:
    """Plan the outcomes of the next transfers."""
    return _plan("transfer", outcomes.TRANSFER_OUTCOMES)


@routes.post("/refunds/next")
def plan_refunds() -> Response:
    """Plan the outcomes of the next refunds."""
    return _plan("refund", outcomes.REFUND_OUTCOMES)


@routes.delete("/transfers/next")
def forget_transfers() -> Response:
    """Drop unused planned outcomes of transfers."""
    return _forget("transfer")


@routes.delete("/refunds/next")
def forget_refunds() -> Response:
    """Drop unused planned outcomes of refunds."""
    return _forget("refund")


def _plan(operation: outcomes.Operation, allowed: tuple[str, ...]) -> Response:
    body = fields.json_object(request)
    fields.refuse_unknown(body, known=("outcome", "count", "delaySeconds"))
    outcome = fields.choice(body, "outcome", allowed=allowed)
    count = fields.integer({"count": 1, **body}, "count", minimum=1, maximum=MAXIMUM_OUTCOMES)
    delay_seconds = fields.number(
        body, "delaySeconds", minimum=0, maximum=MAXIMUM_RESULT_DELAY_SECONDS, default=None
    )
    with current_gateway().store.transaction() as connection:
        if len(outcomes.planned(connection, operation)) >= MAXIMUM_OUTCOMES:
            raise fields.InvalidFieldError(
                "outcome", "Too many outcomes are planned. Send DELETE to drop them."
            )
        outcomes.plan(connection, operation, outcome=outcome, count=count, delay_seconds=delay_seconds)
        data = outcomes.planned(connection, operation)
    return success("Outcomes planned", data)


def _forget(operation: outcomes.Operation) -> Response:
    with current_gateway().store.transaction() as connection:
        outcomes.forget(connection, operation)
    return success("Outcomes dropped", [])


@routes.get("/calls")
def count_calls() -> Response:
    """Count the calls with a reference per operation, including refused calls."""
    reference = fields.text(request.args, "reference")
    with current_gateway().store.transaction() as connection:
        return success("Calls counted", calls.counted(connection, reference))


@routes.get("/deliveries")
def list_deliveries() -> Response:
    """List the webhooks of a reference, or the latest webhooks, with the result of each attempt."""
    reference = fields.optional_text(request.args, "reference")
    with current_gateway().store.transaction() as connection:
        data = webhooks.deliveries_of(connection, reference=reference, limit=MAXIMUM_LISTED_DELIVERIES)
    return success("Deliveries retrieved", data)


@routes.post("/settlements")
def settle() -> Response:
    """Settle the balance, or a part of it, to the merchant's bank account."""
    gateway = current_gateway()
    body = fields.json_object(request, may_be_empty=True)
    fields.refuse_unknown(body, known=("amountMinor", "currency"))
    currency = fields.choice(body, "currency", allowed=charges.CURRENCIES, default="NGN")
    with gateway.store.transaction() as connection:
        available = balance.balance_of(connection, currency)
        given = {"amountMinor": available, **body}
        amount = fields.integer(given, "amountMinor", minimum=1, maximum=charges.MAXIMUM_AMOUNT_MINOR)
        data = balance.settle_to_bank(connection, currency=currency, amount=amount, now=gateway.clock())
    return success("Settlement paid", data)


@routes.post("/balance")
def top_up() -> Response:
    """Top up the balance with the merchant's own money, to fund transfers."""
    gateway = current_gateway()
    body = fields.json_object(request)
    fields.refuse_unknown(body, known=("amountMinor", "currency", "reason"))
    currency = fields.choice(body, "currency", allowed=charges.CURRENCIES, default="NGN")
    amount = fields.integer(body, "amountMinor", minimum=1, maximum=charges.MAXIMUM_AMOUNT_MINOR)
    with gateway.store.transaction() as connection:
        balance.book(
            connection,
            currency=currency,
            difference=amount,
            reason=fields.optional_text(body, "reason") or "Balance topped up",
            model="Topup",
            row_id=0,
            now=gateway.clock(),
        )
        data = {"currency": currency, "balance": balance.balance_of(connection, currency)}
    return success("Balance topped up", data)


def _unknown(message: str) -> GatewayFailure:
    return GatewayFailure(404, message, code="not_found")
