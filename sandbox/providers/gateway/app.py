"""The gateway's application: authentication, error responses and all blueprints."""

import hmac

import structlog
from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import HTTPException

from sandbox.providers.fields import InvalidFieldError, json_in_order
from sandbox.providers.gateway import (
    balance,
    banks,
    controls,
    customers,
    payment_page,
    recipients,
    refunds,
    transactions,
    transfers,
)
from sandbox.providers.gateway.answers import GatewayFailure
from sandbox.providers.gateway.context import Gateway

MAXIMUM_BODY_BYTES = 1_048_576

log = structlog.stdlib.get_logger(__name__)

_OPEN_BLUEPRINTS = frozenset({payment_page.routes.name, controls.routes.name})
_OPEN_ENDPOINTS = frozenset({"static", "index"})


def create_app(gateway: Gateway) -> Flask:
    """Create the gateway's application."""
    app = Flask(
        "sandbox.providers.gateway", static_folder="../pages/static", template_folder="../pages/templates"
    )
    app.config["MAX_CONTENT_LENGTH"] = MAXIMUM_BODY_BYTES
    app.json = json_in_order(app)
    # Clients of the real gateway may end each path with a slash.
    app.url_map.strict_slashes = False
    app.extensions["sandbox_gateway"] = gateway

    @app.before_request
    def authenticate() -> None:
        """Refuse a call without the secret key. Pages and control endpoints need no key."""
        if request.blueprint in _OPEN_BLUEPRINTS or request.endpoint in _OPEN_ENDPOINTS:
            return
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        expected = gateway.settings.secret_key.encode()
        if scheme.lower() != "bearer" or not hmac.compare_digest(key.strip().encode(), expected):
            raise GatewayFailure(
                401, "Invalid key", code="invalid_Key", next_step="Provide a valid secret key"
            )

    @app.errorhandler(GatewayFailure)
    def answer_failure(failure: GatewayFailure) -> tuple[Response, int]:
        """Answer a failure with the failure's status."""
        return jsonify(failure.body), failure.status

    @app.errorhandler(InvalidFieldError)
    def answer_invalid(error: InvalidFieldError) -> tuple[Response, int]:
        """Answer 400 for a missing or invalid field."""
        return answer_failure(GatewayFailure(400, error.message))

    @app.errorhandler(HTTPException)
    def answer_http_error(error: HTTPException) -> tuple[Response, int]:
        """Convert the framework's errors to the gateway's format."""
        status = error.code or 500
        message = "Route not found" if status == 404 else error.name
        return answer_failure(GatewayFailure(status, message, kind="api_error", code="unknown"))

    @app.errorhandler(Exception)
    def answer_crash(error: Exception) -> tuple[Response, int]:
        """Log an internal error of the sandbox and answer 500."""
        log.error("sandbox gateway failed", path=request.path, exc_info=error)
        return answer_failure(GatewayFailure(500, "An error occurred", kind="api_error", code="unknown"))

    @app.get("/")
    def index() -> Response:
        """Describe the service."""
        return jsonify({"status": True, "message": "The sandbox payment gateway", "data": None})

    register_routes(app)
    return app


def register_routes(app: Flask) -> None:
    """Add the routes of all parts of the gateway."""
    for part in (
        transactions,
        transfers,
        recipients,
        refunds,
        banks,
        customers,
        balance,
        controls,
        payment_page,
    ):
        app.register_blueprint(part.routes)
