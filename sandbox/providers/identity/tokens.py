"""Access tokens and ID tokens: claims, signature and verification."""

import json
from collections.abc import Mapping
from typing import Literal

import jwt

from sandbox.personas import Persona
from sandbox.providers.identity import keys
from sandbox.providers.identity.context import Identity

LIFETIME_SECONDS = 3_600
# Age of the expiry of an expired token, beyond any leeway.
EXPIRED_SINCE_SECONDS = 3_600

AssuranceLevel = Literal["aal1", "aal2"]


def claims_of(
    identity: Identity,
    persona: Persona,
    *,
    assurance_level: AssuranceLevel,
    audience: str,
    expired: bool = False,
) -> dict[str, object]:
    """Build the claims of a persona's token.

    :param audience: the recipient of the token
    :param expired: make the token expire in the past
    """
    now = int(identity.clock().timestamp())
    issued_at = now - LIFETIME_SECONDS - EXPIRED_SINCE_SECONDS if expired else now
    return {
        "iss": identity.issuer,
        "aud": audience,
        "sub": str(persona.user_id),
        "iat": issued_at,
        "exp": issued_at + LIFETIME_SECONDS,
        "email": persona.email,
        "name": persona.full_name,
        "aal": assurance_level,
    }


def sign(identity: Identity, claims: Mapping[str, object]) -> str:
    """Sign claims without validation, because tests need tokens with invalid claims."""
    key = keys.published(identity)[0]
    payload = json.dumps(claims, separators=(",", ":")).encode()
    headers = {"kid": key.key_id, "typ": "JWT"}
    return jwt.PyJWS().encode(payload, key.private_key, algorithm=keys.ALGORITHM, headers=headers)


def verify(identity: Identity, token: str) -> dict[str, object]:
    """Verify an access token and return its claims.

    :raises jwt.InvalidTokenError: the token is forged, expired or has another audience
    """
    key_id = jwt.get_unverified_header(token).get("kid")
    for key in keys.published(identity):
        if key.key_id == key_id:
            claims: dict[str, object] = jwt.decode(
                token,
                key.private_key.public_key(),
                algorithms=[keys.ALGORITHM],
                audience=identity.audience,
                issuer=identity.issuer,
                options={"require": ["exp", "sub"]},
            )
            return claims
    raise jwt.InvalidTokenError("the token was not signed here")
