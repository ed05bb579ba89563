"""The inbox's application: push service, Firebase Cloud Messaging, Cloud API, a page of messages, and controls."""

import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import jwt
import orjson
import structlog
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from flask import Blueprint, Flask, Response, jsonify, render_template, request
from werkzeug.datastructures import Headers
from werkzeug.exceptions import HTTPException

from sandbox.providers import fields
from sandbox.providers.inbox.answers import Answer, failure, planned_failure, token_failure
from sandbox.providers.inbox.context import (
    CHANNELS,
    MAXIMUM_OUTCOMES,
    OUTCOMES,
    Inbox,
    Outcome,
    current_inbox,
)
from sandbox.providers.inbox.customers import customers, media
from sandbox.providers.inbox.web_push import MAX_BODY_BYTES, InvalidPushError, verify_vapid
from sandbox.providers.sms.context import SmsGateway, current_gateway

MAXIMUM_BODY_BYTES = 200_000
_TOKEN_SECONDS = 3_600
# Google's libraries always name this address, also for another token_uri.
_TOKEN_AUDIENCE = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
_NUMBER = re.compile(r"[1-9][0-9]{9,14}", re.ASCII)
_MAX_TTL_SECONDS = 28 * 24 * 3600
_URGENCIES = ("very-low", "low", "normal", "high")
# Approved templates with the number of placeholders in the body.
TEMPLATES = {"delivery_pin": 2, "marketplace_update": 2, "support_answer": 1}
_LANGUAGES = ("en", "en_GB", "ha")
_LABELS = {
    "web_push": "Web push",
    "fcm": "App push",
    "messaging": "Message",
    "email": "E-mail",
    "sms": "SMS",
}
_FAULTY_PARAMETER = re.compile(r"[\n\t]| {5}")

_log = structlog.stdlib.get_logger(__name__)

push = Blueprint("push", __name__, url_prefix="/push")
fcm = Blueprint("fcm", __name__, url_prefix="/fcm")
cloud = Blueprint("cloud", __name__, url_prefix="/cloud")
page = Blueprint("page", __name__)
controls = Blueprint("controls", __name__, url_prefix="/sandbox")


def create_app(inbox: Inbox, sms: SmsGateway) -> Flask:
    """Create the inbox's application.

    :param sms: the SMS gateway, whose messages the page shows too
    """
    app = Flask(
        "sandbox.providers.inbox", static_folder="../pages/static", template_folder="../pages/templates"
    )
    app.config["MAX_CONTENT_LENGTH"] = MAXIMUM_BODY_BYTES
    app.json = fields.json_in_order(app)
    app.extensions["sandbox_inbox"] = inbox
    app.extensions["sandbox_sms"] = sms
    for blueprint in (push, fcm, cloud, media, customers, page, controls):
        app.register_blueprint(blueprint)

    @app.errorhandler(fields.InvalidFieldError)
    def answer_invalid(error: fields.InvalidFieldError) -> Answer:
        """Answer 400 for a missing or invalid field."""
        return failure(400, error.message)

    @app.errorhandler(HTTPException)
    def answer_http_error(error: HTTPException) -> Answer:
        """Convert the framework's errors."""
        return failure(error.code or 500, error.name)

    return app


def _hold_response(inbox: Inbox, outcome: Outcome) -> None:
    if outcome == "lost":
        inbox.stopping.wait(inbox.hang_seconds)


@push.post("/subscriptions")
def subscribe() -> Answer:
    """Create the subscription of a simulated browser."""
    return jsonify(current_inbox().subscribe().to_json()), 201


@push.delete("/subscriptions/<subscription_id>")
def end_subscription(subscription_id: str) -> Answer:
    """End a subscription, as a person does who withdraws the permission."""
    current_inbox().end_subscription(subscription_id)
    return jsonify({"ended": True})


@push.post("/send/<subscription_id>")
def receive_push(subscription_id: str) -> Answer:
    """Accept a message by RFC 8030, and decrypt the message as the browser does."""
    inbox = current_inbox()
    outcome = inbox.take_outcome("web_push")
    if outcome == "dead":
        inbox.end_subscription(subscription_id)
    subscription = inbox.find_subscription(subscription_id)
    if subscription is None:
        return failure(410, "The subscription has ended")
    planned = planned_failure(inbox, outcome)
    if planned is not None:
        return planned
    parts = urlsplit(inbox.url)
    try:
        _check_push_headers(request.headers)
        key = verify_vapid(
            request.headers.get("Authorization", ""),
            origin=f"{parts.scheme}://{parts.netloc}",
            now=time.time(),
        )
        content = orjson.loads(subscription.decrypt(request.get_data()))
    except (InvalidPushError, orjson.JSONDecodeError) as error:
        return failure(403 if "VAPID" in str(error) else 400, str(error))
    message_id = inbox.keep(
        "web_push",
        subscription_id,
        {"payload": content, "key": key, "topic": request.headers.get("Topic", "")},
    )
    _hold_response(inbox, outcome)
    response = Response(status=201)
    response.headers["Location"] = f"{inbox.url}/push/message/{message_id}"
    return response


