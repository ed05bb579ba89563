"""Signatures of webhooks: HMACs of the body under a secret that provider and service share."""

import hmac


def signature_matches(*, secret: str, body: bytes, signature: str, algorithm: str, prefix: str = "") -> bool:
    """Check a webhook's signature in constant time.

    :param body: the raw bytes as they came
    :param signature: the prefix and the HMAC of the body in lowercase hex
    :param algorithm: the hash, ``sha256`` or ``sha512``
    """
    expected = prefix + hmac.digest(secret.encode(), body, algorithm).hex()
    return signature.isascii() and hmac.compare_digest(expected, signature)
