"""The chat's application: an incoming webhook like Slack's, a page of messages, and control endpoints."""

import structlog
from flask import Blueprint, Flask, Response, jsonify, request
from werkzeug.exceptions import HTTPException

from marketplace.kernel.clock import iso, system_clock
from sandbox.providers import fields
from sandbox.providers.chat.context import MAXIMUM_OUTCOMES, OUTCOMES, Chat, current_chat

MAXIMUM_BODY_BYTES = 100_000
# Slack's limit.
MAXIMUM_TEXT_LENGTH = 40_000
RETRY_AFTER_SECONDS = "1"

_log = structlog.stdlib.get_logger(__name__)

hook = Blueprint("hook", __name__)
controls = Blueprint("controls", __name__, url_prefix="/sandbox")


def create_app(chat: Chat) -> Flask:
    """Create the chat's application."""
    app = Flask("sandbox.providers.chat", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAXIMUM_BODY_BYTES
    app.json = fields.json_in_order(app)
    app.extensions["sandbox_chat"] = chat
    app.register_blueprint(hook)
    app.register_blueprint(controls)

    @app.errorhandler(fields.InvalidFieldError)
    def answer_invalid(error: fields.InvalidFieldError) -> Response:
        """Answer 400 in plain text, as Slack does."""
        return _plain("no_text" if error.field == "text" else "invalid_payload", 400)

    @app.errorhandler(HTTPException)
    def answer_http_error(error: HTTPException) -> Response:
        """Convert the framework's errors to plain text."""
        return _plain(error.name.lower().replace(" ", "_"), error.code or 500)

    return app


def _plain(text: str, status: int = 200) -> Response:
    return Response(text, status=status, mimetype="text/plain")


@hook.post("/hook")
def take() -> Response:
    """Accept a message, or return the planned outcome."""
    chat = current_chat()
    outcome = chat.take()
    if outcome == "error":
        return _plain("rollup_error", 500)
    if outcome == "refused":
        return _plain("no_service", 404)
    if outcome == "limited":
        answer = _plain("rate_limited", 429)
        answer.headers["Retry-After"] = RETRY_AFTER_SECONDS
        return answer
    if outcome == "timeout":
        chat.stopping.wait(chat.hang_seconds)
    text = fields.text(fields.json_object(request), "text", maximum=MAXIMUM_TEXT_LENGTH)
    chat.keep(text, iso(system_clock()))
    _log.info("chat message taken", text=text)
    return _plain("ok")


@hook.get("/")
def show() -> Response:
    """Show the latest messages as plain text, newest first."""
    _, messages = current_chat().told()
    shown = [f"{message['at']}\n{message['text']}\n" for message in reversed(messages)]
    return _plain("\n".join(shown) or "No messages yet.\n")


@controls.post("/next")
def plan() -> Response:
    """Plan the outcomes of the next calls."""
    body = fields.json_object(request)
    fields.refuse_unknown(body, known=("outcome", "count"))
    word = fields.choice(body, "outcome", allowed=OUTCOMES)
    count = fields.integer({"count": 1, **body}, "count", minimum=1, maximum=MAXIMUM_OUTCOMES)
    outcome = next(one for one in OUTCOMES if one == word)
    if not current_chat().plan(outcome, count):
        raise fields.InvalidFieldError("count", "Too many outcomes are planned. Send DELETE to drop them.")
    return _plain("ok")


@controls.delete("/next")
def forget() -> Response:
    """Drop unused planned outcomes and received messages."""
    current_chat().forget()
    return _plain("ok")


@controls.get("/messages")
def list_messages() -> Response:
    """Return the number of webhook calls and the latest messages."""
    calls, messages = current_chat().told()
    return jsonify({"data": {"calls": calls, "messages": messages}})