def _check_push_headers(headers: Headers) -> None:
    ttl = headers.get("TTL", "")
    if not ttl.isdecimal() or int(ttl) > _MAX_TTL_SECONDS:
        raise InvalidPushError("TTL must be a number of seconds")
    if headers.get("Content-Encoding") != "aes128gcm":
        raise InvalidPushError("Content-Encoding must be aes128gcm")
    if len(headers.get("Topic", "")) > 32:
        raise InvalidPushError("Topic must have at most 32 characters")
    if headers.get("Urgency", "normal") not in _URGENCIES:
        raise InvalidPushError("Urgency is unknown")
    if int(headers.get("Content-Length", "0")) > MAX_BODY_BYTES:
        raise InvalidPushError("the message is longer than 4096 bytes")


@fcm.post("/token")
def exchange_token() -> Answer:
    """Exchange a signed assertion for an access token (RFC 7523)."""
    inbox = current_inbox()
    account = inbox.service_account
    key = load_pem_private_key(account["private_key"].encode(), None).public_key()
    try:
        claims = jwt.decode(
            request.form.get("assertion", ""),
            key,  # type: ignore[arg-type]
            algorithms=["RS256"],
            audience=_TOKEN_AUDIENCE,
        )
    except jwt.PyJWTError:
        return jsonify({"error": "invalid_grant", "error_description": "Invalid JWT Signature."}), 400
    if claims.get("iss") != account["client_email"] or "firebase.messaging" not in str(claims.get("scope")):
        return jsonify({"error": "invalid_scope"}), 400
    return jsonify(
        {"access_token": inbox.issue_token(), "expires_in": _TOKEN_SECONDS, "token_type": "Bearer"}
    )


@fcm.post("/v1/projects/<project>/messages:send")
def receive_native_push(project: str) -> Answer:
    """Accept a message for a native app."""
    inbox = current_inbox()
    if not inbox.knows_token(request.headers.get("Authorization", "").removeprefix("Bearer ")):
        return failure(401, "Request had invalid authentication credentials.", status="UNAUTHENTICATED")
    outcome = inbox.take_outcome("fcm")
    if outcome == "dead":
        detail = {
            "@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError",
            "errorCode": "UNREGISTERED",
        }
        return failure(404, "Requested entity was not found.", status="NOT_FOUND", details=[detail])
    planned = planned_failure(inbox, outcome)
    if planned is not None:
        return planned
    body = fields.json_object(request)
    message = body.get("message")
    if not isinstance(message, dict) or set(body) - {"message", "validate_only"}:
        return failure(400, "Invalid JSON payload received.", status="INVALID_ARGUMENT")
    token = fields.text(message, "token", maximum=4096)
    data = message.get("data", {})
    if not all(isinstance(value, str) for value in data.values()):
        return failure(400, "Invalid value at 'message.data'", status="INVALID_ARGUMENT")
    name = f"projects/{project}/messages/{inbox.keep('fcm', token, message)}"
    _hold_response(inbox, outcome)
    return jsonify({"name": name})


@cloud.post("/<version>/<phone_id>/messages")
def receive_template_message(version: str, phone_id: str) -> Answer:
    """Accept a message, and send receipts to the application."""
    inbox = current_inbox()
    refusal = token_failure(inbox)
    if refusal is not None:
        return refusal
    outcome = inbox.take_outcome("messaging")
    if outcome == "limited":
        return failure(400, "(#130429) Rate limit hit", 130429)
    planned = planned_failure(inbox, outcome)
    if planned is not None:
        return planned
    body = fields.json_object(request)
    fields.choice(body, "messaging_product", allowed=("whatsapp",))
    kind = fields.choice(body, "type", allowed=("template", "text"))
    to = fields.text(body, "to", pattern=_NUMBER, message="(#131009) Parameter value is not valid")
    refusal = _check_template(body.get("template")) if kind == "template" else _check_text(body, to)
    if refusal is not None:
        return refusal
    message_id = f"wamid.{inbox.keep('messaging', to, body)}"
    inbox.send_receipts(message_id, to, body.get("biz_opaque_callback_data"), outcome)
    _log.info("template message taken", version=version, phoneId=phone_id)
    _hold_response(inbox, outcome)
    return jsonify(
        {
            "messaging_product": "whatsapp",
            "contacts": [{"input": to, "wa_id": to}],
            "messages": [{"id": message_id, "message_status": "accepted"}],
        }
    )


