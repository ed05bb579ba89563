"""Sign-in from a browser: the authorization code flow with PKCE and a choice of personas."""

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import jwt
from flask import Blueprint, Response, jsonify, make_response, redirect, render_template, request
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as BaseResponse

from sandbox.personas import PERSONAS, UnknownPersonaError, persona_named
from sandbox.providers import fields
from sandbox.providers.identity import tokens
from sandbox.providers.identity.context import Identity, current_identity

routes = Blueprint("flow", __name__)

CODE_LIFETIME_SECONDS = 60
MAXIMUM_PARAMETER_LENGTH = 2_000
# RFC 7636: the verifier has 43 to 128 characters, and the challenge is a SHA-256 digest in base64url.
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")


class FlowError(Exception):
    """An invalid request of the flow, described in OAuth 2 terms."""

    def __init__(self, status: int, error: str, description: str) -> None:
        super().__init__(description)
        self.status = status
        self.body = {"error": error, "error_description": description}


@routes.errorhandler(FlowError)
def refuse(error: FlowError) -> tuple[Response, int]:
    """Answer an error in the format of OAuth 2."""
    response = jsonify(error.body)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = f'Bearer error="{error.body["error"]}"'
    return response, error.status


@routes.errorhandler(fields.InvalidFieldError)
def refuse_field(error: fields.InvalidFieldError) -> tuple[Response, int]:
    """Answer a missing or invalid parameter in the format of OAuth 2."""
    return refuse(FlowError(400, "invalid_request", error.message))


@dataclass(frozen=True, kw_only=True)
class SignInRequest:
    """An application's authorization request."""

    client_id: str
    redirect_uri: str
    state: str | None
    nonce: str | None
    challenge: str
    scope: str

    @classmethod
    def read(cls, identity: Identity, values: MultiDict[str, str]) -> "SignInRequest":
        """Read and validate the parameters.

        Errors are shown on the page instead of being sent to ``redirect_uri``, because a sandbox's user is a
        developer.

        :raises InvalidFieldError: a parameter is missing or invalid
        """
        fields.choice(values, "response_type", allowed=("code",))
        fields.choice(values, "code_challenge_method", allowed=("S256",))
        scope = fields.text(values, "scope")
        if "openid" not in scope.split():
            raise fields.InvalidFieldError("scope", "scope must contain openid")
        redirect_uri = fields.text(values, "redirect_uri", maximum=MAXIMUM_PARAMETER_LENGTH)
        if not identity.may_lead_to(redirect_uri):
            raise fields.InvalidFieldError(
                "redirect_uri", "redirect_uri must be on this machine or below PUBLIC_BASE_URL"
            )
        return cls(
            client_id=fields.text(values, "client_id"),
            redirect_uri=redirect_uri,
            state=fields.optional_text(values, "state", maximum=MAXIMUM_PARAMETER_LENGTH),
            nonce=fields.optional_text(values, "nonce", maximum=MAXIMUM_PARAMETER_LENGTH),
            challenge=fields.text(values, "code_challenge", pattern=_CHALLENGE),
            scope=scope,
        )

    def as_parameters(self) -> dict[str, str]:
        """Return the parameters for the form that submits the request again."""
        optional = {"state": self.state, "nonce": self.nonce}
        return {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": self.scope,
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
            **{name: value for name, value in optional.items() if value is not None},
        }


@routes.get("/authorize")
def choose() -> Response:
    """Show the choice of personas."""
    wanted = SignInRequest.read(current_identity(), request.args)
    return _choice_page(wanted, message=None, status=200)


@routes.post("/authorize")
def sign_in() -> BaseResponse:
    """Redirect the browser to the application with a code for the chosen persona."""
    identity = current_identity()
    wanted = SignInRequest.read(identity, request.form)
    try:
        persona = persona_named(request.form.get("persona", ""))
    except UnknownPersonaError:
        return _choice_page(wanted, message="Choose a persona to sign in.", status=422)
    if persona.user_id in identity.deleted_accounts:
        return _choice_page(wanted, message="This account was deleted. Choose another persona.", status=422)
    code = secrets.token_urlsafe(32)
    now = identity.clock().timestamp()
    with identity.store.transaction() as connection:
        connection.execute("DELETE FROM codes WHERE expires_at < ?", (now,))
        connection.execute(
            "INSERT INTO codes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                _hashed(code),
                persona.name,
                "aal2" if request.form.get("aal2") == "on" else "aal1",
                wanted.client_id,
                wanted.redirect_uri,
                wanted.challenge,
                wanted.nonce,
                now,
                now + CODE_LIFETIME_SECONDS,
            ),
        )
    return redirect(_with_query(wanted.redirect_uri, {"code": code, "state": wanted.state}), code=303)


