"""Tokens of the demo's personas, from the embedded identity provider."""

import json

import click
import requests

from commands.console.environment import get_settings
from commands.console.failures import CommandFailedError
from sandbox.personas import persona_names


@click.command(
    help=f"""Print an access token of PERSONA, alone on one line.

    The embedded stack must be running (`make run`): its identity provider signs the token, which is good
    for an hour. Personas: {", ".join(persona_names())}.

    \b
    Examples:
      TOKEN=$(marketplace token buyer)
      curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8000/api/users/me
      marketplace token finance --aal2
      marketplace token buyer --claims '{{"email": null, "aud": "elsewhere"}}'"""
)
@click.argument("persona", type=click.Choice(persona_names()), metavar="PERSONA")
@click.option("--aal2", is_flag=True, help="As after signing in with two factors.")
@click.option("--expired", is_flag=True, help="One that has expired an hour ago.")
@click.option(
    "--claims",
    metavar="JSON",
    help="An object of claims to set; null drops a claim. For tests of bad tokens.",
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
    """Ask the embedded identity provider for a persona's token.

    :param issuer: its address
    :param claims: set over the usual ones; none drops a claim
    :raises CommandFailedError: it does not answer, or is not the embedded one
    """
    if not issuer:
        raise CommandFailedError("IDENTITY_ISSUER is not set, so nobody signs tokens.")
    body = {"persona": persona, "aal2": aal2, "expired": expired, "claims": claims}
    with requests.Session() as session:
        session.trust_env = False  # no proxy of the environment stands before this machine's own server
        try:
            answer = session.post(f"{issuer}/sandbox/token", json=body, timeout=5.0)
        except requests.RequestException as error:
            raise CommandFailedError(
                f"The identity provider at {issuer} does not answer. Is the stack running? `make run` starts it."
            ) from error
    try:
        content = answer.json()
    except requests.exceptions.JSONDecodeError:
        content = {}
    if answer.status_code == 200 and isinstance(content.get("access_token"), str):
        issued: str = content["access_token"]
        return issued
    if isinstance(content, dict) and "error_description" in content:
        raise CommandFailedError(f"The identity provider refused: {content['error_description']}")
    raise CommandFailedError(
        f"{issuer} is not the embedded identity provider (it answered {answer.status_code}): only that one"
        " issues tokens for personas. Is IDENTITY_ISSUER set in this shell?"
    )


def _parse_claims(claims: str | None) -> dict[str, object]:
    if claims is None:
        return {}
    try:
        parsed = json.loads(claims)
    except json.JSONDecodeError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--claims") from error
    if not isinstance(parsed, dict):
        raise click.BadParameter("must be an object, such as '{\"email\": null}'", param_hint="--claims")
    return parsed
