"""Signed JSON documents: Ed25519 signatures that anybody can verify with the published key, also offline.

The signature covers the document without the member ``signature``, as JSON with sorted keys and without spaces.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from marketplace.infra.encryption import derive_secret

ALGORITHM = "Ed25519"
_MEMBER = "signature"


def sign_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with the member ``signature``.

    :param document: JSON values
    """
    key = _signing_key()
    value = base64.b64encode(key.sign(_canonical(document))).decode()
    signature = {"algorithm": ALGORITHM, "keyId": _key_id(key.public_key()), "value": value}
    return {**document, _MEMBER: signature}


def is_signed(document: Mapping[str, Any], *, public_key: str) -> bool:
    """Return whether a document has a valid signature of the key.

    :param public_key: in PEM format
    :raises ValueError: the text is not a public key
    :raises TypeError: the key is not a key for Ed25519
    """
    key = load_pem_public_key(public_key.encode())
    if not isinstance(key, Ed25519PublicKey):
        raise TypeError("the public key is not a key for Ed25519")
    signature = document.get(_MEMBER)
    if not isinstance(signature, Mapping):
        return False
    try:
        key.verify(base64.b64decode(str(signature.get("value")), validate=True), _canonical(document))
    except (InvalidSignature, binascii.Error):
        return False
    return True


def public_key_pem() -> str:
    """Return the public key in PEM format."""
    key = _signing_key().public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def public_key_id() -> str:
    """Return the id of the public key: the start of the SHA-256 of its 32 bytes, in hex."""
    return _key_id(_signing_key().public_key())


def _signing_key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(derive_secret("signing key 1", "signatures"))


def _key_id(key: Ed25519PublicKey) -> str:
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]


def _canonical(document: Mapping[str, Any]) -> bytes:
    content = {name: value for name, value in document.items() if name != _MEMBER}
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
