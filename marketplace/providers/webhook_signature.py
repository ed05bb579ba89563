"""Webhook signatures: an HMAC of the body with a secret that the provider and this service share."""

import hmac


def signature_matches(*, secret: str, body: bytes, signature: str, algorithm: str, prefix: str = "") -> bool:
    """Check a webhook's signature in constant time.

    :param body: the raw request body
    :param signature: the prefix and the HMAC of the body in lowercase hex
    :param algorithm: the hash algorithm, ``sha256`` or ``sha512``
    """
    expected = prefix + hmac.digest(secret.encode(), body, algorithm).hex()
    return signature.isascii() and hmac.compare_digest(expected, signature)
