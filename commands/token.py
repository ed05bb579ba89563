"""Access tokens for demo personas, from the embedded identity provider."""

import json

import click
import requests

from commands.console.environment import get_settings
from commands.console.failures import CommandFailedError
from sandbox.personas import persona_names


@click.command(
    help=f"""Print an access token for PERSONA, on a line of its own.

    The embedded stack must be running (`make run`). Its identity provider signs the token, which is valid
    for an hour. Personas: {", ".join(persona_names())}.

    \b
    Examples:
      TOKEN=$(marketplace token buyer)
      curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8000/api/users/me
      marketplace token finance --aal2
      marketplace token buyer --claims '{{"email": null, "aud": "elsewhere"}}'"""
)
@click.argument("persona", type=click.Choice(persona_names()), metavar="PERSONA")
@click.option("--aal2", is_flag=True, help="Issue a token with two factors (assurance level aal2).")
@click.option("--expired", is_flag=True, help="Issue a token that expired an hour ago.")
@click.option(
    "--claims",
    metavar="JSON",
    help="JSON object of claims to set; null removes a claim. For tests with invalid tokens.",
)
def token(persona: str, *, aal2: bool, expired: bool, claims: str | None) -> None:
    """Print a token."""
    click.echo(
        fetch_token(
            get_settings().identity_issuer,
            persona=persona,
            aal2=aal2,
            expired=expired,
            claims=_parse_claims(claims),
        )
    )


def fetch_token(
    issuer: str, *, persona: str, aal2: bool = False, expired: bool = False, claims: dict[str, object]
) -> str:
    """Fetch a token for a persona from the embedded identity provider.

    :param issuer: URL of the identity provider
    :param claims: claims to set; None removes a claim
    :raises CommandFailedError: the identity provider does not respond, or is not the embedded one
    """
    if not issuer:
        raise CommandFailedError("IDENTITY_ISSUER is not set, so no identity provider can issue a token.")
    body = {"persona": persona, "aal2": aal2, "expired": expired, "claims": claims}
    with requests.Session() as session:
        session.trust_env = False  # a local server needs no proxy from the environment
        try:
            answer = session.post(f"{issuer}/sandbox/token", json=body, timeout=5.0)
        except requests.RequestException as error:
            raise CommandFailedError(
                f"The identity provider at {issuer} does not respond. Start the embedded stack with `make run`."
            ) from error
    try:
        content = answer.json()
    except requests.exceptions.JSONDecodeError:
        content = {}
    if answer.status_code == 200 and isinstance(content.get("access_token"), str):
        issued: str = content["access_token"]
        return issued
    if isinstance(content, dict) and "error_description" in content:
        raise CommandFailedError(f"The identity provider refused the request: {content['error_description']}")
    raise CommandFailedError(
        f"{issuer} is not the embedded identity provider (it answered {answer.status_code}), so it issues no tokens"
        " for personas. Check whether IDENTITY_ISSUER is set in this shell."
    )


def _parse_claims(claims: str | None) -> dict[str, object]:
    if claims is None:
        return {}
    try:
        parsed = json.loads(claims)
    except json.JSONDecodeError as error:
        raise click.BadParameter(f"is not JSON: {error}", param_hint="--claims") from error
    if not isinstance(parsed, dict):
        raise click.BadParameter("must be an object, such as '{\"email\": null}'", param_hint="--claims")
    return parsed
