"""The messaging provider: how it signs what it sends."""

import hashlib
import hmac

_SCHEME = "sha256="
_SIGNATURE_LENGTH = len(_SCHEME) + 64


def signature_matches(*, secret: str, body: bytes, signature: str) -> bool:
    """Check a webhook's signature in constant time.

    :param secret: the app secret
    :param body: the raw bytes as they came
    :param signature: ``sha256=`` and lowercase hex of 64 characters: HMAC-SHA256 of the body
    """
    if len(signature) != _SIGNATURE_LENGTH or not signature.isascii():
        return False
    expected = _SCHEME + hmac.digest(secret.encode(), body, hashlib.sha256).hex()
    return hmac.compare_digest(expected, signature)
