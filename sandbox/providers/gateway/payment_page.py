"""The payment page. It needs no scripts and works with the keyboard alone."""

import sqlite3
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from flask import Blueprint, Response, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from sandbox.providers import fields
from sandbox.providers.gateway import charges, customers
from sandbox.providers.gateway.answers import timestamp
from sandbox.providers.gateway.bodies import loaded_json
from sandbox.providers.gateway.context import current_gateway

routes = Blueprint("payment_page", __name__)

CHANNEL_LABELS = {
    "card": "Pay by card",
    "bank_transfer": "Pay by bank transfer",
    "ussd": "Pay by USSD",
    "bank": "Pay from bank account",
}
# Offered if the merchant chose no channels.
DEFAULT_CHANNELS = ["card", "bank_transfer", "ussd"]
CURRENCY_SIGNS = {"NGN": "₦", "GHS": "GH₵", "ZAR": "R", "USD": "$"}


@routes.after_request
def protect(response: Response) -> Response:
    """Protect the page from framing, caching and foreign scripts."""
    response.headers["Content-Security-Policy"] = (
        # Paying redirects to the merchant. Browsers apply form-action to the target of a form's redirect too,
        # so any web address must be allowed.
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self' http: https:;"
        " base-uri 'none'; frame-ancestors 'none'"
    )
    response.headers["Cache-Control"] = "no-store"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


@routes.get("/pay/<access_code>")
def show(access_code: str) -> Response:
    """Show the amount to pay, or that the charge is already paid."""
    with current_gateway().store.transaction() as connection:
        row = _find(connection, access_code)
        if row is None:
            return _unknown()
        customer = customers.customer_by_id(connection, row["customer_id"])
    return _page(row, email=customer["email"], notice=request.args.get("notice"))


@routes.post("/pay/<access_code>")
def act(access_code: str) -> BaseResponse:
    """Perform the pressed button's action, then return to the merchant."""
    gateway = current_gateway()
    action = request.form.get("action", "")
    with gateway.store.transaction() as connection:
        row = _find(connection, access_code)
        if row is None:
            return _unknown()
        if row["paid_at"] is not None:
            return _to_page(access_code, notice="already_paid")
        if action == "cancel":
            return redirect(_cancel_address(row) or url_for(".show", access_code=access_code), code=303)
        if action == "fail":
            declined = charges.Payment(channel=row["channel"], outcome="failed")
            charges.pay(connection, gateway.settings, row, declined, now=gateway.clock())
            return _to_page(access_code, notice="declined")
        if action not in _channels(row):
            return _to_page(access_code, notice="choose")
        paid = charges.pay(
            connection, gateway.settings, row, charges.Payment(channel=action), now=gateway.clock()
        )
    gateway.wake()
    return redirect(_merchant_address(paid) or url_for(".show", access_code=access_code), code=303)


def _find(connection: sqlite3.Connection, access_code: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM transactions WHERE access_code = ?", (access_code,)
    ).fetchone()
    return row


def _channels(row: sqlite3.Row) -> list[str]:
    chosen: list[str] | None = loaded_json(row["channels"])
    return chosen or DEFAULT_CHANNELS


def _page(row: sqlite3.Row, *, email: str, notice: str | None) -> Response:
    html = render_template(
        "pay.html",
        transaction=row,
        amount=amount_text(row["amount"], row["currency"]),
        email=email,
        channels=[(channel, CHANNEL_LABELS[channel]) for channel in _channels(row)],
        channel_name=row["channel"].replace("_", " "),
        notice=notice,
        merchant_address=_merchant_address(row),
        expired=row["account_expires_at"] is not None
        and row["account_expires_at"] < timestamp(current_gateway().clock()),
    )
    return make_response(html)


def _to_page(access_code: str, *, notice: str) -> BaseResponse:
    return redirect(url_for(".show", access_code=access_code, notice=notice), code=303)


def _unknown() -> Response:
    return make_response(render_template("unknown.html"), 404)


def amount_text(amount_minor: int, currency: str) -> str:
    """Format an amount for people: ``₦12,500.00``."""
    major, minor = divmod(amount_minor, 100)
    return f"{CURRENCY_SIGNS.get(currency, currency + ' ')}{major:,}.{minor:02d}"


def _merchant_address(row: sqlite3.Row) -> str | None:
    """Build the merchant's return address. The gateway sends the reference under two names."""
    address: str | None = row["callback_url"]
    if address is None:
        return None
    parts = urlsplit(address)
    query = [*parse_qsl(parts.query, keep_blank_values=True)]
    query += [("trxref", row["reference"]), ("reference", row["reference"])]
    return urlunsplit(parts._replace(query=urlencode(query)))


def _cancel_address(row: sqlite3.Row) -> str | None:
    """Build the address after cancelling: the metadata's ``cancel_action``, or else the return address."""
    metadata = loaded_json(row["metadata"])
    address = metadata.get("cancel_action") if isinstance(metadata, dict) else None
    if isinstance(address, str) and fields.is_web_address(address):
        return address
    return _merchant_address(row)
