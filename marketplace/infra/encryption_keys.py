"""Parsing of encryption keys and signing secrets in settings."""

import base64
import binascii
import re

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def parse_data_keys(value: str) -> dict[str, bytes]:
    """Parse DATA_ENCRYPTION_KEYS: comma-separated ``id:base64`` pairs. The first key encrypts.

    :raises ValueError: the value is invalid; the message names the fault without a key
    """
    keys: dict[str, bytes] = {}
    for number, pair in enumerate(value.split(","), start=1):
        key_id, separator, encoded = pair.strip().partition(":")
        if not separator or not re.fullmatch(r"[a-z0-9_-]{1,32}", key_id):
            raise ValueError(
                f"must be id:base64 pairs separated by commas, but pair {number} has no id of up to 32 lowercase"
                " letters, digits, '-' and '_'"
            )
        if key_id in keys:
            raise ValueError(f"must not contain the id {key_id} twice")
        try:
            keys[key_id] = parse_key(encoded)
        except ValueError as error:
            raise ValueError(f"has an invalid key {key_id}, which {error}") from error
    if len(set(keys.values())) < len(keys):
        raise ValueError("must not contain the same key under two ids")
    return keys


def parse_key(value: str) -> bytes:
    """Parse a key of 32 bytes in base64.

    :raises ValueError: the key is invalid; the message does not contain the key
    """
    try:
        key = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise ValueError("must be 32 bytes in base64, such as the output of `openssl rand -base64 32`")
    return key


def parse_signing_secrets(value: str) -> tuple[bytes, ...]:
    """Parse FUNCTIONS_SIGNING_SECRETS: Standard Webhooks secrets, separated by spaces or ``|``.

    A secret is ``whsec_`` and 24 to 64 bytes in base64. Identity providers show it as ``v1,whsec_...``.

    :return: the decoded secrets; empty for an empty value
    :raises ValueError: the value is invalid; the message does not contain a secret
    """
    return tuple(_parse_signing_secret(secret) for secret in re.split(r"[|\s]+", value) if secret)


def _parse_signing_secret(secret: str) -> bytes:
    try:
        encoded = secret.removeprefix("v1,").removeprefix("whsec_")
        key = base64.b64decode(encoded, validate=True) if "whsec_" in secret else b""
    except (binascii.Error, ValueError):
        key = b""
    if not 24 <= len(key) <= 64:
        raise ValueError("must be whsec_ and 24 to 64 bytes in base64, such as v1,whsec_...")
    return key


def derive_public_point(private_key: str) -> str:
    """Derive the public key of a private key of the curve P-256.

    :param private_key: 32 bytes in base64url without padding
    :return: the public key as an uncompressed point in base64url without padding
    """
    number = int.from_bytes(base64.urlsafe_b64decode(f"{private_key}="))
    key = ec.derive_private_key(number, ec.SECP256R1()).public_key()
    point = key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return base64.urlsafe_b64encode(point).rstrip(b"=").decode()
