"""The service account of the simulated Firebase Cloud Messaging."""

import json
from functools import cache

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


@cache
def process_key() -> str:
    """Return a private key that a process generates once."""
    return make_private_key()


def make_private_key() -> str:
    """Generate a private key in PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def make_service_account(token_url: str, *, key: str) -> str:
    """Return a service account as the JSON that applications configure.

    :param token_url: the address that exchanges signed assertions for access tokens
    :param key: the account's private key in PEM
    """
    return json.dumps(
        {
            "type": "service_account",
            "project_id": "campus-sandbox",
            "private_key_id": "sandbox",
            "private_key": key,
            "client_email": "push@campus-sandbox.example",
            "client_id": "1",
            "token_uri": token_url,
        }
    )
