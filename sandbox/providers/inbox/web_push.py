"""A browser's side of web push: subscriptions, decryption by RFC 8291 and verification of VAPID tokens by RFC 8292."""

import base64
import struct
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import jwt
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

MAX_BODY_BYTES = 4_096
_POINT_BYTES = 65
_LAST_RECORD_DELIMITER = 2
_MAX_TOKEN_SECONDS = 24 * 3600


class InvalidPushError(ValueError):
    """A push message that a real push service or browser would refuse."""


@dataclass(frozen=True)
class Subscription:
    """The subscription of a simulated browser, with the browser's private key."""

    id: str
    endpoint: str
    private_key: ec.EllipticCurvePrivateKey
    auth: bytes

    @classmethod
    def create(cls, push_url: str) -> "Subscription":
        """Create a subscription with new keys."""
        subscription_id = uuid4().hex
        return cls(
            subscription_id,
            f"{push_url}/send/{subscription_id}",
            ec.generate_private_key(ec.SECP256R1()),
            uuid4().bytes,
        )

    @property
    def public_point(self) -> bytes:
        """The public key as an uncompressed point."""
        return self.private_key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def to_json(self) -> dict[str, Any]:
        """Return the output of ``PushSubscription.toJSON()``."""
        return {
            "endpoint": self.endpoint,
            "keys": {"p256dh": encode(self.public_point), "auth": encode(self.auth)},
        }

    def decrypt(self, body: bytes) -> bytes:
        """Decrypt a message (RFC 8291, section 3.4, and RFC 8188).

        :raises InvalidPushError: the message was not encrypted for this subscription
        """
        if len(body) < 21 + _POINT_BYTES or body[20] != _POINT_BYTES:
            raise InvalidPushError("the header of the encrypted content is malformed")
        salt, (record_size,) = body[:16], struct.unpack("!I", body[16:20])
        sender_point, content = body[21 : 21 + _POINT_BYTES], body[21 + _POINT_BYTES :]
        if len(content) > record_size:
            raise InvalidPushError("the message has more than one record")
        try:
            sender = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender_point)
        except ValueError as error:
            raise InvalidPushError("the sender's key is not on the curve") from error
        shared = self.private_key.exchange(ec.ECDH(), sender)
        info = b"WebPush: info\0" + self.public_point + sender_point
        secret = _derive(shared, salt=self.auth, info=info, length=32)
        key = _derive(secret, salt=salt, info=b"Content-Encoding: aes128gcm\0", length=16)
        nonce = _derive(secret, salt=salt, info=b"Content-Encoding: nonce\0", length=12)
        try:
            padded = AESGCM(key).decrypt(nonce, content, None)
        except InvalidTag as error:
            raise InvalidPushError("the message was not encrypted for this subscription") from error
        plain = padded.rstrip(b"\0")
        if not plain or plain[-1] != _LAST_RECORD_DELIMITER:
            raise InvalidPushError("the padding is malformed")
        return plain[:-1]


def verify_vapid(header: str, *, origin: str, now: float) -> str:
    """Verify the Authorization header of a push message, and return the sender's public key.

    :param origin: the push service's origin, which the token must name
    :param now: the current time in seconds since 1970
    :raises InvalidPushError: the token is missing, invalid, expired or for another push service
    """
    scheme, _, rest = header.partition(" ")
    parts = dict(part.strip().split("=", 1) for part in rest.split(",") if "=" in part)
    if scheme.lower() != "vapid" or not {"t", "k"} <= parts.keys():
        raise InvalidPushError("the Authorization header is no VAPID token")
    try:
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decode(parts["k"]))
        claims = jwt.decode(parts["t"], key, algorithms=["ES256"], audience=origin)
    except (jwt.PyJWTError, ValueError) as error:
        raise InvalidPushError("the VAPID token is invalid") from error
    if not isinstance(claims.get("exp"), int) or claims["exp"] > now + _MAX_TOKEN_SECONDS:
        raise InvalidPushError("the VAPID token must expire within 24 hours")
    if not str(claims.get("sub", "")).startswith(("mailto:", "https:")):
        raise InvalidPushError("the VAPID token must name a contact")
    return parts["k"]


def encode(content: bytes) -> str:
    """Encode bytes in base64url without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """Decode base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _derive(material: bytes, *, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=salt, info=info).derive(material)
