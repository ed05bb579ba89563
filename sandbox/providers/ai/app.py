"""The AI provider's application: the moderation endpoint, and control endpoints for tests and scripts."""

import hmac
from secrets import token_hex

from flask import Blueprint, Flask, Response, jsonify, request
from werkzeug.exceptions import HTTPException

from sandbox.providers import fields
from sandbox.providers.ai.completions import completions
from sandbox.providers.ai.context import (
    COMPLETION_OUTCOMES,
    MAXIMUM_OUTCOMES,
    OUTCOMES,
    WORDS,
    Call,
    Next,
    Provider,
    Reply,
    categories_of,
    current_provider,
)

MAXIMUM_BODY_BYTES = 1_048_576
MAXIMUM_TEXTS = 32
MAXIMUM_CATEGORIES = 20
_FLAGGED_WITHOUT_NAMES = ("illicit",)

calls = Blueprint("calls", __name__)
controls = Blueprint("controls", __name__, url_prefix="/sandbox")


def create_app(provider: Provider) -> Flask:
    """Create the provider's application."""
    app = Flask("sandbox.providers.ai", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAXIMUM_BODY_BYTES
    app.json = fields.json_in_order(app)
    app.extensions["sandbox_ai"] = provider
    app.register_blueprint(calls)
    app.register_blueprint(completions)
    app.register_blueprint(controls)

    @app.errorhandler(fields.InvalidFieldError)
    def answer_invalid(error: fields.InvalidFieldError) -> tuple[Response, int]:
        """Answer 400 for a missing or invalid field."""
        return _failure(400, error.message, param=error.field)

    @app.errorhandler(HTTPException)
    def answer_http_error(error: HTTPException) -> tuple[Response, int]:
        """Convert the framework's errors to the provider's format."""
        return _failure(error.code or 500, error.name)

    return app


def _failure(
    status: int, message: str, *, param: str | None = None, code: str | None = None
) -> tuple[Response, int]:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return jsonify({"error": {"message": message, "type": kind, "param": param, "code": code}}), status


@calls.before_request
@completions.before_request
def authenticate() -> tuple[Response, int] | None:
    """Refuse a call without the API key, if a key is configured."""
    expected = current_provider().key
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    if expected and (scheme.lower() != "bearer" or not hmac.compare_digest(key.encode(), expected.encode())):
        return _failure(401, "Incorrect API key provided", code="invalid_api_key")
    return None


@calls.post("/moderations")
def moderate() -> Response | tuple[Response, int]:
    """Classify a text or several texts."""
    provider = current_provider()
    body = fields.json_object(request)
    model = fields.text(body, "model")
    texts = _texts(body.get("input"))
    planned = provider.take("\n".join(texts))
    outcome = planned.outcome if planned else None
    if outcome == "error":
        return _failure(500, "The server had an error while processing your request")
    if outcome == "refused":
        return _failure(403, "The project does not have access to the model", code="model_not_found")
    if outcome == "garbled":
        return Response("<html>", mimetype="text/html")
    if outcome == "timeout":
        provider.stopping.wait(provider.hang_seconds)
    if planned is not None and outcome == "flagged":
        found = [list(planned.categories) for _ in texts]
    elif outcome == "clean":
        found = [[] for _ in texts]
    else:
        found = [categories_of(text) for text in texts]
    return jsonify(
        {
            "id": f"modr-{token_hex(16)}",
            "model": model,
            "results": [_result(names) for names in found],
        }
    )


def _texts(given: object) -> list[str]:
    """Read the texts to classify.

    :raises InvalidFieldError: the value is neither a text nor a short list of texts
    """
    texts = given if isinstance(given, list) else [given]
    if not 0 < len(texts) <= MAXIMUM_TEXTS or not all(isinstance(text, str) for text in texts):
        raise fields.InvalidFieldError("input", "input must be a text or a list of texts")
    return [str(text) for text in texts]


def _result(names: list[str]) -> dict[str, object]:
    known = {*WORDS, *names}
    return {
        "flagged": bool(names),
        "categories": {name: name in names for name in sorted(known)},
        "category_scores": {name: 0.97 if name in names else 0.01 for name in sorted(known)},
    }


@controls.post("/next")
def plan() -> Response:
    """Plan the outcomes of the next calls."""
    body = fields.json_object(request)
    fields.refuse_unknown(body, known=("outcome", "categories", "count"))
    word = fields.choice(body, "outcome", allowed=OUTCOMES)
    count = fields.integer({"count": 1, **body}, "count", minimum=1, maximum=MAXIMUM_OUTCOMES)
    names = body.get("categories", list(_FLAGGED_WITHOUT_NAMES))
    if not isinstance(names, list) or not 0 < len(names) <= MAXIMUM_CATEGORIES:
        raise fields.InvalidFieldError("categories", "categories must be a list of names")
    outcome = next(one for one in OUTCOMES if one == word)
    if not current_provider().plan(Next(outcome=outcome, categories=tuple(map(str, names))), count):
        raise fields.InvalidFieldError("count", "Too many outcomes are planned. Send DELETE to drop them.")
    return _planned()


@controls.get("/completions")
def show_completions() -> Response:
    """Return the number of completions and open streams, and the latest bodies."""
    return jsonify({"data": current_provider().completions()})


@controls.put("/completions")
def set_completions() -> Response:
    """Plan outcomes or replies of the next completions, or set the pace of the streams."""
    body = fields.json_object(request)
    fields.refuse_unknown(body, known=("outcome", "count", "tokensPerSecond", "replies"))
    provider = current_provider()
    if "tokensPerSecond" in body:
        provider.tokens_per_second = fields.integer(body, "tokensPerSecond", minimum=1, maximum=100_000)
    if "outcome" in body:
        word = fields.choice(body, "outcome", allowed=COMPLETION_OUTCOMES)
        count = fields.integer({"count": 1, **body}, "count", minimum=1, maximum=MAXIMUM_OUTCOMES)
        outcome = next(one for one in COMPLETION_OUTCOMES if one == word)
        if not provider.plan_completions(outcome, count):
            raise fields.InvalidFieldError(
                "count", "Too many outcomes are planned. Send DELETE to drop them."
            )
    if "replies" in body and not provider.plan_replies(_replies(body["replies"])):
        raise fields.InvalidFieldError("replies", "Too many replies are planned. Send DELETE to drop them.")
    return show_completions()


def _replies(given: object) -> list[Reply]:
    """Read replies: ``text``, and ``calls`` with ``name`` and ``arguments``.

    :raises InvalidFieldError: the value is not a list of replies
    """
    try:
        return [
            (
                str(reply.get("text", "")),
                [Call(str(call["name"]), dict(call["arguments"])) for call in reply.get("calls", [])],
            )
            for reply in given  # type: ignore[attr-defined]
        ]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise fields.InvalidFieldError("replies", "replies must be a list of {text, calls}") from None


@controls.delete("/completions")
def forget_completions() -> Response:
    """Drop planned outcomes and recorded bodies, and restore the pace."""
    current_provider().forget_completions()
    return show_completions()


@controls.delete("/next")
def forget() -> Response:
    """Drop unused planned outcomes and recorded calls."""
    current_provider().forget()
    return _planned()


@controls.get("/calls")
def count_calls() -> Response:
    """Return the number of calls and the latest texts."""
    count, texts = current_provider().asked()
    return jsonify({"data": {"count": count, "texts": texts}})


def _planned() -> Response:
    planned = current_provider().planned()
    return jsonify(
        {"data": [{"outcome": one.outcome, "categories": list(one.categories)} for one in planned]}
    )