def _check_text(body: Mapping[str, object], to: str) -> Answer | None:
    """Check a text as the provider does: within 24 hours of the recipient's last message."""
    content = body.get("text")
    fields.text(content if isinstance(content, dict) else {}, "body", maximum=4096)
    if not current_inbox().may_write_to(to):
        return failure(400, "(#131047) Re-engagement message", 131047)
    return None


def _check_template(template: object) -> Answer | None:
    """Check a template's name, language and parameters as the provider does."""
    template = template if isinstance(template, dict) else {}
    name, language = template.get("name"), template.get("language", {}).get("code")
    if name not in TEMPLATES or language not in _LANGUAGES:
        return failure(404, "(#132001) Template name does not exist in the translation", 132001)
    components = {component.get("type"): component for component in template.get("components", [])}
    parameters = components.get("body", {}).get("parameters", [])
    if len(parameters) != TEMPLATES[name]:
        return failure(400, "(#132000) Number of parameters does not match", 132000)
    values = [parameter.get("text") for parameter in parameters]
    if not all(isinstance(value, str) and value and not _FAULTY_PARAMETER.search(value) for value in values):
        return failure(400, "(#132012) Parameter format does not match", 132012)
    return None


@page.get("/")
def show_inbox() -> str:
    """Show what people received, the newest first. ``to`` selects a recipient."""
    to = request.args.get("to") or None
    messages = [*current_inbox().list_messages(to=to)]
    messages += [
        {"channel": "sms", "to": one["to"], "at": one["at"], "content": {"text": one["text"]}}
        for one in current_gateway().list_messages(to and to.lstrip("+"))
    ]
    rows = [
        {
            "channel": _LABELS[message["channel"]],
            "to": message["to"],
            "at": message["at"],
            "text": _readable(message["channel"], message["content"]),
        }
        for message in sorted(messages, key=lambda one: one["at"], reverse=True)
    ]
    return render_template("inbox.html", rows=rows, to=to)


def _readable(channel: str, content: Mapping[str, Any]) -> str:
    """Return the text that a person sees."""
    if channel == "web_push":
        payload = content["payload"]
        return f"{payload['title']}\n{payload['body']}"
    if channel == "fcm":
        return f"{content['notification']['title']}\n{content['notification']['body']}"
    if channel == "messaging" and content["type"] == "text":
        return str(content["text"]["body"])
    if channel == "messaging":
        template = content["template"]
        values = [parameter["text"] for parameter in template["components"][0]["parameters"]]
        return "\n".join([template["name"], *values])
    # The text of an e-mail begins with the subject.
    return str(content["text"])


@controls.post("/next")
def plan_outcome() -> Response:
    """Plan the outcomes of the next calls of a channel."""
    body = fields.json_object(request)
    fields.refuse_unknown(body, known=("channel", "outcome", "count"))
    channel_word = fields.choice(body, "channel", allowed=CHANNELS)
    outcome_word = fields.choice(body, "outcome", allowed=OUTCOMES)
    count = fields.integer({"count": 1, **body}, "count", minimum=1, maximum=MAXIMUM_OUTCOMES)
    channel = next(one for one in CHANNELS if one == channel_word)
    outcome = next(one for one in OUTCOMES if one == outcome_word)
    if not current_inbox().plan(channel, outcome, count):
        raise fields.InvalidFieldError("count", "Too many outcomes are planned. Send DELETE to drop them.")
    return jsonify({"status": "ok"})


@controls.delete("/next")
def reset() -> Response:
    """Drop unused planned outcomes and received messages."""
    current_inbox().reset()
    return jsonify({"status": "ok"})


@controls.get("/messages")
def list_messages() -> Response:
    """Return the number of calls and the latest messages, oldest first, of ``channel`` and ``to`` if given."""
    inbox = current_inbox()
    messages = inbox.list_messages(channel=request.args.get("channel"), to=request.args.get("to"))
    return jsonify({"data": {"calls": inbox.calls(), "messages": messages}})
