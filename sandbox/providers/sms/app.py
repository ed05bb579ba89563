"""The SMS gateway's application: Termii's API for messages and balance, a page of messages, and control endpoints."""

import hmac
import re

import structlog
from flask import Blueprint, Flask, Response, jsonify, request
from werkzeug.exceptions import HTTPException

from marketplace.kernel.clock import iso, system_clock
from sandbox.providers import fields
from sandbox.providers.sms.context import (
    MAXIMUM_OUTCOMES,
    OPENING_BALANCE_KOBO,
    OUTCOMES,
    Outcome,
    SmsGateway,
    current_gateway,
)

MAXIMUM_BODY_BYTES = 100_000
MAXIMUM_TEXT_LENGTH = 1_600
_NUMBER = re.compile(r"[1-9][0-9]{9,14}", re.ASCII)
_SENDER = re.compile(r"[A-Za-z0-9 ]{3,11}", re.ASCII)
_USER = "Sandbox"
_REFUSALS: dict[Outcome, tuple[int, str]] = {
    "error": (500, "Server Error"),
    "limited": (429, "Too Many Attempts."),
    "refused": (404, "ApplicationSenderId not found for applicationId and senderName"),
}

_log = structlog.stdlib.get_logger(__name__)

api = Blueprint("api", __name__, url_prefix="/api")
page = Blueprint("page", __name__)
controls = Blueprint("controls", __name__, url_prefix="/sandbox")


def create_app(gateway: SmsGateway) -> Flask:
    """Create the gateway's application."""
    app = Flask("sandbox.providers.sms", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAXIMUM_BODY_BYTES
    app.json = fields.json_in_order(app)
    app.extensions["sandbox_sms"] = gateway
    for blueprint in (api, page, controls):
        app.register_blueprint(blueprint)

    @app.errorhandler(fields.InvalidFieldError)
    def answer_invalid(error: fields.InvalidFieldError) -> tuple[Response, int]:
        """Answer 400 for a missing or invalid field."""
        return _failure(400, error.message)

    @app.errorhandler(HTTPException)
    def answer_http_error(error: HTTPException) -> tuple[Response, int]:
        """Convert the framework's errors to the gateway's format."""
        return _failure(error.code or 500, error.name)

    return app


def _failure(status: int, message: str) -> tuple[Response, int]:
    return jsonify({"code": status, "message": message, "status": "error"}), status


def _is_authentic(key: object) -> bool:
    expected = current_gateway().key
    return not expected or (isinstance(key, str) and hmac.compare_digest(key.encode(), expected.encode()))


@api.post("/sms/send")
def send_message() -> Response | tuple[Response, int]:
    """Send a message to a number, or return the planned outcome."""
    gateway = current_gateway()
    body = fields.json_object(request)
    if not _is_authentic(body.get("api_key")):
        return _failure(401, "Invalid api key")
    outcome = gateway.take_outcome()
    if outcome in _REFUSALS:
        return _failure(*_REFUSALS[outcome])
    if outcome == "timeout":
        gateway.stopping.wait(gateway.hang_seconds)
        return _failure(504, "Gateway Time-out")
    to = fields.text(body, "to", pattern=_NUMBER, message="Invalid phone number")
    sender = fields.text(body, "from", pattern=_SENDER, message="Invalid sender id")
    text = fields.text(body, "sms", maximum=MAXIMUM_TEXT_LENGTH)
    fields.choice(body, "type", allowed=("plain",))
    channel = fields.choice(body, "channel", allowed=("dnd", "generic"))
    message_id = gateway.send(to=to, sender=sender, text=text, channel=channel, at=iso(system_clock()))
    if message_id is None:
        return _failure(400, "Insufficient balance")
    # The text can contain a code, so the log has only the message's id.
    _log.info("sms sent", message_id=message_id)
    if outcome == "lost":  # the message was sent, but the response comes too late
        gateway.stopping.wait(gateway.hang_seconds)
    return jsonify(
        {
            "code": "ok",
            "message_id": message_id,
            "message": "Successfully Sent",
            "balance": gateway.balance_kobo / 100,
            "user": _USER,
        }
    )


@api.get("/get-balance")
def get_balance() -> Response | tuple[Response, int]:
    """Return the account's balance in naira."""
    if not _is_authentic(request.args.get("api_key")):
        return _failure(401, "Invalid api key")
    return jsonify({"user": _USER, "balance": current_gateway().balance_kobo / 100, "currency": "NGN"})


@page.get("/")
def show_messages() -> Response:
    """Show the latest messages as plain text, newest first."""
    messages = current_gateway().list_messages()
    shown = [
        f"{one['at']}  to +{one['to']}  from {one['from']}\n{one['text']}\n" for one in reversed(messages)
    ]
    return Response("\n".join(shown) or "No messages yet.\n", mimetype="text/plain")


@controls.post("/next")
def plan_outcome() -> Response:
    """Plan the outcomes of the next calls."""
    body = fields.json_object(request)
    fields.refuse_unknown(body, known=("outcome", "count"))
    word = fields.choice(body, "outcome", allowed=OUTCOMES)
    count = fields.integer({"count": 1, **body}, "count", minimum=1, maximum=MAXIMUM_OUTCOMES)
    outcome = next(one for one in OUTCOMES if one == word)
    if not current_gateway().plan(outcome, count):
        raise fields.InvalidFieldError("count", "Too many outcomes are planned. Send DELETE to drop them.")
    return jsonify({"status": "ok"})


@controls.delete("/next")
def reset() -> Response:
    """Drop unused planned outcomes and sent messages, and set the balance."""
    body = fields.json_object(request, may_be_empty=True)
    fields.refuse_unknown(body, known=("balanceKobo",))
    balance = fields.integer(
        {"balanceKobo": OPENING_BALANCE_KOBO, **body}, "balanceKobo", minimum=0, maximum=10**15
    )
    current_gateway().reset(balance)
    return jsonify({"status": "ok"})


@controls.get("/messages")
def list_messages() -> Response:
    """Return the number of calls and the latest messages, oldest first. ``to`` selects a number in digits."""
    gateway = current_gateway()
    to = request.args.get("to")
    return jsonify(
        {"data": {"calls": gateway.calls, "messages": gateway.list_messages(to and to.lstrip("+"))}}
    )