@routes.post("/token")
def exchange() -> Response:
    """Exchange a single-use code for an access token and an ID token."""
    identity = current_identity()
    values = request.form
    fields.choice(values, "grant_type", allowed=("authorization_code",))
    code = fields.text(values, "code")
    verifier = fields.text(values, "code_verifier", pattern=_VERIFIER)
    now = identity.clock().timestamp()
    with identity.store.transaction() as connection:
        row = connection.execute(
            "DELETE FROM codes WHERE code_hash = ? RETURNING *", (_hashed(code),)
        ).fetchone()
    if (
        row is None
        or row["expires_at"] < now
        or row["client_id"] != values.get("client_id")
        or row["redirect_uri"] != values.get("redirect_uri")
        or not hmac.compare_digest(row["challenge"], _challenge_of(verifier))
    ):
        raise FlowError(
            400, "invalid_grant", "The code is unknown, used, expired or belongs to another request"
        )
    persona = persona_named(row["persona"])
    level: tokens.AssuranceLevel = "aal2" if row["assurance_level"] == "aal2" else "aal1"
    access = tokens.claims_of(identity, persona, assurance_level=level, audience=identity.audience)
    identifying = tokens.claims_of(identity, persona, assurance_level=level, audience=row["client_id"])
    identifying["auth_time"] = int(row["authenticated_at"])
    if row["nonce"] is not None:
        identifying["nonce"] = row["nonce"]
    response = jsonify(
        {
            "access_token": tokens.sign(identity, access),
            "id_token": tokens.sign(identity, identifying),
            "token_type": "Bearer",
            "expires_in": tokens.LIFETIME_SECONDS,
            "scope": "openid email profile",
        }
    )
    response.headers["Cache-Control"] = "no-store"
    return response


@routes.route("/userinfo", methods=["GET", "POST"])
def read_userinfo() -> Response:
    """Return the claims about an access token's bearer."""
    identity = current_identity()
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise FlowError(401, "invalid_token", "An access token is required")
    try:
        claims = tokens.verify(identity, token)
    except jwt.InvalidTokenError as error:
        raise FlowError(401, "invalid_token", "The access token is invalid") from error
    persona = next((one for one in PERSONAS if str(one.user_id) == claims["sub"]), None)
    return jsonify(
        {
            "sub": claims["sub"],
            "email": claims.get("email"),
            "email_verified": True,
            "name": claims.get("name"),
            "phone_number": persona.phone if persona else None,
            "aal": claims.get("aal"),
        }
    )


@routes.route("/logout", methods=["GET", "POST"])
def sign_out() -> BaseResponse:
    """Redirect the browser after signing out. The sandbox keeps no session."""
    target = request.values.get("post_logout_redirect_uri")
    if target is None:
        return make_response(render_template("signed_out.html"))
    if not current_identity().may_lead_to(target):
        raise fields.InvalidFieldError(
            "post_logout_redirect_uri",
            "post_logout_redirect_uri must be on this machine or below PUBLIC_BASE_URL",
        )
    return redirect(_with_query(target, {"state": request.values.get("state")}), code=303)


def _choice_page(wanted: SignInRequest, *, message: str | None, status: int) -> Response:
    html = render_template(
        "authorize.html", personas=PERSONAS, parameters=wanted.as_parameters(), message=message, wanted=wanted
    )
    response = make_response(html, status)
    response.headers["Content-Security-Policy"] = (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self' http: https:;"
        " base-uri 'none'; frame-ancestors 'none'"
    )
    response.headers["Cache-Control"] = "no-store"
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


def _hashed(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def _challenge_of(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _with_query(address: str, values: dict[str, str | None]) -> str:
    parts = urlsplit(address)
    query = parse_qsl(parts.query, keep_blank_values=True)
    query += [(name, value) for name, value in values.items() if value is not None]
    return urlunsplit(parts._replace(query=urlencode(query)))
