"""Signing keys for tokens. The newest key signs, and the four keys before it still verify."""

import base64
import sqlite3
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from marketplace.kernel.clock import iso
from sandbox.providers.identity.context import Identity

ALGORITHM = "ES256"
COORDINATE_BYTES = 32
# A token is valid for an hour. Five rotations within an hour invalidate tokens of the oldest key early, on purpose.
KEPT_KEYS = 5


@dataclass(frozen=True)
class SigningKey:
    """A private key and the id of its published public key."""

    key_id: str
    private_key: ec.EllipticCurvePrivateKey

    def public_jwk(self) -> dict[str, str]:
        """Return the public key as a JSON Web Key."""
        numbers = self.private_key.public_key().public_numbers()
        return {
            "kty": "EC",
            "crv": "P-256",
            "use": "sig",
            "alg": ALGORITHM,
            "kid": self.key_id,
            "x": _coordinate(numbers.x),
            "y": _coordinate(numbers.y),
        }


def _coordinate(value: int) -> str:
    return base64.urlsafe_b64encode(value.to_bytes(COORDINATE_BYTES, "big")).rstrip(b"=").decode()


def published(identity: Identity) -> list[SigningKey]:
    """List the keys, the signing key first. Create the first key if none exists."""
    with identity.store.transaction() as connection:
        keys = _load(connection)
        if not keys:
            _make(connection, identity.clock())
            keys = _load(connection)
    return keys


def rotate(identity: Identity) -> SigningKey:
    """Create a new signing key. Tokens signed with the previous four keys stay valid."""
    with identity.store.transaction() as connection:
        _make(connection, identity.clock())
        connection.execute(
            "DELETE FROM signing_keys WHERE id NOT IN (SELECT id FROM signing_keys ORDER BY id DESC LIMIT ?)",
            (KEPT_KEYS,),
        )
        return _load(connection)[0]


def _make(connection: sqlite3.Connection, now: datetime) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    point = key.public_key().public_numbers()
    key_id = sha256(f"{point.x}/{point.y}".encode()).hexdigest()[:16]
    connection.execute(
        "INSERT INTO signing_keys (key_id, private_key, created_at) VALUES (?, ?, ?)", (key_id, pem, iso(now))
    )


def _load(connection: sqlite3.Connection) -> list[SigningKey]:
    keys = []
    for row in connection.execute("SELECT key_id, private_key FROM signing_keys ORDER BY id DESC"):
        private_key = load_pem_private_key(row["private_key"].encode(), password=None)
        if not isinstance(private_key, ec.EllipticCurvePrivateKey):
            raise TypeError("the stored signing key is not an elliptic curve key")
        keys.append(SigningKey(row["key_id"], private_key))
    return keys
