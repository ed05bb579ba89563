"""Access tokens of a simulated identity provider, signed with ES256."""

import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

ISSUER = "http://identity.bench.example"
AUDIENCE = "campus-marketplace"
_KEY_ID = "bench"
_LIFETIME_SECONDS = 6 * 3600


class Identity:
    """A signing key and the access tokens signed with that key."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._expires = int(time.time()) + _LIFETIME_SECONDS

    def published_keys(self) -> bytes:
        """Return the JSON Web Key Set."""
        key: dict[str, Any] = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key()))
        return json.dumps({"keys": [key | {"kid": _KEY_ID, "use": "sig", "alg": "ES256"}]}).encode()

    def token(self, user_id: str) -> str:
        """Create a user's access token."""
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": user_id,
            "exp": self._expires,
            "email": f"{user_id}@example.edu",
            "aal": "aal1",
        }
        return jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": _KEY_ID})
