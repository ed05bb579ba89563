"""The identity provider's application: discovery, keys, sign-in flow, and tokens for scripts."""

import hmac
from uuid import UUID

import structlog
from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import HTTPException

from sandbox.personas import PERSONAS, UnknownPersonaError, persona_named, persona_names
from sandbox.providers import fields
from sandbox.providers.identity import flow, keys, tokens
from sandbox.providers.identity.context import Identity

MAXIMUM_BODY_BYTES = 65_536
# Caching is safe: the API fetches the keys again when a token has an unknown key id.
KEYS_FRESH_SECONDS = 300
PREFLIGHT_SECONDS = 600

log = structlog.stdlib.get_logger(__name__)


def create_app(identity: Identity) -> Flask:
    """Create the identity provider's application."""
    app = Flask(
        "sandbox.providers.identity", static_folder="../pages/static", template_folder="../pages/templates"
    )
    app.config["MAX_CONTENT_LENGTH"] = MAXIMUM_BODY_BYTES
    app.json = fields.json_in_order(app)
    app.extensions["sandbox_identity"] = identity
    app.register_blueprint(flow.routes)
    _share_with_browsers(app, identity)
    _answer_errors(app)
    _publish(app, identity)
    _serve_scripts(app, identity)
    return app


def _share_with_browsers(app: Flask, identity: Identity) -> None:
    """Let single-page applications sign people in: answer preflights, and share responses with allowed origins."""

    @app.before_request
    def answer_preflight() -> Response | None:
        """Answer a preflight without running the view."""
        is_preflight = request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers
        return Response(status=204) if is_preflight else None

    @app.after_request
    def share(response: Response) -> Response:
        """Name the allowed origin. Pages send no cookies to another origin."""
        response.vary.add("Origin")
        origin = request.headers.get("Origin", "")
        if origin in identity.allowed_origins:
            response.headers["Access-Control-Allow-Origin"] = origin
            if request.method == "OPTIONS":
                response.headers["Access-Control-Allow-Methods"] = "GET, HEAD, POST"
                response.headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type"
                response.headers["Access-Control-Max-Age"] = str(PREFLIGHT_SECONDS)
        return response


def _answer_errors(app: Flask) -> None:
    @app.errorhandler(fields.InvalidFieldError)
    def answer_invalid(error: fields.InvalidFieldError) -> tuple[Response, int]:
        """Answer 422 with the field's name."""
        return jsonify(
            {"error": "invalid_request", "error_description": error.message, "field": error.field}
        ), 422

    @app.errorhandler(HTTPException)
    def answer_http_error(error: HTTPException) -> tuple[Response, int]:
        """Convert the framework's errors to the provider's format."""
        return jsonify({"error": "invalid_request", "error_description": error.name}), error.code or 500

    @app.errorhandler(Exception)
    def answer_crash(error: Exception) -> tuple[Response, int]:
        """Log an internal error of the sandbox and answer 500."""
        log.error("sandbox identity provider failed", path=request.path, exc_info=error)
        return jsonify({"error": "server_error", "error_description": "An error occurred"}), 500


def _publish(app: Flask, identity: Identity) -> None:
    @app.get("/.well-known/openid-configuration")
    def describe() -> Response:
        """Return the OpenID Connect discovery document."""
        return jsonify(
            {
                "issuer": identity.issuer,
                "authorization_endpoint": f"{identity.issuer}/authorize",
                "token_endpoint": f"{identity.issuer}/token",
                "userinfo_endpoint": f"{identity.issuer}/userinfo",
                "end_session_endpoint": f"{identity.issuer}/logout",
                "jwks_uri": f"{identity.issuer}/.well-known/jwks.json",
                "scopes_supported": ["openid", "email", "profile"],
                "response_types_supported": ["code"],
                "response_modes_supported": ["query"],
                "grant_types_supported": ["authorization_code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": [keys.ALGORITHM],
                "token_endpoint_auth_methods_supported": ["none"],
                "code_challenge_methods_supported": ["S256"],
                "claims_supported": [
                    "iss",
                    "aud",
                    "sub",
                    "iat",
                    "exp",
                    "email",
                    "name",
                    "aal",
                    "auth_time",
                    "nonce",
                ],
            }
        )

    @app.get("/.well-known/jwks.json")
    def publish_keys() -> Response:
        """Return the public keys, the current signing key first."""
        response = jsonify({"keys": [key.public_jwk() for key in keys.published(identity)]})
        response.headers["Cache-Control"] = f"public, max-age={KEYS_FRESH_SECONDS}"
        return response


def _serve_scripts(app: Flask, identity: Identity) -> None:
    @app.get("/")
    def index() -> Response:
        """Describe the service and list the personas."""
        return jsonify({"service": "sandbox identity provider", "personas": persona_names()})

    @app.post("/sandbox/token")
    def issue() -> Response:
        """Issue an access token for a persona, with changed or missing claims on request."""
        body = fields.json_object(request)
        fields.refuse_unknown(body, known=("persona", "aal2", "expired", "claims"))
        persona = persona_named(fields.text(body, "persona"))
        overrides = {} if body.get("claims") is None else body["claims"]
        if not isinstance(overrides, dict):
            raise fields.InvalidFieldError("claims", "claims must be an object; null removes a claim")
        claims = tokens.claims_of(
            identity,
            persona,
            assurance_level="aal2" if _flag(body.get("aal2"), "aal2") else "aal1",
            audience=identity.audience,
            expired=_flag(body.get("expired"), "expired"),
        )
        claims = {name: value for name, value in {**claims, **overrides}.items() if value is not None}
        expires_at = claims.get("exp")
        left = expires_at - int(identity.clock().timestamp()) if isinstance(expires_at, int) else 0
        return jsonify(
            {
                "access_token": tokens.sign(identity, claims),
                "token_type": "Bearer",
                "expires_in": max(0, left),
            }
        )

    @app.delete("/admin/users/<uuid:user_id>")
    def delete_account(user_id: UUID) -> Response | tuple[Response, int]:
        """Delete an account, which can no longer sign in. Tokens that are already issued stay valid."""
        given = request.headers.get("Authorization", "")
        if not identity.admin_key or not hmac.compare_digest(given, f"Bearer {identity.admin_key}"):
            return jsonify({"error": "unauthorized", "error_description": "The key is wrong"}), 401
        if user_id not in {persona.user_id for persona in PERSONAS} - identity.deleted_accounts:
            return jsonify({"error": "not_found", "error_description": "The account does not exist"}), 404
        identity.deleted_accounts.add(user_id)
        return jsonify({"deleted": str(user_id)})

    @app.errorhandler(UnknownPersonaError)
    def answer_unknown(error: UnknownPersonaError) -> tuple[Response, int]:
        """Answer 404 with the names of all personas."""
        body = {"error": "unknown_persona", "error_description": str(error), "personas": persona_names()}
        return jsonify(body), 404

    @app.post("/sandbox/rotate")
    def rotate_keys() -> Response:
        """Create a new signing key. The previous four keys stay published."""
        return jsonify({"kid": keys.rotate(identity).key_id})


def _flag(value: object, name: str) -> bool:
    if value is not None and not isinstance(value, bool):
        raise fields.InvalidFieldError(name, f"{name} must be true or false")
    return bool(value)
